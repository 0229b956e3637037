"""The role tmpfs in a Debian 12 container: check, apply, apply; resized; kept over a restart; what it refuses."""

from typing import Any

import pytest

from tests.containers.container import Container
from tests.containers.play import Result, ansible

pytestmark = pytest.mark.container

TASK = "tmpfs : Mount the memory file systems by systemd units"
STATE = "find /etc/systemd/system /hot /srv -xdev -printf '%p %l %m\n' | sort; findmnt -rno TARGET,OPTIONS /hot"


def apply(container: Container, size_mib: int = 64, *, path: str = "/hot", check: bool = False, **more: Any) -> Result:
    mount = {"path": path, "size_mib": size_mib, "mode": "1777", "options": ["noexec", "huge=within_size"]}
    config = {"tmpfs_config": {"mounts": [mount]}}
    return ansible(container, "tmpfs", config, facts=False, check=check, **more)


def changes(container: Container, result: Result) -> tuple[str, ...]:
    """What the one task of the role did, after a look that no other task changed anything."""
    assert set(result.changed) <= {f"{container.name}: {TASK}"}
    (event,) = result.of(TASK)
    return tuple(event.result["actions"])


def test_check_apply_apply_resize_restart(module_container: Container) -> None:
    container = module_container
    before = container.run(STATE, check=False).stdout
    foreseen = changes(container, apply(container, check=True))
    assert container.run(STATE, check=False).stdout == before
    assert foreseen == (
        "make the mount point /hot",
        "make the folder under /hot immutable",
        "write /etc/systemd/system/hot.mount",
        "enable hot.mount",
        "mount /hot",
    )
    assert changes(container, apply(container)) == foreseen
    options = container.run("findmnt -no OPTIONS /hot").stdout.strip().split(",")
    assert {"size=65536k", "nosuid", "nodev", "noexec", "huge=within_size"} <= set(options)
    container.run("systemd-analyze verify /etc/systemd/system/hot.mount")
    assert apply(container).changed == ()
    assert apply(container, check=True).changed == ()

    container.run("echo kept > /hot/file")
    foreseen = changes(container, apply(container, 128, check=True))
    assert foreseen == ("write /etc/systemd/system/hot.mount", "remount /hot with size=128M")
    assert changes(container, apply(container, 128)) == foreseen
    assert container.run("findmnt -no OPTIONS /hot; cat /hot/file").stdout.split(",")[-1].endswith("kept\n")
    assert "size=131072k" in container.run("findmnt -no OPTIONS /hot").stdout
    assert apply(container, 128).changed == ()

    container.restart()
    assert "size=131072k" in container.run("findmnt -no OPTIONS /hot").stdout
    assert apply(container, 128, check=True).changed == ()


def test_by_hand_changes_are_put_right(module_container: Container) -> None:
    apply(module_container, 128)
    module_container.run("systemctl disable --now hot.mount && chattr -i /hot")
    assert changes(module_container, apply(module_container, 128)) == (
        "make the folder under /hot immutable",
        "enable hot.mount",
        "mount /hot",
    )
    module_container.run("mount -o remount,size=1M,exec /hot && chmod 0700 /hot")
    assert changes(module_container, apply(module_container, 128)) == (
        "remount /hot with size=128M, noexec",
        "give /hot to root:root with mode 1777",
    )


def test_without_the_mount_nobody_can_write_there(module_container: Container) -> None:
    apply(module_container, 128)
    module_container.run("systemctl stop hot.mount")
    assert "Operation not permitted" in module_container.run("touch /hot/file", check=False).stderr
    apply(module_container, 128)
    module_container.run("touch /hot/file")


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        ("mkdir -p /srv/a && touch /srv/a/important", "already holds files (important)"),
        ("mkdir -p /srv/a && mount --bind /srv/a /srv/a", "is the mount point of"),
        ("mkdir -p /srv/a && echo 'x /srv/a tmpfs noauto 0 0' >> /etc/fstab", "is a mount of /etc/fstab"),
        ("rm -rf /srv/a && touch /srv/a", "is not a folder"),
    ],
    ids=["files", "mounted", "fstab", "no-folder"],
)
def test_it_refuses_what_is_not_its_own(module_container: Container, prepare: str, words: str) -> None:
    module_container.run(prepare)
    before = module_container.run(STATE, check=False).stdout
    result = apply(module_container, path="/srv/a", may_fail=True)
    assert words in result.failed[0]
    assert "nothing was changed" in result.failed[0]
    assert module_container.run(STATE, check=False).stdout == before
    module_container.run("umount /srv/a 2>/dev/null; rm -rf /srv/a; sed -i '/srv.a/d' /etc/fstab")
