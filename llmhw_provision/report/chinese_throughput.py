"""Simplified Chinese texts of the measurement of the GPUs under load; `chinese.py` holds the others."""

from __future__ import annotations

from llmhw_provision.checks.texts_base import Words, family

THROUGHPUT: dict[str, Words] = {
    **family(
        "bench-complete",
        "GPU 负载测量",
        usual=(
            "测量的某一部分出错结束：驱动、某个库，或负载下的 GPU",
            "阅读其错误信息；在 dmesg 中查找该时刻的 Xid 行；然后重新 verify",
        ),
        hangs=(
            "GPU 之间无限等待：链路、途中的 ACS 或 IOMMU，或在不支持的卡上强制开启点对点访问",
            "用 NCCL_P2P_DISABLE=1 判断是否为点对点访问问题；查看 gpu-peers、gpu-topology 和主机调优",
        ),
        fewer=("缺少一块 GPU，其余 GPU 的编号随之改变", "先处理 GPU 数量的问题"),
    ),
    **family(
        "bench-values",
        "集合通信和拷贝的结果",
        usual=(
            "数据在传输途中或 GPU 内被改变：显存、NVLink 或 PCIe 出错但没有报错",
            "将节点移出调度；重新 verify：再次出现的同一 GPU 或链路即应更换的部件",
        ),
    ),
    **family(
        "bench-sums",
        "同一随机种子的计算结果一致",
        usual=(
            "所列 GPU 计算错误且没有报错",
            "将节点移出调度，对该 GPU 执行 dcgmi diag -r 4；复位后校验和仍不同则更换",
        ),
    ),
    **family(
        "bench-collectives",
        "{subject} 的速度",
        usual=(
            "链路断开或变慢，或数据绕行主机内存",
            "查看 gpu-nvlink、gpu-topology、gpu-peers 和 Fabric Manager；NCCL_DEBUG=INFO 可显示所走路径",
        ),
        ring=(
            "NVLS 未启用：这是环形算法的速度",
            "查看 Fabric Manager 及其日志；/etc/nccl.conf 中 NCCL_NVLS_ENABLE 不得为 0",
        ),
    ),
    **family(
        "bench-copies",
        "{subject} 的速度",
        usual=(
            "PCIe 链路降速，或途经其他 NUMA 节点的内存或 IOMMU",
            "查看 gpu-pcie 的通道数和代数；numactl -H；内核参数中的 intel_iommu 或 amd_iommu",
        ),
        pairs=(
            "所列 GPU 之间的链路断开，或拷贝绕行主机内存",
            "查看 gpu-nvlink、gpu-topology 和 gpu-peers；重新插拔桥接器或 GPU",
        ),
        memory=(
            "显存时钟降低，或当时有其他作业占用",
            "nvidia-smi -q -d CLOCK,PERFORMANCE；查看 gpu-slowdown 和 gpu-power",
        ),
    ),
    **family(
        "bench-products",
        "{subject} 的速度",
        usual=(
            "GPU 时钟因温度、功耗上限或主板而受限",
            "与其他 GPU 比较时钟、功率和温度；查看 gpu-slowdown、gpu-power、gpu-temperature",
        ),
    ),
}
