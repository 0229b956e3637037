"""What apt would do for the driver, asked without changing anything."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ansible.module_utils.host_modules.exact_versions import meant, offered
from ansible.module_utils.nvidia_driver import decide, packages, render
from ansible.module_utils.nvidia_driver.decide import Transaction
from ansible.module_utils.nvidia_driver.host import Host, State

_PREFERENCES = "etc/apt/preferences"


class Found(NamedTuple):
    """What is to be done, and why it may not."""

    transaction: Transaction
    refusals: list[str]
    not_offered: list[str]


def work_out(host: Host, state: State, config: Mapping[str, Any], pins: Sequence[str]) -> Found:
    """The transaction that brings the planned packages, all of the driver at its one version."""
    wanted = [*config["needs"], *decide.entries(config)]
    headers = decide.needed_headers(state, config["headers_prefix"]) if config["dkms"] else []
    other = decide.others(state.there, config["version"])
    stale = [*decide.lacking(wanted, state.there), *headers, *other, *decide.old_pins(state.there, config)]
    if not stale and not decide.mixed(state.there):
        return Found(Transaction((), ()), [], [])
    with _pinned(host, config["version"], pins) as options:
        return _ask(host, state, config, [*config["needs"], *headers], options)


def _ask(host: Host, state: State, config: Mapping[str, Any], needs: list[str], options: list[str]) -> Found:
    version = config["version"]
    names = [item["name"] for item in config["packages"]]
    other = list(decide.others(state.there, version))
    offers = _offers(host, [*names, *needs, *other], options)
    lacking = [name for name in needs if not offers.get(name) and name not in state.there]
    refused = [_needed(name, config["headers_prefix"]) for name in lacking]
    absent_offers = []
    for item in config["packages"]:
        there = state.there.get(item["name"])
        if there and there.whole and meant(item["version"], there.version):
            continue
        if not packages.exact(item["version"], offers, item["name"]):
            absent_offers.append(decide.stub_sentence(item["name"], item["version"] or "any version", offers))
    if absent_offers or refused:
        return Found(_plain(state, config, needs), [*absent_offers, *refused], [*absent_offers, *refused])
    whole, reached = _closure(host, config, offers, options)
    moves = {name: packages.exact(version, offers, name) for name in other}
    whole.update({name: text for name, text in moves.items() if text})
    absent = [*(name for name, text in moves.items() if not text), *decide.old_pins(state.there, config)]
    entries = [*needs, *(item["name"] for item in config["packages"] if item["name"] not in whole)]
    entries += [f"{name}={text}" for name, text in sorted(whole.items())]
    transaction = Transaction(tuple(decide.lacking(entries, state.there)), tuple(sorted(absent)))
    return Found(transaction, _simulated(host, config, transaction, state, options, reached), [])


def _plain(state: State, config: Mapping[str, Any], needs: list[str]) -> Transaction:
    return Transaction(tuple(decide.lacking([*needs, *decide.entries(config)], state.there)), ())


def _needed(name: str, headers_prefix: str) -> str:
    if name.startswith(headers_prefix):
        release = name[len(headers_prefix) :]
        return f"{name}: no source offers it; without headers no module can be built for kernel {release}"
    return f"{name}: no package source offers it"


def _closure(
    host: Host, config: Mapping[str, Any], offers: dict[str, list[tuple[str, int]]], options: list[str]
) -> tuple[dict[str, str], list[str]]:
    """Package to whole version, of all that the planned packages depend on and that carry a version of the plan.

    Told so, apt takes these and not newer ones that a source offers as well.
    """
    version = config["version"]
    whole = {item["name"]: packages.exact(item["version"], offers, item["name"]) for item in config["packages"]}
    wanted = {name: text for name, text in whole.items() if text}
    queue, groups, provided = list(wanted), [], set()
    while queue:
        shown = host.run(["apt-cache", *options, "show", *(f"{name}={wanted[name]}" for name in queue)])[1]
        groups += packages.depends(shown)
        provided |= packages.provides(shown)
        names = {name for group in groups for name in group if packages.driver_name(name)}
        offers.update(_offers(host, sorted(names - offers.keys()), options))
        at_version = {name: packages.exact(version, offers, name) for name in names}
        queue = list(_next(groups, wanted, provided, at_version))
        wanted.update({name: packages.exact(version, offers, name) for name in queue})
    planned = {item["name"]: item["version"] for item in config["packages"]}
    return {name: text for name, text in wanted.items() if planned.get(name, version)}, sorted(wanted)


def _next(
    groups: Sequence[Sequence[str]], wanted: Mapping[str, str], provided: set[str], at_version: Mapping[str, str]
) -> set[str]:
    """What to follow next: what is asked for without an alternative; then, of one group, its first alternative.

    A group of which a wanted package provides one is done: Debian's nvidia-driver takes the closed modules or, under
    a name that the open ones provide, the open ones.
    """
    open_ones = [group for group in groups if not any(name in wanted for name in group)]
    single = {group[0] for group in open_ones if len(group) == 1 and at_version.get(group[0])}
    if single:
        return single
    choices = [group for group in open_ones if len(group) > 1 and not provided.intersection(group)]
    several = ([name for name in group if at_version.get(name)] for group in choices)
    return {names[0] for names in [next((names for names in several if names), [])] if names}


def _simulated(
    host: Host,
    config: Mapping[str, Any],
    transaction: Transaction,
    state: State,
    options: list[str],
    reached: Sequence[str],
) -> list[str]:
    """Why apt must not do it; nothing is asked while packages are half there, which apt answers with an error."""
    if transaction.empty or any(not item.whole for item in state.there.values()) or _interrupted(host):
        return []
    words = ["apt-get", *options, "install", "--simulate", "--no-install-recommends", "--allow-downgrades"]
    words += ["--allow-change-held-packages", *transaction.install, *(f"{name}-" for name in transaction.absent)]
    rc, out, err = host.run(words)
    if rc != 0:
        lines = [line.strip() for line in (out + err).splitlines() if line.startswith((" ", "E:"))]
        return [f"apt cannot install it: {'; '.join(lines[:8])}"]
    found = packages.simulated(out)
    names = sorted({item.name for item in found if item.new and packages.driver_name(item.name)} | set(reached))
    origins = packages.origins(host.run(["apt-cache", *options, "policy", *names])[1]) if names else {}
    version = config["version"]
    own = {item["name"] for item in config["packages"]}
    held = {name for name, item in state.there.items() if item.want == "hold"} - own
    refused = [
        f"apt would change {item.name}, which is on hold"
        for item in found
        if item.name in held and not packages.driver_name(item.name)
    ]
    return [*decide.simulation_refusals(found, version), *decide.source_refusals(found, origins, version), *refused]


def _offers(host: Host, names: Sequence[str], options: list[str]) -> dict[str, list[tuple[str, int]]]:
    return offered(host.run(["apt-cache", *options, "policy", *names])[1]) if names else {}


def _interrupted(host: Host) -> bool:
    folder = host.path("var/lib/dpkg/updates")
    return os.path.isdir(folder) and any(name.isdigit() for name in os.listdir(folder))


@contextmanager
def _pinned(host: Host, version: str, pins: Sequence[str]) -> Iterator[list[str]]:
    """Options of apt under which the driver's names are pinned as they will be, with nothing written yet."""
    with tempfile.NamedTemporaryFile("w", prefix="llmhw-", encoding="utf-8") as file:
        try:
            with open(host.path(_PREFERENCES), encoding="utf-8") as stream:
                file.write(stream.read() + "\n")
        except OSError:
            pass
        file.write(render.preferences(version, pins))
        file.flush()
        os.chmod(file.name, 0o644)
        yield ["-o", f"Dir::Etc::preferences={file.name}"]
