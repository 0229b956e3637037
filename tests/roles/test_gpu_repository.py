"""The repository of packages named as NVIDIA's: Debian's own apt, dpkg and dkms take it as they take the vendor's."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.containers.container import Container
from tests.rehearsal.gpu.cuda import NCCL
from tests.rehearsal.gpu.repository import DRIVERS, Repository, build, served
from tests.rehearsal.gpu.signing import Key

A, B, NEWEST = DRIVERS


@dataclass(frozen=True)
class Room:
    """A container, its network's address of this machine, and a key."""

    container: Container
    folder: Path
    key: Key

    @property
    def address(self) -> str:
        return self.container.address.rpartition(".")[0] + ".1"

    def use(self, repository: Repository, uri: str, *, key: Key | None = None) -> str:
        """Makes it the container's only source of these packages; what `apt-get update` says."""
        ring = self.container.root / "etc/apt/keyrings/rehearsal.asc"
        ring.write_text((key or repository.key).armoured)
        text = f"Types: deb\nURIs: {uri}\nSuites: ./\nSigned-By: /etc/apt/keyrings/rehearsal.asc\n"
        (self.container.root / "etc/apt/sources.list.d/rehearsal.sources").write_text(text)
        done = self.container.run("apt-get update", check=False)
        return done.stdout + done.stderr

    def simulate(self, *names: str) -> str:
        """What apt-get says it would do."""
        done = self.container.run(["apt-get", "-s", "install", *names], check=False)
        return done.stdout + done.stderr

    def install(self, *names: str, check: bool = True) -> str:
        """Installs without asking; what was said."""
        line = "DEBIAN_FRONTEND=noninteractive apt-get -y --allow-downgrades install " + " ".join(names)
        done = self.container.run(line, check=check, timeout=600)
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def room(module_container: Container, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    folder = tmp_path_factory.mktemp("gpu")
    key = Key.make(folder / "key")
    yield Room(module_container, folder, key)
    key.close()


@pytest.fixture(scope="module")
def whole(room: Room) -> Iterator[str]:
    """The whole repository, served; its address."""
    with served(room.folder / "whole", room.address) as uri:
        said = room.use(build(room.folder / "whole", key=room.key, uri=uri), uri)
        assert "W:" not in said and "E:" not in said, said  # noqa: PT018
        yield uri


@pytest.fixture
def elsewhere(room: Room, whole: str) -> Iterator[Room]:
    """The room for a test that uses another repository; the whole one is there again after it."""
    yield room
    room.use(Repository(room.folder / "whole", room.key), whole)


def test_apt_refuses_it_when_another_key_has_signed_it(elsewhere: Room) -> None:
    other = Key.make(elsewhere.folder / "other")
    forged = build(elsewhere.folder / "forged", key=other)
    with served(forged.folder, elsewhere.address) as uri:
        said = elsewhere.use(forged, uri, key=elsewhere.key)
    other.close()
    assert "NO_PUBKEY" in said
    assert "is not signed" in said


@pytest.mark.usefixtures("whole")
def test_top_names_resolve_as_in_the_vendors_repository(room: Room) -> None:
    assert f"Inst nvidia-kernel-open-dkms ({NEWEST}-1 NVIDIA CUDA" in room.simulate("nvidia-open")
    assert "held broken packages" in room.simulate(f"nvidia-open={B}-1")  # its parts would be newer: a pin is needed
    bare = room.simulate("cuda")
    assert f"Inst nvidia-kernel-dkms ({NEWEST}-1" in bare  # bare cuda brings the newest driver
    both = room.simulate("cuda-toolkit-13-0", "cuda-toolkit-12-8")
    assert "Inst cuda-nvcc-12-8" in both
    assert "nvidia" not in both.partition("Inst")[2].replace("NVIDIA", "")
    nccl = "2.30.7-1+cuda13.0"
    assert f"but {NCCL[-1]} is to be installed" in room.simulate(f"libnccl-dev={nccl}")  # both, or the newest
    assert f"Inst libnccl-dev ({nccl} " in room.simulate(f"libnccl2={nccl}", f"libnccl-dev={nccl}")
    names = ["nvidia-fabricmanager", "libnvidia-nscq", "libnvsdm", "nvidia-imex", "nvlsm", "cudnn9-cuda-13"]
    names += ["cuda-keyring", "nsight-systems-cli", "datacenter-gpu-manager-4-proprietary-cuda13"]
    together = room.simulate(*names)
    assert [name for name in names if f"Inst {name} " not in together] == []


@pytest.mark.usefixtures("whole")
def test_a_pinning_package_ties_apt_to_a_release(room: Room) -> None:
    room.install(f"nvidia-driver-pinning-{B}")
    said = room.simulate("nvidia-open")
    for name in ("nvidia-kernel-open-dkms", "libcuda1", "nvidia-modprobe", "nvidia-persistenced"):
        assert f"Inst {name} ({B}-1" in said
    assert f"Inst nvidia-fabricmanager ({B}-1" in room.simulate("nvidia-fabricmanager")
    assert f"nvidia-driver-pinning-{B}" in room.install("nvidia-driver-pinning-580")
    assert f"Inst nvidia-open ({B}-1" in room.simulate("nvidia-open")
    room.container.run("dpkg --purge nvidia-driver-pinning-580")


def test_faults_and_a_second_origin_are_what_they_are_called(elsewhere: Room) -> None:
    stub = build(elsewhere.folder / "stub", key=elsewhere.key, faults=["stub"])
    half = build(elsewhere.folder / "half", key=elsewhere.key, faults=["half"])
    other = build(
        elsewhere.folder / "other-origin", key=elsewhere.key, driver=["580.178.04"], origin=("Debian", "Debian")
    )
    with served(elsewhere.folder, elsewhere.address) as uri:
        elsewhere.use(stub, f"{uri}stub/")
        assert f"Inst nvidia-kernel-open-dkms ({NEWEST}-1" in elsewhere.simulate(f"nvidia-open={B}-1")
        elsewhere.use(half, f"{uri}half/")
        said = elsewhere.simulate("nvidia-open")
        assert f"Inst nvidia-kernel-open-dkms ({B}-1" in said
        assert f"Inst libnvidia-ml1 ({NEWEST}-1" in said
        elsewhere.use(other, f"{uri}other-origin/")
        assert "Inst nvidia-open (580.178.04-1 Debian" in elsewhere.simulate("nvidia-open")


@pytest.mark.proof
@pytest.mark.usefixtures("whole")
def test_without_headers_everything_is_installed_but_no_module(room: Room) -> None:
    said = room.install(f"nvidia-driver-pinning-{A}", "libc6") + room.install("nvidia-open", "nvidia-fabricmanager")
    assert "Error" not in said, said
    assert f"nvidia/{A}: added" in room.container.run("dkms status").stdout
    failed = room.container.run("nvidia-smi", check=False)
    assert failed.returncode == 9
    assert "couldn't communicate with the NVIDIA driver" in failed.stdout
    listed = room.container.run("ldconfig -p").stdout
    assert "libcuda.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libcuda.so.1" in listed
    unit = room.container.run("systemctl show -P ConditionResult -P ActiveState nvidia-persistenced").stdout
    assert unit.split() == ["inactive", "no"] or unit.split() == ["no", "inactive"]
    assert room.container.run(
        "systemctl is-enabled nvidia-persistenced nvidia-fabricmanager", check=False
    ).stdout.split() == ["enabled", "disabled"]
    room.install(f"nvidia-driver-pinning-{B}")
    assert "Error" not in room.install("nvidia-open", "nvidia-fabricmanager")
    assert room.container.run("dkms status").stdout.split(":")[0] == f"nvidia/{B}"
    assert room.container.run("dpkg --audit").stdout == ""
    listed = room.container.run("dpkg-query -W -f '${db:Status-Status} ${Package} ${Version}\\n'").stdout
    left = {line.split()[1] for line in listed.splitlines() if line.startswith("installed") and line.endswith(f"{A}-1")}
    assert left == {"nvidia-modprobe", "nvidia-persistenced"}  # asked for in any release, so apt lets them be


@pytest.mark.proof
@pytest.mark.usefixtures("whole")
def test_toolkits_lie_side_by_side(room: Room) -> None:
    room.install("cuda-toolkit-13-0", "cuda-toolkit-12-8")
    said = room.container.run(
        "for cuda in /usr/local/cuda-1*.*; do $cuda/bin/nvcc --version | grep release; done"
    ).stdout
    assert said.split("\n")[:2] == [
        "Cuda compilation tools, release 12.8, V12.8.93",
        "Cuda compilation tools, release 13.0, V13.0.88",
    ]
    assert room.container.run("readlink -f /usr/local/cuda").stdout.strip() == "/usr/local/cuda-13.0"
    assert room.container.run("readlink -f /usr/local/cuda-12").stdout.strip() == "/usr/local/cuda-12.8"
    room.container.run("apt-get -y purge 'cuda-*' 'libcublas*'")
    assert room.container.run("ls -d /usr/local/cuda*", check=False).stdout == ""


@pytest.mark.proof
def test_with_headers_dkms_builds_the_module_or_says_why_not(elsewhere: Room) -> None:
    room, module = elsewhere, "nvidia-kernel-open-dkms"
    driver = "dpkg-query -W -f '${Package} ${Version}\\n' | sed -n 's/ 580[.].*//p; s/ 590[.].*//p'"
    room.container.run(f"dpkg --purge --force-depends $({driver})", check=False)  # of the tests before
    room.install("linux-headers-amd64", "gcc", "make", "kmod", "nvidia-driver-pinning-580")
    kernel = room.container.run("ls /lib/modules | tail -1").stdout.strip()
    room.install(module)
    assert f"nvidia/{B}, {kernel}, x86_64: installed" in room.container.run("dkms status").stdout
    for name in ("nvidia", "nvidia-uvm", "nvidia-modeset", "nvidia-drm", "nvidia-peermem"):
        found = room.container.run(
            f"modinfo -k {kernel} -F version {name}; modinfo -k {kernel} -F license {name}"
        ).stdout
        assert found.split("\n")[:2] == [B, "Dual MIT/GPL"]
    room.container.run(f"dpkg --purge --force-depends {module}")
    with served(room.folder, room.address) as uri:
        broken = build(room.folder / "broken", key=room.key, faults=["dkms-broken"])
        room.use(broken, f"{uri}broken/")
        said = room.install(module, check=False)
        assert "installed nvidia-kernel-open-dkms package post-installation script subprocess returned error" in said
        log = room.container.run(f"cat /var/lib/dkms/nvidia/{B}/build/make.log").stdout
        assert "error: implicit declaration of function 'pci_resize_resource_gone'" in log.replace("‘", "'").replace(
            "’", "'"
        )
        room.container.run(f"dpkg --purge --force-depends {module}")
        hidden = build(room.folder / "hidden", key=room.key, faults=["dkms-hidden"])
        room.use(hidden, f"{uri}hidden/")
        room.install(module)  # ends well
        assert f"nvidia/{B}: added" in room.container.run("dkms status").stdout
    room.container.run(f"dpkg --purge --force-depends {module}")
