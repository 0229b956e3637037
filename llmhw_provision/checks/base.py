"""What the site asks of every host: users, names, CAs, package sources, proxy, clock, firewall."""

from __future__ import annotations

from llmhw_provision.checks.model import Check, Outcome, compared, failed, passed, warned
from llmhw_provision.checks.views import NotThere
from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.plan.roles_base import SiteBaseConfig
from llmhw_provision.probes import base, nftables
from llmhw_provision.probes.reading import unreadable

# munge refuses credentials that are minutes old; a warning long before that
_CLOCK_WARN_S, _CLOCK_FAIL_S = 0.1, 1.0


def _config(host: HostPlan) -> SiteBaseConfig:
    if host.roles.site_base is None:
        raise NotThere("site_base is not planned for this host")
    return host.roles.site_base


def _debian(host: HostPlan) -> bool:
    return any(name in host.os for name in ("Debian", "Ubuntu"))


def _users(host: HostPlan) -> tuple[str, ...]:
    return tuple(user.name for user in host.roles.site_base.users) if host.roles.site_base else ()


def _names(host: HostPlan) -> tuple[str, ...]:
    return _when(host, "host_entries")


def _certificates(host: HostPlan) -> tuple[str, ...]:
    return tuple(item.name for item in host.roles.site_base.certificates) if host.roles.site_base else ()


def _addresses_of_sources(host: HostPlan) -> dict[str, str]:
    if host.roles.site_base is None:
        return {}
    if _debian(host):
        return {mirror.name: mirror.uri for mirror in host.roles.site_base.apt_mirrors}
    return {mirror.name: mirror.url for mirror in host.roles.site_base.dnf_mirrors}


def _sources(host: HostPlan) -> tuple[str, ...]:
    return tuple(_addresses_of_sources(host))


def _packages(host: HostPlan) -> tuple[str, ...]:
    return host.roles.site_base.packages if host.roles.site_base and _debian(host) else ()


def _when(host: HostPlan, key: str) -> tuple[str, ...]:
    return ("",) if host.roles.site_base and getattr(host.roles.site_base, key) else ()


def _proxy(host: HostPlan) -> tuple[str, ...]:
    config = host.roles.site_base
    return ("",) if config and config.proxy and config.proxy.credentials_file else ()


def _ports(host: HostPlan) -> tuple[str, ...]:
    return ("",) if host.roles.site_base and host.roles.site_base.firewall.ports else ()


def user(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """The user and its group have the planned numbers."""
    wanted = next(item for item in _config(host).users if item.name == subject)
    found = base.accounts(evidence, subject)
    expected = f"uid {wanted.uid}, gid {wanted.gid}"
    if found.uid is None:
        return failed("no such user", expected, "absent")
    return compared(f"uid {found.uid}, gid {found.gid if found.gid is not None else 'none'}", expected)


def names(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Each name of a host of the site stands for its address, also on that host itself."""
    entries = _config(host).host_entries
    found = {entry.name: base.addresses(evidence, entry.name) for entry in entries}
    expected = f"{len(entries)} names, each for its address"
    wrong = [
        f"{entry.name} is {', '.join(found[entry.name]) or 'unknown'}, not {entry.address}"
        for entry in entries
        if entry.address not in found[entry.name]
    ]
    if wrong:
        return failed("; ".join(wrong[:3]) + (f"; {len(wrong) - 3} more" if len(wrong) > 3 else ""), expected)
    loops = [name for name, known in found.items() if any(item.startswith("127.") or item == "::1" for item in known)]
    return warned(f"{', '.join(loops)} is also loopback", expected, "loopback") if loops else passed(expected, expected)


def certificate(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The CA is in the trust store."""
    return passed("trusted", "trusted") if base.trusted(evidence, subject) else failed("not trusted", "trusted")


def source(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:
    """The package source has the planned address and accepts one key, which is there."""
    wanted = _addresses_of_sources(host)[subject]
    uri, key, there = base.source(evidence, subject)
    expected = f"{wanted}, signed by a key of its own"
    if not uri:
        return failed("no such source", expected)
    if uri != wanted:
        return failed(uri, expected)
    return (
        passed(f"{uri}, {key}", expected)
        if key and there
        else failed(f"{uri}, key {key or 'not named'} missing", expected)
    )


def package(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The package is installed; one whose triggers were put off is configured all the same."""
    found = base.package_states(evidence).get(subject, "not installed")
    done = found in ("installed", "triggers-pending", "triggers-awaited")
    return passed(found, "installed") if done else failed(found, "installed")


def credentials(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The files with the credentials of the proxy are root's, and nobody else reads them."""
    wanted = [path for path in base.CREDENTIALS if _debian(host) or "/apt/" not in path]
    found = base.proxy_files(evidence)
    expected = "root, mode 0600"
    for path in wanted:
        there = found.get(path)
        if there is None:
            return failed(f"{path} is not there", expected)
        if (there.owner, there.mode) != ("root", 0o600):
            return failed(f"{path}: {there.owner}, mode {there.mode:04o}", expected, "open")
    return passed(expected, expected)


def python_index(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """pip takes packages from the site's index."""
    return compared(base.pip_index(evidence) or "the public index", str(_config(host).python_index))


def clock(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The clock follows a time server and is right to a fraction of a second."""
    follows, offset = base.clock(evidence)
    expected = f"synchronised, less than {_CLOCK_FAIL_S:g} s off"
    if not follows:
        return failed("not synchronised", expected)
    if offset is None:
        return passed("synchronised by the site's own service", expected)
    found = f"synchronised, {abs(offset):.3f} s off"
    if abs(offset) >= _CLOCK_FAIL_S:
        return failed(found, expected)
    return warned(found, expected) if abs(offset) >= _CLOCK_WARN_S else passed(found, expected)


def firewall(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Where a firewall drops, the planned ports are open for the hosts of the site."""
    config, found = _config(host).firewall, base.firewall(evidence)
    expected = f"{', '.join(config.ports)} open for {len(config.sources)} hosts"
    if found.get("ufw"):
        lines = [line for line in found["ufw"] if "llmhw" in line]
        closed = [source for source in config.sources if not any(f"from {source} " in line for line in lines)]
        return (
            failed(f"ufw lets nothing in from {', '.join(closed[:3])}", expected) if closed else passed("ufw", expected)
        )
    if found.get("firewalld"):
        text = "\n".join(found["firewalld"])
        lacking = [port for port in config.ports if f'port="{port.partition("/")[0]}"' not in text]
        return failed(f"firewalld: not {', '.join(lacking)}", expected) if lacking else passed("firewalld", expected)
    if "nft" not in found:
        raise unreadable("nft", "", "cut off")
    gates = nftables.gates("\n".join(found["nft"]))
    for gate in gates:
        closed = [
            f"{port} from {source}"
            for source in config.sources
            for port in config.ports
            if (source, port) not in gate.opens and _speaks(gate.name, source)
        ]
        if not gate.jumps or closed:
            return failed(f"{gate.name} drops {', '.join(closed[:3]) if gate.jumps else 'all of them'}", expected)
    return passed(", ".join(gate.name for gate in gates) or "no firewall drops", expected)


def _speaks(gate: str, address: str) -> bool:
    """Whether a table of that family sees packets from that address."""
    return gate.partition(" ")[0] in ("inet", "ip6" if ":" in address else "ip")


def commands(host: HostPlan) -> tuple[Command, ...]:
    """What must be read on the host to answer these checks."""
    wanted: list[Command] = []
    for names, command in (
        (_users(host), base.users_command),
        (_certificates(host), base.trust_command),
        (_sources(host), base.sources_command),
        (_packages(host), base.packages_command),
    ):
        wanted += [command(names)] if names else []
    if _names(host):
        wanted.append(base.hosts_command(tuple(entry.name for entry in _config(host).host_entries)))
    wanted += [base.PROXY] if _proxy(host) else []
    wanted += [base.PIP] if _when(host, "python_index") else []
    wanted += [base.CLOCK] if _when(host, "time_servers") else []
    return (*wanted, base.FIREWALL) if _ports(host) else tuple(wanted)


def _index(host: HostPlan) -> tuple[str, ...]:
    return _when(host, "python_index")


def _time(host: HostPlan) -> tuple[str, ...]:
    return _when(host, "time_servers")


_PAGE, _WALL = "site-base", "site-firewall"
CHECKS = (
    Check("base-user", "base", ("quick",), "major", _PAGE, "site-users", _users, user),
    Check("base-names", "base", ("quick",), "major", _PAGE, "host-names", _names, names),
    Check("base-ca", "base", ("quick",), "major", _PAGE, "ca-trust", _certificates, certificate),
    Check("base-source", "base", ("quick",), "major", _PAGE, "package-sources", _sources, source),
    Check("base-package", "base", ("quick",), "minor", _PAGE, "packages", _packages, package),
    Check("base-credentials", "base", ("quick",), "critical", _PAGE, "proxy-files", _proxy, credentials),
    Check("base-index", "base", ("quick",), "minor", _PAGE, "pip-conf", _index, python_index),
    Check("base-clock", "base", ("quick",), "major", _PAGE, "clock", _time, clock),
    Check("base-firewall", "base", ("quick",), "major", _WALL, "firewall", _ports, firewall),
)
