"""Where GPU packages would come from: entries for sources, versions on offer, what the tool would really install."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes import package_tools
from llmhw_provision.probes.gpu_packages import PATTERNS
from llmhw_provision.probes.reading import closed_sections, output, unreadable

_ENTRIES = r"""for f in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources \
/etc/yum.repos.d/*.repo; do [ -r "$f" ] || continue; echo "== $f"
sed -e '/^[[:space:]]*#/d' -e 's#://[^@/ ]*@#://***@#g' -e '$a\' "$f"; done; echo "== end" """
ENTRIES = Command("source-entries", ("sh", "-c", _ENTRIES, "sh"), 10)
_QUOTED = " ".join(f"'{pattern}'" for pattern in PATTERNS)
_OFFERS = f"""echo "== offers"; if command -v apt-cache >/dev/null
then apt-cache policy "$@" $(dpkg-query -W -f '${{db:Status-Status}} ${{Package}}\\n' {_QUOTED} 2>/dev/null \
| sed -n 's/^installed //p') 2>/dev/null
else for p in "$@"; do printf '%s:\\n  Installed: %s\\n  Candidate: %s\\n' "$p" \
"$(rpm -q --qf '%{{EVR}}' "$p" 2>/dev/null || true)" \
"$(dnf -q repoquery --latest-limit=1 --qf '%{{evr}}' "$p" 2>/dev/null)"
dnf -q repoquery --showduplicates --qf '     %{{evr}} 500\\n        500 %{{repoid}} Packages' "$p" 2>/dev/null
done; fi
echo "== end\""""
# Asked with preferences like those that the roles set before they install: packages of one release bind each other, and
# apt would take each by itself in the newest version on offer. The folder is temporary; of the host's own preferences
# all are read but those of the driver's version of today, which the roles replace, as they do the vendor's pinning
# package. What is installed of another release is named as well, as the roles name it: where half of a set was changed
# by hand, apt refuses everything else.
_DRIVER_NAMES = (
    *(
        "cuda-drivers*",
        "firmware-nvidia-*",
        "libcuda1",
        "libcudadebugger*",
        "libnvcuvid*",
        "libnvidia-*",
        "libnvoptix*",
    ),
    *("libnvsdm*", "libxnvctrl*", "nvidia-*", "xserver-xorg-video-nvidia*"),
)
_SIMULATE = """p=$1; d=$2; shift 2
if command -v apt-get >/dev/null; then t=$(mktemp -d) || exit 97; trap 'rm -rf "$t"' EXIT; mkdir "$t/parts"
{ cat /etc/apt/preferences 2>/dev/null; echo; echo "$p"; } >"$t/first"
for f in /etc/apt/preferences.d/*; do case ${f##*/} in llmhw-nvidia-driver|nvidia-driver-pin) ;; *)
[ -f "$f" ] && cp "$f" "$t/parts";; esac; done; chmod -R a+rX "$t"
for old in $(dpkg-query -W -f '${db:Status-Status} ${Package}\\n' 'nvidia-driver-pinning-*' 2>/dev/null \
| sed -n 's/^installed //p'); do case " $* " in *" $old "*|*" $old="*) ;; *) set -- "$@" "$old-";; esac; done
for n in $(dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\\n' NAMES 2>/dev/null \
| grep -vE '^installed (nvidia-(persistenced|settings|modprobe|xconfig|driver-pinning)|libxnvctrl)' \
| grep -vE " ([0-9]+:)?$d(-[^-]*)?$" \
| sed -nE 's/^installed ([^ ]*) ([0-9]+:)?[3-9][0-9]{2}\\.[0-9]{2,3}(\\.[0-9]{2})?(-[^-]*)?$/\\1/p')
do case " $* " in *" $n "*|*" $n="*) continue;; esac
if apt-cache madison "$n" 2>/dev/null | grep -qE "\\| ([0-9]+:)?$d-"; then set -- "$@" "$n=$d*"
else set -- "$@" "$n-"; fi
done
o="-q -o Dir::Etc::Preferences=$t/first -o Dir::Etc::PreferencesParts=$t/parts -o Debug::NoLocking=1"
o="$o --ignore-hold --allow-change-held-packages --allow-downgrades"
echo "== simulated"; apt-get -s $o install -- "$@" 2>&1
echo "== size"; apt-get --assume-no $o install -- "$@" 2>/dev/null \
| grep -E '^ *(Need to get|After this operation|Download size|Space needed)'
else echo "== simulated"; dnf -q --assumeno install "$@" 2>&1; echo "== size"; fi
echo "== end\""""
_SIMULATE = _SIMULATE.replace("NAMES", " ".join(f"'{name}'" for name in _DRIVER_NAMES))
_INSTALL = re.compile(r"^Inst (?P<name>\S+) (?:\[\S+\] )?\((?P<version>\S+) ")
_UNMET = re.compile(r"^ \S+ : (?:Pre)?(?:Depends|Breaks|Conflicts): ")
_RPM = re.compile(r"^ (?P<name>[\w.+-]+) +(?:x86_64|aarch64|noarch) +(?P<version>[\w.:+~^-]+) +\S+ +")
# apt 2: "Need to get 0 B/4,123 MB of archives.", "After this operation, 6,812 MB of additional disk space".
_SIZE = re.compile(
    r"^ *(?P<what>Need to get|After this operation,|Download size:|Space needed:) (?:[\d.,]+ ?[kMG]?B/)?"
    r"(?P<size>[\d.,]+ ?[kMG]?B)"
)
_WHAT = {"Need to get": "fetch", "Download size:": "fetch", "After this operation,": "fill", "Space needed:": "fill"}


@dataclass(frozen=True)
class Entry:
    """One source in one file; `suite` is `/` for a flat repository, `key` what Signed-By says."""

    file: str
    uri: str
    suite: str
    key: str


@dataclass(frozen=True)
class Offer:
    """A package: what is installed, what would be, and who gives which version."""

    installed: str
    candidate: str
    sites: dict[str, tuple[str, ...]]


@dataclass(frozen=True)
class Solution:
    """What an installation would do: versions by name, or why it is refused; bytes to fetch and to fill."""

    packages: dict[str, str]
    error: str
    fetch_bytes: int | None
    fill_bytes: int | None


def offers_command(names: tuple[str, ...]) -> Command:
    """Asks which versions of `names` and of the installed GPU software are on offer, and from where."""
    return Command("gpu-offers", ("sh", "-c", _OFFERS, "sh", *names), 60)


def solution_command(packages: dict[str, str], family: str, driver: str) -> Command:
    """Asks what installing exactly `packages`, versions by name, would do with the driver kept at `driver`."""
    mark = "={}*" if family == "deb" else "-{}"
    names = (name + (mark.format(version) if version else "") for name, version in packages.items())
    parts = {f"{name.partition('-')[0]}*": version for name, version in packages.items() if version != driver}
    pins = {" ".join(_DRIVER_NAMES): driver, **{name: version for name, version in parts.items() if version}}
    text = "\n".join(
        f"Package: {name}\nPin: version {version}*\nPin-Priority: 1001\n" for name, version in pins.items()
    )
    return Command("gpu-solution", ("sh", "-c", _SIMULATE, "sh", text, driver, *names), 180)


def entries(evidence: Evidence) -> tuple[Entry, ...]:
    """Every entry for a package source on the host that is in force."""
    return parse_entries(output(evidence, ENTRIES.key))


def parse_entries(raw: bytes) -> tuple[Entry, ...]:
    """Entries by file and line; embedded keys are named by their file."""
    found: list[Entry] = []
    for path, text in closed_sections("package sources", raw, ()).items():
        if path.endswith(".list"):
            found += [entry for line in text for entry in _one_line(path, line)]
        elif path.endswith((".sources", ".repo")):
            found += [entry for part in _stanzas(text) for entry in _stanza(path, part)]
    return tuple(found)


def _one_line(path: str, line: str) -> list[Entry]:
    match = re.match(r"^\s*deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<suite>\S+)", line)
    if not match:
        return []
    key = re.search(r"signed-by=(\S+)", match["options"] or "")
    return [_entry(path, match["uri"], match["suite"], key[1] if key else "")]


def _entry(path: str, uri: str, suite: str, key: str) -> Entry:
    return Entry(path, uri.rstrip("/"), "/" if suite in ("./", "/") else suite.rstrip("/"), key)


def _stanzas(text: list[str]) -> list[dict[str, str]]:
    """Fields in lower case by stanza: deb822 paragraphs, or sections of a .repo file."""
    found: list[dict[str, str]] = [{}]
    last = ""
    for line in text:
        if not line.strip() or line.startswith("["):
            found.append({})
        elif line[:1].isspace() and last:
            found[-1][last] = f"{found[-1].get(last, '')} {line.strip()}".strip()
        else:
            name, mark, value = re.match(r"^([^:=]*)([:=]?)(.*)$", line).groups()  # type: ignore[union-attr]
            if not mark:
                raise unreadable("package sources", line)
            last = name.strip().lower()
            found[-1][last] = value.strip()
    return [stanza for stanza in found if stanza]


def _stanza(path: str, stanza: dict[str, str]) -> list[Entry]:
    if stanza.get("enabled", "1").lower() in ("no", "0", "false"):
        return []
    if path.endswith(".repo"):
        return [_entry(path, uri, "/", stanza.get("gpgkey", "")) for uri in stanza.get("baseurl", "").split()]
    if "deb" not in stanza.get("types", "").split():
        return []
    key = stanza.get("signed-by", "")
    key = path if "BEGIN PGP" in key else key
    suites = stanza.get("suites", "").split()
    return [_entry(path, uri, suite, key) for uri in stanza.get("uris", "").split() for suite in suites]


def offers(evidence: Evidence) -> dict[str, Offer]:
    """What is on offer, by package; a package that no source knows is not there."""
    return parse_offers(output(evidence, "gpu-offers"))


def parse_offers(raw: bytes) -> dict[str, Offer]:
    """Tables of `apt-cache policy`: installed, candidate, and below each version the sites that give it."""
    found: dict[str, Offer] = {}
    name = version = ""
    for line in closed_sections("apt-cache policy", raw, ("offers",))["offers"]:
        head = re.match(r"^(\S+):$", line)
        said = re.match(r"^  (Installed|Candidate): ?(\S*)$", line)
        at = re.match(r"^(?: {5}| \*\*\* )(\S+)(?: -?[0-9]+)?$", line)
        site = re.match(r"^ {6,} ?-?[0-9]+ (\S+)", line)
        if head:
            name = head[1].partition(":")[0]
            found[name] = Offer("", "", {})
        elif said and name:
            value = "" if said[2] == "(none)" else said[2]
            old = found[name]
            found[name] = replace(old, installed=value) if said[1] == "Installed" else replace(old, candidate=value)
        elif at and name:
            version = at[1]
            found[name].sites.setdefault(version, ())
        elif site and version:
            if not site[1].startswith("/var/lib/dpkg"):
                found[name].sites[version] = (*found[name].sites[version], site[1].rstrip("/"))
        elif line.strip() and line.strip() != "Version table:" and not line.startswith("  Package pin:"):
            raise unreadable("apt-cache policy", line)
    return found


def solution(evidence: Evidence) -> Solution:
    """What the host's tool would do."""
    return parse_solution(output(evidence, "gpu-solution"))


def parse_solution(raw: bytes) -> Solution:
    """Versions that would be installed, by name; where the tool refuses, its own reason in our words."""
    found = closed_sections("package tool", raw, ("simulated", "size"))
    text = "\n".join((*found["simulated"], "")).encode()
    refusal = next(
        (form for form in package_tools.FORMATS if form.name.endswith("refusal") and form.recognise(text)), None
    )
    if refusal:
        told = refusal.facts(text)
        said = [line.strip() for line in found["simulated"] if _UNMET.match(line)]
        if told["error"] == "unmet" and said:
            return Solution({}, f"unmet dependencies: {' '.join(said[0].split())}", None, None)
        return Solution({}, f"{str(told['error']).replace('_', ' ')} {told.get('what') or ''}".strip(), None, None)
    matches = [_INSTALL.match(line) or _RPM.match(line) for line in found["simulated"]]
    sizes: dict[str, int] = {}
    for line in found["size"]:
        match = _SIZE.match(line)
        if match and "will be freed" not in line:
            sizes[_WHAT[match["what"]]] = _bytes(match["size"])
    packages = {match["name"].partition(":")[0]: match["version"] for match in matches if match}
    none = None if packages else 0
    return Solution(packages, "", sizes.get("fetch", none), sizes.get("fill", none))


def _bytes(text: str) -> int:
    """`6,812 MB` in bytes: apt counts in powers of 1000."""
    match = re.match(r"^([\d.,]+) ?([kMG]?)B$", text)
    if not match:
        raise unreadable("apt", text, "not a size")
    return int(float(match[1].replace(",", "")) * {"": 1, "k": 10**3, "M": 10**6, "G": 10**9}[match[2]])
