"""What site_base refuses, and what it finds already settled by the site. Pure functions of what was read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# Deliberately installed by a site; systemd-timesyncd is what a distribution brings along.
OWN_TIME = ("ntpd.service", "ntp.service", "ntpsec.service", "openntpd.service", "ptp4l.service", "phc2sys.service")


def user_refusals(wanted: Sequence[Mapping[str, Any]], passwd: Iterable[str], group: Iterable[str]) -> list[str]:
    """Numbers that belong to somebody else, and names that have other numbers. Lines as of getent."""
    users = {fields[0]: int(fields[2]) for fields in (line.split(":") for line in passwd) if len(fields) > 3}
    groups = {fields[0]: int(fields[2]) for fields in (line.split(":") for line in group) if len(fields) > 2}
    found = []
    for user in wanted:
        name = user["name"]
        for kind, number, known in (("uid", user["uid"], users), ("gid", user["gid"], groups)):
            owners = [other for other, taken in known.items() if taken == number and other != name]
            if owners:
                found.append(f"{kind} {number} for {name} is taken by {owners[0]}")
            if name in known and known[name] != number:
                found.append(f"{name} has {kind} {known[name]}, planned is {number}")
    return found


def host_refusals(entries: Sequence[Mapping[str, str]], lines: Iterable[str], own: str) -> list[str]:
    """Lines of /etc/hosts beyond our block that say something else of a host of the site."""
    wanted = {entry["name"]: entry["address"] for entry in entries}
    found = []
    for line in lines:
        address, *names = line.partition("#")[0].split() or [""]
        for name in names:
            # Debian's installer writes 127.0.1.1 for the host itself.
            loops = name == own and address.startswith("127.")
            if name in wanted and wanted[name] != address and not loops and (":" in address) == (":" in wanted[name]):
                found.append(f"/etc/hosts says {name} is {address}, the plan says {wanted[name]}")
    return found


def source_conflicts(mirrors: Sequence[Mapping[str, Any]], texts: Mapping[str, str]) -> list[str]:
    """Other apt sources for the same archive: apt refuses to work with two values of Signed-By."""
    found = []
    for mirror in mirrors:
        uri = mirror["uri"].rstrip("/")
        for path, text in sorted(texts.items()):
            for number, line in enumerate(text.splitlines(), 1):
                if line.lstrip().startswith("#"):
                    continue
                if uri in [word.rstrip("/") for word in re.split(r"\s+", line)]:
                    found.append(f"{path}:{number} already names {mirror['uri']}; apt would call the keys conflicting")
    return found


def own_time_service(active: Iterable[str], synchronized: bool) -> str:
    """The time service that the site has installed and that works; empty when there is none."""
    running = [unit for unit in active if unit in OWN_TIME]
    return running[0] if running and synchronized else ""


def in_bundle(pem: str, bundle: str) -> bool:
    """Whether every certificate of `pem` is one of the trusted ones."""
    bodies = [_body(part) for part in _PEM.findall(pem)]
    trusted = {_body(part) for part in _PEM.findall(bundle)}
    return bool(bodies) and all(body in trusted for body in bodies)


_PEM = re.compile(r"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.S)


def _body(text: str) -> str:
    return re.sub(r"\s", "", text)
