"""Before apply: what the machine itself does to a driver: board, kernels, compiler, room, Secure Boot, leftovers."""

from __future__ import annotations

import re

from llmhw_provision.catalogue.loader import Gpu, find, names
from llmhw_provision.catalogue.software import software
from llmhw_provision.checks.gpu_plan import stack, with_build, with_stack
from llmhw_provision.checks.gpu_views import gpus_of, planned
from llmhw_provision.checks.model import Check, Level, Outcome, failed, passed, warned
from llmhw_provision.evidence import Evidence
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.probes import gpu_board, gpu_packages, gpu_sources, kernels, mounts, readiness
from llmhw_provision.units import MIB, memory

_BOARDS = {"none": "no NVSwitch", "nvswitch": "NVSwitches", "nvlink5": "NVLink 5 switches"}
# Bytes where the package manager does not yet know the packages. The sources of the open modules take 241 MB under
# /usr/src (gershwin-desktop/gershwin-desktop#95) and are copied to /var/lib/dkms to be built, with as much again of
# objects; the installer of CUDA 12.8.1 alone is 5382238770 bytes, compressed (compiler-explorer/infra#1554), and the
# packages are fetched into /var/cache before they are unpacked.
_SOURCES, _CUDA = 241_000_000, 5_382_238_770
_BUILD = 2 * _SOURCES
_RESIZABLE = 0.9  # of its memory: a card whose window is smaller shows it piece by piece


def board(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The board has the switches that were planned for: they decide about fabric manager and NVLSM."""
    wanted, found = stack(host).driver.board, gpu_board.switches(evidence)
    kinds = sorted(set(found.values()))
    text = ", ".join(f"{list(found.values()).count(kind)}× {_BOARDS[kind]}" for kind in kinds) or _BOARDS["none"]
    if wanted == "none":
        return failed(text, _BOARDS[wanted], "unplanned") if found else passed(text, _BOARDS[wanted])
    return passed(text, _BOARDS[wanted]) if wanted in kinds else failed(text, _BOARDS[wanted])


def windows(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Each GPU's largest memory window holds its memory: Resizable BAR, where the card does not bring it by itself."""
    size = (planned(host).memory_mib or 0) * MIB
    expected = f"windows of {memory(size)} or more"
    found = {at: max((size for _, size in bars), default=0) for at, bars in readiness.bars(evidence).items()}
    small = {at: window for at, window in found.items() if window < _RESIZABLE * size}
    if small:
        return warned("; ".join(f"{at}: {memory(window)}" for at, window in list(small.items())[:4]), expected)
    return passed(f"{len(found)} GPUs", expected)


def flavour(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The planned kernel modules can run the GPUs, and no package of the other flavour is in the way."""
    wanted = stack(host).driver
    expected = f"{wanted.modules} modules"
    if wanted.modules not in _runs_on(planned(host).kind):
        return failed(f"{expected} are planned; {planned(host).kind} runs on the open ones only", "open modules")
    closed = re.compile(
        r"^(nvidia-kernel-dkms|nvidia-dkms-[0-9]+(-server)?|kmod-nvidia(-latest)?-dkms|cuda-drivers.*)$"
    )
    there = [name for name in gpu_packages.packages(evidence).installed if closed.match(name)]
    if wanted.modules == "open" and there:
        return warned(f"installed: {', '.join(there[:4])}", expected, "exchange")
    return passed(expected, expected)


def _runs_on(kind: str) -> tuple[str, ...]:
    """Kernel modules that run GPUs of this kind."""
    record = software().architecture(find("gpus", kind, Gpu).compute_capability) if kind in names("gpus") else None
    return record[1].modules if record else ("open", "closed")


def leftovers(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """No driver lies on the host that no package knows: the .run installer's files win over the package's."""
    found = gpu_board.leftovers(evidence)
    expected = "no driver beside the package manager"
    return failed(", ".join(found[:4]), expected) if found else passed(expected, expected)


def headers(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Every kernel that may run has its headers, or a source offers them: the driver is built against them."""
    found = kernels.kernels(evidence)
    lacking = [name for name in found.wanted if name not in found.headers and name not in found.offered]
    expected = f"headers of {', '.join(found.wanted)}"
    if lacking:
        return failed(f"none, and none on offer, for {', '.join(lacking)}", expected)
    later = [name for name in found.wanted if name not in found.headers]
    return passed(f"on offer for {', '.join(later)}" if later else "installed", expected)


def tracks(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """One track of kernels: with two, the next boot may take a kernel that nobody built a driver for."""
    found = kernels.kernels(evidence).tracks
    expected = "one track of kernels"
    return warned(", ".join(found), expected) if len(found) > 1 else passed(", ".join(found) or "none", expected)


def tools(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """What builds the modules is installed or on offer, new enough."""
    offers, bad = gpu_sources.offers(evidence), {}
    for need in stack(host).driver.needs:
        name, _, floor = need.partition(">=")
        offer = offers.get(name)
        best = max((offer.installed, offer.candidate), key=_digits) if offer else ""
        if not best:
            bad[name] = "not on offer"
        elif floor and _digits(best) < _digits(floor):
            bad[name] = f"{best}, {floor} is needed"
    expected = ", ".join(stack(host).driver.needs) or "nothing"
    old = any("needed" in text for text in bad.values())
    if bad:
        return failed("; ".join(f"{name}: {text}" for name, text in bad.items()), expected, "old" if old else "")
    return passed("installed or on offer", expected)


def _digits(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", gpu_packages.upstream(version)))


def room(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Room for driver and CUDA: as the package manager counts it; else what they take at least."""
    solved, free = gpu_sources.solution(evidence), mounts.room(evidence)
    cuda = _CUDA if stack(host).cuda else 0
    fill = _SOURCES + cuda if solved.fill_bytes is None else solved.fill_bytes
    fetch = cuda if solved.fetch_bytes is None else solved.fetch_bytes
    build = _BUILD if fill and stack(host).driver.dkms else 0
    needs: dict[str, int] = {}
    for path, size in (("/usr", fill), ("/var", fetch + build)):
        mount = max((name for name in free if name == "/" or f"{path}/".startswith(f"{name}/")), key=len, default="/")
        needs[mount] = needs.get(mount, 0) + size
    tight = {mount: need for mount, need in needs.items() if free.get(mount, (0, 0))[1] < need}
    expected = ", ".join(f"{memory(need)} on {mount}" for mount, need in sorted(needs.items()))
    if tight:
        return failed("; ".join(f"{mount} has {memory(free.get(mount, (0, 0))[1])} free" for mount in tight), expected)
    return passed(", ".join(f"{mount} {memory(free[mount][1])}" for mount in sorted(needs) if mount in free), expected)


def secure_boot(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Secure Boot is off, or what is built here will be signed by a key that the firmware knows."""
    expected = "off, or modules signed by an enrolled key"
    on, found = readiness.secure_boot(evidence), gpu_board.keys(evidence)
    if not on:
        return passed("no UEFI" if on is None else "off", expected)
    if not found.enrolled:
        return failed("on, and no key to sign modules with", expected)
    if not any(found.enrolled.values()):
        return failed(f"on, and {', '.join(found.enrolled)} is not enrolled", expected, "enrol")
    if not found.signs:
        return failed(f"on, and dkms {'.'.join(map(str, found.dkms))} is told no key", expected, "unsigned")
    return passed("on, with an enrolled key", expected)


def _sized(host: HostPlan) -> tuple[str, ...]:
    gpus = gpus_of(host)
    return ("",) if with_stack(host) and gpus and gpus.memory_mib and gpus.kind in names("gpus") else ()


_B: tuple[Level, ...] = ("before",)
_PAGE = "preflight-gpu"
_KERNELS, _KEYS = kernels.COMMAND.key, gpu_board.KEYS.key
CHECKS = (
    Check("gpu-board", "gpu", _B, "critical", _PAGE, gpu_board.SWITCHES.key, with_stack, board),
    Check("gpu-windows", "gpu", _B, "minor", _PAGE, readiness.BARS.key, _sized, windows),
    Check("gpu-flavour", "gpu", _B, "critical", _PAGE, "gpu-packages", with_stack, flavour),
    Check("gpu-leftovers", "gpu", _B, "critical", _PAGE, gpu_board.FILES.key, with_stack, leftovers),
    Check("gpu-headers", "gpu", _B, "critical", _PAGE, _KERNELS, with_build, headers),
    Check("gpu-tracks", "gpu", _B, "major", _PAGE, _KERNELS, with_stack, tracks),
    Check("gpu-tools", "gpu", _B, "critical", _PAGE, "gpu-offers", with_build, tools),
    Check("gpu-room", "gpu", _B, "critical", _PAGE, "gpu-solution", with_stack, room),
    Check("gpu-signing", "gpu", _B, "critical", _PAGE, _KEYS, with_build, secure_boot),
)
