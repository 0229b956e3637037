"""Simplified Chinese texts of the checks of site_base and host_tuning; `chinese.py` puts all areas together."""

from __future__ import annotations

from llmhw_provision.checks.texts_base import Words

BASE: dict[str, Words] = {
    "base-user": Words(
        "用户 {subject} 的编号",
        "在 apply 之前软件包已创建该用户，或被人工更改",
        "先确认没有文件属于旧编号（find / -xdev -uid 旧编号），再执行 usermod 和 groupmod",
    ),
    "base-user/absent": Words("用户 {subject} 的编号", "尚未执行 apply，或该用户被人工删除", "执行 apply"),
    "base-names": Words(
        "本站点的主机名对应正确的地址",
        "/etc/hosts 中的段落被修改，或 DNS 给出不同的结果",
        "执行 apply；用 getent ahosts 主机名 查看现行结果",
    ),
    "base-names/loopback": Words(
        "本站点的主机名对应正确的地址",
        "安装程序为本机写入了 127.0.1.1：gloo 和 MPI 会把它告诉其他主机",
        "从 /etc/hosts 中删除 127.0.1.1 所在的行",
    ),
    "base-ca": Words(
        "信任 CA {subject}",
        "文件被删除，或信任库生成时未包含它",
        "执行 apply，或执行 update-ca-certificates（EL：update-ca-trust）",
    ),
    "base-source": Words(
        "软件源 {subject}",
        "文件或其密钥被人工修改或删除",
        "执行 apply；之后 apt-get update 不应有任何警告",
    ),
    "base-package": Words(
        "软件包 {subject}", "被卸载，或安装过程中断", "执行 apply；dpkg --audit 会列出未完成的软件包"
    ),
    "base-credentials": Words("代理的凭据", "文件被人工删除", "执行 apply"),
    "base-credentials/open": Words("代理的凭据", "属主或权限被人工更改：他人可能读到密码", "执行 apply，然后更换密码"),
    "base-index": Words("Python 软件包索引", "/etc/pip.conf 被人工修改或删除", "执行 apply"),
    "base-clock": Words(
        "时钟准确",
        "没有时间服务器应答（UDP 123 端口），或服务未运行",
        "先执行 chronyc sources -v，再执行 chronyc activity；询问服务器的管理者",
    ),
    "base-firewall": Words(
        "防火墙允许本站点的主机访问",
        "apply 之后防火墙被重新设置或重新加载",
        "执行 apply：它只添加自己的规则，不改动其他规则",
    ),
    "tuning-sysctl": Words(
        "内核参数 {subject}",
        "sysctl.d 中有更靠后的文件，或某个服务（tuned、软件包）设置了自己的值",
        "执行 apply；systemd-analyze cat-config sysctl.d 可看出哪个文件生效",
    ),
    "tuning-sysctl/none": Words(
        "内核参数 {subject}", "内核编译时未包含它，或其模块未加载", "除非需要该参数，否则无需处理"
    ),
    "tuning-limits": Words(
        "会话和服务的资源限制",
        "limits.d 或 system.conf.d 中有更靠后的文件，或 systemd 尚未读取",
        "执行 apply；重新登录：会话沿用其开始时的限制",
    ),
    "tuning-governor": Words(
        "CPU 调频策略",
        "另一个服务（tuned、power-profiles-daemon、cpupower）设置了自己的策略",
        "停用其中之一；执行 systemctl restart llmhw-tuning",
    ),
    "tuning-governor/none": Words("CPU 调频策略", "固件自行控制频率", "在固件中选择性能模式"),
    "tuning-hugepages": Words(
        "透明大页",
        "另一个服务设置了自己的策略",
        "执行 systemctl restart llmhw-tuning；检查是否有 tuned",
    ),
    "tuning-command-line": Words(
        "内核命令行",
        "apply 之后机器尚未重启，或选择了其他启动项",
        "执行 apply --allow-reboot；如无法启动，在 GRUB 菜单中选择更改前的启动项",
    ),
    "tuning-sleep": Words("{subject} 已屏蔽", "被人工取消屏蔽", "执行 apply，或对该目标执行 systemctl mask"),
    "tuning-acs": Words(
        "GPU 之间没有 ACS 阻隔",
        "固件启用了 ACS，或内核为 IOMMU 启用",
        "在 site.yaml 中写 host_tuning.acs: clear，启动时清除；或在固件中关闭 ACS",
    ),
    "tuning-acs/planned": Words(
        "GPU 之间没有 ACS 阻隔",
        "启动单元未运行，或网桥不允许更改",
        "查看 systemctl status llmhw-acs；执行 setpci -s 地址 ECAP_ACS+6.w",
    ),
    "tuning-cpu": Words(
        "处理器的微码和功耗上限",
        "固件早于 Intel 的修正版本，或放开了功耗上限",
        "更新固件并载入 Intel 默认设置；已经不稳定的处理器必须更换",
    ),
}
