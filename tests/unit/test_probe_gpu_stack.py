"""What our own commands about the GPU software answer, read; and the initramfs as the program on the host reads it."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from llmhw_provision.evidence import Command, Evidence, Result
from llmhw_provision.probes import dkms, driver_files, gpu_packages, gpu_runtime, gpu_sources, kernels, nouveau
from llmhw_provision.probes.reading import ProbeError

PROGRAM = Path(nouveau.__file__).with_name("on_host") / "initramfs_member"
KERNELS = (
    b"== running\n6.1.0-9-amd64\n== next\n6.1.0-10-amd64\n== installed\n6.1.0-10-amd64\n6.1.0-9-amd64\n== headers\n"
    b"6.1.0-9-amd64\n== offered\n== modules\n6.1.0-9-amd64|580.126.09|Dual MIT/GPL|DKMS key\n== metas\n"
    b"linux-image-amd64\nlinux-image-6.1.0-9-amd64\nlinux-headers-amd64\n== end\n"
)


def answered(key: str, raw: bytes) -> Evidence:
    return Evidence("a", "machine", {key: Result(0, raw, b"", 0.1)})


def test_kernels_are_ordered_by_number_and_metapackages_told_from_kernels() -> None:
    found = kernels.parse(KERNELS)
    assert found.wanted == ("6.1.0-9-amd64", "6.1.0-10-amd64")
    assert found.tracks == ("linux-image-amd64",)
    assert found.metas == ("linux-headers-amd64", "linux-image-amd64")
    assert (found.modules["6.1.0-9-amd64"].open, found.modules["6.1.0-9-amd64"].signer) == (True, "DKMS key")
    for damaged in (KERNELS[:-7], KERNELS.replace(b"== next\n6.1.0-10-amd64", b"== next\nsh: not found"), b""):
        with pytest.raises(ProbeError, match="could not read kernels"):
            kernels.parse(damaged)


def test_the_kernel_that_boots_next_is_grubs_first_entry_unless_another_was_chosen(tmp_path: Path) -> None:
    (tmp_path / "boot/grub").mkdir(parents=True)
    for name in ("6.1.0-9-amd64", "6.1.0-10-amd64", "0-rescue-abc"):
        (tmp_path / f"boot/vmlinuz-{name}").touch()
    entries = "linux /boot/vmlinuz-6.1.0-9-amd64 root=x\nlinux /boot/vmlinuz-6.1.0-10-amd64 root=x\n"
    program = kernels.NEXT.replace("/boot", f"{tmp_path}/boot").replace("/vmlinuz-", "/vmlinuz-") + "next_kernel"

    def asked(grub: str) -> str:
        (tmp_path / "boot/grub/grub.cfg").write_text(grub.replace("/boot", f"{tmp_path}/boot"))
        return subprocess.run(["sh", "-c", program], capture_output=True, text=True, check=True).stdout.strip()

    assert asked(f'set default="0"\n{entries}') == "6.1.0-9-amd64"
    assert asked(f'set default="saved"\n{entries}') == "6.1.0-10-amd64"
    assert asked("") == "6.1.0-10-amd64"


def test_a_module_is_found_under_the_name_that_debian_gives_it(tmp_path: Path) -> None:
    tool = tmp_path / "modinfo"
    answers = "*version*) echo 535.261.03 ;; *license*) echo Dual MIT/GPL ;;"
    tool.write_text(
        f'#!/bin/sh\nfor last; do :; done; [ "$last" = nvidia-current-open ] || exit 1\ncase "$*" in {answers} esac\n'
    )
    tool.chmod(0o755)

    def asked(command: Command) -> bytes:
        path = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
        return subprocess.run(command.argv, capture_output=True, check=True, env=path).stdout

    files = driver_files.parse(asked(driver_files.COMMAND))
    assert (files.file, files.open_modules) == ("535.261.03", True)
    found = kernels.parse(asked(kernels.COMMAND))
    assert found.modules[found.running] == kernels.Module("535.261.03", "Dual MIT/GPL", "")
    tool.write_text("#!/bin/sh\nexit 1\n")
    assert kernels.parse(asked(kernels.COMMAND)).modules == {}
    assert driver_files.parse(asked(driver_files.COMMAND)).file == ""


def test_dkms_in_the_form_of_version_2_and_3() -> None:
    text = [
        "Deprecated feature: REMAKE_INITRD (/var/lib/dkms/nvidia/580.126.09/source/dkms.conf)",
        "nvidia/580.126.09, 6.1.0-9-amd64, x86_64: installed (WARNING! Diff between built and installed module!)",
        "nvidia-fs/2.26, 6.1.0-9-amd64, x86_64: installed",
        "nvidia-current-open, 535.261.03, 6.1.0-10-amd64, x86_64: built",
        "nvidia/590.48.01: added",
    ]
    found = dkms.parse_status(text)
    assert [item.state for item in found] == ["installed", "installed", "built", "added"]
    assert [item.driver for item in found] == [True, False, True, True]
    assert found[0].warning.startswith("WARNING! Diff")
    with pytest.raises(ProbeError, match="dkms status output: Error! Could not locate"):
        dkms.parse_status(["Error! Could not locate dkms.conf file."])


def test_packages_by_state_hold_and_version() -> None:
    raw = (
        b"== packages\nhold installed libcuda1 580.126.09-1\ninstall half-configured nvidia-open 580.126.09-1\n"
        b"install installed nvidia-persistenced 535.171.04-1\ndeinstall config-files libnvidia-ml1 535.1-1\n"
        b'== locked\n== unattended\ninstalled\nUnattended-Upgrade::Package-Blacklist "";\n'
        b'Unattended-Upgrade::Package-Blacklist:: "nvidia-";\n== end\n'
    )
    found = gpu_packages.parse(raw)
    assert set(found.installed) == {"libcuda1", "nvidia-open", "nvidia-persistenced"}
    assert (found.installed["libcuda1"].held, found.installed["nvidia-open"].state) == (True, "half-configured")
    assert [item.bound for item in found.installed.values()] == [True, True, False]
    assert found.unattended == ("nvidia-",)
    assert gpu_packages.same("580.126.09", "3:580.126.09-1.el9")
    assert not gpu_packages.same("580.126", "580.126.09-1")
    for name in ("libcudadebugger1", "firmware-nvidia-gsp", "libnvsdm", "nvidia-kernel-open-dkms", "cuda-drivers"):
        assert gpu_packages.is_driver(name, "580.126.09-1")
        assert any(fnmatchcase(name, pattern) for pattern in gpu_packages.PATTERNS)
    for name, version in (
        ("nvidia-container-toolkit", "1.19.1-1"),
        ("libcups2", "580.1-1"),
        ("cuda-nvcc-13-0", "13.0.88"),
    ):
        assert not gpu_packages.is_driver(name, version)
    for name in ("libcups2", "libcurl4", "libnvme1"):
        assert not any(fnmatchcase(name, pattern) for pattern in gpu_packages.PATTERNS)
    with pytest.raises(ProbeError, match="could not read apt-config"):
        gpu_packages.parse(raw.replace(b"Unattended-Upgrade::Package-Blacklist::", b"E: "))


SOURCES = b"""== /etc/apt/sources.list
deb [arch=amd64 signed-by=/usr/share/keyrings/a.gpg] https://mirror.example/cuda/repos/debian12/x86_64/ ./
deb-src http://deb.example/debian bookworm main
== /etc/apt/sources.list.d/b.sources
Types: deb deb-src
URIs: https://mirror.example/cuda/repos/debian12/x86_64
Suites: /
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 xsFNBGJYmlEBEAC6nJmeqByeReM+MSy4palACCnfOg4pOxffrrkldxz4jrDOZNK4
 -----END PGP PUBLIC KEY BLOCK-----

Types: deb
URIs: http://off.example/debian
Suites: bookworm
Enabled: no
== /etc/yum.repos.d/cuda.repo
[cuda-rhel9]
baseurl=https://mirror.example/rhel9/
gpgkey=file:///etc/pki/key
== end
"""


def test_package_sources_of_both_forms_are_comparable() -> None:
    found = gpu_sources.parse_entries(SOURCES)
    assert [(entry.uri, entry.suite) for entry in found] == [
        ("https://mirror.example/cuda/repos/debian12/x86_64", "/"),
        ("https://mirror.example/cuda/repos/debian12/x86_64", "/"),
        ("https://mirror.example/rhel9", "/"),
    ]
    assert [entry.key for entry in found] == [
        "/usr/share/keyrings/a.gpg",
        "/etc/apt/sources.list.d/b.sources",
        "file:///etc/pki/key",
    ]


def test_what_apt_would_do_and_what_it_takes() -> None:
    text = (
        b"== simulated\nInst libcuda1 [580.95.05-1] (580.126.09-1 NVIDIA:debian12 [amd64]) []\n"
        b"Inst nvidia-open:amd64 (580.126.09-1 NVIDIA:debian12 [amd64])\nConf libcuda1 (580.126.09-1 x [amd64])\n"
        b"== size\nNeed to get 0 B/4,123 MB of archives.\nAfter this operation, 6,812 kB of additional disk space will"
        b" be used.\n== end\n"
    )
    found = gpu_sources.parse_solution(text)
    assert found.packages == {"libcuda1": "580.126.09-1", "nvidia-open": "580.126.09-1"}
    assert (found.fetch_bytes, found.fill_bytes, found.error) == (4_123_000_000, 6_812_000, "")
    newer = b"== simulated\n== size\n  Download size: 1,024 kB\n  Space needed: 6.8 GB / 20.1 GB available\n== end\n"
    assert gpu_sources.parse_solution(newer).fill_bytes == 6_800_000_000
    nothing = gpu_sources.parse_solution(b"== simulated\n0 upgraded, 0 newly installed\n== size\n== end\n")
    assert (nothing.packages, nothing.fill_bytes) == ({}, 0)
    table = b"== simulated\n nvidia-open  noarch  3:580.126.09-1.el9  cuda-rhel9-x86_64  1 k\n== size\n== end\n"
    assert gpu_sources.parse_solution(table).packages == {"nvidia-open": "3:580.126.09-1.el9"}


def test_nccl_settings_and_toolkit() -> None:
    raw = (
        b"== link\n/usr/local/cuda-13.0\n== toolkits\n/usr/local/cuda-12.8\n/usr/local/cuda-13.0\n== nvcc\n"
        b"Cuda compilation tools, release 13.0, V13.0.88\n== nccl\n# ours\nNCCL_IB_HCA==mlx5_0,mlx5_3\n\n"
        b"== interfaces\nlo\n== adapters\n== end\n"
    )
    found = gpu_runtime.cuda(answered("cuda", raw))
    assert (found.toolkits, found.nvcc, found.nccl) == (("12.8", "13.0"), "13.0", {"NCCL_IB_HCA": "=mlx5_0,mlx5_3"})
    with pytest.raises(ProbeError, match=r"nccl\.conf output: export NCCL"):
        gpu_runtime.cuda(answered("cuda", raw.replace(b"NCCL_IB", b"export NCCL_IB")))


def member(name: str, data: bytes, *, mode: int = 0o100644) -> bytes:
    """One file of a cpio archive (newc)."""
    head = b"070701" + b"".join(
        b"%08X" % value for value in (1, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
    )
    text = head + name.encode() + b"\0"
    return text + b"\0" * (-len(text) % 4) + data + b"\0" * (-len(data) % 4)


END = member("TRAILER!!!", b"")
EARLY = member("kernel/x86/microcode.bin", b"x" * 99) + END
MAIN = (
    member("etc/modprobe.d", b"", mode=0o040755)
    + member("etc/modprobe.d/llmhw-nvidia.conf", b"blacklist nouveau\nblacklist nova_core\noptions nouveau modeset=0\n")
    + member("usr/lib/modprobe.d/vendor.conf", b"blacklist nvidiafb\nblacklist nova-drm")
    + member("usr/lib/modules/6.1/kernel/big.ko", b"y" * 5000)
)


def read_image(folder: Path, image: bytes) -> subprocess.CompletedProcess[bytes]:
    (folder / "image").write_bytes(image)
    names = ("/etc/modprobe.d/*", "/lib/modprobe.d/*", "/usr/lib/modprobe.d/*")
    return subprocess.run(
        [sys.executable, str(PROGRAM), str(folder / "image"), *names], capture_output=True, check=False
    )


@pytest.mark.parametrize("image", [EARLY + gzip.compress(MAIN + END), MAIN + END + b"\0" * 512 + gzip.compress(END)])
def test_the_blacklist_is_read_out_of_the_initramfs(tmp_path: Path, image: bytes) -> None:
    result = read_image(tmp_path, image)
    assert (result.returncode, result.stderr) == (0, b"")
    raw = result.stdout.replace(str(tmp_path / "image").encode(), b"/boot/initrd.img-6.1")
    assert nouveau.parse_image(raw) == ("/boot/initrd.img-6.1", ("nouveau", "nova_core", "nova_drm", "nvidiafb"))


def test_an_image_that_cannot_be_read_gives_no_answer(tmp_path: Path) -> None:
    assert read_image(tmp_path, EARLY + gzip.compress(MAIN)[:-40]).returncode != 0
    assert read_image(tmp_path, b"no image").returncode != 0
    with pytest.raises(ProbeError, match="no end"):
        nouveau.parse_image(b"== /boot/initrd.img-6.1\n== /etc/modprobe.d/a.conf\nblacklist nouveau\n")
