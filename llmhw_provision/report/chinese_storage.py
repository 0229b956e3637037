"""Simplified Chinese texts of disks, arrays, file systems and tmpfs."""

from __future__ import annotations

from llmhw_provision.checks.texts_base import Words

STORAGE: dict[str, Words] = {
    "disk-present": Words(
        "磁盘 {subject} 在位",
        "磁盘损坏、被拔出或被更换",
        "按序列号（标签、BMC）找到插槽；不要写入任何数据；按操作手册处理",
    ),
    "disk-untouched": Words(
        "磁盘 {subject} 保持原样",
        "有人擦除或重新分区；没有 site.yaml 中的许可，apply 不会这样做",
        "停止使用该磁盘；查看 runs/*/result.json，并确认还有谁在操作这台机器",
    ),
    "disk-untouched/taken": Words(
        "磁盘 {subject} 保持原样",
        "方案中的卷建在了应当保留的磁盘上",
        "立即停止：保留该次运行的目录并上报；这种情况不应发生",
    ),
    "array-name": Words(
        "阵列 {subject} 正在运行",
        "阵列从未创建，或被人工停止",
        "执行 apply；如果阵列以前存在，先对成员盘执行 mdadm --examine",
    ),
    "array-name/inactive": Words(
        "阵列 {subject} 正在运行",
        "缺少成员盘，内核不启动该阵列",
        "查看关于成员盘的检查结果；RAID0 缺一块盘就无法运行",
    ),
    "array-level": Words(
        "阵列 {subject} 的级别与方案一致",
        "发现并沿用了同名的旧阵列",
        "保留：按现状修改 site.yaml 的 storage；或先备份数据再重建",
    ),
    "array-chunk": Words(
        "阵列 {subject} 的条带大小与方案一致",
        "发现并沿用了同名的旧阵列",
        "保留：把 site.yaml 的 storage.scratch.chunk 改为现值；或先备份数据再重建",
    ),
    "array-members": Words(
        "阵列 {subject} 成员齐全（按序列号）",
        "磁盘损坏、被拔出或被更换",
        "不要创建任何阵列；按序列号找到磁盘，按操作手册处理",
    ),
    "array-state": Words(
        "阵列 {subject} 状态正常",
        "使用过程中有成员盘失效",
        "用 dmesg 查看磁盘错误；RAID0 损坏后数据已丢失：更换磁盘后执行 apply",
    ),
    "array-state/filling": Words(
        "阵列 {subject} 状态正常",
        "镜像刚刚创建，或刚更换了磁盘",
        "等待 /proc/mdstat 中的同步结束，再次执行 verify",
    ),
    "array-conf": Words(
        "mdadm.conf 以 UUID 登记阵列 {subject}，且仅一次",
        "文件被人工修改，或其他工具写入了自己的 ARRAY 行",
        "执行 apply；它会写入唯一的一行并重建 initramfs",
    ),
    "array-boot": Words(
        "initramfs 以 UUID 登记阵列 {subject}，且仅一次",
        "initramfs 是在 mdadm.conf 写完之前生成的",
        "执行 apply，或执行 update-initramfs -u（dracut -f）",
    ),
    "array-came-back": Words(
        "重启后阵列恢复正常",
        "apply 之后机器尚未重启",
        "执行 apply --allow-reboot（或人工重启），再次执行 verify",
    ),
    "fs-mounted": Words(
        "{subject} 按方案挂载",
        "设备未出现，或被人工卸载",
        "查看该挂载单元的 systemctl status，再看关于阵列的检查结果",
    ),
    "fs-mounted/options": Words(
        "{subject} 按方案挂载",
        "被人工挂载，或 /etc/fstab 中的条目优先于挂载单元",
        "删除 /etc/fstab 中的条目；卸载后用 systemctl start 启动挂载单元",
    ),
    "fs-uuid": Words(
        "{subject} 的文件系统 UUID 处处一致",
        "apply 之后重新创建了文件系统",
        "执行 apply：它会沿用现有文件系统，或说明为何不能",
    ),
    "fs-geometry": Words(
        "{subject} 的文件系统与条带匹配",
        "文件系统建在另一个阵列上，或手工创建时没有指定 su 和 sw",
        "可以使用，只是较慢；只能在 mkfs 时设置：有时间时备份数据后重建",
    ),
    "fs-bare": Words(
        "{subject} 的挂载点之下不可写入",
        "不可变标志被取消，或目录是人工创建的",
        "执行 apply；它会重新设置该标志（chattr +i）",
    ),
    "fs-bare/filled": Words(
        "{subject} 的挂载点之下不可写入",
        "卷未挂载时有作业写入：数据在根磁盘上，被挂载遮住",
        "停止作业，卸载，移走这些文件，然后执行 apply",
    ),
    "fs-unit": Words(
        "缺少 {subject} 时系统仍能启动",
        "挂载单元被人工修改或停用，或从未写入",
        "执行 apply；用 systemctl cat 查看挂载单元的现行内容",
    ),
    "fs-folder": Words("{subject} 的属主和权限", "被人工更改", "执行 apply，或对挂载后的目录执行 chown 和 chmod"),
    "fs-directory": Words("目录 {subject}", "被人工更改或删除", "执行 apply"),
    "fs-read-ahead": Words(
        "{subject} 的预读大小",
        "缺少 udev 规则，或其他工具（tuned）设置了自己的值",
        "执行 apply；对设备执行 udevadm test 可看出哪条规则生效",
    ),
    "fs-trim": Words(
        "{subject} 释放的块会归还给硬盘",
        "缺少 fstrim.service 的附加配置：它本身只处理 /etc/fstab 中列出的文件系统",
        "执行 apply；用 systemctl cat fstrim.service 查看现行内容",
    ),
    "volume-watch": Words(
        "卷监视没有报告故障",
        "磁盘损坏或被拔出，或者卷被停止或卸载",
        "在该机器上执行 cat /run/llmhw/volume-faults，其中说明哪些数据丢失、哪些没有丢失；按操作手册处理",
    ),
    "volume-watch/off": Words(
        "卷监视检查每一个卷",
        "定时器被手动停止或停用，或其程序无法运行；磁盘丢失时不会有人得到通知",
        "重新执行 apply；执行 systemctl status llmhw-volume-watch.timer llmhw-volume-watch.service",
    ),
    "tmpfs-mounted": Words(
        "tmpfs {subject} 与方案一致",
        "被人工重新挂载，或 /etc/fstab 中的条目优先于挂载单元",
        "用 systemctl restart 重启挂载单元（其内容会丢失），或执行 apply",
    ),
    "tmpfs-mounted/absent": Words(
        "tmpfs {subject} 与方案一致",
        "apply 尚未创建，或被人工卸载",
        "执行 apply，或用 systemctl start 启动挂载单元",
    ),
    "tmpfs-mode": Words("tmpfs {subject} 的权限", "被人工更改", "执行 chmod，或执行 apply"),
    "tmpfs-unit": Words("tmpfs {subject} 重启后恢复", "挂载单元被人工停用，或从未写入", "执行 apply"),
}
