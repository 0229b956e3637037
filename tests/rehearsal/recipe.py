"""What is in the box: packages, users, units. A change here, in ``guest/`` or in image.py makes a new box."""

import shutil
import subprocess
from pathlib import Path

from tests.rehearsal.errors import RehearsalError
from tests.rehearsal.settings import cache_dir

SUITE = "bookworm"
BOARDS = Path(__file__).parent / "gpu/hardware"
HOSTNAME = "rehearsal"
PACKAGES = (
    "systemd", "systemd-sysv", "dbus", "udev", "kmod", "procps", "iproute2", "iputils-ping", "e2fsprogs",
    "openssh-server", "sudo", "python3", "python3-apt", "ca-certificates",
    "linux-image-amd64", "linux-headers-amd64", "gcc", "g++", "make", "initramfs-tools", "lz4", "grub-pc",
)  # fmt: skip
# What roles install: downloaded into the box, so that apt really installs them but fetches nothing.
ROLE_PACKAGES = ("mdadm", "xfsprogs", "dkms", "pciutils")
# What foreign.py unpacks beside the system to make the signatures of other people's disks; never installed.
FOREIGN_PACKAGES = ("btrfs-progs", "cryptsetup-bin", "fdisk", "lvm2")
# Background work of a long-lived server that would only compete with a rehearsal for two emulated cores.
_DISABLED = (
    "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer",
    "e2scrub_reap.service", "systemd-pstore.service", "getty@tty1.service",
)  # fmt: skip
# Small services without meaning for a rehearsal that cannot be disabled, only masked. Not masked: whatever
# a role may touch or a reboot needs (udev, logind, D-Bus, fstrim.timer, hugepages, mdmonitor).
_MASKED = (
    "kmod-static-nodes.service", "modprobe@configfs.service", "modprobe@dm_mod.service",
    "modprobe@drm.service", "modprobe@efi_pstore.service", "modprobe@fuse.service", "modprobe@loop.service",
    "proc-sys-fs-binfmt_misc.automount", "serial-getty@ttyS0.service", "sys-kernel-debug.mount",
    "sys-kernel-tracing.mount", "systemd-binfmt.service", "systemd-network-generator.service",
    "systemd-random-seed.service", "systemd-update-utmp-runlevel.service", "systemd-update-utmp.service",
)  # fmt: skip


def prepare(root: Path, disk_uuid: str) -> None:
    """Users, keys, host name, file systems, units and the package cache of the guest."""
    (root / "etc/hostname").write_text(f"{HOSTNAME}\n")
    (root / "etc/hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {HOSTNAME}\n")
    (root / "etc/fstab").write_text(f"UUID={disk_uuid} / ext4 errors=remount-ro,noatime 0 1\n")
    (root / "etc/machine-id").write_text("")
    (root / "etc/sudoers.d/vagrant").chmod(0o440)
    _chroot(root, "useradd", "-m", "-s", "/bin/bash", "vagrant")
    home = root / "home/vagrant/.ssh"
    home.mkdir(mode=0o700)
    shutil.copy(vagrant_key().with_suffix(".pub"), home / "authorized_keys")
    _chroot(root, "chown", "-R", "vagrant:vagrant", "/home/vagrant/.ssh")
    _chroot(root, "ssh-keygen", "-A")
    _chroot(root, "debconf-set-selections", text="grub-pc grub-pc/install_devices multiselect /dev/vda\n")
    _chroot(root, "systemctl", "disable", *_DISABLED)
    _chroot(root, "systemctl", "mask", *_MASKED)
    _chroot(root, "systemctl", "enable", "systemd-networkd")
    _chroot(root, "systemctl", "set-default", "multi-user.target")
    _add_boards(root)
    _fill_archive(root)


def _add_boards(root: Path) -> None:
    """Build the module that shows GPU boards (gpu/hardware) for the guest's kernel and put it into its initramfs."""
    source, release = root / "usr/src/llmhw-rehearsal-pci", kernel(root)
    shutil.copytree(BOARDS, source)
    _chroot(root, "make", "-C", f"/lib/modules/{release}/build", "M=/usr/src/llmhw-rehearsal-pci", "modules")
    target = root / f"usr/lib/modules/{release}/updates"
    target.mkdir()
    shutil.copy(source / "llmhw_rehearsal_pci.ko", target)
    shutil.rmtree(source)
    _chroot(root, "depmod", release)
    _chroot(root, "update-initramfs", "-u", "-k", release)


def _fill_archive(root: Path) -> None:
    """Leave in the apt archive exactly what installing the roles' and the foreign packages would download."""
    cached = cache_dir() / "archives" / SUITE
    archives = root / "var/cache/apt/archives"
    for deb in archives.glob("*.deb"):
        deb.unlink()
    wanted = ["apt-get", "install", "--no-install-recommends", "-y", *ROLE_PACKAGES, *FOREIGN_PACKAGES]
    listed = _chroot(root, *wanted, "--print-uris", "-qq").stdout
    names = [line.split()[1] for line in listed.splitlines() if line.startswith("'")]
    for name in names:
        if (cached / name).exists():
            shutil.copy(cached / name, archives)
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    _chroot(root, *wanted, "--download-only")
    for name in names:
        shutil.copy(archives / name, cached)
    # The guest asks the dnsmasq of its own network; a copy of the host's servers would tie the box to it.
    (root / "etc/resolv.conf").write_text("nameserver 192.168.157.1\n")


def kernel(root: Path) -> str:
    return next((root / "boot").glob("vmlinuz-*")).name.removeprefix("vmlinuz-")


def arguments(root: Path) -> str:
    script = '. /etc/default/grub.d/rehearsal.cfg; echo "$GRUB_CMDLINE_LINUX $GRUB_CMDLINE_LINUX_DEFAULT"'
    return _chroot(root, "sh", "-c", script).stdout.strip()


def _chroot(root: Path, *command: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(["chroot", str(root), *command], input=text, capture_output=True, text=True)
    if done.returncode != 0:
        raise RehearsalError(f"in the box: {' '.join(command)} failed:\n{done.stderr}", "read the output above")
    return done


def vagrant_key() -> Path:
    """Vagrant's well-known private key (its public half lies beside it)."""
    found = sorted(Path("/usr/share/rubygems-integration/all/gems").glob("vagrant-2*/keys/vagrant"))
    if not found:
        raise RehearsalError("Vagrant's key pair is missing", "python -m tests.rehearsal packages")
    return found[-1]
