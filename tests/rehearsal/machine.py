"""The rehearsal machine as an object with a lifetime: up, reboot, power cut, pulled drives, gone."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.rehearsal import box, host, layout, recipe
from tests.rehearsal.errors import RehearsalError
from tests.rehearsal.settings import REPO, STATE, cache_dir, load_env_file

_QEMU_NAMESPACE = "http://libvirt.org/schemas/domain/qemu/1.0"
_TOOLS = ("vagrant", "virsh", "libvirtd", "qemu-system-x86_64", "ssh", "mkfs.ext4")
_SSH_CONFIG = """\
Host {alias}
  HostName {address}
  Port {port}
  User {user}
  IdentityFile {identity}
  IdentitiesOnly yes
  UserKnownHostsFile {known_hosts}
  StrictHostKeyChecking yes
  ConnectTimeout 5
  ServerAliveInterval 15
  ServerAliveCountMax 8
  ControlMaster auto
  ControlPath {control}/%C
  ControlPersist 300
  LogLevel ERROR
"""
BOOT_SECONDS = 300.0


def missing() -> str | None:
    """Why no rehearsal machine can run here, in words; None when it can."""
    if os.geteuid() != 0:
        return "the rehearsal machine needs root (it starts libvirt)"
    absent = [tool for tool in _TOOLS if shutil.which(tool) is None]
    return f"not installed: {', '.join(absent)} (python -m tests.rehearsal packages)" if absent else None


class Machine:
    """One virtual machine per host. As a context manager it is gone at the end, also after a failure.

    `further` drives are plugged in beside the usual nine from the first start on. `product` is one of
    layout.PRODUCTS: the machine then shows that product's GPU board; without it, none.
    """

    alias = "rehearsal"
    user = "vagrant"
    port = 22

    def __init__(self, further: tuple[layout.Drive, ...] = (), product: str | None = None) -> None:
        load_env_file()
        self._further = further
        self._product = product
        self._folder = STATE / "ssh"
        self._made_here = False

    @property
    def ssh_config(self) -> Path:
        """An OpenSSH configuration in which the machine is called ``rehearsal``."""
        return self._folder / "config"

    @property
    def identity_file(self) -> Path:
        return self._folder / "id"

    @property
    def known_hosts(self) -> Path:
        return self._folder / "known_hosts"

    @property
    def address(self) -> str:
        """The machine's IPv4 address, from libvirt's DHCP lease."""
        for line in host.virsh("domifaddr", layout.DOMAIN).splitlines():
            if "ipv4" in line:
                return line.split()[-1].partition("/")[0]
        raise RehearsalError("the machine has no address yet", "read the console: .rehearsal/drives/console.log")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._made_here:  # never somebody else's machine, which `up` has refused to replace
            self.destroy()

    def up(self) -> None:
        """Create the machine with fresh drives and wait until ssh answers; nothing is left if that fails."""
        reason = missing()
        if reason:
            raise RehearsalError(reason, "run it as root on Debian 12")
        if host.domain_state():
            raise RehearsalError(f"domain {layout.DOMAIN} exists already", "python -m tests.rehearsal clean")
        self._made_here = True
        try:
            host.start()
            if host.domain_state():
                raise RehearsalError(f"domain {layout.DOMAIN} was left over", "start again: it is removed now")
            layout.remove_images()
            layout.write_product(self._product)
            if self._further:
                layout.write((*layout.drives(), *self._further))
            layout.create_images()
            shutil.rmtree(STATE / "vagrant", ignore_errors=True)
            host.prune_base_images(box.current().name)
            self._vagrant("up", "--provider=libvirt")
            self._write_ssh()
            self._wait_for_boot(None)
        except BaseException:
            self.destroy()
            raise

    def destroy(self) -> None:
        """Remove machine, drives and network, and stop libvirt if it was started for this."""
        previous = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            self._close_connection()
            if host.domain_state() and (STATE / "vagrant").exists():
                self._vagrant("destroy", "--force", check=False)
            host.clean()
            layout.remove_images()
            shutil.rmtree(STATE / "vagrant", ignore_errors=True)
            shutil.rmtree(self._folder, ignore_errors=True)
        finally:
            for number, handler in previous.items():
                signal.signal(number, handler)

    def run(self, command: str, *, check: bool = True, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        """``command`` through the machine's shell; raises when it fails, unless ``check`` is false."""
        done = subprocess.run(
            ["ssh", "-F", str(self.ssh_config), self.alias, command],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False,
        )  # fmt: skip
        if check and done.returncode != 0:
            raise RehearsalError(
                f"on the machine: {command!r} ended with {done.returncode}:\n{done.stdout}{done.stderr}",
                f"ssh -F {self.ssh_config} {self.alias}",
            )
        return done

    def boot_id(self) -> str | None:
        """The kernel's id of this boot; None while ssh does not answer."""
        try:
            done = self.run("cat /proc/sys/kernel/random/boot_id", check=False, timeout=30)
        except subprocess.TimeoutExpired:
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    def reboot(self) -> None:
        """Reboot from inside, as an administrator does, and wait for ssh."""
        before = self.boot_id()
        self.run("sudo systemctl reboot", check=False)
        self._close_connection()
        self._wait_for_boot(before)

    def halt(self) -> None:
        """Shut down from inside."""
        self.run("sudo systemctl poweroff", check=False)
        self._close_connection()
        deadline = time.monotonic() + 120
        while host.domain_state() != "shut off":
            if time.monotonic() > deadline:
                raise RehearsalError("the machine does not shut down within 120 s", "read its console log")
            time.sleep(0.5)

    def start(self) -> None:
        """Start a halted machine with the drives as they are plugged in now, and wait for ssh."""
        domain = ET.fromstring(host.virsh("dumpxml", layout.DOMAIN, "--inactive"))
        ET.register_namespace("qemu", _QEMU_NAMESPACE)
        for old in domain.findall(f"{{{_QEMU_NAMESPACE}}}commandline"):
            domain.remove(old)
        line = ET.SubElement(domain, f"{{{_QEMU_NAMESPACE}}}commandline")
        for argument in layout.qemu_arguments():
            ET.SubElement(line, f"{{{_QEMU_NAMESPACE}}}arg", value=argument)
        definition = STATE / "domain.xml"
        definition.write_text(ET.tostring(domain, encoding="unicode"))
        host.virsh("define", str(definition))
        host.virsh("start", layout.DOMAIN)
        self._wait_for_boot(None)

    def power_cut(self) -> None:
        """Kill QEMU: what the guest had not written out is lost."""
        host.virsh("destroy", layout.DOMAIN)
        self._close_connection()

    def pull(self, serial: str) -> None:
        """Unplug a drive; it is missing from the next start on."""
        self._change(serial, inserted=False)

    def insert(self, serial: str) -> None:
        """Plug a pulled drive back in, for the next start."""
        self._change(serial, inserted=True)

    def move(self, serial: str, slot: int) -> None:
        """Put a drive into another PCI slot, for the next start."""
        self._change(serial, slot=slot)

    def shuffle(self, seed: int) -> None:
        """Deal the PCI slots out anew among all drives, for the next start; equal seeds give equal deals."""
        drives = layout.drives()
        slots = [drive.slot for drive in drives]
        random.Random(seed).shuffle(slots)
        layout.write(tuple(replace(drive, slot=slot) for drive, slot in zip(drives, slots, strict=True)))

    def unplug(self, serial: str) -> None:
        """Take a drive away from the running machine; it is back at the next start unless `pull` says otherwise."""
        link = f"/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_{serial}"
        self.run(f"echo 1 | sudo tee /sys/block/$(basename $(readlink -f {link}))/device/device/remove")

    def exchange(self, serial: str, new_serial: str) -> None:
        """Put a new, empty drive into the slot of ``serial``, for the next start."""
        self._change(serial, serial=new_serial)
        layout.create_images()

    def drive_hashes(self) -> dict[str, str]:
        """SHA-256 of each drive's content by serial, equal for equal bytes (holes count as zeros)."""
        if host.domain_state() == "running":
            self.run("sync")
        return {drive.serial: drive.digest() for drive in layout.drives()}

    def _change(self, present: str, **fields: str | int | bool) -> None:
        drives = layout.drives()
        if present not in {drive.serial for drive in drives}:
            raise RehearsalError(f"no drive {present}", f"use one of {[drive.serial for drive in drives]}")
        layout.write(tuple(replace(d, **fields) if d.serial == present else d for d in drives))  # type: ignore[arg-type]

    def _vagrant(self, *arguments: str, check: bool = True) -> None:
        log = STATE / "up.log"
        environment = {
            **os.environ,
            "VAGRANT_HOME": str(cache_dir() / "vagrant"),
            "VAGRANT_DOTFILE_PATH": str(STATE / "vagrant"),
            "VAGRANT_CHECKPOINT_DISABLE": "1",
            "LLMHW_PYTHON": sys.executable,
        }
        STATE.mkdir(exist_ok=True)
        with log.open("a") as stream:
            # Vagrant dies with this process, also when that is killed.
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "vagrant", *arguments, "--no-color"],
                cwd=REPO, env=environment, start_new_session=True,
                stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT,
            )  # fmt: skip
            try:
                status = process.wait(timeout=900)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                raise
        if check and status != 0:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
            raise RehearsalError(f"vagrant {arguments[0]} failed:\n{tail}", f"read {log}")

    def _write_ssh(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        host.RUN.mkdir(exist_ok=True)
        shutil.copy(recipe.vagrant_key(), self.identity_file)
        self.identity_file.chmod(0o600)
        address = self.address
        if box.current().file.exists() and not os.environ.get("LLMHW_BOX"):
            kind, key, *_ = box.current().host_key.split()
            self.known_hosts.write_text(f"{address} {kind} {key}\n")
        else:
            scan = ["ssh-keyscan", "-t", "ed25519", address]
            self.known_hosts.write_text(subprocess.run(scan, capture_output=True, text=True, check=True).stdout)
        self.ssh_config.write_text(
            _SSH_CONFIG.format(
                alias=self.alias,
                address=address,
                port=self.port,
                user=self.user,
                control=host.RUN,
                identity=self.identity_file,
                known_hosts=self.known_hosts,
            )
        )

    def _wait_for_boot(self, before: str | None) -> None:
        deadline = time.monotonic() + BOOT_SECONDS
        while (now := self.boot_id()) is None or now == before:
            if time.monotonic() > deadline:
                raise RehearsalError(f"no ssh within {BOOT_SECONDS:.0f} s of the start", "read its console log")
            self._close_connection()
            time.sleep(0.5)

    def _close_connection(self) -> None:
        if self.ssh_config.exists():
            close = ["ssh", "-F", str(self.ssh_config), "-O", "exit", self.alias]
            subprocess.run(close, capture_output=True, check=False)
