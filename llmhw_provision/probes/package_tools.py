"""Packages: what apt, dpkg and dnf list, and why they refuse."""

from __future__ import annotations

import re

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.format import Format, holds
from llmhw_provision.probes.reading import last_line, output, plain_lines, unreadable

DPKG = Command("dpkg", ("dpkg", "-l"), 20)
POLICY = Command("apt-policy", ("apt-cache", "policy"), 20)

_DPKG = re.compile(r"^([a-z])([a-zA-Z])[ R] ? ?(\S+)\s+(\S+)\s+(\S+)\s*(.*)$")
_POLICY = re.compile(r"^ {2}(Installed|Candidate): (\S+)$")
_APT = (
    ("lock", re.compile(r"Could not get lock (\S+?)\.? ")),
    ("no_package", re.compile(r"Unable to locate package (\S+)")),
    ("no_version", re.compile(r"Version '([^']+)' for '[^']+' was not found")),
    ("no_candidate", re.compile(r"Package '([^']+)' has no installation candidate")),
    ("signed_by", re.compile(r"Conflicting values set for option Signed-By regarding source (\S+)")),
    ("no_key", re.compile(r"NO_PUBKEY ([0-9A-F]+)|public key is not available")),
    ("weak_key", re.compile(r"(SHA1 is not considered secure|weak security information|uses weak algorithm)")),
    ("half_configured", re.compile(r"dpkg was interrupted|you must manually run '(?:sudo )?dpkg --configure -a'")),
    ("unmet", re.compile(r"unmet dependencies|held broken packages|Unmet dependencies")),
    ("unreachable", re.compile(r"(?:Failed to fetch|Temporary failure resolving|Could not connect to) '?(\S+)")),
)
_DNF = (
    ("nothing_provides", re.compile(r"nothing provides (.+?) needed by (\S+)")),
    ("conflict", re.compile(r"package (\S+) (?:from \S+ )?conflicts with|cannot install both (\S+)")),
    ("no_match", re.compile(r"(?:No match for argument|Unable to find a match): (.+)$")),
    ("no_key", re.compile(r"Public key for (\S+) is not installed|GPG check FAILED")),
    ("unreachable", re.compile(r"Failed to download metadata for repo '([^']+)'|Cannot download repomd")),
    ("lock", re.compile(r"Waiting for process with pid ([0-9]+) to finish")),
)


def dpkg_facts(raw: bytes) -> dict[str, object]:
    """Version by package (`cut`: names whose cell is too narrow), and names that are `held` or half-done (`broken`)."""
    versions, held, broken, cut = {}, [], [], []
    widths: list[int] = []
    text = plain_lines("dpkg", raw)
    for line in text:
        below = bool(widths)
        if line.startswith("+++-"):
            widths = [len(part) for part in line.split("-")]
        elif below and (match := _DPKG.match(line)):
            wanted, status, package, version = match[1], match[2], match[3].partition(":")[0], match[4]
            if _on_a_screen(widths, match[5]) and (len(match[3]) >= widths[1] or len(version) >= widths[2]):
                cut.append(package)
            elif status in "it":
                versions[package] = version
            held += [package] if wanted == "h" else []
            broken += [package] if status in "HUFWt" else []
        elif below and line.strip():
            raise unreadable("dpkg", line)
    if not widths:
        raise unreadable("dpkg", last_line(raw), "cut off")
    return {**versions, "packages": len(versions) + len(cut), "held": held, "broken": broken, "cut": cut}


def _on_a_screen(widths: list[int], architecture: str) -> bool:
    """Whether the columns have a terminal's widths, not those of their contents: then a cell that fills one is cut."""
    return len(widths) > 3 and widths[3] > max(len("Architecture"), len(architecture))


def policy_facts(raw: bytes) -> dict[str, object]:
    """Installed and candidate version by package; None for (none)."""
    found: dict[str, dict[str, str | None]] = {}
    current: dict[str, str | None] | None = None
    for line in plain_lines("apt-cache policy", raw):
        if re.match(r"^[a-z0-9][a-z0-9+.:-]*:$", line):
            current = found.setdefault(line[:-1], {})
        elif (match := _POLICY.match(line)) and current is not None:
            current[match[1].lower()] = None if match[2] == "(none)" else match[2]
    if not found or any(set(item) != {"installed", "candidate"} for item in found.values()):
        raise unreadable("apt-cache policy", last_line(raw), "cut off")
    result: dict[str, object] = dict(found)
    return result | (dict(next(iter(found.values()))) if len(found) == 1 else {})


def _refusal(tool: str, raw: bytes, causes: tuple[tuple[str, re.Pattern[str]], ...]) -> dict[str, object]:
    text = "\n".join(plain_lines(tool, raw))
    found = {name: match for name, pattern in causes if (match := pattern.search(text))}
    if not found:
        return {"error": True}
    name, match = next(iter(found.items()))
    what = next((group for group in match.groups() if group), "")
    return {"error": name, "what": what.strip(), "errors": list(found)}


def solve_command(names: tuple[str, ...]) -> Command:
    """Asks the system's tool whether it could install `names`, without installing anything."""
    ask = (
        'if command -v apt-get >/dev/null; then apt-get -s -q -o Debug::NoLocking=1 install -- "$@"; '
        'else dnf -q --assumeno install "$@"; fi 2>&1; true'
    )
    return Command("package-solution", ("sh", "-c", ask, "sh", *names), 120)


def solution(evidence: Evidence) -> dict[str, object]:
    """Why the tool refuses: `error` and `what` it is about; empty when it would install them."""
    raw = output(evidence, "package-solution")
    found = next((form for form in FORMATS if form.name.endswith("refusal") and form.recognise(raw)), None)
    if found is None:
        plain_lines("package tool", raw)
        return {}
    return found.facts(raw)


FORMATS = (
    Format("dpkg -l", holds(rb"^\|\|/ Name\s+Version"), dpkg_facts),
    Format("apt-cache policy", holds(rb"\A[a-z0-9][a-z0-9+.:-]*:\n  Installed: "), policy_facts),
    Format(
        "apt refusal",
        holds(rb"^(E: (?![A-Z0-9_]+=)|W: GPG error|The following packages have unmet dependencies:)"),
        lambda raw: _refusal("apt", raw, _APT) | {"rc": 100},
    ),
    Format(
        "dnf refusal",
        holds(rb"^(Error: *$|Error: (Unable to find a match|GPG check|Failed to download)| ?Problem( [0-9]+)?: )"),
        lambda raw: _refusal("dnf", raw, _DNF) | {"rc": 1},
    ),
)
