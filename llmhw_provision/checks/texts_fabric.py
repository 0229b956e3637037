"""Texts of InfiniBand, drives and the management controller."""

from __future__ import annotations

from llmhw_provision.checks.texts_base import Words, family

FABRIC: dict[str, Words] = {
    **family(
        "ib-adapters",
        "RDMA adapters are there",
        usual=("an adapter is missing or was renamed", "lspci for Mellanox; dmesg for mlx5_core; reseat it"),
        none=("no adapter has a driver", "lsmod for mlx5_ib; install rdma-core or DOCA-OFED; then reboot"),
        panic=("an adapter broke off while it was read: its driver or firmware hangs", "dmesg for mlx5_core; reboot"),
    ),
    **family(
        "ib-ports",
        "RDMA ports carry traffic at full rate",
        usual=(
            "no cable, a dead module, or the switch's port is off",
            "check both ends of the cable; swap it; mlxlink",
        ),
        no_manager=(
            "no subnet manager runs: all ports wait for their address",
            "start it on the switch, or opensm on exactly one host",
        ),
        initializing=("the subnet manager does not see this port", "check its cable and the switch's port; sminfo"),
        address=(
            "the link is up and the port is not: a virtual function without a GUID",
            "set its GUID, or its policy",
        ),
        rate=("a cable or port of the next lower rate, or a split cable", "check the part numbers of cable and port"),
        layer=("the port speaks the other protocol", "mlxconfig: LINK_TYPE; then power cycle"),
    ),
    **family(
        "ib-width",
        "RDMA ports use all lanes",
        usual=("lanes did not train: a dirty or bent connector", "clean and reseat the cable; swap it"),
    ),
    **family(
        "ib-manager",
        "a subnet manager answers",
        usual=("none runs, or the port is down", "start it on the switch, or opensm on exactly one host"),
        umad=("the module ib_umad is not loaded", "modprobe ib_umad; name it in /etc/modules-load.d"),
        several=(
            "two subnet managers: the one that answers is not the master",
            "leave one running, on the switch or on one host; stop opensm elsewhere",
        ),
    ),
    **family(
        "ib-firmware",
        "equal adapters have equal firmware",
        usual=("one was exchanged or updated alone", "bring all to one version (mlxfwmanager), then power cycle"),
    ),
    **family(
        "ib-counters",
        "RDMA error counters stand still",
        usual=("a cable or module loses data", "clean and reseat it; swap it with a neighbour's to see what moves"),
    ),
    **family(
        "ib-cable",
        "cable of {subject}",
        usual=("the adapter names the fault itself", "do what its recommendation says; check both ends"),
        width=("it trained with fewer lanes, though it finds no fault", "clean and reseat the cable; swap it"),
    ),
    **family(
        "ib-gpu-direct",
        "NICs reach GPU memory",
        usual=(
            "ib_core comes from the distribution and offers no peer clients",
            "use dma-buf with the open modules, or install DOCA-OFED",
        ),
        flavour=("dma-buf needs the open kernel modules", "exchange the driver's modules for the open ones"),
        rebuild=(
            "nvidia_peermem was built against another ib_core",
            "rebuild the driver after DOCA-OFED was installed: dkms autoinstall; modprobe nvidia_peermem",
        ),
    ),
    **family(
        "ib-gid",
        "RoCE address of each port",
        usual=(
            "the index of the RoCE v2 address is not the one that is set, or the port has no IPv4 address",
            "leave NCCL_IB_GID_INDEX unset (NCCL 2.21 and later find it); show_gids lists them",
        ),
    ),
}
MACHINE: dict[str, Words] = {
    **family(
        "drive-health",
        "health of drive {subject}",
        usual=("the drive is failing", "save what is on it, then exchange it; see the runbook"),
        hot=("the drive is too hot", "check fans, baffles and the slot's air flow"),
        media=(
            "the drive could not read back what it had stored",
            "save what is on it; exchange it if the count grows",
        ),
        worn=("the drive has written what its vendor promises", "plan its exchange"),
    ),
    **family(
        "drive-test",
        "own health test of drive {subject}",
        usual=("the drive is failing", "save what is on it, then exchange it; smartctl -a names the attribute"),
    ),
    **family(
        "drive-log",
        "no drive error in the kernel log",
        usual=("a drive does not answer, or failed", "dmesg names it; see the runbook before anything is written"),
    ),
    **family(
        "pcie-links",
        "PCIe links of drives and network adapters",
        slots=(
            "the slots offer less than the devices can do",
            "nothing, if the board was chosen so; else another slot",
        ),
        usual=(
            "a slot of an older generation, or a link that trained down",
            "compare the slot with the manual; reseat",
        ),
        width=("lanes did not train: seating, cable or backplane", "reseat it; swap the slot to see what moves"),
    ),
    **family(
        "bmc-sensors",
        "sensors of the management controller",
        usual=("a fan, a temperature or a voltage is out of bounds", "find the part by its name; exchange it"),
        power=("a power supply has failed or has no input", "check its cable and feed; then exchange it"),
    ),
    **family(
        "bmc-events",
        "event log of the management controller",
        usual=("a memory module is failing", "ipmitool sel elist names the slot; exchange the module"),
        power=("a feed was off", "check the feed; clear the log (ipmitool sel clear) once it is understood"),
    ),
}
