"""The uv program: out of its wheel, from a folder or an index, never without its hash."""

from __future__ import annotations

import hashlib
import html
import os
import re
import shutil
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Mapping

from ansible.module_utils.host_modules.way_out import opener, without_secrets

_LINK = re.compile(r"""<a\s[^>]*href=["']([^"']+)["']""")
_TIMEOUT_S, _PAUSES_S = 120, (2, 8)


class Refused(Exception):
    """What was found is not what was planned, or could not be had; the text names it."""


def sha256(path: str) -> str:
    """SHA-256 of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def install_uv(
    target: str, wheel: str, digest: str, *, index: str, folder: str, environment: Mapping[str, str]
) -> None:
    """Puts the program at `target`, out of `wheel` in `folder`, or from `index` where there is no folder."""
    os.makedirs(os.path.dirname(os.path.dirname(target)), exist_ok=True)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.dirname(target)), prefix=".new-") as work:
        path = os.path.join(work, wheel)
        if folder and os.path.exists(os.path.join(folder, wheel)):
            shutil.copyfile(os.path.join(folder, wheel), path)
        else:
            _download(path, wheel, index, environment)
        found = sha256(path)
        if found != digest:
            raise Refused(f"{wheel}: SHA-256 {found}, planned is {digest}")
        program = os.path.join(work, "uv")
        with zipfile.ZipFile(path) as archive:
            (member,) = (name for name in archive.namelist() if name.endswith(".data/scripts/uv"))
            with archive.open(member) as source, open(program, "wb") as out:
                shutil.copyfileobj(source, out)
                out.flush()
                os.fsync(out.fileno())
        os.chmod(program, 0o755)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.replace(program, target)


def _download(path: str, wheel: str, index: str, environment: Mapping[str, str]) -> None:
    for pause in (*_PAUSES_S, None):
        try:
            _try(path, wheel, index, opener(environment))
        except (urllib.error.URLError, OSError) as error:
            if pause is None or index.startswith("file:"):
                why = without_secrets(str(error), environment)
                raise Refused(f"{wheel} cannot be had from {index}: {why}") from None
            time.sleep(pause)
        else:
            return


def _try(path: str, wheel: str, index: str, way: urllib.request.OpenerDirector) -> None:
    page = index.rstrip("/") + "/uv/"
    with way.open(_local(page), timeout=_TIMEOUT_S) as answer:
        links = [html.unescape(link) for link in _LINK.findall(answer.read().decode("utf-8", "replace"))]
    found = [link for link in links if _file(link) == wheel]
    if not found:
        raise Refused(f"{index} does not list {wheel}")
    address = urllib.parse.urldefrag(urllib.parse.urljoin(page, found[0]))[0]
    with way.open(address, timeout=_TIMEOUT_S) as answer, open(path, "wb") as out:
        shutil.copyfileobj(answer, out)


def _local(page: str) -> str:
    """A folder's own index page, where the index is a folder."""
    return page + "index.html" if page.startswith("file:") else page


def _file(link: str) -> str:
    return urllib.parse.unquote(os.path.basename(urllib.parse.urlsplit(link).path))
