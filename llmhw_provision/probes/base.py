"""What site_base is checked by: users, hosts, CAs, package sources, clock, firewall. Never a secret leaves the host."""

from __future__ import annotations

from dataclasses import dataclass

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.folders import Folder, parse_stat
from llmhw_provision.probes.reading import lines, output, pairs, sections, unreadable

_TRUST = """for n; do echo "== $n"
for f in "/usr/local/share/ca-certificates/llmhw-$n.crt" "/etc/pki/ca-trust/source/anchors/llmhw-$n.pem"; do
[ -e "$f" ] || continue
body=$(sed -n '/-BEGIN CERT/,/-END CERT/p' "$f" | tr -d '\\r\\n')
for b in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt; do
[ ! -e "$b" ] || { tr -d '\\r\\n' < "$b" | grep -qF -e "$body" && echo trusted; }; done; done; done; true"""
# A repository file may hold credentials of the proxy: only these keys leave the host.
_SOURCES = """for n; do echo "== $n"
for f in "/etc/apt/sources.list.d/llmhw-site-$n.sources" "/etc/yum.repos.d/llmhw-site-$n.repo"; do
[ -e "$f" ] || continue
sed -nE 's/^(URIs: |baseurl=)/uri=/p; s/^(Signed-By: |gpgkey=file:..)/key=/p' "$f"
k=$(sed -nE 's/^(Signed-By: |gpgkey=file:..)//p' "$f"); [ ! -s "$k" ] || echo key-there; done; done; true"""
_HOSTS = 'for n; do echo "== $n"; getent ahosts "$n" | while read -r a _; do echo "$a"; done | sort -u; done; true'
_STAT = 'stat -c "%n|%U|%G|%a|%F" "$@" 2>&1; true'
_FIREWALL = """echo "== ufw"; grep -qs ^ENABLED=yes /etc/ufw/ufw.conf && ufw show added
echo "== firewalld"; systemctl is-active --quiet firewalld && firewall-cmd --info-policy=llmhw
echo "== nft"; nft -j list ruleset 2>/dev/null; true"""
_CLOCK = """echo "== ntp"; timedatectl show -p NTPSynchronized --value
echo "== chrony"; chronyc -c tracking 2>/dev/null; true"""
CREDENTIALS = ("/etc/llmhw/proxy.env", "/etc/apt/apt.conf.d/30llmhw-proxy")
CLOCK = Command("clock", ("sh", "-c", _CLOCK), 15)
FIREWALL = Command("firewall", ("sh", "-c", _FIREWALL), 20)
PROXY = Command("proxy-files", ("sh", "-c", _STAT, "sh", *CREDENTIALS), 5)
PIP = Command("pip-conf", ("sh", "-c", "cat /etc/pip.conf 2>/dev/null; true"), 5)


@dataclass(frozen=True)
class Account:
    """Numbers of a user and of the group of that name; None where there is none."""

    uid: int | None
    gid: int | None


def users_command(names: tuple[str, ...]) -> Command:
    """Asks for users and groups of these names."""
    script = 'echo "== passwd"; getent passwd "$@"; echo "== group"; getent group "$@"; true'
    return Command("site-users", ("sh", "-c", script, "sh", *names), 10)


def trust_command(names: tuple[str, ...]) -> Command:
    """Asks whether the CAs of these names are in the trust store."""
    return Command("ca-trust", ("sh", "-c", _TRUST, "sh", *names), 20)


def sources_command(names: tuple[str, ...]) -> Command:
    """Asks for address and key of package sources."""
    return Command("package-sources", ("sh", "-c", _SOURCES, "sh", *names), 10)


def hosts_command(names: tuple[str, ...]) -> Command:
    """Asks what the hosts' names stand for."""
    return Command("host-names", ("sh", "-c", _HOSTS, "sh", *names), 30)


def packages_command(names: tuple[str, ...]) -> Command:
    """Asks Debian's dpkg for the state of packages."""
    query = "dpkg-query -W -f '${Package} ${db:Status-Status}\\n' \"$@\" 2>/dev/null; true"
    return Command("packages", ("sh", "-c", query, "sh", *names), 20)


def accounts(evidence: Evidence, name: str) -> Account:
    """The numbers of `name`."""
    found = sections("getent", output(evidence, "site-users"))
    return Account(_number(found, "passwd", name), _number(found, "group", name))


def _number(found: dict[str, list[str]], kind: str, name: str) -> int | None:
    if kind not in found:
        raise unreadable("getent", "", f"no {kind} section")
    for line in found[kind]:
        fields = line.split(":")
        if len(fields) < 4 or not fields[2].isdecimal():
            raise unreadable("getent", line)
        if fields[0] == name:
            return int(fields[2])
    return None


def trusted(evidence: Evidence, name: str) -> bool:
    """Whether the CA is in the trust store."""
    return "trusted" in _section("CA trust", output(evidence, "ca-trust"), name)


def source(evidence: Evidence, name: str) -> tuple[str, str, bool]:
    """Address, key file and whether the key is there; empty where there is no such source."""
    found = _section("package sources", output(evidence, "package-sources"), name)
    values = dict(line.split("=", 1) for line in found if "=" in line)
    return values.get("uri", ""), values.get("key", ""), "key-there" in found


def addresses(evidence: Evidence, name: str) -> tuple[str, ...]:
    """Addresses that the host knows under `name`."""
    return tuple(_section("getent ahosts", output(evidence, "host-names"), name))


def package_states(evidence: Evidence) -> dict[str, str]:
    """State of the packages asked for; one that dpkg does not know is not in it."""
    found = {}
    for line in lines("dpkg-query", output(evidence, "packages")):
        name, space, state = line.partition(" ")
        if not space:
            raise unreadable("dpkg-query", line)
        found[name] = state
    return found


def proxy_files(evidence: Evidence) -> dict[str, Folder | None]:
    """Owner and mode of the files that may hold the credentials of the proxy."""
    return parse_stat(output(evidence, PROXY.key))


def pip_index(evidence: Evidence) -> str:
    """The index that pip uses; empty for its own."""
    text = [line for line in lines("pip.conf", output(evidence, PIP.key)) if "=" in line]
    values = pairs("pip.conf", "".join(line.replace(" = ", "=", 1) + "\n" for line in text).encode())
    return values.get("index-url", "")


def clock(evidence: Evidence) -> tuple[bool, float | None]:
    """Whether the clock follows a time server, and its offset in seconds where chrony knows it."""
    found = sections("clock", output(evidence, CLOCK.key))
    if found.get("ntp") not in (["yes"], ["no"]):
        raise unreadable("timedatectl", " ".join(found.get("ntp", [])))
    if not found.get("chrony"):
        return found["ntp"] == ["yes"], None
    fields = found["chrony"][0].split(",")
    if len(fields) < 14:
        raise unreadable("chronyc", found["chrony"][0])
    try:
        offset = float(fields[4])
    except ValueError:
        raise unreadable("chronyc", fields[4], "no offset") from None
    return fields[13] == "Normal" and fields[2] != "0", offset


def firewall(evidence: Evidence) -> dict[str, list[str]]:
    """What ufw, firewalld and nftables say; a part is empty when that one is not there."""
    return sections("firewall", output(evidence, FIREWALL.key))


def _section(tool: str, raw: bytes, name: str) -> list[str]:
    found = sections(tool, raw)
    if name not in found:
        raise unreadable(tool, name, "not asked for")
    return found[name]
