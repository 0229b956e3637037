"""Texts of the GPUs: driver, fabric, links; and those of their health."""

from __future__ import annotations

from llmhw_provision.checks.texts_base import Words, family
from llmhw_provision.checks.texts_gpu_health import HEALTH

_RESEAT = "power off, reseat it or its riser; if it does not come back, exchange it"
_DRIVER: dict[str, Words] = {
    **family(
        "gpu-present",
        "GPUs on the PCI bus",
        usual=("a GPU has fallen off the bus, is not seated, or has no power", "see dmesg for its address; " + _RESEAT),
        other=(
            "other cards than planned are in the machine",
            "compare with the delivery note; run discover and plan again",
        ),
    ),
    **family(
        "gpu-answers",
        "the driver answers for every GPU",
        usual=("the driver or its library fails", "run nvidia-smi by hand; look at dmesg for NVRM lines"),
        fewer=(
            "the driver has given up a GPU, though the PCI bus may still show it",
            "dmesg tells which (Xid 79, RmInitAdapter); the others have new numbers",
        ),
        hangs=("a GPU no longer answers, or the driver loads anew at each call", "dmesg for Xid lines; reboot"),
        gpu_lost=(
            "one GPU is lost; as long as it is, no query answers for the others",
            "dmesg for its address; drain the node and power it off; reseat or exchange the GPU",
        ),
        driver_library_mismatch=(
            "the driver's files were upgraded under the loaded module",
            "reboot; then hold the packages (apply does), so that no unattended upgrade moves them",
        ),
        driver_not_loaded=(
            "the module was not built for the running kernel, was refused, or is blacklisted",
            "dkms status; modprobe nvidia; dmesg says why it is refused",
        ),
        no_devices=(
            "the module is loaded and can use no GPU: wrong flavour of modules, or no address space for them",
            "dmesg for RmInitAdapter; Blackwell needs the open modules; Above 4G Decoding must be on",
        ),
        not_installed=("the driver is not installed, or its tools are not", "run apply"),
        invalid_field=("the driver is older than any that is supported here", "run apply with the planned driver"),
    ),
    **family(
        "gpu-kind",
        "all GPUs are of the planned kind",
        usual=("cards of different kinds are mixed", "compare with the delivery note; exchange the odd one"),
        memory=(
            "another card than planned, or a GPU with part of its memory disabled",
            "nvidia-smi -q: product, part number, ECC; compare with the delivery note",
        ),
        vbios=("one card has another firmware than its equals", "ask the vendor for the same VBIOS on all cards"),
    ),
    **family(
        "gpu-version",
        "one driver version everywhere",
        usual=("another driver than planned was installed", "run apply, or plan again with the version that is there"),
        half=(
            "an upgrade changed the files and not the loaded module, or stopped half-way",
            "dpkg --audit (rpm -V); then reboot. If it stays after the reboot, rebuild: dkms autoinstall",
        ),
        fabric_manager=(
            "the fabric manager is of another version than the driver: it refuses to start, and CUDA fails with 802",
            "install the fabric manager of exactly the driver's version and hold both; then restart it",
        ),
    ),
    **family(
        "gpu-modules",
        "flavour of the kernel modules",
        usual=(
            "the other flavour was installed; Blackwell GPUs run on the open modules only",
            "exchange the packages (nvidia-open for nvidia-driver), rebuild, reboot",
        ),
        none=(
            "the build of the module failed and the package installation hid it",
            "dkms status; read /var/lib/dkms/nvidia/*/build/make.log",
        ),
    ),
    **family(
        "gpu-bound",
        "no other driver holds a GPU",
        usual=(
            "nouveau, nova_core or vfio took the GPU before the nvidia driver could",
            "blacklist it, rebuild the initramfs, reboot; lspci -k shows who holds it",
        ),
    ),
    **family(
        "gpu-start",
        "the driver started without an error",
        usual=("the driver could not start on a GPU", "read the NVRM lines in dmesg"),
        mismatch=("module and library are of different versions", "reboot; then see the driver version"),
        rejected=(
            "Secure Boot refuses the module: it is not signed by an enrolled key",
            "enrol the key (mokutil --import, at the console), or turn Secure Boot off",
        ),
        taken=(
            "another kernel driver (nova_core, nouveau) holds the GPUs",
            "blacklist it, rebuild the initramfs, reboot",
        ),
        firmware=(
            "the GPU has no address space: Above 4G Decoding or Resizable BAR is off; or the card is defective",
            "turn both on in the firmware; if one card of several fails, exchange it",
        ),
    ),
    **family(
        "gpu-persistence",
        "persistence mode",
        usual=(
            "nvidia-persistenced does not run; it may have started before the device files were there",
            "systemctl status nvidia-persistenced; run apply",
        ),
    ),
    **family(
        "gpu-mig",
        "MIG mode as planned",
        usual=("MIG was switched by hand, or waits for a reset of the GPU", "nvidia-smi -mig 0 (or 1), then reset it"),
    ),
}
_LINKS: dict[str, Words] = {
    **family(
        "gpu-manager",
        "fabric manager",
        usual=("the fabric manager failed", "systemctl status nvidia-fabricmanager; /var/log/fabricmanager.log"),
        absent=("the fabric manager is not installed: CUDA fails with 802 without it", "run apply"),
        unwanted=(
            "this machine has no NVSwitch: the fabric manager finds nothing to do and fails",
            "remove the package nvidia-fabricmanager; bridges and PCIe cards do not need it",
        ),
        version_mismatch=(
            "driver and fabric manager are of different versions",
            "install the fabric manager of exactly the driver's version and hold both",
        ),
        topology_mismatch=(
            "NVSwitches or GPUs are missing, so that the board matches none that is known",
            "count GPUs and NVSwitches with lspci; power off and on; then the board's vendor",
        ),
        nvlsm_missing=("Blackwell's NVSwitches need the subnet manager nvlsm", "install nvlsm; see the runbook"),
        ib_umad_missing=("the module ib_umad is not loaded", "modprobe ib_umad; name it in /etc/modules-load.d"),
        sxid_fatal=(
            "an NVSwitch reported a fatal error",
            "drain the node, power off and on; if it repeats, exchange it",
        ),
        nothing_to_do=(
            "it sees no NVSwitch though there should be: driver not loaded, or nvlsm missing on Blackwell",
            "lspci for the NVSwitches; on Blackwell install nvlsm and load ib_umad",
        ),
    ),
    **family(
        "gpu-fabric",
        "every GPU is registered with the fabric",
        usual=("the fabric manager failed, or an NVLink did not train", "see the fabric manager; then restart it"),
        waits=(
            "the fabric manager does not run, or has not finished: CUDA fails with 802 until it has",
            "systemctl status nvidia-fabricmanager; on Blackwell also nvlsm",
        ),
    ),
    **family(
        "gpu-topology",
        "GPUs are joined as planned",
        usual=(
            "NVLinks of the named GPU are down, or a bridge is half seated",
            "nvidia-smi nvlink -s names the links; reseat the GPU or the bridge",
        ),
        slow=("a bridge is half seated, or a GPU hardly answers", "reseat the bridge; look at dmesg"),
        fewer=("a GPU is missing; the others have new numbers", "see the number of GPUs first"),
    ),
    **family(
        "gpu-nvlink",
        "NVLinks are up",
        usual=(
            "links of the named GPU did not train: seating, the board, or a dead link",
            "reset the GPU (nvidia-smi -r); if they stay down, power off and reseat; then exchange it",
        ),
        all=(
            "links are down on every GPU: NVSwitches or fabric manager, or they were switched off in the driver",
            "see the fabric manager; NVreg options in /etc/modprobe.d",
        ),
        speed=("a link trained at another speed than its equals", "reset the GPU; then reseat it"),
    ),
    **family(
        "gpu-nvlink-errors",
        "NVLink error counters stand still",
        usual=("a link loses data and repeats it: seating or a dying link", "repeat under load; reseat or exchange it"),
    ),
    **family(
        "gpu-peers",
        "GPUs reach each other's memory",
        usual=(
            "the driver refuses peer access between these GPUs",
            "GeForce cards have none; else see ACS and the IOMMU",
        ),
        chipset=(
            "the chipset does not pass traffic between root ports",
            "seat the cards under one root complex or switch",
        ),
    ),
    **family(
        "gpu-nics",
        "each GPU has a NIC of its own nearby",
        usual=("a NIC is missing, in another slot, or hidden by the virtual machine", "compare slots with the manual"),
        side=(
            "the NIC hangs on another port of the same processor: traffic crosses the processor",
            "nothing, where the board has no better slot; else move the card",
        ),
    ),
    **family(
        "gpu-affinity",
        "CPUs near each GPU are known",
        usual=("the firmware tells no NUMA node, or hides it", "look for NUMA and sub-NUMA settings in the firmware"),
    ),
    **family(
        "gpu-pcie",
        "PCIe link of each GPU",
        usual=(
            "the link trained down: seating, riser, retimer, or a slot with fewer lanes",
            "power off and reseat card and riser; check the slot's setting in the firmware",
        ),
    ),
}
GPU: dict[str, Words] = _DRIVER | _LINKS | HEALTH
