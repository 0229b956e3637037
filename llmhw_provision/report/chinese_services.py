"""Simplified Chinese texts of services: units, DCGM, Slurm, serving engines, training environments."""

from __future__ import annotations

from llmhw_provision.checks.texts_base import Words, family

_CLOCK = ("两台主机的时钟相差数分钟", "在两台主机上执行 chronyc tracking；然后重启 munge 和 slurmd")
_KEY = ("密钥不同，或复制密钥后没有重启 munged", "比较各主机上密钥的散列值；执行 systemctl restart munge")
_DEVICE = ("GPU 的设备文件（尚）不存在", "执行 nvidia-smi；在 nvidia-persistenced 之后启动 slurmd")
SERVICES: dict[str, Words] = {
    **family(
        "service-unit",
        "{subject} 正在运行",
        usual=("该服务单元失败或被停止", "查看 systemctl status 单元名 和 journalctl -b -u 单元名 的输出"),
        absent=("未安装，或被屏蔽", "执行 apply"),
    ),
    **family(
        "dcgm-health",
        "DCGM 认为 GPU 健康",
        usual=("DCGM 发现了故障，其输出会指明", "执行 dcgmi health -c；再看该部分的检查"),
        engine=("主机引擎未运行", "查看 systemctl status nvidia-dcgm"),
        watches=("没有设置健康监视", "执行 dcgmi health -s a"),
    ),
    **family(
        "dcgm-diag",
        "DCGM 自带的诊断",
        usual=("所列测试在所列 GPU 上发现故障", "对该 GPU 执行 dcgmi diag -r 2；再看相应部分的操作手册"),
    ),
    **family(
        "dcgm-links",
        "DCGM 没有发现断开的 NVLink",
        usual=("链路未训练成功或已失效；dcgmi diag 此时仍会通过", "查看 NVLink 和 Fabric Manager"),
    ),
    **family(
        "slurm-node",
        "Slurm 可以使用节点 {subject}",
        usual=("节点被人工或健康检查排空", "查看原因；修复后执行 scontrol update state=resume"),
        unknown=("slurm.conf 中没有该节点", "核对 NodeName 与主机名；执行 scontrol reconfigure"),
        gpus=(
            "slurmd 找到的 GPU 少于 slurm.conf 中所列",
            "查看 GPU 数量；执行 slurmd -G；然后重启 slurmd 并恢复该节点",
        ),
        invalid=(
            "节点登记的内容与 slurm.conf 不符：GRES 没有 File=，或部件少于所列",
            "执行 slurmd -C 和 slurmd -G；在 gres.conf 中写 File=/dev/nvidia[0-N]",
        ),
        down=("slurmd 没有应答控制器", "查看 systemctl status slurmd、munge 和防火墙（6818 端口）"),
        memory=("slurm.conf 中的内存多于节点实有", "按 slurmd -C 填写 RealMemory"),
    ),
    **family(
        "slurm-gres",
        "slurmd 找到每块 GPU",
        usual=("gres.conf 所列较少，或有 GPU 丢失", "查看 GPU 数量；核对 gres.conf"),
        device=_DEVICE,
    ),
    **family(
        "slurm-controller",
        "Slurm 控制器有应答",
        usual=("slurmctld 未运行或无法访问", "在其主机上查看 systemctl status slurmctld；检查防火墙（6817 端口）"),
        configuration=("节点找不到配置", "检查 slurm.conf，或 configless 方式的 DNS 记录"),
    ),
    **family(
        "slurm-log",
        "Slurm 守护进程没有记录已知错误",
        usual=("Slurm 的某个守护进程报错", "查看 journalctl -b -u slurmd -u slurmctld"),
        clock=_CLOCK,
        key=_KEY,
        munge=("munged 未运行", "查看 systemctl status munge；然后重启 slurmd"),
        autodetect=(
            "slurmd 编译时没有 NVML",
            "在 gres.conf 中写明设备（File=），Slurm 24.11 起可用 AutoDetect=nvidia",
        ),
        dbus=("没有可用于创建 cgroup 的 D-Bus", "查看 systemctl status dbus；IgnoreSystemd 只用于容器"),
        cgroup=("该版本的 Slurm 不能使用主机的 cgroup", "cgroup v2 需要 Slurm 22.05 或更新"),
        memory=("slurm.conf 中的内存多于节点实有", "按 slurmd -C 填写 RealMemory"),
        gpus=("slurmd 找到的 GPU 少于 slurm.conf 中所列", "查看 GPU 数量；然后恢复该节点"),
        device=_DEVICE,
    ),
    **family(
        "munge",
        "munge 的凭据",
        usual=("munge 无法生成或读取凭据", "查看 journalctl -u munge"),
        key=_KEY,
        clock=_CLOCK,
        down=("munged 未运行", "查看 systemctl status munge；检查 /etc/munge 的属主和权限"),
    ),
    **family(
        "server-log",
        "{subject} 已启动完成",
        usual=("引擎失败，或仍在加载模型", "从最近一次启动起查看 journalctl -u 单元名"),
        nccl=("GPU 之间的 NCCL 失败", "检查显存互访、NVLink、ACS；NCCL_DEBUG=INFO 会指明步骤"),
        fabric=("CUDA 报错 802：NVLink 网络未就绪", "查看 Fabric Manager；在其之后启动引擎"),
        driver=("驱动对该 CUDA 过旧，或缺少另一个 CUDA 版本的库", "检查驱动和锁定文件"),
        memory=("显存已被占用，或不足以容纳模型和缓存", "执行 nvidia-smi；重新估算负载"),
        nvcc=("运行时需要编译内核，而没有 nvcc", "安装与 torch 的 CUDA 对应的工具包；设置 CUDA_HOME"),
        permission=("服务用户不能写入其缓存", "在服务单元中设置 HOME 和缓存目录（StateDirectory）"),
        port=("端口被其他进程占用", "执行 ss -ltnp 查看"),
    ),
    **family(
        "server-answers",
        "端口 {subject} 上的引擎有应答",
        usual=("引擎未运行，或监听其他地址", "查看其单元的 systemctl status；执行 ss -ltnp"),
    ),
    **family(
        "env-deepspeed",
        "{subject} 中的 DeepSpeed 算子",
        usual=("缺少开发包或编译器（async_io 需要 libaio-dev）", "ds_report 会指明；执行 apply"),
        torch=("安装了不带 CUDA 的 torch", "按锁定文件重新安装环境"),
        nvcc=("缺少工具包，或其 CUDA 与 torch 不同", "安装与 torch 的 CUDA 对应的工具包；设置 CUDA_HOME"),
    ),
    **family(
        "env-llamafactory",
        "{subject} 中的训练环境",
        usual=("安装了不带 CUDA 的 torch，或驱动没有应答", "先检查驱动，再检查锁定文件"),
        fewer=("torch 看到的 GPU 少于方案", "检查 CUDA_VISIBLE_DEVICES；再看 GPU 数量"),
    ),
}
