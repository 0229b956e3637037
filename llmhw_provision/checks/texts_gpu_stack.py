"""Texts of the GPU software: what stands before it, where it comes from, whether it is whole."""

from __future__ import annotations

from llmhw_provision.checks.texts_base import Words, family

_DKMS = "dkms status; read /var/lib/dkms/nvidia/*/build/make.log, then run apply"
_BEFORE: dict[str, Words] = {
    **family(
        "gpu-board",
        "the board's switches as planned",
        usual=(
            "the NVSwitches are not on the bus, or this is another board than the plan was made for",
            "power off and on; lspci -d 10de: -d 15b3:; then discover and plan again",
        ),
        unplanned=(
            "the plan was made for a machine without NVSwitches: it brings no fabric manager",
            "run discover and plan again",
        ),
    ),
    **family(
        "gpu-windows",
        "the GPUs' memory windows",
        usual=(
            "Resizable BAR is off in the firmware, or the card is in a mode for displays",
            "turn Resizable BAR on; without it only copies between GPU and host are slower",
        ),
    ),
    **family(
        "gpu-flavour",
        "kernel modules that run these GPUs",
        usual=(
            "the closed modules are planned, which do not run this card",
            "leave software.modules out of site.yaml and plan again",
        ),
        exchange=("packages of the closed modules are installed", "nothing: apply exchanges them"),
    ),
    **family(
        "gpu-leftovers",
        "no driver beside the packages",
        usual=(
            "NVIDIA's .run installer put files there, or copied ones were left; they win over the packages' own",
            "nvidia-uninstall; files that stay belong to no package and can be removed; then run again",
        ),
    ),
    **family(
        "gpu-headers",
        "kernel headers",
        usual=(
            "the mirror no longer carries the headers of this kernel",
            "upgrade the kernel and reboot into it, or add the source that the kernel came from",
        ),
    ),
    **family(
        "gpu-tracks",
        "one track of kernels",
        usual=(
            "packages of two kernel series or flavours are installed side by side",
            "remove all but one (apt-get purge), so that one kernel decides what is built",
        ),
    ),
    **family(
        "gpu-tools",
        "what builds the modules",
        usual=("no source offers it; without g++ the open modules do not build", "add the source, or mirror it"),
        old=(
            "the mirror is a dated copy (EPEL's dkms, often)",
            "take a newer copy of the mirror, or install that one package by hand",
        ),
    ),
    **family(
        "gpu-room",
        "room for driver and CUDA",
        usual=(
            "old kernels, old toolkits or logs fill the disk",
            "ls -d /usr/local/cuda-*; apt-get autoremove; apt-get clean; du -xh --max-depth=2 /usr /var",
        ),
    ),
    **family(
        "gpu-signing",
        "Secure Boot lets the driver in",
        usual=(
            "Secure Boot refuses modules without a signature, and there is no key on this host",
            "turn Secure Boot off, or make a key (dkms generate_mok) and enrol it at the console",
        ),
        enrol=(
            "the key is there and the firmware does not know it",
            "mokutil --import KEY, reboot, and confirm at the console: a person must stand there",
        ),
        unsigned=(
            "this release's dkms signs nothing by itself",
            "name the key in /etc/dkms/framework.conf.d (mok_signing_key=, mok_certificate=)",
        ),
    ),
}
_SOURCES: dict[str, Words] = {
    **family(
        "gpu-source-keys",
        "one key for each package source",
        usual=(
            "a source was added twice, by hand and by a package (cuda-keyring)",
            "remove one of the files; apt-get update must then end without an error",
        ),
        cured=("NVIDIA's source was added by hand or by cuda-keyring", "nothing: apply sets those files aside"),
    ),
    **family(
        "gpu-source-system",
        "NVIDIA's sources are this system's",
        usual=(
            "the source of another distribution was added; apt 3 also refuses the older ones' key",
            "remove that file; apply adds the right source",
        ),
        cured=(
            "the source of another distribution was added by hand, or left by an upgrade of the system",
            "nothing: apply sets that file aside",
        ),
    ),
    **family(
        "gpu-origins",
        "the driver comes from one source",
        usual=(
            "the distribution's archive and NVIDIA's repository both gave packages of the driver",
            "remove them all (apt-get purge '*nvidia*'), or those of one source; apply then installs one set",
        ),
    ),
    **family(
        "gpu-offers",
        "planned versions are on offer",
        usual=(
            "the repository has moved on, or a mirror is older than the plan",
            "write a version that is on offer as software.driver (or cuda) and plan again; or update the mirror",
        ),
        unknown=("the repository lacks the package, or lists are old", "apt-get update; look at the mirror"),
        later=("the repository is not on this host yet", "nothing: apply sets it up and asks again"),
    ),
    **family(
        "gpu-solution",
        "the planned driver is what would be installed",
        usual=(
            "the name is a stub of an ended branch, or another source wins",
            "choose the branch that it leads to, or sources.driver: vendor; then plan again",
        ),
        refused=(
            "held packages or a second source leave no versions that fit together",
            "apt-mark showhold; run the command of the evidence by hand",
        ),
        later=("the repository is not on this host yet", "nothing: apply sets it up and asks again"),
    ),
}
_SET: dict[str, Words] = {
    **family(
        "gpu-package",
        "package {subject}",
        usual=("it was upgraded or downgraded after apply", "run apply; apt-mark showhold shows what is free to move"),
        absent=("it was removed, or apply has not run", "run apply"),
        half=("an installation was cut off", "run apply: it finishes it; or dpkg --configure -a"),
    ),
    **family(
        "gpu-one-version",
        "one version in all packages of the driver",
        usual=(
            "an upgrade moved a part of the set",
            "run apply, which brings the set back; then reboot where the loaded module differs",
        ),
        half=("an installation was cut off", "run apply: it finishes it; or dpkg --configure -a"),
        none=("apply has not run, or the driver was removed", "run apply"),
    ),
    **family(
        "gpu-held",
        "driver, CUDA and kernel are held",
        usual=(
            "a hold was taken off, or a package came after the holds were set",
            "run apply; upgrade with a new plan, never package by package",
        ),
        none=("apply has not run", "run apply"),
    ),
    **family(
        "gpu-unattended",
        "unattended upgrades leave the driver alone",
        usual=(
            "the list of exceptions was edited, or another file of apt.conf.d comes later and clears it",
            "run apply; apt-config dump Unattended-Upgrade::Package-Blacklist shows what is in force",
        ),
    ),
    **family(
        "gpu-dkms",
        "the driver is built for every kernel that may run",
        usual=("headers were missing when the kernel came, or the build was never started", _DKMS),
        compiler=("the build failed, and the package's installation hid it", _DKMS),
        unknown=("the driver's sources are not registered", "run apply: it installs the package again"),
        changed=(
            "a module was overwritten after it was built (a .run installer, a copied file)",
            "dkms install --force nvidia/VERSION, or run apply",
        ),
    ),
    **family(
        "gpu-boot-module",
        "a driver for the kernel that boots next",
        usual=("the module of an older driver is still there", _DKMS),
        none=("a kernel was installed and nothing was built for it: the next boot has no GPUs", _DKMS),
        flavour=("modules of the other flavour were built", "remove their package; run apply"),
    ),
    **family(
        "gpu-loaded",
        "the loaded driver is the planned one",
        usual=("the machine has not been rebooted since the driver changed", "run apply --allow-reboot"),
        none=("the module was not built, refused, or is not loaded yet", "modprobe nvidia; dmesg says why not"),
    ),
    **family(
        "gpu-rivals",
        "no other driver takes the GPUs",
        usual=("the blacklist was edited or removed", "run apply"),
        loaded=(
            "it was loaded before the blacklist was there, or from the initramfs",
            "run apply --allow-reboot; lspci -k shows who holds a GPU",
        ),
    ),
    **family(
        "gpu-image",
        "the initramfs knows the blacklist",
        usual=(
            "the initramfs is older than the blacklist",
            "update-initramfs -u -k all (EL: dracut -f --regenerate-all), or run apply",
        ),
    ),
    **family(
        "gpu-persistenced",
        "the persistence daemon",
        usual=(
            "it failed or was stopped",
            "systemctl status nvidia-persistenced; journalctl -b -u nvidia-persistenced",
        ),
        absent=("its package is missing", "run apply"),
        skipped=(
            "it was started before the device files were there, and nobody started it again",
            "systemctl start nvidia-persistenced; run apply, whose drop-in waits for them",
        ),
        disabled=(
            "somebody disabled it: it will be missing after the next boot",
            "systemctl enable nvidia-persistenced, or run apply",
        ),
    ),
    **family(
        "gpu-subnet-manager",
        "NVLSM programs the switches",
        usual=(
            "the fabric manager was started without it, or it failed",
            "systemctl restart nvidia-fabricmanager; /var/log/nvlsm.log",
        ),
        modules=(
            "ib_umad is loaded by nobody for these functions",
            "modprobe -a ib_umad mlx5_ib; run apply, which names them in /etc/modules-load.d",
        ),
    ),
    **family(
        "gpu-nodes",
        "the driver has every GPU",
        usual=(
            "device files were not made: nvidia-modprobe is missing, or nvidia-uvm was not loaded",
            "nvidia-modprobe -c NUMBER -u for the one that is missing; run apply",
        ),
        fewer=("the driver could not start on a GPU, or another driver holds it", "dmesg | grep NVRM; lspci -k"),
        switches=("the driver did not take the NVSwitches", "dmesg | grep nvswitch; power off and on"),
    ),
    **family(
        "cuda-toolkit",
        "the CUDA toolkit in use",
        usual=("another nvcc stands behind /usr/local/cuda", "update-alternatives --config cuda; run apply"),
        absent=("it was removed, or apply has not run", "run apply"),
        link=("another toolkit was installed by hand and took the link", "run apply"),
    ),
    **family(
        "cuda-driver",
        "the driver runs the planned CUDA",
        usual=(
            "the driver is too old for this CUDA: programs end with 'driver version is insufficient'",
            "run apply with the planned driver; then reboot",
        ),
    ),
    **family(
        "nccl-settings",
        "NCCL is told only what is there",
        usual=(
            "a name was copied from another machine (eth0, mlx5_0): NCCL ends with 'no socket interface found'",
            "write the exclusion form (^lo,docker0) in /etc/nccl.conf, or run apply",
        ),
        other=("/etc/nccl.conf was edited after apply", "run apply"),
    ),
}
GPU_STACK: dict[str, Words] = _BEFORE | _SOURCES | _SET
