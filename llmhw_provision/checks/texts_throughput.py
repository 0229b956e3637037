"""Texts of the measurement of the GPUs under load; `texts.py` holds the others."""

from __future__ import annotations

from llmhw_provision.checks.texts_base import Words, family

THROUGHPUT: dict[str, Words] = {
    **family(
        "bench-complete",
        "GPUs measured under load",
        usual=(
            "a part of the measurement ended with an error: the driver, a library, or a GPU under load",
            "read what it said; dmesg for Xid lines of that minute; then verify again",
        ),
        hangs=(
            "GPUs wait for each other: a link, ACS or the IOMMU between them, or peer access that does not exist",
            "NCCL_P2P_DISABLE=1 tells whether it is the peer access; see gpu-peers, gpu-topology and tuning",
        ),
        fewer=("a GPU is missing; the others have new numbers", "see the number of GPUs first"),
    ),
    **family(
        "bench-values",
        "results of collectives and copies",
        usual=(
            "data changed on the way or in a GPU: memory, NVLink or PCIe without an error of its own",
            "drain the node; verify again: the same GPU or link again is the one to exchange",
        ),
    ),
    **family(
        "bench-sums",
        "one seeded computation, one result",
        usual=(
            "the named GPU computes wrongly without reporting an error",
            "drain the node, dcgmi diag -r 4 on that GPU; if the sum differs again after a reset, exchange it",
        ),
    ),
    **family(
        "bench-collectives",
        "speed of {subject}",
        usual=(
            "links that are down or slow, or traffic that goes through the host's memory",
            "see gpu-nvlink, gpu-topology, gpu-peers and the fabric manager; NCCL_DEBUG=INFO shows the way taken",
        ),
        ring=(
            "NVLS is not engaged: this is the ring's speed",
            "see the fabric manager and its log; NCCL_NVLS_ENABLE must not be 0 in /etc/nccl.conf",
        ),
    ),
    **family(
        "bench-copies",
        "speed of {subject}",
        usual=(
            "the PCIe link trained down, or memory of another NUMA node or the IOMMU is on the way",
            "see gpu-pcie for lanes and generation; numactl -H; intel_iommu or amd_iommu in the kernel's line",
        ),
        pairs=(
            "links between the named GPUs are down, or copies go through the host's memory",
            "see gpu-nvlink, gpu-topology and gpu-peers; reseat the bridge or the GPU",
        ),
        memory=(
            "the memory runs at a lower clock, or another job used it at that time",
            "nvidia-smi -q -d CLOCK,PERFORMANCE; see gpu-slowdown and gpu-power",
        ),
    ),
    **family(
        "bench-products",
        "speed of {subject}",
        usual=(
            "the GPU's clock is held down by heat, by its power limit or by the board",
            "compare clock, power and temperature with the other GPUs; see gpu-slowdown, gpu-power, gpu-temperature",
        ),
    ),
}
