"""The role host_tuning in containers: check, apply, apply, restart; limits through every door; GRUB's old entry."""

from collections.abc import Mapping
from typing import Any

import pytest

from llmhw_provision.plan.model import RoleConfigs
from llmhw_provision.plan.roles_base import HostTuningConfig, Limits
from tests.containers.container import Container
from tests.containers.play import Result, ansible
from tests.containers.plugin import StartMany
from tests.roles.checked import amiss

pytestmark = pytest.mark.container

CONFIG = HostTuningConfig(
    profile="server",
    sysctl={"net.core.somaxconn": "8192", "vm.swappiness": "10", "no.such.key": "1"},
    # lower than what a container begins with: not every machine that runs tests may raise limits
    limits=Limits(memlock_kib=4096, nofile_soft=2048, nofile_hard=16384),
    governor="as-found",
    hugepages="as-found",
    command_line=("iommu=pt", "transparent_hugepage=madvise"),
    acs="report",
    mask=("sleep.target", "suspend.target"),
)
STATE = """find /etc /boot -xdev -not -path '/etc/ssh/*' -printf '%p %m %u %l\\n' | sort
find /etc /boot -xdev -type f -exec sha256sum {} + | sort; sysctl -n net.core.somaxconn vm.swappiness
systemctl show --property=DefaultLimitMEMLOCK,DefaultLimitNOFILE,DefaultLimitNOFILESoft
ls /run/llmhw 2>/dev/null; true"""


def apply(container: Container, config: HostTuningConfig = CONFIG, *, check: bool = False, **more: Any) -> Result:
    variables: Mapping[str, Any] = {"host_tuning_config": config.model_dump(mode="json")}
    return ansible(container, "host_tuning", variables, check=check, **more)


def answer(result: Result, key: str) -> list[str]:
    return [item for event in result.events for item in event.result.get(key, ())]


# Of the kernel's settings a container may write only those of its own network, and nspawn takes these too.
_NET = "mount -t proc proc /mnt && mount --bind /mnt/sys/net /proc/sys/net && umount /mnt"


@pytest.mark.parametrize("suite", ["bookworm", pytest.param("trixie", marks=pytest.mark.proof)])
def test_check_apply_apply_restart(containers: StartMany, suite: str) -> None:
    (container,) = containers(1, suite=suite, options=("--capability=CAP_NET_ADMIN",))
    container.run(_NET)
    before = container.run(STATE).stdout
    foreseen = apply(container, check=True)
    assert container.run(STATE).stdout == before
    done = apply(container)
    assert answer(done, "actions") == answer(foreseen, "actions") == [
        "write /etc/sysctl.d/90-llmhw.conf",
        "write /etc/security/limits.d/90-llmhw.conf",
        "write /etc/systemd/system.conf.d/90-llmhw.conf",
        "link /etc/systemd/system/sleep.target to /dev/null",
        "link /etc/systemd/system/suspend.target to /dev/null",
        "set net.core.somaxconn to 8192",
        "let systemd read its limits again",
    ]  # fmt: skip
    assert answer(done, "notes") == [
        "no.such.key: this kernel has no such setting",
        "vm.swappiness: belongs to the host of this container",
        "command line: this host has no boot loader of its own; nothing was done",
    ]
    assert (
        len([event for event in done.events if event.status != "skipped"]) <= 5
    )  # one of them on the machine, and one for its facts
    assert apply(container).changed == ()
    assert apply(container, check=True).changed == ()

    def as_wanted() -> None:
        assert container.run("sysctl -n net.core.somaxconn").stdout == "8192\n"
        shell = "ulimit -l; ulimit -Sn; ulimit -Hn"
        for door in ("su -s /bin/sh nobody -c", "systemd-run --quiet --pipe --wait sh -c"):
            assert container.run(f"{door} '{shell}'").stdout.split() == ["4096", "2048", "16384"]
        assert container.run("systemctl is-enabled suspend.target", check=False).stdout == "masked\n"
        assert "masked" in container.run("systemctl start suspend.target", check=False).stderr

    as_wanted()
    container.restart()
    container.run(_NET + "; /usr/lib/systemd/systemd-sysctl")  # what boot does, once the settings can be written
    as_wanted()
    assert apply(container, check=True).changed == ()

    container.run("sysctl -qw net.core.somaxconn=128; rm /etc/systemd/system.conf.d/90-llmhw.conf")
    container.run("systemctl daemon-reexec; systemctl unmask suspend.target")
    assert answer(apply(container), "actions") == [
        "write /etc/systemd/system.conf.d/90-llmhw.conf",
        "link /etc/systemd/system/suspend.target to /dev/null",
        "set net.core.somaxconn to 8192",
        "let systemd read its limits again",
    ]
    as_wanted()
    roles = RoleConfigs(host_tuning=CONFIG)
    elsewhere = {"tuning-sysctl vm.swappiness", "tuning-sysctl no.such.key", "tuning-command-line"}  # its host's
    assert set(amiss(container, roles)) == elsewhere
    container.run("sysctl -qw net.core.somaxconn=128; rm /etc/systemd/system/suspend.target; systemctl daemon-reload")
    container.run("rm /etc/security/limits.d/90-llmhw.conf")
    broken = {"tuning-sysctl net.core.somaxconn", "tuning-sleep suspend.target", "tuning-limits"}
    assert set(amiss(container, roles)) == elsewhere | broken
    awake = CONFIG.model_copy(update={"mask": (), "sysctl": {}})
    assert "remove /etc/systemd/system/sleep.target" in answer(apply(container, awake), "actions")
    assert apply(container, awake).changed == ()


# Debian's own form; update-grub here does what grub-mkconfig does with GRUB_CMDLINE_LINUX, no more.
_GRUB_CFG = """### BEGIN /etc/grub.d/10_linux ###
menuentry 'Debian GNU/Linux' --class debian $menuentry_id_option 'gnulinux-simple-8d3b' {
\tload_video
\tif [ x$feature_platform_search_hint = xy ]; then
\t  search --no-floppy --fs-uuid --set=root 8d3b
\tfi
\techo\t'Loading Linux 6.1.0-50-amd64 ...'
\tlinux\t/boot/vmlinuz-6.1.0-50-amd64 root=UUID=8d3b ro CMDLINE quiet
\tinitrd\t/boot/initrd.img-6.1.0-50-amd64
}
submenu 'Advanced options for Debian GNU/Linux' { true
}
"""
_UPDATE = """#!/bin/sh
GRUB_CMDLINE_LINUX=consoleblank=0
for f in /etc/default/grub.d/*.cfg; do [ -e "$f" ] && . "$f"; done
sed "s|CMDLINE|$GRUB_CMDLINE_LINUX|" /root/grub.cfg > /boot/grub/grub.cfg
"""


def test_the_old_boot_entry_is_kept_until_the_new_one_has_booted(container: Container) -> None:
    for path, text in {"root/grub.cfg": _GRUB_CFG, "usr/local/sbin/update-grub": _UPDATE}.items():
        (container.root / path).write_text(text)
    container.run("chmod 0755 /usr/local/sbin/update-grub; mkdir -p /boot/grub /etc/default/grub.d; update-grub")
    container.run("echo '# by the site' > /boot/grub/custom.cfg")
    config = CONFIG.model_copy(update={"sysctl": {}, "mask": ()})
    before = container.run(STATE).stdout
    foreseen = answer(apply(container, config, check=True), "actions")
    assert container.run(STATE).stdout == before
    assert foreseen[-2:] == [
        "keep the boot entry from before",
        "add iommu=pt transparent_hugepage=madvise to the kernel command line",
    ]
    assert answer(apply(container, config), "actions") == foreseen
    cfg, custom = (container.run(f"cat /boot/grub/{name}.cfg").stdout for name in ("grub", "custom"))
    assert "ro consoleblank=0 iommu=pt transparent_hugepage=madvise quiet" in cfg
    assert custom.startswith("# by the site\n# BEGIN llmhw-provision\nmenuentry 'Before llmhw-provision")
    assert "--id llmhw-before {" in custom
    assert "root=UUID=8d3b ro consoleblank=0 quiet" in custom
    assert custom.count("{") == custom.count("}") == 1
    reason = container.run("cat /run/llmhw/reboot-required.d/host_tuning").stdout
    assert reason == "the kernel runs without iommu=pt transparent_hugepage=madvise\n"
    assert apply(container, config).changed == ()

    # by hand: the drop-in is there, grub.cfg was written without it; the oldest entry stays the kept one
    container.run("rm /etc/default/grub.d/zz-llmhw.cfg && update-grub")
    apply(container, config)
    assert container.run("cat /boot/grub/custom.cfg").stdout == custom
    assert "iommu=pt" in container.run("cat /boot/grub/grub.cfg").stdout

    # the boot that shows that it works
    container.run("echo 'ro iommu=pt transparent_hugepage=madvise quiet' > /run/cmdline")
    container.run("mount --bind /run/cmdline /proc/cmdline")
    assert answer(apply(container, config), "actions") == [
        "drop the boot entry from before: this boot has shown that the new one works"
    ]
    assert container.run("cat /boot/grub/custom.cfg").stdout == "# by the site\n"
    assert container.run("ls /run/llmhw/reboot-required.d").stdout == ""
    assert apply(container, config).changed == ()
    apply(container, config.model_copy(update={"command_line": ()}))
    assert "iommu" not in container.run("cat /boot/grub/grub.cfg").stdout


def test_acs_off_is_a_boot_unit_that_a_virtual_machine_never_runs(container: Container) -> None:
    config = CONFIG.model_copy(update={"acs": "clear", "command_line": (), "sysctl": {}, "mask": ()})
    foreseen = apply(container, config, check=True)
    assert answer(foreseen, "missing")[:1] == ["pciutils"]
    done = apply(container, config)
    assert "clear ACS above GPUs and NICs" in answer(done, "actions")
    assert "ACS: never cleared in a virtual machine, whose isolation it may be" in answer(done, "notes")
    container.run(
        "systemd-analyze verify /etc/systemd/system/llmhw-acs.service; systemctl is-enabled llmhw-acs; which setpci"
    )
    assert apply(container, config).changed == ()
