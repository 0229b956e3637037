"""Simplified Chinese texts of InfiniBand, drives and the management controller."""

from __future__ import annotations

from llmhw_provision.checks.texts_base import Words, family

FABRIC: dict[str, Words] = {
    **family(
        "ib-adapters",
        "RDMA 网卡在位",
        usual=("有网卡缺失或改名", "用 lspci 查找 Mellanox；查看 dmesg 中的 mlx5_core；重新插好"),
        none=("没有网卡加载了驱动", "用 lsmod 查看 mlx5_ib；安装 rdma-core 或 DOCA-OFED，然后重启"),
        panic=("读取时有网卡中断应答：其驱动或固件挂起", "查看 dmesg 中的 mlx5_core；重启"),
    ),
    **family(
        "ib-ports",
        "RDMA 端口以全速率工作",
        usual=("没有线缆、模块损坏，或交换机端口关闭", "检查线缆两端；更换线缆；使用 mlxlink"),
        no_manager=("没有子网管理器：所有端口都在等待地址", "在交换机上启动，或仅在一台主机上启动 opensm"),
        initializing=("子网管理器看不到该端口", "检查其线缆和交换机端口；执行 sminfo"),
        address=("链路已连通而端口未激活：虚拟功能没有 GUID", "设置其 GUID 或策略"),
        rate=("线缆或端口低一档，或使用了分支线缆", "核对线缆和端口的部件号"),
        layer=("端口使用另一种协议", "用 mlxconfig 设置 LINK_TYPE，然后断电重启"),
    ),
    **family(
        "ib-width",
        "RDMA 端口使用全部通道",
        usual=("有通道未训练成功：接头脏污或弯曲", "清洁并重新插好线缆；更换线缆"),
    ),
    **family(
        "ib-manager",
        "子网管理器有应答",
        usual=("没有运行，或端口断开", "在交换机上启动，或仅在一台主机上启动 opensm"),
        umad=("模块 ib_umad 未加载", "执行 modprobe ib_umad；写入 /etc/modules-load.d"),
        several=("有两个子网管理器：应答者不是主管理器", "只保留一个，在交换机或一台主机上；停止其他的 opensm"),
    ),
    **family(
        "ib-firmware",
        "同型网卡的固件一致",
        usual=("有一块网卡被单独更换或升级", "用 mlxfwmanager 统一版本，然后断电重启"),
    ),
    **family(
        "ib-counters",
        "RDMA 错误计数没有增加",
        usual=("线缆或模块丢失数据", "清洁并重新插好；与相邻线缆互换，看故障跟随哪一端"),
    ),
    **family(
        "ib-cable",
        "{subject} 的线缆",
        usual=("网卡自己指出了故障", "按其建议处理；检查两端"),
        width=("只训练成功部分通道，尽管它未发现故障", "清洁并重新插好线缆；更换线缆"),
    ),
    **family(
        "ib-gpu-direct",
        "网卡可以直接访问显存",
        usual=("ib_core 来自发行版，不支持 peer client", "使用开源模块和 dma-buf，或安装 DOCA-OFED"),
        flavour=("dma-buf 需要开源内核模块", "把驱动的模块换成开源模块"),
        rebuild=(
            "nvidia_peermem 是针对另一个 ib_core 编译的",
            "在安装 DOCA-OFED 之后重新编译驱动：dkms autoinstall，再执行 modprobe nvidia_peermem",
        ),
    ),
    **family(
        "ib-gid",
        "每个端口的 RoCE 地址",
        usual=(
            "RoCE v2 地址的序号与所设的不同，或端口没有 IPv4 地址",
            "不要设置 NCCL_IB_GID_INDEX（NCCL 2.21 及以后会自行选择）；用 show_gids 查看",
        ),
    ),
}
MACHINE: dict[str, Words] = {
    **family(
        "drive-health",
        "硬盘 {subject} 的健康状况",
        usual=("硬盘正在损坏", "先保存其中的数据，再更换；见操作手册"),
        hot=("硬盘过热", "检查风扇、导风罩和该插槽的风道"),
        media=("硬盘有数据无法读回", "保存其中的数据；若次数增加则更换"),
        worn=("写入量已达到厂商承诺的寿命", "计划更换"),
    ),
    **family(
        "drive-test",
        "硬盘 {subject} 的自检",
        usual=("硬盘正在损坏", "先保存其中的数据，再更换；smartctl -a 会指明具体属性"),
    ),
    **family(
        "drive-log",
        "内核日志中没有硬盘错误",
        usual=("有硬盘不应答或已失效", "dmesg 会指明是哪一块；写入任何数据之前先看操作手册"),
    ),
    **family(
        "pcie-links",
        "硬盘和网卡的 PCIe 链路",
        slots=("插槽提供的带宽低于设备的能力", "若主板即如此设计则无需处理；否则换插槽"),
        usual=("插槽的代次较旧，或链路降级", "按手册核对插槽；重新插好"),
        width=("有通道训练失败：未插紧、线缆或背板有问题", "重新插拔；换插槽，看故障跟随哪一端"),
    ),
    **family(
        "bmc-sensors",
        "管理控制器的传感器",
        usual=("风扇、温度或电压超出范围", "按名称找到部件；更换"),
        power=("有电源失效或没有输入", "检查其线缆和供电；再更换"),
    ),
    **family(
        "bmc-events",
        "管理控制器的事件日志",
        usual=("内存条正在损坏", "ipmitool sel elist 会指明插槽；更换该内存条"),
        power=("某一路供电曾中断", "检查供电；查明后清空日志（ipmitool sel clear）"),
    ),
}
