#!/usr/bin/python
"""Package sources of vendors: refuses first, proves each key and source apart from the host's, then writes."""

from __future__ import annotations

DOCUMENTATION = """
module: package_sources
short_description: repositories of vendors, each with its own key and its own package names
description:
  - A key counts only with the fingerprint of the plan. It is fetched where the host has none that fits.
  - A source that is new or changed is first read by apt in a folder of its own. What apt refuses there (another key, no
    answer) ends the module; the host's own files and lists are as they were.
  - Then other entries for the same archive are set aside, the files are written, and what apt has read is put in place.
  - In check mode nothing is changed or fetched; C(actions) lists what would be done, in the same words.
options:
  config: {description: the role's configuration, type: dict, required: true}
  family: {description: debian or redhat, type: str, required: true}
  contents: {description: file on the controller to its text, type: dict, default: {}}
author: llmhw-provision
"""

RETURN = """
actions: {description: what was done or would be done, type: list, elements: str, returned: success}
"""

import glob
import os
import shutil
import tempfile
import time
import urllib.error
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Optional

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.host_modules import apt_lists, way_out
from ansible.module_utils.host_modules.files import File, differing, mode_of, put, read
from ansible.module_utils.package_sources import decide, openpgp, render, stanzas

_LISTS = "/var/lib/apt/lists"
_TIMEOUT_S, _PAUSES_S = 60, (2, 8)
_KEY_LIMIT = 1 << 20


class Refused(Exception):
    """What was found is not what was planned; the text names it, with a hint on its last line."""


class Sources:
    """The package sources of one host."""

    def __init__(self, module: AnsibleModule) -> None:
        self._module = module
        self.family: str = module.params["family"]
        self.sources: list[dict[str, Any]] = module.params["config"]["sources"]
        self._apt = self.family == "debian"
        self._sha1_ends = decide.sha1_ends(read(path) for path in decide.POLICIES) if self._apt else None

    def key(self, source: Mapping[str, Any]) -> Optional[bytes]:  # noqa: UP045
        """The packets of the source's key, from the controller or the host itself; None where it is to be fetched."""
        if source.get("key_file"):
            return self._judged(source, self._module.params["contents"][source["key_file"]].encode(), "key_file")
        there = read(render.keyring(source["name"], self.family)).encode()
        try:
            return self._judged(source, there, "keyring") if there else None
        except Refused:
            return None

    def fetched(self, source: Mapping[str, Any]) -> bytes:
        """The key from its address; raises Refused."""
        url, environment = source["key_url"], way_out.proxies()
        for pause in (*_PAUSES_S, None):
            try:
                with way_out.opener(environment).open(url, timeout=_TIMEOUT_S) as answer:
                    data = answer.read(_KEY_LIMIT)
                break
            except (urllib.error.URLError, OSError) as error:
                if pause is None or isinstance(error, urllib.error.HTTPError):
                    why = way_out.without_secrets(str(error), environment)
                    hint = "let the host reach it, or name key_file under software.repositories in site.yaml"
                    raise Refused(f"{source['name']}: the key {url} cannot be had: {why}\nhint: {hint}") from None
                time.sleep(pause)
        return self._judged(source, data, url)

    def _judged(self, source: Mapping[str, Any], data: bytes, origin: str) -> bytes:
        try:
            packets = openpgp.packets_of(data)
            found = openpgp.keys(packets)
        except openpgp.BadKey as error:
            text = f"{source['name']}: {source.get('key_file') or origin} is no key: {error}"
            raise Refused(f"{text}\nhint: give the public key, in ASCII armour") from None
        refused = decide.key_refusal(source, found, source.get("key_file") or origin, self._sha1_ends)
        if refused:
            raise Refused(refused)
        return packets

    def _paths(self) -> list[str]:
        """Files with sources that are not of this role."""
        folder = (render.APT if self._apt else render.DNF)["sources"]
        kinds = ("list", "sources") if self._apt else ("repo",)
        paths = [path for kind in kinds for path in sorted(glob.glob(f"{folder}/*.{kind}"))]
        names = {path: os.path.basename(path) for path in paths}
        others = [p for p in paths if not names[p].startswith("llmhw-") or names[p].startswith("llmhw-site-")]
        return others + (["/etc/apt/sources.list"] if self._apt else [])

    def others(self) -> list[stanzas.Other]:
        """Entries of other files for the same archives; raises Refused for those that site_base has written."""
        exact = [source["uri"] for source in self.sources]
        below = [item for source in self.sources for item in source["replaces"]]
        found = []
        for path in self._paths():
            name = os.path.basename(path)
            item = stanzas.other(path, read(path), exact, below)
            if item and name.startswith("llmhw-site-"):
                hint = "name it once: under software.repositories, or under site_base.mirrors"
                raise Refused(f"{path} names {', '.join(item.uris)} as well: a mirror of site_base\nhint: {hint}")
            found += [item] if item else []
        return found

    def files(self, source: Mapping[str, Any], key: bytes) -> list[File]:
        found = render.files(source, self.family, openpgp.armoured(key))
        if not self._apt:
            return found
        release = self._release(source, _LISTS)
        text = render.preferences_text(source, render.pin_of(source, release)) if release else ""
        return found + ([File(render.preferences_path(source["name"]), text)] if text else [])

    def earlier(self) -> list[File]:
        """Files of an earlier plan that shall go."""
        names = [source["name"] for source in self.sources]
        folder, suffix = (render.APT["sources"], "sources") if self._apt else (render.DNF["sources"], "repo")
        found = []
        for path in sorted(glob.glob(f"{folder}/llmhw-*.{suffix}")):
            name = os.path.basename(path)[len("llmhw-") : -len(suffix) - 1]
            if name.startswith("site-") or name in names:
                continue
            paths = [path, render.keyring(name, self.family), *([render.preferences_path(name)] if self._apt else [])]
            found += [File(item, None) for item in paths]
        return found

    def listed(self, source: Mapping[str, Any]) -> bool:
        """Whether apt has read the lists of the source."""
        return not self._apt or bool(self._release(source, _LISTS))

    def _release(self, source: Mapping[str, Any], lists: str) -> str:
        names = apt_lists.list_names(source["uri"], source["suites"])
        found = [glob.glob(f"{lists}/{glob.escape(name)}*Release") for name in names]
        return read(found[0][0]) if all(found) else ""

    def warn_of_neighbours(self, source: Mapping[str, Any]) -> None:
        """Says where the preferences cannot tell this source from another on the same host."""
        pin = render.pin_of(source, self._release(source, _LISTS))
        if not pin.startswith("origin") or not (source["only"] or source["never"]):
            return
        host = "//" + pin.split('"')[1]
        for path in self._paths():
            if f"{host}/" in read(path) or f"{host}:" in read(path):
                text = f"{source['name']}: its Release names neither origin nor label, and {path} is on the same host"
                self._module.warn(f"{text}: apt's preferences take both for one source")

    def missing(self, source: Mapping[str, Any]) -> list[str]:
        """What is to be done in words, for a source whose preferences cannot be known yet."""
        wants = self._apt and (source["only"] or source["never"])
        return [f"write {render.preferences_path(source['name'])}"] if wants else []

    @contextmanager
    def proven(self, source: Mapping[str, Any], key: bytes) -> Iterator[str]:
        """A folder with the lists that apt has read with this key alone; raises Refused."""
        for left in glob.glob(f"{os.path.dirname(_LISTS)}/.llmhw-*"):  # of a run that was cut off
            shutil.rmtree(left, ignore_errors=True)
        work = tempfile.mkdtemp(dir=os.path.dirname(_LISTS), prefix=".llmhw-")
        try:
            path, trial, lists = f"{work}/key.asc", f"{work}/trial.sources", f"{work}/lists"
            os.makedirs(f"{lists}/partial")
            put(File(path, openpgp.armoured(key)))
            put(File(trial, render.source_text(source, self.family, path)))
            set_to = {"Dir::Etc::SourceList": trial, "Dir::Etc::SourceParts": "/dev/null", "Dir::State::Lists": lists}
            set_to |= {"Dir::Cache::pkgcache": "", "Dir::Cache::srcpkgcache": "", "APT::Sandbox::User": "root"}
            set_to |= {"APT::Update::Error-Mode": "any", "Acquire::Retries": "3"}
            words = [word for name, value in set_to.items() for word in ("-o", f"{name}={value}")]
            rc, out, err = self._module.run_command(["apt-get", "update", *words], environ_update={"LC_ALL": "C"})
            if rc != 0:
                raise Refused(decide.apt_refusal(source, openpgp.keys(key), err or out))
            yield lists
        finally:
            shutil.rmtree(work, ignore_errors=True)

    def put_lists(self, lists: str) -> None:
        """What apt has read, where it looks for it."""
        for name in os.listdir(lists):
            path = os.path.join(lists, name)
            if os.path.isfile(path) and name != "lock":
                os.replace(path, os.path.join(_LISTS, name))


def set_aside(item: stanzas.Other) -> None:
    if item.text is None:
        os.rename(item.path, item.path + stanzas.ASIDE)
    else:
        put(File(item.path, item.text, mode_of(item.path)))


def run(module: AnsibleModule) -> list[str]:
    """What was done, or would be; raises Refused."""
    sources = Sources(module)
    others, gone = sources.others(), differing(sources.earlier())
    todo: list[tuple[dict[str, Any], Optional[bytes], list[str]]] = []  # noqa: UP045
    for source in sources.sources:
        key = sources.key(source)
        todo.append((source, key, _words(sources, source, key)))
    actions = (
        [item.action for item in others] + [text for _, text in gone] + [text for *_, said in todo for text in said]
    )
    if not actions or module.check_mode:
        return actions
    new = [(source, key or sources.fetched(source)) for source, key, said in todo if said]
    if sources.family == "debian":
        _prove_and_put(sources, new, others)
    else:
        _put(sources, new, others)
    for file, _ in gone:
        put(file)
    for source in sources.sources if sources.family == "debian" else ():
        sources.warn_of_neighbours(source)
    left = [text for source, key in new for _, text in differing(sources.files(source, key))]
    left += [f"the lists of {source['name']} are missing" for source, _ in new if not sources.listed(source)]
    if left:
        raise Refused(f"done, yet without effect: {'; '.join(left)}")
    return actions


def _words(sources: Sources, source: Mapping[str, Any], key: Optional[bytes]) -> list[str]:  # noqa: UP045
    """What is to be done for one source."""
    name = source["name"]
    if key is None:
        paths = [render.keyring(name, sources.family), render.source_path(name, sources.family)]
        said = [f"fetch the key {source['key_url']}", *(f"write {path}" for path in paths)]
    else:
        said = [text for _, text in differing(sources.files(source, key))]
    if not sources.listed(source):
        said += [f"read the package lists of {name}", *sources.missing(source)]
    elif key is None:
        said += sources.missing(source)
    return said


def _prove_and_put(sources: Sources, new: list[tuple[dict[str, Any], bytes]], others: list[stanzas.Other]) -> None:
    """All sources are proven before the first file of the host is touched."""
    if not new:
        _put(sources, new, others)
        return
    (source, key), *rest = new
    with sources.proven(source, key) as lists:
        _prove_and_put(sources, rest, others)
        for file, _ in differing(render.files(source, sources.family, openpgp.armoured(key))):
            put(file)
        sources.put_lists(lists)
        for file, _ in differing(sources.files(source, key)):  # the preferences, now that the Release is known
            put(file)


def _put(sources: Sources, new: list[tuple[dict[str, Any], bytes]], others: list[stanzas.Other]) -> None:
    for item in others:
        set_aside(item)
    for source, key in new if sources.family != "debian" else ():
        for file, _ in differing(sources.files(source, key)):
            put(file)


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "config": {"type": "dict", "required": True},
            "family": {"type": "str", "required": True, "choices": ["debian", "redhat"]},
            "contents": {"type": "dict", "default": {}, "no_log": False},
        },
        supports_check_mode=True,
    )
    try:
        actions = run(module)
    except Refused as error:
        module.fail_json(msg=f"{error}")
    module.exit_json(changed=bool(actions), actions=actions)


if __name__ == "__main__":
    main()
