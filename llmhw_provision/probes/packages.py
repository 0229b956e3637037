"""The package manager: sources it can reach, versions it would install, states it was left in, who holds its locks."""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.reading import lines, output, unreadable, whole

_TRY_S = 10
# apt's own downloader: it honours the proxy and the certificates that apt will use. Nothing is left on the host.
# A flat or old repository may have a Release and no InRelease. Credentials in a URI never leave the host.
_SOURCES = f"""t=$(mktemp -d) || exit 97
trap 'rm -rf "$t"' EXIT
hide() {{ sed 's#://[^@/ ]*@#://***@#g'; }}
get() {{ /usr/lib/apt/apt-helper -o Acquire::Retries=0 -o Acquire::http::Timeout={_TRY_S} \
-o Acquire::https::Timeout={_TRY_S} download-file "$1" "$t/file" >"$t/said" 2>&1; }}
if command -v apt-get >/dev/null; then
apt-get update --print-uris 2>"$t/said" >"$t/uris" || {{
echo "bad sources $(grep -m1 '^E: ' "$t/said" | cut -c4-)" | hide; exit 0; }}
sed -n "s/^'\\(https\\{{0,1\\}}:[^']*InRelease\\)'.*/\\1/p" "$t/uris" | sort -u | while read -r u; do
if get "$u" || get "${{u%InRelease}}Release"; then echo "ok $u"
else echo "bad $u $(grep -m1 '^E: ' "$t/said" | sed 's/^E: Failed to fetch [^ ]* *//')"; fi; done | hide
else
dnf -q --setopt=cachedir="$t" --setopt=timeout={_TRY_S} --setopt=retries=1 makecache >"$t/said" 2>&1 \
&& echo "ok enabled-repositories" || echo "bad enabled-repositories $(tail -n1 "$t/said")" | hide
fi"""
SOURCES = Command("package-sources", ("sh", "-c", _SOURCES), 150)

_STATES = """if command -v dpkg-query >/dev/null; then
dpkg-query -W -f='${db:Status-Abbrev}|${Package}\\n' | grep -v '^[a-z][inc] |'
for f in /var/lib/dpkg/updates/*; do [ -e "$f" ] && echo "!!|interrupted" && break; done
else rpm --verifydb >/dev/null 2>&1 || echo "!!|rpmdb"; fi; true"""
STATES = Command("package-states", ("sh", "-c", _STATES), 30)

_FILES = (
    "/var/lib/dpkg/lock-frontend /var/lib/dpkg/lock /var/lib/apt/lists/lock /var/cache/apt/archives/lock "
    "/var/lib/rpm/.rpm.lock /usr/lib/sysimage/rpm/.rpm.lock"
)
_LOCKS = f"""for f in {_FILES}; do [ -e "$f" ] && stat -c 'file %i %n' "$f"; done
[ -e /run/cloud-init/status.json ] && ! [ -e /run/cloud-init/result.json ] && echo 'first-boot cloud-init'
cat /proc/locks"""
LOCKS = Command("package-locks", ("sh", "-c", _LOCKS), 10)
COMMANDS = (SOURCES, STATES, LOCKS)

_LOCK = re.compile(r"^\d+: (?:POSIX|OFDLCK|FLOCK) +\S+ +\S+ +(-?\d+) +[0-9a-f]+:[0-9a-f]+:(\d+) ")
_CANDIDATES = """if command -v apt-cache >/dev/null; then
echo "Lists $(ls /var/lib/apt/lists 2>/dev/null | grep -c Packages)"; apt-cache policy "$@"
else echo "Lists 1"; for p in "$@"; do printf '%s:\\n  Installed: %s\\n  Candidate: %s\\n' "$p" \
"$(rpm -q --qf '%{EVR}' "$p" 2>/dev/null || true)" "$(dnf -q repoquery --latest-limit=1 --qf '%{evr}' "$p" 2>/dev/null)"
done; fi"""


@dataclass(frozen=True)
class Source:
    """A package source and why it cannot be used; `reason` is empty when it can."""

    uri: str
    reason: str


@dataclass(frozen=True)
class Candidate:
    """What is installed of a package and what would be; empty where there is none."""

    installed: str
    candidate: str


@dataclass(frozen=True)
class Locks:
    """Process ids per lock file that is held, and whether the first boot is still setting the machine up."""

    held: dict[str, int]
    first_boot: bool


def candidates_command(names: tuple[str, ...]) -> Command:
    """Asks which version of each package is installed and which would be."""
    return Command("package-candidates", ("sh", "-c", _CANDIDATES, "sh", *names), 60)


def parse_sources(raw: bytes) -> tuple[Source, ...]:
    """Every source over the network."""
    found = []
    for line in lines("apt", raw):
        word, _, rest = line.partition(" ")
        uri, _, reason = rest.partition(" ")
        if word not in ("ok", "bad") or not uri:
            raise unreadable("apt", line)
        found.append(Source(uri, "" if word == "ok" else reason.strip() or "no answer"))
    return tuple(found)


def parse_states(raw: bytes) -> dict[str, str]:
    """State by package of all that are neither installed nor removed, in dpkg's three letters."""
    found: dict[str, str] = {}
    for line in lines("dpkg-query", raw):
        state, bar, name = line.partition("|")
        if not bar or not name:
            raise unreadable("dpkg-query", line)
        found[name] = state
    return found


def parse_locks(raw: bytes) -> Locks:
    """Who holds a lock of the package manager."""
    files: dict[str, str] = {}
    held: dict[str, int] = {}
    first_boot = False
    for line in lines("/proc/locks", raw):
        if line.startswith("file "):
            _, inode, path = line.split(" ", 2)
            files[inode] = path
        elif line == "first-boot cloud-init":
            first_boot = True
        elif match := _LOCK.match(line):
            if match[2] in files:
                held[files[match[2]]] = int(match[1])
        elif not re.match(r"^\d+: (->|\w+ )", line):
            raise unreadable("/proc/locks", line)
    return Locks(held, first_boot)


def parse_candidates(raw: bytes) -> dict[str, Candidate]:
    """Versions by package; a package that no source knows is not there."""
    found: dict[str, Candidate] = {}
    name = installed = ""
    for line in lines("apt-cache", raw):
        if line and not line.startswith(" ") and line.endswith(":"):
            name, installed = line[:-1], ""
        elif line.startswith("  Installed:"):
            installed = _version(line)
        elif line.startswith("  Candidate:"):
            found[name] = Candidate(installed, _version(line))
    return found


def _version(line: str) -> str:
    value = line.partition(":")[2].strip()
    return "" if value == "(none)" else value


def sources(evidence: Evidence) -> tuple[Source, ...]:
    """The host's package sources over the network."""
    return parse_sources(output(evidence, SOURCES.key))


def states(evidence: Evidence) -> dict[str, str]:
    """Packages of the host that were left half-way."""
    return parse_states(output(evidence, STATES.key))


def locks(evidence: Evidence) -> Locks:
    """Locks of the host's package manager that are held."""
    return parse_locks(output(evidence, LOCKS.key))


def candidate(evidence: Evidence, name: str) -> Candidate | None:
    """Versions of the package `name`; None when no source knows it."""
    return parse_candidates(output(evidence, "package-candidates")).get(name)


def has_lists(evidence: Evidence) -> bool:
    """Whether package lists were ever fetched: new cloud images have none."""
    text = lines("apt-cache", output(evidence, "package-candidates"))
    word, _, count = (text[0] if text else "").partition(" ")
    if word != "Lists":
        raise unreadable("apt-cache", text[0] if text else "", "no count of lists")
    return whole("apt-cache", count, "lists") > 0
