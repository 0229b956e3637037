"""Texts of the GPUs' health: memory, clocks, heat, and what the kernel log tells."""

from __future__ import annotations

from llmhw_provision.checks.texts_base import Words, family

HEALTH: dict[str, Words] = {
    **family(
        "gpu-ecc",
        "GPU memory without uncorrectable errors",
        usual=("memory of the named GPU is failing", "drain the node and reset the GPU; if it returns, exchange it"),
        off=("ECC was switched off by hand, or waits for a reset", "nvidia-smi -e 1, then reset the GPU or reboot"),
        history=("errors of the past, repaired since", "note the count; exchange the GPU if it grows"),
    ),
    **family(
        "gpu-remap",
        "no repair of GPU memory is pending",
        usual=(
            "a failing row is replaced by a spare one at the next reset",
            "drain the node and reset the GPU (or reboot); Pending must then read No",
        ),
        failed=("the GPU has no spare rows left, or the repair failed", "exchange the GPU: this is a warranty case"),
    ),
    **family(
        "gpu-slowdown",
        "nothing slows the GPUs' clocks down",
        usual=("the GPU is too hot: air flow, coolant, dust, fan", "see its temperature and the BMC's fans"),
        brake=("a power supply or the board signals a lack of power", "see the BMC's power supplies and cables"),
    ),
    **family(
        "gpu-temperature",
        "no GPU is much hotter than the others",
        usual=("its cooler has lost contact or flow", "check cold plate, hoses, air baffle of that slot"),
    ),
    **family(
        "gpu-power",
        "power limit",
        usual=("somebody set a lower limit", "nvidia-smi -pl WATTS; find who sets it (a unit, a tuning script)"),
    ),
    **family(
        "gpu-xid",
        "no GPU fault in the kernel log",
        usual=("a GPU reported a fault", "look up the Xid in NVIDIA's catalogue"),
        bus=(
            "the GPU has fallen off the bus: power, heat, seating or the card",
            "power off and reseat it; watch the BMC for power and heat; if it repeats, exchange it",
        ),
        memory=(
            "GPU memory is failing",
            "drain the node, reset the GPU, then see pending repairs; exchange it if it repeats",
        ),
        nvlink=("an NVLink failed", "see NVLinks and fabric manager; reseat the GPU if it repeats"),
        firmware=("the GPU's own processor stopped", "reboot; if it repeats on one card, exchange it; else the driver"),
        reset=(
            "the driver asks for a reset or a reboot",
            "drain the node and do so: nvidia-smi -q, GPU Recovery Action",
        ),
        remap=("a failing row of GPU memory waits for its replacement", "drain the node and reset the GPU"),
        contained=("a memory error hit one application, which was ended", "run the job again; see pending repairs"),
        application=(
            "an application made an invalid access",
            "tell its owner; only if it follows one GPU, test that GPU",
        ),
    ),
    **family(
        "gpu-sxid",
        "no NVSwitch fault in the kernel log",
        usual=(
            "an NVSwitch reported a fatal error",
            "drain the node, power off and on; if it repeats, exchange the board",
        ),
        mild=("an NVSwitch corrected an error", "look at the links it names; watch whether it repeats"),
    ),
    **family(
        "pcie-errors",
        "no PCIe error in the kernel log",
        usual=("a device or its slot is failing", "lspci -s ADDRESS names it; reseat it and its riser"),
        corrected=("a link at its limit: seating, riser, retimer", "reseat; if one device keeps logging, exchange it"),
    ),
    **family(
        "host-errors",
        "no processor or memory error in the kernel log",
        usual=("a memory module is failing", "the BMC's event log names the slot; exchange the module"),
        events=("a processor, memory or a bus reported an error", "journalctl -k for the lines; the BMC's event log"),
    ),
}
