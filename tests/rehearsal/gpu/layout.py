"""What the package modules share: versions as Debian writes them, tools with a version in them, libraries, units."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from tests.rehearsal.gpu.deb import File, Link, Package
from tests.rehearsal.gpu.elf import library

HERE = Path(__file__).parent
_PYTHON = b"#!/usr/bin/python3 -IS\n# Stand-in of the rehearsal machine; a zip file of its source follows.\n"
LIBRARIES = "/usr/lib/x86_64-linux-gnu"
_RELOAD = "if [ -d /run/systemd/system ]; then systemctl --system daemon-reload >/dev/null || true; fi\n"


def release(driver: str) -> str:
    """The Debian version of a driver release."""
    return f"{driver}-1"


def tool(name: str, version: str) -> File:
    """A stand-in of tests/rehearsal/gpu/tools as a program, with `version` in place of @VERSION@: a zip for Python."""
    source = HERE / "tools" / name
    main = f"{name}.command" if source.is_dir() else name
    parts = [*source.glob("*.py"), *(HERE / "tools" / f"{part}.py" for part in ("__init__", "background"))]
    parts += [] if source.is_dir() else [source.with_suffix(".py")]
    files = {f"tools/{path.relative_to(HERE / 'tools')}": path.read_text() for path in parts}
    files["__main__.py"] = f"import sys\nfrom tools.{main} import main\nsys.exit(main(sys.argv[1:]))\n"
    return File(_PYTHON + _zipped({path: text.replace("@VERSION@", version) for path, text in files.items()}), 0o755)


def _zipped(files: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(files):
            archive.writestr(zipfile.ZipInfo(path), files[path])  # a ZipInfo of its own has one date for all
    return out.getvalue()


def shared(stem: str, version: str, soname: str) -> dict[str, File | Link]:
    """A shared library `stem`.so.VERSION and the link by which programs find it."""
    file = f"{stem}.so.{version}"
    return {f"{LIBRARIES}/{file}": File(library(soname)), f"{LIBRARIES}/{soname}": Link(file)}


def with_unit(package: Package, unit: str, text: str, *, enabled: bool) -> Package:
    """The package with a systemd unit; an enabled one is started when it is installed, as debhelper does."""
    configure, remove = _RELOAD, ""
    if enabled:
        configure = f"deb-systemd-helper enable '{unit}' >/dev/null || true\n{_RELOAD}"
        configure += f"if [ -d /run/systemd/system ]; then deb-systemd-invoke restart '{unit}' >/dev/null || true; fi\n"
    if enabled or package.scripts.get("prerm") is None:
        remove = (
            f"if [ -d /run/systemd/system ] && [ \"$1\" = remove ]; then deb-systemd-invoke stop '{unit}' || true; fi\n"
        )
    postrm = f"if [ \"$1\" = purge ]; then deb-systemd-helper purge '{unit}' >/dev/null || true; fi\n{_RELOAD}"
    scripts = {
        "postinst": package.scripts.get("postinst", "#!/bin/sh\nset -e\n") + configure,
        "prerm": package.scripts.get("prerm", "#!/bin/sh\nset -e\n") + remove,
        "postrm": "#!/bin/sh\nset -e\n" + postrm,
    }
    files = {**package.files, f"/usr/lib/systemd/system/{unit}": File(text.encode())}
    return Package(**{**vars(package), "files": files, "scripts": {**package.scripts, **scripts}})
