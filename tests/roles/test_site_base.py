"""The role site_base in containers: check, apply, apply; refusals; secrets; checks that fail on what is broken."""

import base64
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from llmhw_provision.plan.model import RoleConfigs
from llmhw_provision.plan.roles_base import (
    AptMirror,
    Certificate,
    Firewall,
    HostEntry,
    Proxy,
    ServiceUser,
    SiteBaseConfig,
)
from tests.containers.commands import call
from tests.containers.container import Container
from tests.containers.play import Result, ansible
from tests.containers.plugin import StartMany
from tests.rehearsal.gpu.deb import Package
from tests.rehearsal.gpu.repository import publish
from tests.rehearsal.gpu.signing import Key
from tests.roles.checked import amiss

pytestmark = pytest.mark.container

WRITE, SERVE = "Write users, CAs, package sources, proxy, hosts and Python index", "Let chrony follow"
MARKER = "pa55/w0rd&MARKER"
STATE = """find /etc /usr/local -xdev -not -path '/etc/ssh/*' -printf '%p %m %u %g %l\\n' | sort
find /etc /usr/local -xdev -type f -exec sha256sum {} + | sort; getent passwd group; dpkg-query -W
systemctl show --property=Environment; nft list ruleset 2>/dev/null; true"""
NOTHING = SiteBaseConfig(
    certificates=(),
    apt_mirrors=(),
    dnf_mirrors=(),
    mirrors_only=False,
    host_entries=(),
    time_servers=(),
    packages=(),
    users=(),
    firewall=Firewall(ports=(), sources=()),
)


def site(**changes: Any) -> SiteBaseConfig:
    return NOTHING.model_copy(update=changes)


def apply(machines: Any, config: SiteBaseConfig, *, check: bool = False, **more: Any) -> Result:
    return ansible(machines, "site_base", {"site_base_config": config.model_dump(mode="json")}, check=check, **more)


def actions(result: Result) -> list[str]:
    """What the role's modules did or would do, in order."""
    return [action for event in result.events for action in event.result.get("actions", ())]


def signed_archive(folder: Path, *options: str) -> tuple[Path, Path]:
    """A signed apt archive with the package llmhw-probe, and the key; `options` of gpg for the making of the key."""
    key = Key.make(folder / "gnupg", *options)
    probe = Package("llmhw-probe", "1.0", "probe", architecture="all")
    made = publish(folder / "archive", [probe], key=key)
    key.close()
    return made.folder, made.key_file


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """A signed apt archive with one package, its key, and a CA."""
    folder = tmp_path_factory.mktemp("repository")
    archive, key = signed_archive(folder)
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=Site CA"]
    call(*request, "-keyout", str(folder / "ca.key"), "-out", str(folder / "ca.pem"))
    return {"archive": archive, "key": key, "ca": folder / "ca.pem"}


def served(container: Container, archive: Path, key: Path) -> AptMirror:
    """The archive as a mirror that the container itself serves."""
    shutil.copytree(archive, container.root / "srv/archive", dirs_exist_ok=True)
    if container.run("systemctl is-active archive", check=False).returncode:
        container.run("systemd-run --unit=archive --working-directory=/srv/archive python3 -m http.server 8000")
        container.run("until curl -fs http://127.0.0.1:8000/InRelease >/dev/null; do sleep 0.1; done")
    return AptMirror(name="mirror", uri="http://127.0.0.1:8000", suites=("./",), components=(), key_file=str(key))


def whole_site(container: Container, repository: Mapping[str, Path]) -> SiteBaseConfig:
    """Everything a site can ask for, on one host; the archive is served by the container itself."""
    mirror = served(container, repository["archive"], repository["key"])
    return site(
        certificates=(Certificate(name="site", file=str(repository["ca"])),),
        apt_mirrors=(mirror,),
        python_index="https://pypi.example.org/simple",
        proxy=Proxy(url="http://proxy.example.org:3128", no_proxy=("127.0.0.1", "deb.debian.org")),
        host_entries=(HostEntry(name="node8", address="192.0.2.8"), HostEntry(name="node9", address="192.0.2.9")),
        packages=("llmhw-probe",),
        users=(ServiceUser(name="slurm", uid=64030, gid=64030), ServiceUser(name="munge", uid=64130, gid=64130)),
    )


@pytest.mark.parametrize("suite", ["bookworm", pytest.param("trixie", marks=pytest.mark.proof)])
def test_check_apply_apply(containers: StartMany, repository: Mapping[str, Path], suite: str) -> None:
    (container,) = containers(1, suite=suite)
    config = whole_site(container, repository)
    before = container.run(STATE).stdout
    foreseen = apply(container, config, check=True)
    assert container.run(STATE).stdout == before
    done = apply(container, config)
    assert actions(foreseen) == actions(done)
    assert set(foreseen.changed) == set(done.changed)
    assert actions(done)[:2] == ["add user slurm with uid 64030", "add user munge with uid 64130"]
    assert {"write /etc/apt/sources.list.d/llmhw-site-mirror.sources", "add the CAs to the trust store"} <= set(
        actions(done)
    )
    settled = container.run(STATE).stdout
    assert settled != before
    assert apply(container, config).changed == ()
    assert apply(container, config, check=True).changed == ()
    assert container.run(STATE).stdout == settled

    assert container.run("getent hosts node9").stdout.split() == ["192.0.2.9", "node9"]
    assert container.run("id -u slurm; id -g munge").stdout.split() == ["64030", "64130"]
    assert "http_proxy=http://proxy.example.org:3128" in container.run("systemctl show -P Environment").stdout
    assert "100" not in container.run("apt-cache policy llmhw-probe | grep Installed").stdout
    assert "1.0" in container.run("apt-cache policy llmhw-probe").stdout
    trusted = (
        "openssl verify -CAfile /etc/ssl/certs/ca-certificates.crt /usr/local/share/ca-certificates/llmhw-site.crt"
    )
    assert container.run(trusted).stdout.endswith(": OK\n")
    assert "https://pypi.example.org/simple" in container.run("cat /etc/pip.conf /etc/uv/uv.toml").stdout

    roles = RoleConfigs(site_base=config)
    assert amiss(container, roles) == {}
    container.run("groupmod -g 903 munge; userdel slurm; sed -i '/node9/d' /etc/hosts; rm /etc/pip.conf")
    container.run(
        "rm /etc/apt/keyrings/llmhw-site-mirror.asc; dpkg -r llmhw-probe; : > /etc/ssl/certs/ca-certificates.crt"
    )
    assert set(amiss(container, roles)) == {
        "base-user slurm",
        "base-user munge",
        "base-names",
        "base-ca site",
        "base-source mirror",
        "base-package llmhw-probe",
        "base-index",
    }
    container.run("groupmod -g 64130 munge")  # apply never renumbers
    apply(container, config)
    assert amiss(container, roles) == {}

    # what the site no longer asks for goes away; users stay, they may own files
    apply(container, NOTHING)
    gone = container.run("ls -d /etc/apt/*/*llmhw* /etc/apt/sources.list.d/llmhw* /etc/pip.conf", check=False).stdout
    assert gone == ""
    assert container.run("getent hosts node9", check=False).returncode == 2
    assert "proxy" not in container.run("systemctl show -P Environment").stdout
    assert container.run("id -u slurm").stdout == "64030\n"
    assert apply(container, NOTHING).changed == ()


def test_a_site_that_asks_for_nothing_changes_nothing(container: Container) -> None:
    before = container.run(STATE).stdout
    result = apply(container, NOTHING)
    assert result.changed == ()
    assert container.run(STATE).stdout == before
    remote = ("gather_facts", "ansible.builtin.gather_facts", "site_base", "site_services")
    assert [event.action for event in result.events if event.action in remote] == ["gather_facts", *remote[2:]]


def test_what_is_taken_or_contradicted_is_refused_and_nothing_changed(container: Container) -> None:
    container.run("groupadd -g 64031 ceph && useradd -u 64030 -g 64031 -M ceph && useradd -u 901 munge")
    container.run("echo '192.0.2.77 node8' >> /etc/hosts; cp /etc/apt/sources.list /root/before")
    before = container.run(STATE).stdout
    mirror = AptMirror(
        name="d", uri="http://deb.debian.org/debian/", suites=("bookworm",), components=("main",), key_file="/dev/null"
    )
    config = site(
        users=(ServiceUser(name="slurm", uid=64030, gid=64031), ServiceUser(name="munge", uid=64130, gid=64130)),
        host_entries=(HostEntry(name="node8", address="192.0.2.8"),),
        apt_mirrors=(mirror,),
    )
    result = apply(container, config, may_fail=True)
    (message,) = result.failed
    for words in (
        "uid 64030 for slurm is taken by ceph",
        "gid 64031 for slurm is taken by ceph",
        "munge has uid 901, planned is 64130",
        "/etc/hosts says node8 is 192.0.2.77, the plan says 192.0.2.8",
        "already names http://deb.debian.org/debian/",
        "nothing was changed",
    ):
        assert words in message
    assert container.run(STATE).stdout == before


def test_credentials_of_the_proxy_reach_root_alone(container: Container, tmp_path: Path) -> None:
    secret = tmp_path / "proxy.secret"
    secret.write_text(f"joe:{MARKER}\n")
    config = site(
        proxy=Proxy(url="http://127.0.0.1:3129", no_proxy=(), credentials_file=str(secret)), packages=("tree",)
    )
    secret.chmod(0o644)
    refused = apply(container, config, may_fail=True)
    assert "has mode 0644; chmod 0600" in refused.failed[0]
    assert MARKER not in refused.stdout + refused.stderr + repr(refused.events)

    # a proxy that notes who asked, and how apt looks in the process list meanwhile
    container.run("cat > /root/proxy.py", given=_PROXY)
    container.run("systemd-run --unit=proxy python3 /root/proxy.py; systemd-run --unit=watch sh -c "
                  "'while :; do cat /proc/[0-9]*/cmdline >> /root/seen 2>/dev/null; sleep 0.05; done'")  # fmt: skip
    container.run("until ss -ltn | grep -q :3129; do sleep 0.1; done")
    secret.chmod(0o600)
    result = apply(container, config, arguments=["-vvv"], may_fail=True)  # the proxy serves nothing: tree cannot come
    assert "tree" in result.failed[0]
    container.run("systemctl stop watch")
    encoded = quote(MARKER, safe="")
    for text in (result.stdout, result.stderr, repr(result.events), container.run("journalctl -b --no-pager").stdout):
        assert MARKER not in text
        assert encoded not in text
    assert container.run(["grep", "-c", "-a", "-e", MARKER, "-e", encoded, "/root/seen"], check=False).stdout == "0\n"
    basic = base64.b64encode(f"joe:{MARKER}".encode()).decode()
    assert f"Proxy-Authorization: Basic {basic}" in container.run("cat /root/asked").stdout
    found = container.run(
        f"grep -rlF -e '{MARKER}' -e '{encoded}' /etc /usr/local /var /root /run 2>/dev/null", check=False
    )
    paths = found.stdout.split()
    assert sorted(paths) == ["/etc/apt/apt.conf.d/30llmhw-proxy", "/etc/llmhw/proxy.env"]
    assert container.run(["stat", "-c", "%a %U", *paths]).stdout == "600 root\n" * 2
    assert "MARKER" not in container.run("systemctl show -P Environment; runuser -u nobody env").stdout

    assert list(amiss(container, RoleConfigs(site_base=config))) == ["base-package tree"]
    container.run("chmod 0644 /etc/llmhw/proxy.env")
    assert amiss(container, RoleConfigs(site_base=config))["base-credentials"].startswith("fail: /etc/llmhw/proxy.env")
    wanted = config.model_copy(update={"packages": ()})
    assert actions(apply(container, wanted)) == ["give /etc/llmhw/proxy.env to root with mode 0600"]
    open_proxy = wanted.model_copy(update={"proxy": Proxy(url="http://127.0.0.1:3129", no_proxy=())})
    apply(container, open_proxy)
    assert MARKER not in container.run("cat /etc/llmhw/proxy.env /etc/apt/apt.conf.d/30llmhw-proxy").stdout
    assert "http_proxy=http://127.0.0.1:3129" in container.run("systemctl show -P Environment").stdout


def test_a_mirror_that_is_signed_by_another_key_is_refused(
    container: Container, repository: Mapping[str, Path], tmp_path: Path
) -> None:
    config = whole_site(container, repository)
    other = Key.make(tmp_path / "gnupg")
    (tmp_path / "other.asc").write_text(other.armoured)
    other.close()
    mirror = config.apt_mirrors[0].model_copy(update={"key_file": str(tmp_path / "other.asc")})
    result = apply(container, site(apt_mirrors=(mirror,)), may_fail=True)
    assert "apt-get update failed" in result.failed[0]
    assert "NO_PUBKEY" in result.failed[0]
    assert apply(container, site(apt_mirrors=config.apt_mirrors)).status == 0  # the right key: finished by the next run


def test_a_ca_is_trusted_also_where_the_program_for_it_comes_with_this_run(
    container: Container, repository: Mapping[str, Path]
) -> None:
    container.run("dpkg --purge --force-depends ca-certificates && apt-get update -q")
    config = site(certificates=(Certificate(name="site", file=str(repository["ca"])),))
    done = apply(container, config, arguments=["--tags", "site_base"])
    assert "Install what is missing on Debian" in " ".join(done.changed)
    assert amiss(container, RoleConfigs(site_base=config)) == {}
    assert apply(container, config).changed == ()


def test_only_the_sites_mirror_is_left(container: Container, repository: Mapping[str, Path]) -> None:
    config = site(
        apt_mirrors=whole_site(container, repository).apt_mirrors, mirrors_only=True, packages=("llmhw-probe",)
    )
    assert "set /etc/apt/sources.list aside" in actions(apply(container, config))
    assert "deb.debian.org" not in container.run("apt-get indextargets").stdout
    assert "deb.debian.org" in container.run("cat /etc/apt/sources.list.llmhw-aside").stdout
    assert apply(container, config).changed == ()


_PROXY = """import socket
with socket.create_server(("127.0.0.1", 3129)) as server:
    while True:
        client, _ = server.accept()
        asked = client.recv(65536)
        open("/root/asked", "ab").write(asked)
        client.sendall(b"HTTP/1.1 503 nothing here\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n")
        client.close()
"""
