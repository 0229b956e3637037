"""From recorded readings to machines; first contact with a real ssh server in this process."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest
from click.testing import CliRunner

from llmhw_provision.cli.discover import command, summary
from llmhw_provision.cli.options import secret
from llmhw_provision.discover import observe
from llmhw_provision.documents import check, dump_json
from llmhw_provision.errors import InputError, MachineError
from llmhw_provision.evidence import Result
from llmhw_provision.first_contact import enrol, fingerprint, known_name, let_key_in
from llmhw_provision.machine import Disk, Machine
from llmhw_provision.probes.reading import ProbeError
from llmhw_provision.site import Host
from tests.unit.recordings import changed, recorded, replaced, swapped, without


def disk(machine: Machine, serial: str) -> Disk:
    return next(item for item in machine.disks if item.serial == serial)


def test_empty_disks() -> None:
    machine = observe(recorded("empty-disks"))
    empty = [item for item in machine.disks if not item.system]
    assert [item.by_id for item in empty] == [f"/dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_LAB{n}" for n in range(4)]
    assert all(item.contents == () and item.size_bytes == 2 * 2**30 for item in empty)
    assert machine.arrays == ()
    assert machine.virtual


def test_everything_on_a_disk_is_listed() -> None:
    found = disk(observe(recorded("mixed-disks")), "LAB3")
    assert [(item.where, item.kind, item.type, item.label) for item in found.contents] == [
        ("disk", "partition-table", "gpt", ""),
        ("partition 1", "filesystem", "ext4", "home"),
        ("partition 2", "swap", "swap", "spare"),
    ]
    assert found.contents[0].uuid == "aaaaaaaa-1111-4222-8333-bbbbbbbbbbbb"
    assert found.contents[2].mounts == ("[SWAP]",)
    assert found.system  # its swap is in use


def test_a_mounted_file_system_without_partition() -> None:
    found = disk(observe(recorded("mixed-disks")), "LAB2")
    (content,) = found.contents
    assert (content.type, content.label, content.mounts) == ("xfs", "old", ("/mnt/x",))
    assert not found.system


def test_the_disk_under_the_root_is_system_even_without_serial() -> None:
    root = next(item for item in observe(recorded("empty-disks")).disks if item.kernel_name == "vda")
    assert (root.system, root.by_id, root.transport) == (True, "", "virtio")


def test_root_through_raid_and_partition_is_system() -> None:
    evidence = changed(recorded("provisioned"), "lsblk", lambda raw: raw.replace(b'"/srv/project"', b'"/"'))
    machine = observe(evidence)
    assert [item.serial for item in machine.disks if item.system and item.serial] == ["LAB2", "LAB3"]


def test_arrays_with_their_members_by_serial() -> None:
    machine = observe(recorded("provisioned"))
    scratch = next(array for array in machine.arrays if array.name == "scratch")
    assert (scratch.device, scratch.level, scratch.chunk_bytes) == ("/dev/md/scratch", "raid0", 512 * 1024)
    assert scratch.members == ("LAB0", "LAB1")
    assert (scratch.filesystem, scratch.mounts) == ("xfs", ("/scratch",))
    (content,) = disk(machine, "LAB0").contents
    assert (content.kind, content.label, content.holders) == ("raid-member", "any:scratch", ("md127",))


def test_an_array_that_lacks_a_member_does_not_count_as_running() -> None:
    machine = observe(recorded("missing-drive"))
    assert [array.name for array in machine.arrays] == ["project"]
    assert disk(machine, "LAB0").contents[0].label == "any:scratch"


def test_a_disk_that_wipefs_never_looked_at_is_not_empty() -> None:
    evidence = changed(
        recorded("empty-disks"),
        "signatures",
        lambda raw: raw[: raw.index(b"== nvme1n1")] + raw[raw.index(b"== nvme2n1") :],
    )
    assert disk(observe(evidence), "LAB1").contents[0].type == "unreadable"


def test_a_disk_that_cannot_be_read_is_not_empty() -> None:
    evidence = swapped(recorded("empty-disks"), "signatures", "== nvme1n1\n", "== nvme1n1\n!! 1\n")
    assert disk(observe(evidence), "LAB1").contents[0].type == "unreadable"


def test_what_only_udev_knows_is_listed_too() -> None:
    evidence = changed(
        recorded("mixed-disks"),
        "signatures",
        lambda raw: raw[: raw.index(b"== nvme2n1")] + b"== nvme2n1\n" + raw[raw.index(b"== nvme3n1\n") :],
    )
    assert disk(observe(evidence), "LAB2").contents[0].type == "xfs"


def test_gpus_by_kind() -> None:
    lines = "".join(
        f"0000:{bus}:00.0/class:0x030200\n0000:{bus}:00.0/vendor:0x10de\n0000:{bus}:00.0/device:0x{device}\n"
        for bus, device in (("1b", "2330"), ("2c", "2330"), ("3d", "ffff"))
    )
    # what is no GPU: an audio function of a card, a network adapter
    lines += "0000:3d:00.1/class:0x040300\n0000:3d:00.1/vendor:0x10de\n0000:3d:00.1/device:0x22bb\n"
    evidence = changed(recorded("empty-disks"), "pci", lambda raw: raw + lines.encode())
    assert [(item.kind, item.count) for item in observe(evidence).gpus] == [("10de:ffff", 1), ("h100-sxm", 2)]


def test_adapters_have_the_name_of_their_rdma_device() -> None:
    function = "0000:18:00.0"
    lines = f"{function}/class:0x020700\n{function}/vendor:0x15b3\n{function}/device:0x1021\n{function}/numa_node:0\n"
    lines += f"{function}/infiniband/mlx5_4/ports/1/link_layer:InfiniBand\n"
    found = observe(changed(recorded("empty-disks"), "pci", lambda raw: raw + lines.encode()))
    (adapter,) = (item for item in found.pci if item.vendor_id == "15b3")
    assert (adapter.rdma, adapter.link_layer) == ("mlx5_4", "InfiniBand")
    text = dump_json(found)
    assert text.count('"rdma"') == 1, "only what is an adapter for RDMA says so"
    assert check(json.loads(text), Machine, path=Path("observed.json")) == found


def test_same_reading_same_bytes() -> None:
    assert dump_json(observe(recorded("provisioned"))) == dump_json(observe(recorded("provisioned")))


@pytest.mark.parametrize("key", ["lsblk", "signatures", "by-id", "findmnt", "mdstat", "meminfo", "virt", "pci"])
def test_a_reading_without_an_answer_gives_no_machine(key: str) -> None:
    with pytest.raises(ProbeError, match=f"{key} was not read on vm-01"):
        observe(without(recorded("provisioned"), key))
    late = Result(124, b"", b"", 20.0, (key,))
    with pytest.raises(ProbeError, match="did not answer within 20 s"):
        observe(replaced(recorded("provisioned"), key, late))


def test_one_line_says_what_the_machine_is() -> None:
    assert summary(observe(recorded("mixed-disks"))) == (
        "vm-01  Debian GNU/Linux 12 (bookworm) · 1× QEMU TCG CPU version 2.5+, 2 cores · 1.9 GiB · no GPU"
        " · disks: 2× 2.1 GB empty, 2.1 GB with xfs 'old' at /mnt/x, 2.1 GB system, 8.6 GB system"
        " · virtual (qemu): a rehearsal"
    )


class Server:
    """An ssh server that shows its key and nothing more."""

    def __init__(self) -> None:
        self.key = paramiko.ECDSAKey.generate()
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            transport = paramiko.Transport(connection)
            transport.add_server_key(self.key)
            transport.start_server(event=threading.Event())


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()
    yield found
    found.socket.close()


def host(port: int) -> Host:
    return Host(name="vm-01", address="127.0.0.1", port=port)


def test_first_contact_shows_and_keeps_the_key(tmp_path: Path, server: Server) -> None:
    shown: list[str] = []
    known = tmp_path / "known_hosts"
    known.write_text("other.example ssh-ed25519 AAAA\n")
    assert enrol(host(server.port), tmp_path, confirm=lambda _, text: not shown.append(text))
    assert shown == [f"ecdsa-sha2-nistp256 {fingerprint(server.key.asbytes())}"]
    assert shown[0].endswith(server.key.fingerprint)
    assert known.read_text().splitlines() == [
        "other.example ssh-ed25519 AAAA",
        f"[127.0.0.1]:{server.port} ecdsa-sha2-nistp256 {server.key.get_base64()}",
    ]
    assert not enrol(host(server.port), tmp_path, confirm=lambda *_: False)  # known: not asked again


def test_a_key_that_is_not_accepted_is_not_kept(tmp_path: Path, server: Server) -> None:
    with pytest.raises(MachineError, match="host key not accepted"):
        enrol(host(server.port), tmp_path, confirm=lambda *_: False)
    assert not (tmp_path / "known_hosts").exists()


def test_first_contact_with_nobody(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"vm-01 \(127.0.0.1 port 1\): cannot be reached: .*refused"):
        enrol(host(1), tmp_path, confirm=lambda *_: True)


def test_names_under_which_keys_are_kept() -> None:
    assert known_name(Host(name="a", address="192.0.2.1")) == "192.0.2.1"
    assert known_name(Host(name="a", address="192.0.2.1", port=2222)) == "[192.0.2.1]:2222"


def test_a_key_that_changed_is_refused_and_kept(tmp_path: Path, server: Server) -> None:
    """ssh itself compares: another key than the one in known_hosts stands there."""
    (tmp_path / "site.yaml").write_text(
        f"schema: 1\nsite: s\nhosts:\n  - {{name: vm-01, address: 127.0.0.1, port: {server.port}}}\n"
    )
    other = paramiko.ECDSAKey.generate()
    line = f"[127.0.0.1]:{server.port} ecdsa-sha2-nistp256 {other.get_base64()}\n"
    (tmp_path / "known_hosts").write_text(line)
    result = CliRunner().invoke(command, ["--site", str(tmp_path), "--accept-host-keys"], standalone_mode=False)
    assert isinstance(result.exception, MachineError)
    assert result.exception.exit_code == 3
    problem = result.exception.problems[0]
    assert "its host key is not the one accepted before; it now shows SHA256:" in problem.message
    assert "remove its line from known_hosts" in problem.hint
    assert (tmp_path / "known_hosts").read_text() == line
    assert not (tmp_path / "observed").exists()


def test_a_password_is_not_sent_to_a_machine_with_another_key(tmp_path: Path, server: Server) -> None:
    (tmp_path / "id.pub").write_text("ssh-ed25519 AAAA me\n")
    target = host(server.port).model_copy(update={"identity_file": "id"})
    other = paramiko.ECDSAKey.generate()
    (tmp_path / "known_hosts").write_text(f"{known_name(target)} ecdsa-sha2-nistp256 {other.get_base64()}\n")
    with pytest.raises(MachineError, match="its host key is not the one accepted before") as caught:
        let_key_in(target, tmp_path, "S3CRET")
    assert "was not sent" in caught.value.problems[0].hint


def test_without_a_public_key_no_password_is_asked_of_the_host(tmp_path: Path, server: Server) -> None:
    with pytest.raises(InputError, match="names no identity_file"):
        let_key_in(host(server.port), tmp_path, "S3CRET")
    target = host(server.port).model_copy(update={"identity_file": "id"})
    with pytest.raises(InputError, match=r"id\.pub: no such file"):
        let_key_in(target, tmp_path, "S3CRET")
    (tmp_path / "id.pub").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    with pytest.raises(InputError, match="is not one public key"):
        let_key_in(target, tmp_path, "S3CRET")


def test_a_secret_comes_by_descriptor_and_by_no_other_way() -> None:
    read, write = os.pipe()
    os.write(write, b"pa ss\nrest\n")
    os.close(write)
    assert secret("password", ask=False, descriptor=read) == "pa ss"
    os.close(read)
    with pytest.raises(InputError, match="cannot be read"):
        secret("password", ask=False, descriptor=read)
    assert secret("password", ask=False, descriptor=None) == ""
    empty = os.open(os.devnull, os.O_RDONLY)
    with pytest.raises(InputError, match="is empty"):
        secret("password", ask=False, descriptor=empty)
    os.close(empty)


def test_each_host_that_fails_is_named(tmp_path: Path) -> None:
    (tmp_path / "site.yaml").write_text(
        "schema: 1\nsite: s\nhosts:\n"
        "  - {name: vm-01, address: 127.0.0.1, port: 1}\n  - {name: vm-02, address: 127.0.0.1, port: 2}\n"
    )
    result = CliRunner().invoke(command, ["--site", str(tmp_path), "--accept-host-keys"], standalone_mode=False)
    assert isinstance(result.exception, MachineError)
    assert [problem.message[:5] for problem in result.exception.problems] == ["vm-01", "vm-02"]
