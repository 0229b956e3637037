"""What a machine's own logs say of a run: apt's transactions, packages that dpkg unpacked, ssh sessions and logins.

Values in, values out. Formats: apt's history.log, dpkg.log, `apt-cache policy` and sshd at LogLevel VERBOSE, all in the
C locale.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

Peer = tuple[str, str]  # address and port of an ssh client
_COMING = ("Install", "Reinstall", "Upgrade", "Downgrade")
_PACKAGE = re.compile(r"([^\s:,]+):\S+ \(([^)]*)\)")
_UNPACKED = re.compile(r"^\S+ \S+ status unpacked (\S+) \S+$", re.MULTILINE)
_DPKG = re.compile(r"^\S+ \S+ startup ", re.MULTILINE)
_SESSION = re.compile(r"^Starting session: .* from (\S+) port (\d+) id \d+$", re.MULTILINE)
# at this level sshd also says "Accepted key" at each look at a key; a login is "Accepted publickey for"
_LOGIN = re.compile(r"^Accepted [a-z/-]+ for \S+ from (\S+) port (\d+)\b", re.MULTILINE)


@dataclass(frozen=True)
class Transaction:
    """One run of apt that changed packages: its command line, and the version of each package that came."""

    command: str
    packages: Mapping[str, str]


def added(before: str, after: str) -> str:
    """What a log has gained; raises ValueError where it was rotated in between, for then something is missing."""
    if not after.startswith(before):
        raise ValueError(f"a log of {len(before)} characters was replaced by another of {len(after)}")
    return after[len(before) :]


def transactions(history: str) -> tuple[Transaction, ...]:
    """The entries of apt's history.log, in order; one without an end, of a run that was cut off, counts as well."""
    found = []
    for entry in re.split(r"^Start-Date: ", history, flags=re.MULTILINE)[1:]:
        fields = dict(line.split(": ", 1) for line in entry.splitlines()[1:] if ": " in line)
        coming = [pair for name in _COMING for pair in _PACKAGE.findall(fields.get(name, ""))]
        versions = {name: _version(words.split(", ")) for name, words in coming}
        found.append(Transaction(fields.get("Commandline", ""), versions))
    return tuple(found)


def _version(words: list[str]) -> str:
    """The version that comes: `(new)`, `(new, automatic)` or, where an old one goes, `(old, new)`."""
    return [word for word in words if word != "automatic"][-1]


def sources(policy: str) -> dict[tuple[str, str], str]:
    """Package and version to the address of the first source that offers it, out of `apt-cache policy`."""
    found: dict[tuple[str, str], str] = {}
    name = version = ""
    for line in policy.splitlines():
        head = re.match(r"^(\S+):$", line)
        of = re.match(r"^ (?:\*\*\*|   ) (\S+) -?\d+$", line)
        at = re.match(r"^ {5,}-?\d+ (\S+://\S+) ", line)
        name = head[1].partition(":")[0] if head else name
        version = of[1] if of else version
        if at:
            found.setdefault((name, version), at[1].rstrip("/"))
    return found


def by_source(done: Iterable[Transaction], offered: Mapping[tuple[str, str], str]) -> dict[str, int]:
    """Source to the number of transactions that brought packages from it; `unknown` for what no source has now."""
    touched = [{offered.get(item, "unknown") for item in one.packages.items()} for one in done]
    return dict(Counter(source for each in touched for source in sorted(each)))


def unpacked(log: str) -> tuple[int, int]:
    """Lines `status unpacked` of dpkg.log, and packages among them: dpkg writes the line again as it configures."""
    names = _UNPACKED.findall(log)
    return len(names), len(set(names))


def dpkg_runs(log: str) -> int:
    """Starts of dpkg on archives or on packages to configure; apt starts it several times in one transaction."""
    return len(_DPKG.findall(log))


def sessions_and_logins(sshd: str, own: Collection[Peer]) -> tuple[int, int]:
    """Sessions and logins, without those of the connections `own` over which the log itself was read."""
    counts = (sum(peer not in own for peer in pattern.findall(sshd)) for pattern in (_SESSION, _LOGIN))
    sessions, logins = counts
    return sessions, logins
