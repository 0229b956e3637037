"""Before apply: room, clock, name, firmware."""

from __future__ import annotations

from llmhw_provision.checks.gpu_plan import with_build
from llmhw_provision.checks.model import Check, Level, Outcome, failed, passed, warned
from llmhw_provision.checks.views import whole_host
from llmhw_provision.evidence import Evidence
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.probes import mounts, readiness
from llmhw_provision.units import GIB, MIB, memory

# Bytes that an installation takes at most, by where it puts them.
# /var: the package lists of Debian 13 (main) take 95 MB (measured), twice while they are fetched anew; then archives.
# / and /opt: programs; what belongs to the GPUs is counted by the roles that install it.
NEEDS = {"/": GIB, "/var": GIB, "/opt": GIB}
_BOOT = 128 * MIB  # where no image tells how large they are: Debian 12's, with most modules, are 40 to 80 MB
# munge refuses credentials older than 300 s (munged: --default-ttl); a fifth of it leaves room for drift.
_CLOCK_S = 60
_CLOCK_NOTICED_S = 5


def room(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Room for the installation; what lies on the same file system adds up, and none is read-only."""
    free, entries = mounts.room(evidence), mounts.mounted(evidence)
    image = readiness.largest_image(evidence)
    # update-initramfs writes the new image beside the old one, and may keep a copy of that.
    needs = {**NEEDS, "/boot": 2 * image if image else _BOOT}
    by_mount: dict[str, list[str]] = {}
    for path in needs:
        by_mount.setdefault(_mount(free, path), []).append(path)
    wrong, fine = [], []
    for mount, paths in sorted(by_mount.items()):
        need, left = sum(needs[path] for path in paths), free.get(mount, (0, 0))[1]
        entry = mounts.at(entries, mount)
        if entry is not None and "ro" in entry.options:
            wrong.append(f"{mount} is mounted read-only")
        elif left < need:
            wrong.append(f"{mount} has {memory(left)} free, {memory(need)} are needed for {', '.join(sorted(paths))}")
        else:
            fine.append(f"{mount} {memory(left)}")
    expected = "room for the installation"
    return failed("; ".join(wrong), expected) if wrong else passed(f"free: {', '.join(fine)}", expected)


def _mount(free: dict[str, tuple[int, int]], path: str) -> str:
    """The file system that `path` lies on."""
    holding = [mount for mount in free if mount == "/" or path == mount or path.startswith(mount + "/")]
    return max(holding, key=len, default="/")


def clock(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The clock agrees with ours: else package signatures, certificates and munge fail with other words."""
    offset = readiness.clock_offset(evidence)
    text = f"{abs(offset)} s {'ahead of' if offset > 0 else 'behind'} the clock here" if offset else "as the clock here"
    expected = f"within {_CLOCK_S} s"
    if abs(offset) > _CLOCK_S:
        return failed(text, expected)
    return warned(text, expected) if abs(offset) > _CLOCK_NOTICED_S else passed(text, expected)


def name(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The host finds an address for its own name: sudo waits for it, Slurm and MPI need it."""
    own, addresses = readiness.own_name(evidence)
    expected = "an address for its own name"
    if not addresses:
        return warned(f"{own} has no address", expected)
    return passed(f"{own} is {', '.join(addresses)}", expected)


def secure_boot(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Secure Boot is off, or nothing here loads a module of its own: then it may be on."""
    on = readiness.secure_boot(evidence)
    if on and readiness.bars(evidence):
        return warned("on, and there are GPUs", "off, or a key that signs modules enrolled")
    return passed({None: "no UEFI", False: "off", True: "on, no GPU"}[on], "known")


def windows(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The firmware gave every GPU's memory window an address."""
    found = readiness.bars(evidence)
    without = [address for address, bars in found.items() if not bars or any(start == 0 for start, _ in bars)]
    expected = "an address for every memory window"
    if without:
        return failed(f"no address for a window of {', '.join(without)}", expected)
    sizes = sorted({memory(max(size for _, size in bars)) for bars in found.values()})
    return passed(f"{len(found)} GPUs, largest window {', '.join(sizes)}" if found else "no GPU", expected)


def _unbuilt(host: HostPlan) -> tuple[str, ...]:
    """Where apply builds the driver, gpu-signing asks the same and more."""
    return () if with_build(host) else ("",)


_B: tuple[Level, ...] = ("before",)
CHECKS = (
    Check("host-room", "host", _B, "critical", "preflight-host", "df", whole_host, room),
    Check("host-clock", "host", _B, "critical", "preflight-host", "clock", whole_host, clock),
    Check("host-name", "host", _B, "minor", "preflight-host", "own-name", whole_host, name),
    Check("firmware-secure-boot", "host", _B, "major", "preflight-host", "secure-boot", _unbuilt, secure_boot),
    Check("firmware-windows", "host", _B, "critical", "preflight-host", "gpu-bars", whole_host, windows),
)
