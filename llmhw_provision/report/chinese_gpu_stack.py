"""Simplified Chinese texts of the GPU software."""

from __future__ import annotations

from llmhw_provision.checks.texts_base import Words, family

_DKMS = "执行 dkms status，查看 /var/lib/dkms/nvidia/*/build/make.log，然后执行 apply"
_BEFORE: dict[str, Words] = {
    **family(
        "gpu-board",
        "主板上的交换芯片与方案一致",
        usual=(
            "总线上没有 NVSwitch，或这不是制定方案时的那块主板",
            "断电后重新上电；执行 lspci -d 10de: 和 lspci -d 15b3:；然后再次执行 discover 和 plan",
        ),
        unplanned=("方案是按没有 NVSwitch 的机器制定的，不含 Fabric Manager", "再次执行 discover 和 plan"),
    ),
    **family(
        "gpu-windows",
        "GPU 的显存窗口（BAR）",
        usual=(
            "固件中的 Resizable BAR 未开启，或显卡处于显示模式",
            "开启 Resizable BAR；不开启只会降低 GPU 与主机之间的传输速度",
        ),
    ),
    **family(
        "gpu-flavour",
        "内核模块能够驱动这些 GPU",
        usual=("方案选用了闭源模块，而它不能驱动这种卡", "从 site.yaml 去掉 software.modules，再次执行 plan"),
        exchange=("已安装闭源模块的软件包", "无需处理：apply 会更换"),
    ),
    **family(
        "gpu-leftovers",
        "没有不属于软件包的驱动文件",
        usual=(
            "NVIDIA 的 .run 安装程序留下了文件，或有人拷入了文件；它们会优先于软件包中的文件",
            "执行 nvidia-uninstall；仍留下的文件不属于任何软件包，可以删除；然后重新检查",
        ),
    ),
    **family(
        "gpu-headers",
        "内核头文件",
        usual=("镜像站上已没有这个内核的头文件", "升级内核并重启进入新内核，或添加提供该内核的软件源"),
    ),
    **family(
        "gpu-tracks",
        "只安装了一个系列的内核",
        usual=("同时安装了两个系列或类型的内核", "只保留一个（apt-get purge 其余），使编译所依据的内核唯一"),
    ),
    **family(
        "gpu-tools",
        "编译模块所需的工具",
        usual=("没有软件源提供它；缺少 g++ 时开源模块无法编译", "添加软件源，或把它加入镜像站"),
        old=("镜像站的内容过旧（常见于 EPEL 的 dkms）", "更新镜像站，或单独安装这个软件包"),
    ),
    **family(
        "gpu-room",
        "驱动和 CUDA 所需的空间",
        usual=(
            "旧内核、旧工具包或日志占满磁盘",
            "用 ls -d /usr/local/cuda-* 和 du -xh --max-depth=2 /usr /var 查看；apt-get autoremove、apt-get clean",
        ),
    ),
    **family(
        "gpu-signing",
        "Secure Boot 允许加载驱动",
        usual=(
            "Secure Boot 拒绝未签名的模块，而主机上没有签名密钥",
            "关闭 Secure Boot，或生成密钥（dkms generate_mok）并在控制台登记",
        ),
        enrol=("密钥存在，但固件不认识它", "执行 mokutil --import 密钥，重启并在控制台确认：必须有人在场"),
        unsigned=(
            "这个版本的 dkms 不会自行签名",
            "在 /etc/dkms/framework.conf.d 中指定密钥（mok_signing_key=、mok_certificate=）",
        ),
    ),
}
_SOURCES: dict[str, Words] = {
    **family(
        "gpu-source-keys",
        "每个软件源只有一个密钥",
        usual=(
            "同一个软件源被人工和软件包（cuda-keyring）各添加了一次",
            "删除其中一个文件；之后 apt-get update 必须不再报错",
        ),
        cured=("NVIDIA 的软件源是人工或由 cuda-keyring 添加的", "无需处理：apply 会把这些文件移开"),
    ),
    **family(
        "gpu-source-system",
        "NVIDIA 的软件源与本系统相符",
        usual=("添加了其他发行版的软件源；此外 apt 3 会拒绝旧软件源的密钥", "删除该文件；apply 会添加正确的软件源"),
        cured=("其他发行版的软件源是人工添加的，或系统升级后遗留的", "无需处理：apply 会把该文件移开"),
    ),
    **family(
        "gpu-origins",
        "驱动来自同一个软件源",
        usual=(
            "发行版仓库和 NVIDIA 仓库都提供了驱动的软件包",
            "全部删除（apt-get purge '*nvidia*'），或只删除来自其中一个源的；之后 apply 会安装同一来源的整套",
        ),
    ),
    **family(
        "gpu-offers",
        "可以取得方案中的版本",
        usual=(
            "仓库已更新，或镜像站比方案旧",
            "把可取得的版本写入 software.driver（或 cuda）并再次执行 plan；或更新镜像站",
        ),
        unknown=("仓库中没有该软件包，或软件包列表过旧", "执行 apt-get update；检查镜像站"),
        later=("主机上尚未配置该仓库", "无需处理：apply 会先配置它，然后再次检查"),
    ),
    **family(
        "gpu-solution",
        "将要安装的正是方案中的驱动",
        usual=(
            "该名称是已停止支持的分支的过渡包，或另一个软件源优先",
            "选用它指向的分支，或设置 sources.driver: vendor；再次执行 plan",
        ),
        refused=(
            "锁定的软件包或第二个软件源使各软件包的版本无法互相匹配",
            "执行 apt-mark showhold；人工执行证据中的命令",
        ),
        later=("主机上尚未配置该仓库", "无需处理：apply 会先配置它，然后再次检查"),
    ),
}
_SET: dict[str, Words] = {
    **family(
        "gpu-package",
        "软件包 {subject}",
        usual=("apply 之后被升级或降级", "执行 apply；apt-mark showhold 可看出哪些未锁定"),
        absent=("已被删除，或尚未执行 apply", "执行 apply"),
        half=("安装被中断", "执行 apply 即可完成安装；也可执行 dpkg --configure -a"),
    ),
    **family(
        "gpu-one-version",
        "驱动的所有软件包版本一致",
        usual=("一次升级只改动了其中一部分", "执行 apply 恢复整套；若已加载的模块不同则重启"),
        half=("安装被中断", "执行 apply 即可完成安装；也可执行 dpkg --configure -a"),
        none=("尚未执行 apply，或驱动已被删除", "执行 apply"),
    ),
    **family(
        "gpu-held",
        "驱动、CUDA 和内核已锁定",
        usual=("锁定被解除，或锁定之后又安装了软件包", "执行 apply；升级应使用新方案，不要逐个软件包进行"),
        none=("尚未执行 apply", "执行 apply"),
    ),
    **family(
        "gpu-unattended",
        "自动更新不会改动驱动",
        usual=(
            "例外列表被修改，或被 apt.conf.d 中靠后的文件清空",
            "执行 apply；用 apt-config dump Unattended-Upgrade::Package-Blacklist 查看实际生效的内容",
        ),
    ),
    **family(
        "gpu-dkms",
        "驱动已为每个可能运行的内核编译",
        usual=("安装内核时缺少头文件，或从未开始编译", _DKMS),
        compiler=("编译失败，而软件包安装未报错", _DKMS),
        unknown=("驱动源码没有登记到 DKMS", "执行 apply：会重新安装该软件包"),
        changed=(
            "模块编译后被覆盖（.run 安装程序或拷入的文件）",
            "执行 dkms install --force nvidia/版本，或执行 apply",
        ),
    ),
    **family(
        "gpu-boot-module",
        "下次启动所用的内核有驱动模块",
        usual=("仍是旧驱动的模块", _DKMS),
        none=("安装了新内核却没有为它编译模块：下次启动后将没有可用的 GPU", _DKMS),
        flavour=("编译的是另一种模块", "删除其软件包；执行 apply"),
    ),
    **family(
        "gpu-loaded",
        "已加载的驱动与方案一致",
        usual=("更换驱动后尚未重启", "执行 apply --allow-reboot"),
        none=("模块未编译、被拒绝或尚未加载", "执行 modprobe nvidia；dmesg 会说明原因"),
    ),
    **family(
        "gpu-rivals",
        "没有其他驱动会抢占 GPU",
        usual=("黑名单被修改或删除", "执行 apply"),
        loaded=(
            "它在黑名单生效之前已加载，或从 initramfs 中加载",
            "执行 apply --allow-reboot；lspci -k 可看出谁占用 GPU",
        ),
    ),
    **family(
        "gpu-image",
        "initramfs 包含黑名单",
        usual=(
            "initramfs 比黑名单旧",
            "执行 update-initramfs -u -k all（EL：dracut -f --regenerate-all），或执行 apply",
        ),
    ),
    **family(
        "gpu-persistenced",
        "持久模式守护进程（nvidia-persistenced）",
        usual=(
            "它出错退出或被停止",
            "查看 systemctl status nvidia-persistenced 和 journalctl -b -u nvidia-persistenced",
        ),
        absent=("缺少其软件包", "执行 apply"),
        skipped=(
            "它启动时设备文件尚未出现，之后没有再次启动",
            "执行 systemctl start nvidia-persistenced；执行 apply，其配置会等待设备文件",
        ),
        disabled=("有人禁用了它：下次开机后它不会运行", "执行 systemctl enable nvidia-persistenced，或执行 apply"),
    ),
    **family(
        "gpu-subnet-manager",
        "NVLSM 正在管理 NVSwitch",
        usual=(
            "Fabric Manager 启动时没有一并启动它，或它已出错退出",
            "执行 systemctl restart nvidia-fabricmanager；查看 /var/log/nvlsm.log",
        ),
        modules=(
            "没有程序为这些 PCI 功能加载 ib_umad",
            "执行 modprobe -a ib_umad mlx5_ib；执行 apply 会写入 /etc/modules-load.d",
        ),
    ),
    **family(
        "gpu-nodes",
        "驱动接管了每块 GPU",
        usual=(
            "没有生成设备文件：缺少 nvidia-modprobe，或未加载 nvidia-uvm",
            "执行 nvidia-modprobe -c 编号 -u（编号为缺少的那个）；执行 apply",
        ),
        fewer=("驱动无法在某块 GPU 上启动，或该 GPU 被其他驱动占用", "执行 dmesg | grep NVRM 和 lspci -k"),
        switches=("驱动没有接管 NVSwitch", "执行 dmesg | grep nvswitch；断电后重新上电"),
    ),
    **family(
        "cuda-toolkit",
        "正在使用的 CUDA 工具包",
        usual=("/usr/local/cuda 下是另一个版本的 nvcc", "执行 update-alternatives --config cuda；执行 apply"),
        absent=("已被删除，或尚未执行 apply", "执行 apply"),
        link=("人工安装的另一个工具包占用了链接", "执行 apply"),
    ),
    **family(
        "cuda-driver",
        "驱动能运行方案中的 CUDA",
        usual=(
            "驱动对这个 CUDA 过旧：程序会以 'driver version is insufficient' 结束",
            "用方案中的驱动执行 apply，然后重启",
        ),
    ),
    **family(
        "nccl-settings",
        "NCCL 的设置只涉及实际存在的设备",
        usual=(
            "名称抄自其他机器（eth0、mlx5_0）：NCCL 会以 'no socket interface found' 结束",
            "在 /etc/nccl.conf 中改用排除写法（^lo,docker0），或执行 apply",
        ),
        other=("/etc/nccl.conf 在 apply 之后被修改", "执行 apply"),
    ),
}
GPU_STACK: dict[str, Words] = _BEFORE | _SOURCES | _SET
