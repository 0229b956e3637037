"""apply meets trouble before it begins, on real machines: every reason is said at once, and nothing is changed."""

from __future__ import annotations

import re
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.containers.container import Container
from tests.containers.site import FD, Site, state

USER, PASSWORD = "engineer", "Sudo-Marker 7f3c"
# A package whose scripts fail: dpkg leaves it half-installed.
_HALF = r"""set -e
d=$(mktemp -d) && mkdir -p $d/DEBIAN
printf 'Package: llmhw-half\nVersion: 1\nArchitecture: all\nMaintainer: x <x@example.org>\nDescription: x\n' \
  >$d/DEBIAN/control
for s in preinst postrm; do printf '#!/bin/sh\nexit 1\n' >$d/DEBIAN/$s; chmod 755 $d/DEBIAN/$s; done
dpkg-deb -b $d /root/half.deb >/dev/null
dpkg -i /root/half.deb || true"""
_LATE = '#!/bin/sh\nexec faketime -f +1h /usr/bin/date "$@"\n'
_HOLD = (
    "import fcntl, time; f = open('/var/lib/dpkg/lock-frontend', 'w'); fcntl.lockf(f, fcntl.LOCK_EX); time.sleep(600)"
)


_SSHD = """sed -i '/PasswordAuthentication/d' /etc/ssh/sshd_config
echo 'PasswordAuthentication yes' >>/etc/ssh/sshd_config
systemctl restart ssh"""


@pytest.fixture(scope="module")
def site(module_container: Container, tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("faults") / "site", [module_container]).planned()


def test_all_reasons_are_said_at_once_and_nothing_is_changed(site: Site) -> None:
    (container,) = site.containers
    container.run("apt-get install -y --no-install-recommends faketime", timeout=300)
    before = state(container)
    container.run(_HALF)
    (container.root / "usr/local/bin/date").write_text(_LATE)
    (container.root / "usr/local/bin/date").chmod(0o755)
    container.run("echo 'deb http://127.0.0.1:9/debian bookworm main' >/etc/apt/sources.list.d/dead.list")
    container.run("mount -t tmpfs -o size=8M tmpfs /opt")
    container.run("hostname nameless")
    container.run(f'setsid python3 -c "{_HOLD}" >/dev/null 2>&1 & sleep 1')
    container.run("setsid script -qc 'sleep 600' /dev/null >/dev/null 2>&1 & sleep 1")
    disturbed = state(container)
    done = site.call("apply", "--yes")
    assert done.returncode == 3, done.stderr
    name = container.name
    for words in (
        rf"error: {name}: the clock is right: 36\d\d s ahead of the clock here; expected within 60 s\nhint: set it",
        rf"error: {name}: no package left half-way: left half-way: llmhw-half; .*\nhint: dpkg --configure -a",
        rf"error: {name}: nobody else installs packages: held: /var/lib/dpkg/lock-frontend by python3 \(pid \d+\)",
        rf"error: {name}: package sources answer: http://127\.0\.0\.1:9/debian/dists/bookworm/InRelease: .*[Cc]onnect",
        rf"error: {name}: room for the installation: /opt has 8\.0 MiB free, 1\.0 GiB are needed for /opt",
        rf"error: {name}: nobody is logged in at a terminal: root on pts/\d+; .*\nhint: .*--allow-interrupt",
        rf"warning: {name}: the host knows its own name: nameless has no address",
        r"preflight  2\d checks on 1 host  6 problems, nothing was changed",
    ):
        assert re.search(words, done.stderr), f"{words}\n{done.stderr}"
    assert state(container) == disturbed
    assert "llmhw-half" not in before
    assert not list((site.folder / "runs").glob("*-apply*"))
    (kept,) = (site.folder / "runs").glob("*-preflight")
    assert (kept / "evidence" / f"{name}.json").is_file()

    container.run("pkill python3; pkill script; umount /opt")
    container.run("rm /usr/local/bin/date /etc/apt/sources.list.d/dead.list")
    container.run(f"hostname {name}; rm -f /var/lib/dpkg/info/llmhw-half.*; dpkg --purge --force-all llmhw-half")


def test_a_host_key_that_changed_is_named_and_nothing_is_sent(site: Site) -> None:
    (container,) = site.containers
    known = site.folder / "known_hosts"
    text = known.read_text()
    other = container.run("ssh-keygen -q -t ed25519 -N '' -f /root/other; cut -d' ' -f1,2 /root/other.pub").stdout
    subprocess.run(["ssh", "-F", str(site.folder / "ssh_config"), "-O", "exit", container.name], capture_output=True)
    known.write_text(f"{container.address} {other}")
    done = site.call("apply", "--yes")
    known.write_text(text)
    assert done.returncode == 3
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert "its host key is not the one accepted before; it now shows SHA256:" in line


def test_a_second_apply_is_refused_and_the_first_one_finishes(site: Site) -> None:
    (container,) = site.containers
    with site.start("apply", "--yes") as first:
        _until(lambda: "nvme_raid0" in _log(site))
        second = site.call("apply", "--yes")
        assert second.returncode == 1
        assert f"is already at work on this site: pid {first.pid}, " in second.stderr
        _, err = first.communicate(timeout=300)
    assert first.returncode == 0, err
    assert f"$ cd {site.folder} && ANSIBLE_CONFIG=" in err
    listed = site.runs("list")
    assert re.search(rf"-apply +done +\w+ +\d+:\d\d +{container.name} done", listed)
    assert "command.txt" in site.runs("show")
    record = container.run("stat -c %a /etc/llmhw/applied.json; cat /etc/llmhw/applied.json").stdout
    assert record.startswith("644\n")
    assert site.result()["plan"] in record
    assert (site.last() / "applied" / f"{container.name}.json").is_file()


@pytest.fixture
def watched() -> Iterator[list[str]]:
    """Every process of this machine, so of the containers too, that ever shows the password."""
    seen: list[str] = []
    over = threading.Event()

    def look() -> None:
        mark = PASSWORD.encode()
        while not over.is_set():
            for name in ("cmdline", "environ"):
                for path in Path("/proc").glob(f"[0-9]*/{name}"):
                    try:
                        if mark in path.read_bytes():
                            seen.append(str(path))
                    except OSError:
                        continue
            time.sleep(0.05)

    watcher = threading.Thread(target=look)
    watcher.start()
    yield seen
    over.set()
    watcher.join()


def test_passwords_work_once_for_ssh_always_for_sudo_and_are_seen_nowhere(
    site: Site, tmp_path: Path, watched: list[str]
) -> None:
    (container,) = site.containers
    container.run(f"useradd -m -s /bin/bash {USER} && chpasswd", given=f"{USER}:{PASSWORD}\n")
    container.run(f"echo '{USER} ALL=(ALL) ALL' >/etc/sudoers.d/{USER}\n{_SSHD}")
    key = tmp_path / "keys" / "id"
    key.parent.mkdir()
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    other = Site(tmp_path / "site", [container], user=USER, key=str(key))

    wrong = other.call("discover", "--accept-host-keys", "--password-fd", FD, secret="no")
    assert wrong.returncode == 3
    assert f"does not let {USER} in with that password" in wrong.stderr
    right = other.call("discover", "--password-fd", FD, secret=PASSWORD)
    assert "sudo: a password is required" in right.stderr
    assert container.run(f"cat /home/{USER}/.ssh/authorized_keys").stdout == key.with_suffix(".pub").read_text()
    other.planned("--become-pass-fd", FD, secret=PASSWORD)

    wrong = other.call("apply", "--yes", "--become-pass-fd", FD, secret="no")
    assert wrong.returncode == 3
    assert "sudo does not accept that password" in wrong.stderr
    right = other.call("apply", "--yes", "--become-pass-fd", FD, secret=PASSWORD)
    assert right.returncode == 0, right.stderr
    assert "--ask-become-pass" in (other.last() / "command.txt").read_text()
    text = right.stdout + right.stderr + wrong.stderr
    assert PASSWORD not in text
    files = [path for path in other.folder.rglob("*") if path.is_file()]
    assert len(files) > 10
    assert [path for path in files if PASSWORD.encode() in path.read_bytes()] == []
    assert watched == []
    open_to_others = [p for p in (other.folder / "runs").iterdir() if p.is_dir() and p.stat().st_mode & 0o077]
    assert open_to_others == []


def _log(site: Site) -> str:
    return "".join(path.read_text() for path in (site.folder / "runs").glob("*-apply*/ansible.log"))


def _until(condition: object) -> None:
    deadline = time.monotonic() + 120
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.1)
