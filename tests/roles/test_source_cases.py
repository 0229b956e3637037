"""Public failures of package sources and of Ansible, seeded again: what happens without our rule, and what we say."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.containers.container import Container
from tests.containers.mirror import Mirror
from tests.containers.play import ansible
from tests.containers.site import Site
from tests.roles.test_site_base import apply, served, signed_archive, site

pytestmark = pytest.mark.proof

REPO = Path(__file__).resolve().parents[2]
_PYENV = '#!/bin/sh\necho "pyenv: python3.13: command not found" >&2\nexit 127\n'
_TWO_KEYS = """cd /etc/apt/sources.list.d
echo 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://127.0.0.1:8000 ./' >cuda.list
echo 'deb [signed-by=/etc/apt/keyrings/other.gpg] http://127.0.0.1:8000 ./' >cuda-debian12.list"""
_VAR = "mount -t tmpfs -o size=6G tmpfs /mnt && cp -a /var/. /mnt && mount --bind /mnt /var && umount /mnt"
_FILL = """[ -e /root/filled ] && exit 0
touch /root/filled; dd if=/dev/zero of=/var/filler bs=1M 2>/dev/null; true"""


@pytest.mark.container(suite="trixie")
def test_an_archive_whose_key_is_bound_by_sha1_is_refused_on_debian_13(container: Container, tmp_path: Path) -> None:
    """cuda-repo-management 39: apt 3 calls the archive not signed, and the reason hides in a long message."""
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    old = signed_archive(tmp_path / "old", "--cert-digest-algo", "SHA1")
    said = apply(container, site(apt_mirrors=(served(container, *old),)), may_fail=True).failed[0]
    assert "apt-get update failed" in said
    assert "SHA1 is not considered secure since 2026-02-01T00:00:00Z" in said
    new = signed_archive(tmp_path / "new")
    assert apply(container, site(apt_mirrors=(served(container, *new),))).failed == ()


@pytest.mark.container(suite="trixie")
def test_debian_13_has_no_gpg_and_no_apt_key_and_needs_none(container: Container, tmp_path: Path) -> None:
    """ansible 85656: the module apt_repository needs them."""
    assert container.run("command -v gpg apt-key", check=False).stdout == ""
    task = [{"name": "add", "apt_repository": {"repo": "ppa:example/tiny", "update_cache": False}}]
    assert ansible(container, task, may_fail=True).failed
    mirror = served(container, *signed_archive(tmp_path))
    assert apply(container, site(apt_mirrors=(mirror,), packages=("llmhw-probe",))).failed == ()
    assert "installed" in container.run("dpkg-query -W -f '${db:Status-Status}' llmhw-probe").stdout


def test_two_keys_for_one_archive_are_named_before_anything_is_done(container: Container, tmp_path: Path) -> None:
    """cuda-repo-management 4: an old list beside the one of the vendor's keyring package."""
    lab = Site(tmp_path / "site", [container]).planned()
    container.run(_TWO_KEYS)
    done = lab.call("apply", "--yes")
    assert done.returncode == 3
    said = "package sources answer: sources: Conflicting values set for option Signed-By regarding source http://127.0"
    assert said in done.stderr, done.stderr
    mirror = served(container, *signed_archive(tmp_path))
    container.run("rm /etc/apt/sources.list.d/cuda-debian12.list")
    (said,) = apply(container, site(apt_mirrors=(mirror,)), may_fail=True).failed
    assert "/etc/apt/sources.list.d/cuda.list:1 already names http://127.0.0.1:8000; apt would call the keys" in said


def test_a_python_that_is_first_in_the_path_and_does_not_run(container: Container, tmp_path: Path) -> None:
    """Seen on a build image: Ansible's own search ends at a shim of pyenv; our inventory names the system's Python."""
    for name in ("python3", "python3.13"):
        (container.root / "usr/local/bin" / name).write_text(_PYENV)
        (container.root / "usr/local/bin" / name).chmod(0o755)
    found = ansible(container, [{"name": "look", "ping": {}}], host_variables=_auto(container), may_fail=True)
    assert "command not found" in found.failed[0] + found.stdout
    done = Site(tmp_path / "site", [container]).planned().call("apply", "--yes")
    assert done.returncode == 0, done.stderr


def test_what_ansible_took_away_is_not_used(container: Container, tmp_path: Path) -> None:
    """ansible 85775 and 86757: conditions that are no truth values, and the connection plugin paramiko."""
    condition = [{"name": "text", "ping": {}, "when": "'text'"}]
    assert "boolean" in ansible(container, condition, may_fail=True).failed[0]
    lab = Site(tmp_path / "site", [container]).planned()
    hosts = yaml.safe_load((lab.folder / "inventory/hosts.yml").read_text())
    text = yaml.safe_dump(hosts) + "".join(p.read_text() for p in (lab.folder / "inventory").rglob("*.yml"))
    assert "paramiko" not in text
    assert "ALLOW_BROKEN_CONDITIONALS" not in "".join(p.read_text() for p in REPO.glob("llmhw_provision/run/*.py"))


def test_var_runs_full_in_the_middle_of_an_installation(container: Container, tmp_path: Path) -> None:
    container.run(_VAR)
    lab = Site(tmp_path / "site", [container])
    given = yaml.safe_load((lab.folder / "site.yaml").read_text())
    (lab.folder / "site.yaml").write_text(yaml.safe_dump({**given, "site_base": {"packages": ["llmhw-tiny"]}}))
    lab.planned()
    with Mirror.of(container, preinst=_FILL):
        container.run("apt-get update -q")
        done = lab.call("apply", "--yes")
        assert done.returncode == 4, done.stderr
        assert "No space left on device" in done.stderr
        assert "hint: make room there: df -h on the host shows which file system is full" in done.stderr
        assert "task: site_base · Install what is missing on Debian and its relatives" in done.stderr
        container.run("rm /var/filler")
        done = lab.call("apply", "--yes", "--resume")
        assert done.returncode == 0, done.stderr
        assert container.run("dpkg --audit; dpkg-query -W -f '${db:Status-Status}' llmhw-tiny").stdout == "installed"
        assert lab.call("apply", "--yes").returncode == 0
        assert lab.result()["changes"] == []


_INSTALL = "apt-get install -y --no-install-recommends -o DPkg::NoTriggers=true -o DPkg::ConfigurePending=false"
_KILL = f"""DEBIAN_FRONTEND=noninteractive setsid {_INSTALL} mdadm xfsprogs >/dev/null 2>&1 &
until pgrep -x dpkg >/dev/null; do :; done; sleep {{after}}
pkill -9 "^(apt-get|dpkg|dpkg-deb|tar)$"; sleep 0.3; true"""
_LEFT = (
    """dpkg-query -W -f '${db:Status-Abbrev}${Package}\\n' | grep -e '^i[HUF]' -e '^..R'; ls /var/lib/dpkg/updates"""
)
_ONCE = "[ -e /root/killed ] && exit 0; touch /root/killed; kill -9 $PPID"
_MOMENTS = [number / 100 for number in (0, 2, 5, 20)]
_MODULES = {"name": "the modules and what they share", "import_role": {"name": "host_modules"}}


def test_a_dpkg_that_was_killed_at_any_moment_is_finished_by_the_next_run(container: Container) -> None:
    tasks = [_MODULES, {"name": "install", "deferred_packages": {"name": ["mdadm", "xfsprogs"]}}]
    container.run("apt-get update -q && " + _INSTALL + " --download-only mdadm xfsprogs", timeout=300)
    container.run("rm -rf /root/debs; cp -a /var/cache/apt/archives /root/debs")
    for after in _MOMENTS:
        container.run(_KILL.format(after=after))
        assert ansible(container, tasks, facts=False).failed == ()
        assert container.run(_LEFT).stdout == ""
        container.run("dpkg --purge --force-all mdadm xfsprogs; cp -a /root/debs/. /var/cache/apt/archives")


def test_a_package_that_was_left_half_installed_is_installed_anew(container: Container) -> None:
    """For apt it is there, in its newest version: without --reinstall it stays as it is."""
    tasks = [_MODULES, {"name": "install", "deferred_packages": {"name": ["llmhw-tiny"]}}]
    with Mirror.of(container, preinst=_ONCE):
        container.run("apt-get update -q; apt-get install -y llmhw-tiny", check=False)
        container.run("dpkg --set-selections </dev/null")
        assert container.run("dpkg-query -W -f '${db:Status-Abbrev}' llmhw-tiny").stdout == "iHR"
        assert ansible(container, tasks, facts=False).failed == ()
        assert container.run(_LEFT).stdout == ""


def _auto(container: Container) -> dict[str, dict[str, str]]:
    return {container.name: {"ansible_python_interpreter": "auto"}}
