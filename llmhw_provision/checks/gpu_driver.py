"""The GPUs and their driver: all there, all of one kind, all answering, one driver version everywhere."""

from __future__ import annotations

from llmhw_provision.checks.gpu_views import (
    error_of,
    gpus_of,
    judged,
    listed,
    outliers,
    planned,
    rows,
    with_driver,
    with_gpus,
)
from llmhw_provision.checks.model import Check, Outcome, failed, passed
from llmhw_provision.checks.views import NotThere
from llmhw_provision.evidence import Evidence
from llmhw_provision.plan.model import HostPlan
from llmhw_provision.probes import dmesg, driver_files, lspci, nvidia_csv, nvidia_list, pci
from llmhw_provision.probes.reading import output, unreadable
from llmhw_provision.probes.screen import broken

_NVIDIA, _GPU_CLASSES = "10de", ("0300", "0302")
# Drivers differ by what they keep for themselves; ECC on GDDR memory takes 6 %, the next smaller card far more.
_MEMORY = 0.02


def present(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The planned number of GPUs of the planned kind is on the PCI bus."""
    wanted = planned(host)
    found = [
        f"{device.vendor_id}:{device.device_id}"
        for device in pci.devices(evidence)
        if device.vendor_id == _NVIDIA and device.class_id in _GPU_CLASSES
    ]
    mine = [name for name in found if name in wanted.pci_ids] if wanted.pci_ids else found
    expected = f"{wanted.count}× {wanted.kind}"
    text = f"{len(mine)}× {wanted.kind}"
    others = sorted(set(found) - set(mine))
    if others:
        text += "".join(f", {found.count(name)}× {name}" for name in others)
        return failed(text, expected, "other")
    return passed(text, expected) if len(mine) == wanted.count else failed(text, expected)


def answers(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The driver answers, and for every planned GPU: one that is lost renumbers the others, so they are counted."""
    wanted = planned(host).count
    expected = f"{wanted} GPUs answer"
    result = evidence.get(nvidia_list.LIST.key)
    if result is not None and result.timed_out:
        return failed(result.why(), expected, "hangs")
    for key in (nvidia_list.LIST.key, nvidia_csv.QUERY.key):
        error, address = error_of(evidence, key)
        if error:
            text = f"nvidia-smi: {error.replace('_', ' ')}" + (f" ({address})" if address else "")
            return failed(text, expected, error.replace("_", "-"))
    found = nvidia_list.gpus(evidence)
    if len(found) != wanted:
        return failed(f"{len(found)} GPUs answer", expected, "fewer")
    unread = {
        name: f"{', '.join(field for field, cell in row.items() if broken(cell))} cannot be read"
        for name, row in rows(evidence).items()
        if any(map(broken, row.values()))
    }
    return failed(listed(unread), expected, "gpu-lost") if unread else passed(f"{len(found)} GPUs answer", expected)


def alike(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """All GPUs have one name and the planned memory."""
    wanted, found = planned(host), rows(evidence)
    expected = f"{wanted.count}× one kind" + (f", {wanted.memory_mib} MiB each" if wanted.memory_mib else "")
    names = {gpu: row["name"] for gpu, row in found.items()}
    if len(set(names.values())) > 1:
        other = outliers(names) or names
        return failed(listed(other), expected)
    sizes = {gpu: nvidia_csv.number(row["memory.total"]) for gpu, row in found.items()}
    bad = {}
    for gpu, size in sizes.items():
        if size is None:
            raise unreadable("nvidia-smi", f"{gpu} memory.total {found[gpu]['memory.total']}")
        if wanted.memory_mib and abs(size - wanted.memory_mib) > _MEMORY * wanted.memory_mib:
            bad[gpu] = f"{size} MiB"
    if bad:
        return judged(bad, "", expected, variant="memory")
    firmware = outliers({gpu: row["vbios_version"] for gpu, row in found.items()})
    other = {gpu: f"VBIOS {text}, unlike the others" for gpu, text in firmware.items()}
    return judged(other, f"{len(found)}× {next(iter(names.values()))}", expected, variant="vbios")


def version(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """Loaded module, module on the disk, library packages and fabric manager are one version, the planned one."""
    wanted = planned(host)
    files = driver_files.files(evidence)
    if not files.loaded:
        raise NotThere("no nvidia module is loaded")
    seen = {"loaded module": files.loaded, "module on the disk": files.file}
    seen |= {name: version for name, version in files.packages.items() if "fabric" not in name}
    tool = evidence.get(nvidia_list.VERSION.key)
    if tool is None:
        raise unreadable("nvidia-smi --version", "", "not read")
    if tool.rc == 0:  # drivers before 550 do not know the option
        seen["nvidia-smi"] = str(nvidia_list.facts_version(tool.stdout).get("nvidia_smi") or "")
    expected = f"{wanted.driver} everywhere"
    half = {name: found or "none" for name, found in seen.items() if found != files.loaded}
    if half:
        return failed(f"loaded module: {files.loaded}; {listed(half)}", expected, "half")
    if wanted.nvlink == "switch":
        managers = {name: found for name, found in files.packages.items() if "fabric" in name}
        managers["fabric manager"] = files.fabric_manager
        apart = {name: found or "none" for name, found in managers.items() if found != files.loaded}
        if apart:
            return failed(f"driver: {files.loaded}; {listed(apart)}", expected, "fabric-manager")
    return passed(expected, expected) if files.loaded == wanted.driver else failed(files.loaded, expected)


def modules(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The kernel modules are of the planned flavour: Blackwell runs on the open ones only."""
    wanted, files = planned(host).modules, driver_files.files(evidence)
    if not files.file:
        return failed("no nvidia module on the disk for the running kernel", f"{wanted} modules", "none")
    found = "open" if files.open_modules else "proprietary"
    return passed(f"{found} modules", f"{wanted} modules") if found == wanted else failed(found, f"{wanted} modules")


def bound(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """No other driver has taken a GPU."""
    functions = [one for one in lspci.functions(evidence) if one.gpu]
    bad = {one.address: one.driver or "no driver" for one in functions if one.driver != "nvidia"}
    return judged(bad, f"{len(functions)} GPUs: nvidia", "driver nvidia")


# What the driver itself writes when it cannot start, and which of our causes that is.
_START = {
    "api_mismatch": "mismatch",
    "module_rejected": "rejected",
    "no_nvidia_device": "taken",
    "rm_init_adapter": "firmware",
}


def started(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The kernel log tells of no failed start of the driver."""
    found = [name for name in dmesg.parse(output(evidence, dmesg.COMMAND.key)).other if name in _START]
    expected = "no failed start in the kernel log"
    if found:
        return failed(", ".join(name.replace("_", " ") for name in found), expected, _START[found[0]])
    return passed(expected, expected)


def persistence(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """The driver stays loaded between jobs."""
    found = rows(evidence)
    bad = {gpu: row["persistence_mode"] for gpu, row in found.items() if row["persistence_mode"] != "Enabled"}
    return judged(bad, "Enabled", "Enabled on every GPU")


def mig(host: HostPlan, evidence: Evidence, subject: str) -> Outcome:  # noqa: ARG001
    """MIG mode as planned. A card without it says N/A."""
    wanted = "Enabled" if planned(host).mig else "Disabled"
    bad = {}
    for gpu, row in rows(evidence).items():
        found = row["mig.mode.current"].strip("[]")
        if found != wanted and not (wanted == "Disabled" and found in ("N/A", "Not Supported")):
            bad[gpu] = found
    return judged(bad, wanted, f"MIG {wanted}")


def _flavoured(host: HostPlan) -> tuple[str, ...]:
    gpus = gpus_of(host)
    return ("",) if gpus is not None and gpus.driver is not None and gpus.modules is not None else ()


_PAGE = "gpu-driver"
_LIST, _FILES, _ROWS = nvidia_list.LIST.key, driver_files.COMMAND.key, nvidia_csv.QUERY.key
CHECKS = (
    Check("gpu-present", "gpu", ("before", "quick"), "critical", _PAGE, "pci", with_gpus, present),
    Check("gpu-answers", "gpu", ("quick",), "critical", _PAGE, _LIST, with_driver, answers),
    Check("gpu-kind", "gpu", ("quick",), "major", _PAGE, _ROWS, with_driver, alike),
    Check("gpu-version", "gpu", ("quick",), "critical", _PAGE, _FILES, with_driver, version),
    Check("gpu-modules", "gpu", ("quick",), "critical", _PAGE, _FILES, _flavoured, modules),
    Check("gpu-bound", "gpu", ("quick",), "critical", _PAGE, "lspci", with_driver, bound),
    Check("gpu-start", "gpu", ("quick",), "critical", _PAGE, "dmesg", with_driver, started),
    Check("gpu-persistence", "gpu", ("quick",), "minor", _PAGE, _ROWS, with_driver, persistence),
    Check("gpu-mig", "gpu", ("quick",), "major", _PAGE, _ROWS, with_driver, mig),
)
