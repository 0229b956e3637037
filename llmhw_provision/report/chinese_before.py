"""Simplified Chinese texts of the preconditions of apply."""

from __future__ import annotations

from llmhw_provision.checks.texts_base import Words, family

BEFORE: dict[str, Words] = {
    "access": Words(
        "可以连接，并具有 root 权限",
        "主机未开机、地址不对，或不接受站点的密钥",
        "查看消息内容；discover 会对每台主机给出相同说明",
    ),
    "access/rights": Words(
        "可以连接，并具有 root 权限",
        "site.yaml 中的用户不是 root，sudo 也未取得 root 权限",
        "在 site.yaml 中设置 user: root，或允许该用户使用 sudo",
    ),
    "access-system": Words(
        "角色支持的系统",
        "系统版本或架构不在支持范围内",
        "安装受支持的版本（docs/support.md），再次执行 discover 和 plan",
    ),
    "access-python": Words(
        "Ansible 模块所需的 Python",
        "最小化安装未带 Python，或系统过旧",
        "执行 apt-get install python3（或 dnf install python3）",
    ),
    "use-gpu": Words(
        "GPU 上没有其他进程",
        "有人正在这台机器上计算",
        "请使用者停止；--allow-interrupt 会继续执行，并可能使其中断",
    ),
    "use-jobs": Words(
        "没有作业在运行",
        "调度器仍在向这台机器派发作业",
        "先排空（scontrol update nodename=名称 state=drain reason=apply）并等待；--allow-interrupt 会继续执行",
    ),
    "use-containers": Words(
        "没有容器或虚拟机在运行",
        "有服务或用户在此运行容器或虚拟机",
        "停止或迁走（docker ps、podman ps、machinectl、virsh list）；--allow-interrupt 会继续执行",
    ),
    "use-people": Words(
        "没有人在终端登录",
        "有人正在操作，或留下了 tmux、screen 会话",
        "请其退出（who、loginctl）；--allow-interrupt 会继续执行",
    ),
    "use-image": Words(
        "未被他人配置过",
        "厂商镜像或其他安装程序带来了自己的驱动和软件源",
        "重新安装纯净系统；--allow-interrupt 会继续执行，混用的软件源需自行处理",
    ),
    "use-accelerators": Words(
        "没有其他厂商的加速卡",
        "机器中有本工具不负责配置的加速卡",
        "把它移出站点；--allow-interrupt 会继续执行，且不触碰这些卡",
    ),
    "package-sources": Words(
        "软件源有应答",
        "镜像站宕机或主机无法访问，或残留了失效的软件源",
        "检查主机的软件源（/etc/apt/sources.list*、/etc/yum.repos.d）、代理和防火墙；若镜像站只是繁忙，请再次执行",
    ),
    "package-sources/dns": Words(
        "软件源有应答",
        "主机无法解析镜像站的名称",
        "检查主机的 /etc/resolv.conf，或镜像站名称",
    ),
    "package-sources/other-way": Words(
        "软件源有应答",
        "主机尚未配置 site.yaml 中的镜像或代理",
        "无需处理：apply 会先配置它们，之后它们必须有应答",
    ),
    "package-sources/signed-by": Words(
        "软件源有应答",
        "NVIDIA 的源在两个文件中使用了两个密钥：apt 不读取任何列表",
        "无需处理：apply 会先移开另一个文件",
    ),
    "package-candidate/other-way": Words(
        "软件包 {subject} 可以取得",
        "主机尚未配置 site.yaml 中的镜像或代理",
        "无需处理：apply 会先配置它们，之后它们必须提供该软件包",
    ),
    "package-candidate": Words(
        "软件包 {subject} 可以取得",
        "软件源中没有，或从未取得软件包列表",
        "在主机上执行 apt-get update，再查看 apt-cache policy 软件包名",
    ),
    "package-candidate/no-lists": Words(
        "软件包 {subject} 可以取得",
        "系统是新装的：镜像中没有软件包列表",
        "无需处理：apply 会先取得列表；也可执行 apt-get update",
    ),
    **family(
        "package-solution",
        "方案中的软件包可以一起安装",
        usual=("软件包工具拒绝安装", "人工执行证据中的命令，查看第一条错误"),
        nothing_provides=("缺少软件源，或某个源的旧副本不能满足依赖", "添加包含该软件包的源，或更新镜像"),
        conflict=("两个软件源提供同名但互相排斥的版本", "在其中一个源中排除这些名称（excludepkgs= 或 apt 优先级）"),
        unmet=("锁定的软件包或两个驱动软件源使版本无法匹配", "执行 apt-mark showhold；驱动软件包只保留一个源"),
    ),
    "package-states": Words(
        "没有安装到一半的软件包",
        "某次安装被中断（断电、磁盘满、被终止）",
        "执行 dpkg --configure -a，再执行 apt-get -f install；rpm 系统执行 rpm --rebuilddb",
    ),
    "package-states/waiting": Words(
        "没有安装到一半的软件包",
        "某次安装在配置之前被中断",
        "无需处理：apply 会完成配置；也可执行 dpkg --configure -a",
    ),
    "package-locks": Words(
        "没有其他人在安装软件包",
        "自动更新或其他管理员正在安装软件包",
        "等其结束（systemctl status unattended-upgrades）后再次执行；切勿删除锁文件",
    ),
    "package-locks/first-boot": Words(
        "没有其他人在安装软件包",
        "机器刚刚首次启动",
        "在主机上执行 cloud-init status --wait，然后再次执行",
    ),
    "host-room": Words(
        "安装所需的空间",
        "日志、旧内核或数据占满系统盘，或出错后被只读挂载",
        "用 df -h 和 du -xh --max-depth=2 查看占用；若为只读，先看 dmesg",
    ),
    "host-clock": Words(
        "时钟正确",
        "未设置或无法访问时间服务器，或时钟电池耗尽",
        "校时：date -u -s '@秒数' 或 chronyc makestep，并确保能访问站点的时间服务器",
    ),
    "host-name": Words(
        "主机能解析自己的名称",
        "其名称既不在 /etc/hosts 中，也不在 DNS 中",
        "在 /etc/hosts 中加入其地址和名称",
    ),
    "firmware-secure-boot": Words(
        "Secure Boot 不构成障碍",
        "Secure Boot 会拒绝未由已登记密钥签名的模块",
        "在固件中关闭，或在控制台登记密钥（mokutil --import）",
    ),
    "firmware-windows": Words(
        "固件已映射 GPU 显存",
        "固件中的 Above 4G Decoding 未开启",
        "开启 Above 4G Decoding（如有 Resizable BAR 也开启）；需要重启进入固件设置",
    ),
}
