"""Clock and firewall of site_base: planned ports open for the site's hosts only, site rules kept, over reload."""

from collections.abc import Sequence

import pytest

from llmhw_provision.plan.model import RoleConfigs
from llmhw_provision.plan.roles_base import Firewall
from tests.containers.container import Container
from tests.containers.plugin import StartMany
from tests.roles.checked import amiss
from tests.roles.test_site_base import NOTHING, STATE, actions, apply, site

pytestmark = pytest.mark.container

_ADMIN = ("--capability=CAP_NET_ADMIN",)  # nspawn with a network of its own does not give it
# What a careful administrator would have: everything dropped but ssh from anywhere and one service of his own.
SITE_RULES = """#!/usr/sbin/nft -f
flush ruleset
table inet filter {
    chain input {
        type filter hook input priority filter; policy drop;
        ct state established,related accept
        iif "lo" accept
        tcp dport { 22, 8080 } accept comment "site rule"
    }
    chain forward { type filter hook forward priority filter; policy drop; }
}
"""


def serve(container: Container, *ports: int) -> None:
    for port in ports:
        container.run(f"systemd-run --unit=serve{port} python3 -m http.server {port}")
        container.run(f"until ss -ltn | grep -q :{port}; do sleep 0.1; done")


def reaches(source: Container, target: Container, port: int) -> bool:
    done = source.run(f"curl -s -m 3 -o /dev/null http://{target.address}:{port}/", check=False)
    return done.returncode == 0


def opened(*machines: Container, ports: Sequence[str] = ("6000-6002/tcp",)) -> Firewall:
    return Firewall(ports=tuple(ports), sources=tuple(sorted(machine.address for machine in machines)))


def test_a_dropping_nftables_lets_the_sites_hosts_in_and_nobody_else(containers: StartMany) -> None:
    first, second, third = containers(3, options=_ADMIN)
    first.run("apt-get update -q && apt-get install -yq --no-install-recommends nftables")
    (first.root / "etc/nftables.conf").write_text(SITE_RULES)
    first.run("systemctl enable --now nftables")
    serve(first, 6001, 7001)
    assert not reaches(second, first, 6001)
    config = site(firewall=opened(first, second))
    rules = first.run("nft list chain inet filter input").stdout

    before = first.run(STATE).stdout
    foreseen = apply(first, config, check=True)
    assert first.run(STATE).stdout == before
    done = apply(first, config)
    assert actions(foreseen) == actions(done)
    assert actions(done)[-1] == "open 6000-6002/tcp for 2 hosts in inet filter"
    assert apply(first, config).changed == ()

    def as_wanted() -> None:
        assert reaches(second, first, 6001)
        assert not reaches(second, first, 7001)  # not a planned port
        assert not reaches(third, first, 6001)  # not a host of the site
        now = first.run("nft list chain inet filter input").stdout.splitlines()
        assert [line for line in now if "jump llmhw" not in line] == rules.splitlines()
        assert sum("jump llmhw" in line for line in now) == 1

    as_wanted()
    roles = RoleConfigs(site_base=config)
    assert amiss(first, roles) == {}
    first.run("nft flush chain inet filter llmhw")
    assert amiss(first, roles)["base-firewall"].startswith("fail: inet filter input drops 6000-6002/tcp from ")
    first.run("systemctl reload nftables")
    as_wanted()
    first.run("systemctl restart nftables")
    as_wanted()
    first.restart()
    serve(first, 6001, 7001)
    as_wanted()
    assert apply(first, config, check=True).changed == ()

    first.run("nft flush chain inet filter llmhw")
    assert actions(apply(first, config)) == ["open 6000-6002/tcp for 2 hosts in inet filter"]
    as_wanted()
    apply(first, site(firewall=opened(first, third)))
    assert reaches(third, first, 6001)
    assert not reaches(second, first, 6001)

    apply(first, NOTHING)
    assert first.run("nft list chain inet filter input").stdout == rules
    assert first.run("cat /etc/nftables.conf").stdout == SITE_RULES
    assert first.run("ls /etc/systemd/system/nftables.service.d", check=False).stdout == ""


@pytest.mark.proof
def test_rules_that_another_service_loads_are_followed_by_a_unit_of_ours(containers: StartMany) -> None:
    first, second = containers(2, options=_ADMIN)
    first.run("apt-get update -q && apt-get install -yq --no-install-recommends nftables")
    unit = "[Unit]\nBefore=llmhw-firewall.service\n[Service]\nType=oneshot\nRemainAfterExit=yes\n"
    unit += "ExecStart=/usr/sbin/nft -f /root/rules\n[Install]\nWantedBy=multi-user.target\n"
    (first.root / "etc/systemd/system/site-rules.service").write_text(unit)
    # no policy: the last rule rejects, behind a jump
    (first.root / "root/rules").write_text(
        "table ip own {\nchain last {\ncounter reject\n}\nchain incoming {\ntype filter hook input priority 0;\n"
        "ct state established accept\ntcp dport 22 accept\njump last\n}\n}\n"
    )
    first.run("systemctl enable --now site-rules")
    serve(first, 6001)
    assert not reaches(second, first, 6001)
    apply(first, site(firewall=opened(first, second)))
    assert reaches(second, first, 6001)
    first.restart()
    serve(first, 6001)
    assert reaches(second, first, 6001)


@pytest.mark.proof
def test_ufw_lets_the_sites_hosts_in_beside_the_sites_own_rules(containers: StartMany) -> None:
    first, second, third = containers(3, options=_ADMIN)
    first.run("apt-get update -q && apt-get install -yq --no-install-recommends ufw iptables")
    first.run("ufw allow 22/tcp && ufw allow 8080/tcp comment 'site rule' && ufw --force enable")
    serve(first, 6001)
    config = site(firewall=opened(first, second))
    assert not reaches(second, first, 6001)
    assert amiss(first, RoleConfigs(site_base=config))["base-firewall"].startswith("fail: ufw lets nothing in")
    before = first.run(STATE).stdout
    foreseen = actions(apply(first, config, check=True))
    assert first.run(STATE).stdout == before
    assert actions(apply(first, config)) == foreseen
    assert apply(first, config).changed == ()
    assert (reaches(second, first, 6001), reaches(third, first, 6001)) == (True, False)
    assert amiss(first, RoleConfigs(site_base=config)) == {}
    first.run("ufw reload")
    assert (reaches(second, first, 6001), reaches(third, first, 6001)) == (True, False)
    assert "site rule" in first.run("ufw show added").stdout
    apply(first, NOTHING)
    assert "llmhw" not in first.run("ufw show added").stdout


@pytest.mark.proof
def test_firewalld_gets_a_policy_of_ours_and_its_zones_stay(containers: StartMany) -> None:
    first, second, third = containers(3, options=_ADMIN)
    first.run("apt-get update -q && apt-get install -yq --no-install-recommends firewalld netbase")
    first.run("firewall-cmd --permanent --add-port=8080/tcp && firewall-cmd --reload")
    serve(first, 6001)
    config = site(firewall=opened(first, second))
    assert not reaches(second, first, 6001)
    zones = first.run("cat /etc/firewalld/zones/*; firewall-cmd --permanent --list-all-zones").stdout
    first.run("firewall-cmd --add-port=9090/tcp")
    assert "rules that a reload would lose" in apply(first, config, may_fail=True).failed[0]
    assert first.run("ls /etc/firewalld/policies").stdout == ""
    first.run("firewall-cmd --reload")
    apply(first, config)
    assert apply(first, config).changed == ()
    assert (reaches(second, first, 6001), reaches(third, first, 6001)) == (True, False)
    assert first.run("cat /etc/firewalld/zones/*; firewall-cmd --permanent --list-all-zones").stdout == zones
    assert amiss(first, RoleConfigs(site_base=config)) == {}
    first.restart()
    serve(first, 6001)
    assert (reaches(second, first, 6001), reaches(third, first, 6001)) == (True, False)


def test_without_a_firewall_none_is_switched_on(container: Container) -> None:
    before = container.run(STATE).stdout
    assert apply(container, site(firewall=Firewall(ports=("22/tcp",), sources=("192.0.2.1",)))).changed == ()
    assert container.run(STATE).stdout == before


# chronyd is started for real, but with -x: the clock of the container is that of this machine.
_DROP_IN = "[Unit]\nConditionCapability=\n[Service]\nExecStart=\nExecStart=!/usr/sbin/chronyd -F 0 -x\nType=forking\n"


def test_chrony_follows_the_sites_servers(container: Container) -> None:
    folder = container.root / "etc/systemd/system/chrony.service.d"
    folder.mkdir()
    (folder / "container.conf").write_text(_DROP_IN)
    config = site(time_servers=("192.0.2.123",))
    foreseen = apply(container, config, check=True)
    assert "start chrony.service" in actions(foreseen)
    apply(container, config)
    assert apply(container, config).changed == ()
    assert "192.0.2.123" in container.run("chronyc -c -N sources").stdout
    more = site(time_servers=("192.0.2.123", "192.0.2.124"))
    assert actions(apply(container, more)) == [
        "write /etc/chrony/sources.d/llmhw.sources",
        "let chrony read its servers again",
    ]
    assert "192.0.2.124" in container.run("chronyc -c -N sources").stdout
    container.run("systemctl disable --now chrony")
    assert actions(apply(container, more)) == ["enable chrony.service", "start chrony.service"]


def test_a_containers_clock_is_its_hosts(container: Container) -> None:
    result = apply(container, site(time_servers=("192.0.2.123",)))
    (event,) = result.of("open planned ports where a firewall drops")
    assert event.result["notes"] == ["the clock belongs to the host of this container"]
    assert apply(container, site(time_servers=("192.0.2.123",))).changed == ()
