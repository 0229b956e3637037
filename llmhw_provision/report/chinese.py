"""The report in Simplified Chinese: labels, and title, cause and next step of every check."""

from __future__ import annotations

from llmhw_provision.checks.texts import Text
from llmhw_provision.report.chinese_base import BASE
from llmhw_provision.report.chinese_before import BEFORE
from llmhw_provision.report.chinese_fabric import FABRIC, MACHINE
from llmhw_provision.report.chinese_gpu import GPU
from llmhw_provision.report.chinese_gpu_stack import GPU_STACK
from llmhw_provision.report.chinese_python import PYTHON
from llmhw_provision.report.chinese_services import SERVICES
from llmhw_provision.report.chinese_storage import STORAGE
from llmhw_provision.report.chinese_throughput import THROUGHPUT

LABELS: dict[str, str] = {
    "title": "验收报告",
    "colon": "：",
    "other-language": "English",
    "mark": "演练（REHEARSAL），不是测量结果",
    "mark-why": "至少有一台主机是虚拟机或使用了替身程序：本报告只说明流程可行，不代表硬件性能。",
    "verdict": "结论",
    "ACCEPTED": "验收通过",
    "ACCEPTED WITH WAIVERS": "有条件通过（含豁免项）",
    "REJECTED": "不通过",
    "INCOMPLETE": "未完成",
    "REHEARSAL PASSED": "演练通过",
    "site": "站点",
    "plan": "方案",
    "workload": "负载",
    "level": "级别",
    "date": "日期（UTC）",
    "duration": "用时",
    "before": "apply 之前",
    "quick": "快速",
    "standard": "标准",
    "hosts": "主机",
    "host": "主机",
    "address": "地址",
    "system": "系统",
    "machine": "机型",
    "result": "结果",
    "checks": "检查项",
    "unreachable": "无法读取",
    "virtual": "演练",
    "area-access": "访问",
    "area-use": "占用情况",
    "area-packages": "软件包",
    "area-host": "主机",
    "area-base": "站点基础",
    "area-tuning": "主机调优",
    "area-disks": "磁盘",
    "area-array": "阵列",
    "area-filesystem": "文件系统",
    "area-tmpfs": "内存文件系统",
    "area-python": "Python 环境",
    "area-throughput": "吞吐性能",
    "area-gpu": "GPU",
    "area-fabric": "高速网络",
    "area-drives": "硬盘",
    "area-services": "服务",
    "pass": "通过",
    "warn": "警告",
    "fail": "不通过",
    "could-not-run": "无法执行",
    "attention": "需要处理的问题",
    "attention-text": "“实际”和“应为”两栏取自各工具和方案，保留英文。",
    "nothing": "没有：全部检查通过。",
    "found": "实际",
    "expected": "应为",
    "cause": "可能原因",
    "next": "下一步",
    "runbook": "操作手册",
    "evidence": "证据",
    "severity": "严重程度",
    "minor": "轻微",
    "major": "重要",
    "critical": "致命",
    "waivers": "豁免项",
    "waived-by": "批准人",
    "statements": "方案说明",
    "statements-text": "以下各条由 plan 写入 plan.json，为英文原文。",
    "whole-site": "整个站点",
    "source": "来源",
    "all-checks": "全部检查",
    "check": "检查项",
    "versions": "版本",
    "files": "同目录文件",
    "files-text": "report.json（供程序读取的本报告）、junit.xml（供 CI 使用）、evidence/（每条命令及其输出）。",
}

_AREAS = (BASE, BEFORE, STORAGE, GPU, GPU_STACK, FABRIC, MACHINE, SERVICES, PYTHON, THROUGHPUT)
TEXTS: dict[str, Text] = {
    **{key: Text(*words) for part in _AREAS for key, words in part.items()},
    "host-os": Text(
        "操作系统与方案一致",
        "制定方案之后，机器被重装或升级",
        "重新执行 discover 和 plan，先看清差异再执行 apply",
    ),
    "host-memory": Text(
        "内存与方案一致",
        "内存条损坏或未插好，被固件屏蔽",
        "查看 BMC 事件日志确定插槽；用 dmidecode -t memory 清点内存条",
    ),
    "host-memory/changed": Text(
        "内存与方案一致",
        "增加了内存，或内核保留的内存变化（crashkernel、启动时的大页）",
        "如属有意更改，重新执行 discover 和 plan",
    ),
    "host-nature": Text(
        "是方案所指的机器，而不是替代品",
        "方案来自另一台机器，而不是此地址上的机器",
        "核对 site.yaml 中的地址；重新执行 discover 和 plan",
    ),
    "host-units": Text(
        "没有失败的服务单元",
        "某个服务无法启动",
        "执行 systemctl --failed，再执行 journalctl -b -u 单元名",
    ),
    "host-trim": Text(
        "fstrim.timer 正在运行",
        "apply 之后该定时器被停用或屏蔽",
        "执行 systemctl unmask fstrim.timer && systemctl enable --now fstrim.timer，或重新执行 apply",
    ),
    "could-not-run": Text(
        "",
        "工具缺失、没有应答，或无法连接主机",
        "人工执行证据中的命令；没有应答就不能证明任何事",
    ),
    "could-not-run/not-there": Text(
        "",
        "检查的对象不存在，这一点已另有检查结果",
        "先处理那一项，再次执行 verify",
    ),
}
