"""Faults of the GPU software before it is installed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from llmhw_provision.plan.roles_driver import NvidiaDriverConfig
from tests.assembled import Assembled
from tests.assembled_before import (
    blackwell_before,
    cards_before,
    pairs_before,
    rocky_before,
    switched_before,
    workstation_before,
)
from tests.assembled_stack import NEXT, URI
from tests.fault import Fault

_OURS = "written by us"
_ARCHIVE = "http://archive.ubuntu.com/ubuntu"


def _before(what: str, origin: str, seed: Callable[[], Assembled], caught: dict[str, tuple[str, str]]) -> Fault:
    return Fault(what, origin, seed, caught, "before")


def _driver(machine: Assembled, **changes: object) -> Assembled:
    """The machine with another plan of its driver."""
    config = machine.plan.roles.nvidia_driver
    assert config
    changed = NvidiaDriverConfig.model_validate({**config.model_dump(), **changes})
    roles = machine.plan.roles.model_copy(update={"nvidia_driver": changed})
    return replace(machine, plan=machine.plan.model_copy(update={"roles": roles}))


def _secured(keys: str) -> Assembled:
    machine = cards_before().answered("secure-boot", "   1\n", _OURS)
    return machine.answered("signing-keys", keys, _OURS)


def _installed(site: str, other: str) -> Assembled:
    """A machine with driver packages of two sources."""
    table = ""
    for name, version, at in (("libnvidia-ml1", "580.95.05-0ubuntu1", other), ("libcuda1", "580.95.05-1", site)):
        table += f"{name}:\n  Installed: {version}\n  Candidate: {version}\n  Version table:\n *** {version} 500\n"
        table += f"        500 {at} noble/restricted amd64 Packages\n        100 /var/lib/dpkg/status\n"
    return cards_before().edited("gpu-offers", r"\A== offers\n", f"== offers\n{table}")


def _second_entry(uri: str) -> Assembled:
    text = f"== /etc/apt/sources.list.d/cuda.list\ndeb [signed-by=/usr/share/keyrings/other.gpg] {uri} /\n"
    return switched_before().edited("source-entries", r"\A", text)


def _no_repository(machine: Assembled) -> Assembled:
    machine = machine.edited("source-entries", r"== /etc/apt/sources.list.d/llmhw-cuda.sources\n(?:[A-Z].*\n)+", "")
    return machine.edited("gpu-offers", r"^(?:nvidia|lib|cuda|nvlsm)\S*:\n(?: .*\n)+", "")


BEFORE_FAULTS = (
    _before(
        "the board's NVSwitches are not on the bus",
        _OURS,
        lambda: switched_before().edited("gpu-switches", r"^nvswitch.*\n", ""),
        {"gpu-board": ("", "no NVSwitch")},
    ),
    _before(
        "NVLink 5 switches that do not say SW_MNG",
        "B005",
        lambda: blackwell_before().edited("gpu-switches", r"^nvlink5.*\n", ""),
        {"gpu-board": ("", "no NVSwitch")},
    ),
    _before(
        "NVSwitches that the plan does not know",
        "B004",
        lambda: cards_before().edited("gpu-switches", "== end", "nvswitch 0000:83:00.0\n== end"),
        {"gpu-board": ("unplanned", "1× NVSwitches")},
    ),
    _before(
        "Resizable BAR off",
        "B019",
        lambda: workstation_before().edited("gpu-bars", "0x000000bfffffffff", "0x000000400fffffff"),
        {"gpu-windows": ("", "0000:1b:00.0: 256.0 MiB")},
    ),
    _before(
        "closed modules planned for Blackwell",
        "B017",
        lambda: _driver(workstation_before(), modules="closed"),
        {"gpu-flavour": ("", "rtx-5090 runs on the open ones only")},
    ),
    _before(
        "closed modules installed where open ones are planned",
        "B017",
        lambda: pairs_before().edited(
            "gpu-packages", "== locked", "install installed nvidia-kernel-dkms 535.261.03-1\n== locked"
        ),
        {"gpu-flavour": ("exchange", "nvidia-kernel-dkms")},
    ),
    _before(
        "a driver from the .run installer",
        _OURS,
        lambda: cards_before().edited(
            "driver-leftovers",
            "== end",
            "/usr/bin/nvidia-uninstall\n/usr/lib/x86_64-linux-gnu/libcuda.so.570.86\n== end",
        ),
        {"gpu-leftovers": ("", "/usr/bin/nvidia-uninstall, /usr/lib/x86_64-linux-gnu/libcuda.so.570.86")},
    ),
    _before(
        "headers of the newest kernel are gone from the mirror",
        "B015",
        lambda: cards_before().edited("kernels", rf"== offered\n{NEXT}\n", "== offered\n"),
        {"gpu-headers": ("", f"none on offer, for {NEXT}")},
    ),
    _before(
        "two tracks of kernels",
        _OURS,
        lambda: cards_before().edited("kernels", r"^linux-image-amd64$", "linux-image-amd64\nlinux-image-cloud-amd64"),
        {"gpu-tracks": ("", "linux-image-cloud-amd64")},
    ),
    _before(
        "no g++ on offer",
        "B015",
        lambda: cards_before().edited("gpu-offers", r"^g\+\+:\n(?: .*\n)+", ""),
        {"gpu-tools": ("", "g++: not on offer")},
    ),
    _before(
        "dkms of a dated mirror",
        "B014",
        lambda: rocky_before().edited("gpu-offers", r"(^dkms:\n.*\n  Candidate: )3\.2\.2-1", r"\g<1>3.0.13-1.el9"),
        {"gpu-tools": ("old", "dkms: 3.0.13-1.el9, 3.1.8 is needed")},
    ),
    _before(
        "less room than apt counts",
        _OURS,
        lambda: cards_before().answered("df", "1B-blocks Avail Mounted on\n99000000000 10000000000 /\n", _OURS),
        {"gpu-room": ("", "/ has 9.3 GiB free")},
    ),
    _before(
        "Secure Boot without a key",
        "B034",
        lambda: _secured("== keys\n== dkms\n== signing\n== end\n"),
        {"gpu-signing": ("", "no key")},
    ),
    _before(
        "Secure Boot with a key that is not enrolled",
        "B034",
        lambda: _secured(
            "== keys\n/var/lib/dkms/mok.pub|/var/lib/dkms/mok.pub is not enrolled\n== dkms\ndkms-3.2.2\n"
            "== signing\n== end\n"
        ),
        {"gpu-signing": ("enrol", "/var/lib/dkms/mok.pub is not enrolled")},
    ),
    _before(
        "Secure Boot and a dkms that does not sign",
        "B034",
        lambda: _secured(
            "== keys\n/var/lib/dkms/mok.pub|/var/lib/dkms/mok.pub is already enrolled\n== dkms\ndkms-3.0.10\n"
            "== signing\n== end\n"
        ),
        {"gpu-signing": ("unsigned", "dkms 3.0.10")},
    ),
    _before(
        "NVIDIA's source twice, with two keys",
        "B030",
        lambda: _second_entry(URI),
        {"gpu-source-keys": ("cured", "cuda.list")},
    ),
    _before(
        "another source twice, with two keys",
        "B030",
        lambda: _second_entry("http://deb.debian.org/debian").edited(
            "source-entries", r"debian /$", "debian bookworm main"
        ),
        {"gpu-source-keys": ("", "keys differ in /etc/apt/sources.list.d/cuda.list")},
    ),
    _before(
        "NVIDIA's source of another distribution",
        "B028",
        lambda: _second_entry(URI.replace("debian12", "ubuntu2404")),
        {"gpu-source-system": ("cured", "ubuntu2404")},
    ),
    _before(
        "a mirror of NVIDIA's source of another distribution",
        "B028",
        lambda: _second_entry("http://mirror.example/compute/cuda/repos/ubuntu2404/x86_64/"),
        {"gpu-source-system": ("", "ubuntu2404")},
    ),
    _before(
        "driver packages of archive and repository mixed",
        "B012",
        lambda: _installed(URI, _ARCHIVE),
        {"gpu-origins": ("", f"{_ARCHIVE}: libnvidia-ml1")},
    ),
    _before(
        "the repository has moved on",
        _OURS,
        lambda: cards_before().edited("gpu-offers", r"595\.80-1", "595.90-1"),
        {"gpu-offers": ("", "nvidia-open: 595.80 is planned, on offer: 595.90-1")},
    ),
    _before(
        "the mirror lacks a package",
        _OURS,
        lambda: cards_before().edited("gpu-offers", r"^libcudnn9-cuda-13:\n(?: .*\n)+", ""),
        {"gpu-offers": ("unknown", "no source knows libcudnn9-cuda-13")},
    ),
    _before(
        "the repository is not set up yet",
        _OURS,
        lambda: _no_repository(cards_before()).answered(
            "gpu-solution", "== simulated\nE: Unable to locate package nvidia-open\n== size\n== end\n", _OURS
        ),
        {"gpu-offers": ("later", "nvidia-open"), "gpu-solution": ("later", "not set up")},
    ),
    _before(
        "the repository is written, its lists were not fetched yet",
        _OURS,
        lambda: (
            _no_repository(cards_before())
            .answered("source-entries", cards_before().evidence.results["source-entries"].stdout.decode(), _OURS)
            .answered("gpu-solution", "== simulated\nE: Unable to locate package nvidia-open\n== size\n== end\n", _OURS)
        ),
        {"gpu-offers": ("later", "nvidia-open"), "gpu-solution": ("later", "not set up")},
    ),
    _before(
        "a stub that leads to another branch",
        "B009",
        lambda: cards_before().edited("gpu-solution", r"^(Inst lib\S+ \()595\.80-1", r"\g<1>610.43.02-1"),
        {"gpu-solution": ("", "libcuda1: 610.43.02-1")},
    ),
    _before(
        "packages that cannot be installed together",
        "B012",
        lambda: cards_before().answered(
            "gpu-solution",
            "== simulated\nThe following packages have unmet dependencies:\n"
            " nvidia-open : Depends: libcuda1 (= 595.80-1) but 610.43.02-1 is to be installed\n"
            "E: Unable to correct problems, you have held broken packages.\n== size\n== end\n",
            _OURS,
        ),
        {"gpu-solution": ("refused", "unmet dependencies: nvidia-open : Depends: libcuda1 (= 595.80-1) but")},
    ),
)
