"""Simplified Chinese texts of the GPUs."""

from __future__ import annotations

from llmhw_provision.checks.texts_base import Words, family

_RESEAT = "断电后重新插拔该卡或转接卡；若仍不出现则更换"
_DRIVER: dict[str, Words] = {
    **family(
        "gpu-present",
        "PCI 总线上的 GPU",
        usual=("有 GPU 掉卡（从总线上消失）、未插紧或没有供电", "用 dmesg 查出其地址；" + _RESEAT),
        other=("机器中的卡与方案不同", "核对送货单；重新执行 discover 和 plan"),
    ),
    **family(
        "gpu-answers",
        "驱动对每块 GPU 都有应答",
        usual=("驱动或其库出错", "人工执行 nvidia-smi；查看 dmesg 中以 NVRM 开头的行"),
        fewer=(
            "驱动已放弃一块 GPU，PCI 总线上可能仍能看到",
            "dmesg 会指明是哪一块（Xid 79、RmInitAdapter）；其余 GPU 的编号已改变",
        ),
        hangs=("有 GPU 不再应答，或每次调用时驱动都要重新加载", "查看 dmesg 中的 Xid；重启"),
        gpu_lost=(
            "一块 GPU 丢失；此时对其他 GPU 的查询也得不到应答",
            "用 dmesg 查出其地址；排空节点并断电；重新插拔或更换该 GPU",
        ),
        driver_library_mismatch=(
            "驱动文件被升级，而已加载的仍是旧模块",
            "重启；然后锁定软件包（apply 会锁定），避免自动更新改动它们",
        ),
        driver_not_loaded=(
            "没有为当前内核编译模块，或模块被拒绝、被列入黑名单",
            "执行 dkms status、modprobe nvidia；dmesg 会说明拒绝的原因",
        ),
        no_devices=(
            "模块已加载，但没有可用的 GPU：模块类型不对，或没有可分配给 GPU 的地址空间",
            "查看 dmesg 中的 RmInitAdapter；Blackwell 需要开源模块；固件中须开启 Above 4G Decoding",
        ),
        not_installed=("驱动或其工具未安装", "执行 apply"),
        invalid_field=("驱动太旧，早于本工具支持的所有版本", "执行 apply，安装方案中的驱动"),
    ),
    **family(
        "gpu-kind",
        "所有 GPU 都是方案中的型号",
        usual=("混用了不同型号的卡", "核对送货单；更换不同的那一块"),
        memory=("卡的型号与方案不同，或有部分显存被停用", "用 nvidia-smi -q 查看型号、部件号、ECC；核对送货单"),
        vbios=("有一块卡的固件与其他卡不同", "请供应商把所有卡刷成同一版 VBIOS"),
    ),
    **family(
        "gpu-version",
        "各处的驱动版本一致",
        usual=("安装了与方案不同的驱动", "执行 apply，或按现有版本重新制定方案"),
        half=(
            "升级只更换了文件而没有更换已加载的模块，或升级中断",
            "执行 dpkg --audit（rpm -V），然后重启；若重启后仍不一致，执行 dkms autoinstall 重新编译",
        ),
        fabric_manager=(
            "Fabric Manager 与驱动版本不同：它拒绝启动，CUDA 报错 802",
            "安装与驱动版本完全相同的 Fabric Manager，锁定两者，然后重启该服务",
        ),
    ),
    **family(
        "gpu-modules",
        "内核模块的类型",
        usual=(
            "安装了另一种模块；Blackwell 只能使用开源模块",
            "更换软件包（以 nvidia-open 代替 nvidia-driver），重新编译并重启",
        ),
        none=("模块编译失败，而软件包安装未报错", "执行 dkms status；查看 /var/lib/dkms/nvidia/*/build/make.log"),
    ),
    **family(
        "gpu-bound",
        "没有其他驱动占用 GPU",
        usual=(
            "nouveau、nova_core 或 vfio 先于 nvidia 驱动占用了 GPU",
            "将其列入黑名单，重建 initramfs，重启；lspci -k 可看出谁在占用",
        ),
    ),
    **family(
        "gpu-start",
        "驱动启动时没有出错",
        usual=("驱动无法在某块 GPU 上启动", "查看 dmesg 中以 NVRM 开头的行"),
        mismatch=("模块与库的版本不同", "重启；然后检查驱动版本"),
        rejected=(
            "Secure Boot 拒绝该模块：它未由已登记的密钥签名",
            "登记密钥（在控制台执行 mokutil --import），或关闭 Secure Boot",
        ),
        taken=("另一个内核驱动（nova_core、nouveau）占用了 GPU", "将其列入黑名单，重建 initramfs，重启"),
        firmware=(
            "没有可分配给 GPU 的地址空间：Above 4G Decoding 或 Resizable BAR 未开启；或者卡已损坏",
            "在固件中开启两者；若多块卡中只有一块失败，更换该卡",
        ),
    ),
    **family(
        "gpu-persistence",
        "持久模式（Persistence Mode）",
        usual=(
            "nvidia-persistenced 未运行；可能在设备文件出现之前就已启动",
            "查看 systemctl status nvidia-persistenced；执行 apply",
        ),
    ),
    **family(
        "gpu-mig",
        "MIG 模式与方案一致",
        usual=("MIG 被人工切换，或等待 GPU 复位", "执行 nvidia-smi -mig 0（或 1），然后复位该 GPU"),
    ),
}
_LINKS: dict[str, Words] = {
    **family(
        "gpu-manager",
        "Fabric Manager 服务",
        usual=(
            "Fabric Manager 出错",
            "查看 systemctl status nvidia-fabricmanager 和 /var/log/fabricmanager.log 中的原因",
        ),
        absent=("未安装 Fabric Manager：没有它 CUDA 会报错 802", "执行 apply"),
        unwanted=(
            "这台机器没有 NVSwitch：Fabric Manager 找不到要管理的交换芯片，启动失败",
            "卸载软件包 nvidia-fabricmanager；NVLink 桥接器和 PCIe 卡不需要它",
        ),
        version_mismatch=("驱动与 Fabric Manager 版本不同", "安装与驱动版本完全相同的 Fabric Manager，并锁定两者"),
        topology_mismatch=(
            "缺少 NVSwitch 或 GPU，主板不符合任何已知的拓扑",
            "用 lspci 清点 GPU 和 NVSwitch；断电后再开机；仍不行则联系厂商",
        ),
        nvlsm_missing=("Blackwell 的 NVSwitch 需要子网管理器 nvlsm", "安装 nvlsm；见操作手册"),
        ib_umad_missing=("模块 ib_umad 未加载", "执行 modprobe ib_umad；写入 /etc/modules-load.d"),
        sxid_fatal=("某个 NVSwitch 报告了致命错误", "排空节点，断电后再开机；若再次出现则更换"),
        nothing_to_do=(
            "它看不到应有的 NVSwitch：驱动未加载，或 Blackwell 上缺少 nvlsm",
            "用 lspci 查看 NVSwitch；在 Blackwell 上安装 nvlsm 并加载 ib_umad",
        ),
    ),
    **family(
        "gpu-fabric",
        "每块 GPU 都已注册到 NVLink 网络",
        usual=("Fabric Manager 出错，或有 NVLink 链路训练失败", "先查看 Fabric Manager 的检查结果，再重启该服务"),
        waits=(
            "Fabric Manager 未运行或尚未完成：完成之前 CUDA 报错 802",
            "查看 systemctl status nvidia-fabricmanager；Blackwell 上还要查看 nvlsm",
        ),
    ),
    **family(
        "gpu-topology",
        "GPU 之间的连接与方案一致",
        usual=(
            "所列 GPU 的 NVLink 断开，或 NVLink 桥接器没有插到位",
            "执行 nvidia-smi nvlink -s 查出是哪条链路；重新插拔 GPU 或桥接器",
        ),
        slow=("NVLink 桥接器没有插到位，或某块 GPU 几乎不应答", "重新插拔桥接器；查看 dmesg"),
        fewer=("缺少一块 GPU；其余 GPU 的编号已改变", "先处理 GPU 数量的问题"),
    ),
    **family(
        "gpu-nvlink",
        "NVLink 链路正常",
        usual=(
            "所列 GPU 的链路训练失败：GPU 未插紧、主板故障或链路损坏",
            "复位该 GPU（nvidia-smi -r）；若仍断开，断电后重新插拔；再不行则更换",
        ),
        all=(
            "所有 GPU 都有链路断开：NVSwitch 或 Fabric Manager 的问题，或在驱动中被关闭",
            "查看 Fabric Manager；检查 /etc/modprobe.d 中的 NVreg 选项",
        ),
        speed=("有链路的速率与其他链路不同", "复位该 GPU；若仍不同，断电后重新插拔"),
    ),
    **family(
        "gpu-nvlink-errors",
        "NVLink 错误计数没有增加",
        usual=("有链路丢失数据并重传：GPU 未插紧，或链路即将损坏", "在负载下再次检查；重新插拔或更换"),
    ),
    **family(
        "gpu-peers",
        "GPU 之间可以直接互访显存",
        usual=("驱动拒绝这些 GPU 之间的直接访问", "GeForce 卡不支持；其他卡请检查 ACS 和 IOMMU"),
        chipset=("芯片组不在根端口之间转发数据", "把卡插在同一个根复合体或交换芯片之下"),
    ),
    **family(
        "gpu-nics",
        "每块 GPU 附近都有自己的网卡",
        usual=("网卡缺失、插在别的插槽，或被虚拟机隐藏", "按手册核对插槽"),
        side=("网卡接在同一处理器的另一个端口：数据要经过处理器", "若主板没有更好的插槽则无需处理；否则移动网卡"),
    ),
    **family(
        "gpu-affinity",
        "系统给出了每块 GPU 邻近的 CPU",
        usual=("固件没有给出 NUMA 节点，或将其隐藏", "检查固件中 NUMA 和子 NUMA（SNC、NPS）的设置"),
    ),
    **family(
        "gpu-pcie",
        "每块 GPU 的 PCIe 链路",
        usual=(
            "链路降级：卡未插紧、转接卡或 Retimer 有问题，或插槽的通道数较少",
            "断电后重新插拔卡和转接卡；检查固件中该插槽的设置",
        ),
    ),
}
_HEALTH: dict[str, Words] = {
    **family(
        "gpu-ecc",
        "显存没有不可纠正的错误",
        usual=("所列 GPU 的显存正在失效", "排空节点并复位该 GPU；若再次出现则更换"),
        off=("ECC 被人工关闭，或等待复位", "执行 nvidia-smi -e 1，然后复位该 GPU 或重启"),
        history=("过去的错误，已经修复", "记录次数；若增加则更换该 GPU"),
    ),
    **family(
        "gpu-remap",
        "没有待完成的显存修复",
        usual=(
            "损坏的行将在下次复位时由备用行替换",
            "排空节点并复位该 GPU（或重启）；之后 Pending 必须为 No",
        ),
        failed=("该 GPU 已无备用行，或修复失败", "更换该 GPU：属于保修范围"),
    ),
    **family(
        "gpu-slowdown",
        "GPU 没有被迫降频",
        usual=("GPU 过热：风道、冷却液、积尘或风扇", "查看其温度，并在 BMC 中查看风扇"),
        brake=("电源或主板报告供电不足", "在 BMC 中查看电源；检查供电线缆"),
    ),
    **family(
        "gpu-temperature",
        "没有 GPU 明显比其他 GPU 热",
        usual=("其散热器接触不良或流量不足", "检查该插槽的冷板、软管和导风罩"),
    ),
    **family(
        "gpu-power",
        "功耗上限",
        usual=("有人设置了更低的上限", "执行 nvidia-smi -pl 瓦数；找出设置者（服务单元、调优脚本）"),
    ),
    **family(
        "gpu-xid",
        "内核日志中没有 GPU 故障",
        usual=("有 GPU 报告了故障", "在 NVIDIA 的 Xid 错误列表中查找该编号"),
        bus=(
            "GPU 掉卡（从总线上消失）：供电不足、过热、未插紧或卡本身的问题",
            "断电后重新插拔；在 BMC 中观察供电和温度；若再次出现则更换",
        ),
        memory=("显存正在失效", "排空节点，复位该 GPU，再查看待完成的显存修复；若再次出现则更换"),
        nvlink=("有 NVLink 失效", "查看 NVLink 和 Fabric Manager；若再次出现，断电后重新插拔该 GPU"),
        firmware=("GPU 自身的处理器停止工作", "重启；若总是出现在同一块卡上则更换，否则检查驱动"),
        reset=("驱动要求复位或重启", "排空节点后照做：见 nvidia-smi -q 中的 GPU Recovery Action"),
        remap=("损坏的显存行等待替换", "排空节点并复位该 GPU"),
        contained=("显存错误只影响了一个应用，该应用已被终止", "重新运行该作业；查看待完成的显存修复"),
        application=("应用进行了非法访问", "告知其使用者；只有错误总是出现在同一块 GPU 上时，才测试该 GPU"),
    ),
    **family(
        "gpu-sxid",
        "内核日志中没有 NVSwitch 故障",
        usual=("某个 NVSwitch 报告了致命错误", "排空节点，断电后再开机；若再次出现则更换主板"),
        mild=("某个 NVSwitch 纠正了一个错误", "查看日志所指的链路；观察是否再次出现"),
    ),
    **family(
        "pcie-errors",
        "内核日志中没有 PCIe 错误",
        usual=("设备或其插槽正在损坏", "执行 lspci -s 地址 查出设备；重新插拔该设备和转接卡"),
        corrected=("链路处于临界状态：未插紧、转接卡或 Retimer 有问题", "重新插拔；若同一设备持续出现则更换"),
    ),
    **family(
        "host-errors",
        "内核日志中没有处理器或内存错误",
        usual=("内存条正在损坏", "BMC 事件日志会指明插槽；更换该内存条"),
        events=("处理器、内存或总线报告了错误", "用 journalctl -k 查看这些行；查看 BMC 事件日志"),
    ),
}
GPU: dict[str, Words] = _DRIVER | _LINKS | _HEALTH
