"""The way back to a set that was kept. Values in, values out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Optional

from ansible.module_utils.nvidia_driver import packages
from ansible.module_utils.nvidia_driver.kept import Kept
from ansible.module_utils.nvidia_driver.packages import Installed


class Way(NamedTuple):
    """The set to go back to, the files to install, and the packages that came with the newer version."""

    kept: Kept
    files: tuple[str, ...]
    absent: tuple[str, ...]


def current(there: Mapping[str, Installed]) -> str:
    """The version that most packages of the driver have; empty without a driver."""
    found = list(packages.core(there).values())
    return max(sorted(set(found)), key=found.count) if found else ""


def choose(sets: Sequence[Kept], there: Mapping[str, Installed]) -> Optional[Way]:  # noqa: UP045
    """The way to the set that was kept last; nothing is left to do on it once the machine is there. None without one.

    A set of the present version is one that somebody has gone back to.
    """
    if not sets:
        return None
    kept = sets[0]
    wanted = {item["name"]: item for item in kept.packages}
    files = tuple(f"{kept.folder}/{item['file']}" for name, item in wanted.items() if not _there(name, item, there))
    absent = tuple(
        sorted(
            item.name
            for item in there.values()
            if item.name not in wanted and packages.driver_version(item) not in ("", kept.version)
        )
    )
    return Way(kept, files, absent)


def _there(name: str, item: Mapping[str, str], there: Mapping[str, Installed]) -> bool:
    found = there.get(name)
    return found is not None and found.whole and found.version == item["version"]


def commands(way: Way) -> list[list[str]]:
    """dpkg with the kept files, for no source is asked; configuring them afterwards shows whether they fit together.

    apt would refuse where a dpkg was cut off: it looks for what is half there in its sources, in vain.
    """
    words = ["dpkg", "--no-triggers", "--force-depends", "--force-confdef", "--force-confold"]
    found = [[*words, "--remove", *way.absent]] if way.absent else []
    return [*found, *([[*words, "--unpack", *way.files]] if way.files else [])]


def sentences(way: Way, now: str) -> list[str]:
    """What will be done."""
    if not way.files and not way.absent:
        return []
    found = [f"go back from driver {now} to {way.kept.version}, from {way.kept.folder}"]
    found += [f"install {path.rpartition('/')[2].replace('%3a', ':')}" for path in way.files]
    return found + [f"remove {name}" for name in way.absent]
