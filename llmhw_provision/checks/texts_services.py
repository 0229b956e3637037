"""Texts of services: units, DCGM, Slurm, serving engines, training environments."""

from __future__ import annotations

from llmhw_provision.checks.texts_base import Words, family

_CLOCK = ("the clocks of two hosts differ by minutes", "chronyc tracking on both; then restart munge and slurmd")
_KEY = (
    "the key differs, or munged was not restarted after the key was copied",
    "compare the key's hash on all hosts; systemctl restart munge",
)
_DEVICE = ("the device files of the GPUs are not there (yet)", "nvidia-smi; start slurmd after nvidia-persistenced")
SERVICES: dict[str, Words] = {
    **family(
        "service-unit",
        "{subject} runs",
        usual=("the unit failed or was stopped", "systemctl status UNIT; journalctl -b -u UNIT"),
        absent=("it is not installed, or masked", "run apply"),
    ),
    **family(
        "dcgm-health",
        "DCGM finds the GPUs healthy",
        usual=("DCGM has seen a fault, which its lines name", "dcgmi health -c; then the checks of that part"),
        engine=("the host engine does not run", "systemctl status nvidia-dcgm"),
        watches=("no health watch is set", "dcgmi health -s a"),
    ),
    **family(
        "dcgm-diag",
        "DCGM's diagnosis",
        usual=(
            "the named test found a fault on the named GPU",
            "dcgmi diag -r 2 for that GPU; then the page of that part",
        ),
    ),
    **family(
        "dcgm-links",
        "DCGM sees no NVLink down",
        usual=("links did not train or failed; dcgmi diag passes all the same", "see NVLinks and fabric manager"),
    ),
    **family(
        "slurm-node",
        "Slurm uses the node {subject}",
        usual=(
            "the node was drained, by a person or a health check",
            "see the reason; mend it; scontrol update state=resume",
        ),
        unknown=("slurm.conf does not name the node", "compare NodeName with the host's name; scontrol reconfigure"),
        gpus=(
            "slurmd finds fewer GPUs than slurm.conf names",
            "see the number of GPUs; slurmd -G; then restart slurmd and resume the node",
        ),
        invalid=(
            "the node's registration does not match slurm.conf: GRES without File=, or fewer parts than stated",
            "slurmd -C and slurmd -G; give gres.conf File=/dev/nvidia[0-N]",
        ),
        down=("slurmd does not answer the controller", "systemctl status slurmd; munge; the firewall (6818)"),
        memory=("slurm.conf states more memory than the node has", "take RealMemory from slurmd -C"),
    ),
    **family(
        "slurm-gres",
        "slurmd finds every GPU",
        usual=("gres.conf names fewer, or a GPU is lost", "see the number of GPUs; compare gres.conf"),
        device=_DEVICE,
    ),
    **family(
        "slurm-controller",
        "Slurm's controller answers",
        usual=("slurmctld is down or not reachable", "systemctl status slurmctld on its host; the firewall (6817)"),
        configuration=(
            "the node finds no configuration",
            "look for slurm.conf, or the DNS record of a configless set-up",
        ),
    ),
    **family(
        "slurm-log",
        "Slurm's daemons log no known error",
        usual=("a daemon of Slurm reported an error", "journalctl -b -u slurmd -u slurmctld"),
        clock=_CLOCK,
        key=_KEY,
        munge=("munged does not run", "systemctl status munge; then restart slurmd"),
        autodetect=(
            "slurmd was built without NVML",
            "name the devices in gres.conf (File=), or AutoDetect=nvidia from Slurm 24.11 on",
        ),
        dbus=("there is no D-Bus to make cgroups through", "systemctl status dbus; IgnoreSystemd only in containers"),
        cgroup=("this Slurm cannot use the host's cgroups", "Slurm 22.05 or later on cgroup v2"),
        memory=("slurm.conf states more memory than the node has", "take RealMemory from slurmd -C"),
        gpus=("slurmd found fewer GPUs than slurm.conf names", "see the number of GPUs; then resume the node"),
        device=_DEVICE,
    ),
    **family(
        "munge",
        "credentials of munge",
        usual=("munge cannot make or read a credential", "journalctl -u munge"),
        key=_KEY,
        clock=_CLOCK,
        down=("munged does not run", "systemctl status munge; owner and mode of /etc/munge"),
    ),
    **family(
        "server-log",
        "{subject} has come up",
        usual=("the engine failed, or still loads its model", "journalctl -u UNIT from its last start"),
        nccl=("NCCL failed between the GPUs", "see peer access, NVLinks, ACS; NCCL_DEBUG=INFO names the step"),
        fabric=("CUDA error 802: the NVLink fabric is not ready", "see the fabric manager; start the engine after it"),
        driver=(
            "the driver is too old for this CUDA, or a library of the other CUDA is missing",
            "see driver and lock",
        ),
        memory=("the GPUs' memory is taken, or too small for model and cache", "nvidia-smi; size the workload again"),
        nvcc=(
            "a kernel is compiled at run time, and there is no nvcc",
            "install the toolkit of torch's CUDA; CUDA_HOME",
        ),
        permission=(
            "the service's user may not write its cache",
            "HOME and cache folders in the unit (StateDirectory)",
        ),
        port=("another process has the port", "ss -ltnp"),
    ),
    **family(
        "server-answers",
        "the engine on port {subject} answers",
        usual=("the engine does not run, or listens elsewhere", "systemctl status of its unit; ss -ltnp"),
    ),
    **family(
        "env-deepspeed",
        "DeepSpeed's operators in {subject}",
        usual=("a development package or compiler is missing (async_io: libaio-dev)", "ds_report names it; run apply"),
        torch=("a torch without CUDA was installed", "install the locked environment again"),
        nvcc=(
            "the toolkit is missing, or of another CUDA than torch's",
            "install the toolkit of torch's CUDA; CUDA_HOME",
        ),
    ),
    **family(
        "env-llamafactory",
        "training environment in {subject}",
        usual=("a torch without CUDA was installed, or the driver does not answer", "see the driver, then the lock"),
        fewer=("torch sees fewer GPUs than planned", "CUDA_VISIBLE_DEVICES; then the number of GPUs"),
    ),
}
