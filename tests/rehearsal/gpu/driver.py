"""The driver of one release as NVIDIA's Debian repository splits it since 560: names, versions and relations.

Names and versions as `dpkg -l` of Debian machines with 595.45.04-1 and 595.58.03-1 shows them (public reports); the
relations, which such a list does not show: everything of one release binds the same release, `nvidia-modprobe` and
`nvidia-persistenced` are asked for in any (NVIDIA/gpu-driver-container#899). Left out: X server's driver and OpenGL,
which would bring a desktop; their metapackages are there.
"""

from __future__ import annotations

from pathlib import Path

from tests.rehearsal.gpu.deb import File, Link, Package
from tests.rehearsal.gpu.layout import HERE, release, shared, tool, with_unit

# Stem of the library, its soname, and what the package is called.
_LIBRARIES = (
    ("libcuda", "libcuda.so.1", "libcuda1", "NVIDIA CUDA Driver Library"),
    ("libcudadebugger", "libcudadebugger.so.1", "libcudadebugger1", "NVIDIA CUDA Debugger Library"),
    ("libnvidia-cfg", "libnvidia-cfg.so.1", "libnvidia-cfg1", "NVIDIA binary configuration library"),
    ("libnvcuvid", "libnvcuvid.so.1", "libnvcuvid1", "NVIDIA CUDA Video Decoder runtime library"),
    ("libnvidia-encode", "libnvidia-encode.so.1", "libnvidia-encode1", "NVENC Video Encoding runtime library"),
    ("libnvidia-gpucomp", "libnvidia-gpucomp.so", "libnvidia-gpucomp", "NVIDIA binary GPU compiler library"),
    ("libnvidia-ml", "libnvidia-ml.so.1", "libnvidia-ml1", "NVIDIA Management Library (NVML) runtime library"),
    ("libnvidia-nvvm", "libnvidia-nvvm.so.4", "libnvidia-nvvm4", "NVIDIA NVVM Compiler library"),
    (
        "libnvidia-ptxjitcompiler",
        "libnvidia-ptxjitcompiler.so.1",
        "libnvidia-ptxjitcompiler1",
        "NVIDIA PTX JIT Compiler library",
    ),
)
_PERSISTENCED = """[Unit]
Description=NVIDIA Persistence Daemon
After=syslog.target
ConditionPathExistsGlob=/dev/nvidia*

[Service]
Type=forking
PIDFile=/run/nvidia-persistenced/nvidia-persistenced.pid
RuntimeDirectory=nvidia-persistenced
ExecStart=/usr/bin/nvidia-persistenced --persistence-mode --verbose

[Install]
WantedBy=multi-user.target
"""
_UDEV = """# The device nodes appear with the driver, once it has its GPUs, not with the first program that wants them.
ACTION=="add", DEVPATH=="/bus/pci/drivers/nvidia", RUN+="/usr/bin/nvidia-modprobe"
ACTION=="add", SUBSYSTEM=="module", KERNEL=="nvidia_uvm", RUN+="/usr/bin/nvidia-modprobe -u"
"""
_DKMS_POSTINST = """#!/bin/sh
set -e
if [ "$1" = configure ]; then
    /usr/lib/dkms/common.postinst nvidia {version} /usr/share/{name} "" "$2"{ignored}
fi
"""
_DKMS_PRERM = """#!/bin/sh
set -e
case "$1" in
    remove|upgrade|deconfigure)
        if [ "$(dkms status -m nvidia -v {version})" ]; then dkms remove -m nvidia -v {version} --all; fi ;;
esac
"""
_WRONG_LINE = "\nvoid rehearsal(void) { pci_resize_resource_gone(0); }\n"


def packages(
    driver: str, *, module: Path | None = None, loose: bool = False, broken: bool = False, hidden: bool = False
) -> tuple[Package, ...]:
    """All packages of one driver release.

    `loose`: metapackages are content with newer parts (stubs). `broken`: the kernel module does not compile;
    `hidden`: and its package does not say so. `module`: the folder of the module's source.
    """
    version = release(driver)
    bound = f"(>= {driver})" if loose else f"(= {version})"
    libraries = tuple(_library(driver, *names) for names in _LIBRARIES)
    folder = module or HERE / "module"
    opened, closed = (_source(folder, driver, is_open=flavour, broken=broken) for flavour in (True, False))
    branch = driver.split(".")[0]
    return (
        *libraries,
        *_metas(driver, bound),
        *(_branch_metas(branch, version) if int(branch) < 590 else ()),
        _cuda_part(driver),
        _support(driver),
        _firmware(driver),
        _module("nvidia-kernel-open-dkms", driver, opened, hidden=hidden),
        _module("nvidia-kernel-dkms", driver, closed, hidden=hidden),
        _modprobe(driver),
        _persistenced(driver),
        *pinning(driver),
    )


def _package(name: str, driver: str, what: str, *, source: str = "nvidia-driver", **relations: str) -> Package:
    named = {key.replace("_", "-").title(): value for key, value in relations.items()}
    return Package(name, release(driver), what, source=source, relations=named)


def _library(driver: str, stem: str, soname: str, name: str, what: str) -> Package:
    depends = f"libnvidia-ptxjitcompiler1 (= {release(driver)})" if name == "libcuda1" else ""
    made = _package(name, driver, what, depends=depends)
    return Package(**{**vars(made), "same": True, "files": dict(shared(stem, driver, soname))})


def _metas(driver: str, bound: str) -> tuple[Package, ...]:
    return (
        _package(
            *("nvidia-open", driver, "NVIDIA Driver meta-package, Open GPU kernel modules, latest version"),
            source="nvidia-open",
            depends=f"nvidia-driver {bound}, nvidia-driver-cuda {bound}, nvidia-kernel-open-dkms {bound}",
            conflicts="cuda-drivers",
        ),
        _package(
            *("cuda-drivers", driver, "NVIDIA Driver meta-package, proprietary GPU kernel modules, latest version"),
            source="cuda-drivers",
            depends=f"nvidia-driver {bound}, nvidia-driver-cuda {bound}, nvidia-kernel-dkms {bound}",
            conflicts="nvidia-open",
        ),
        _package(
            *("nvidia-driver", driver, "NVIDIA metapackage"),
            depends=f"nvidia-driver-libs {bound}, nvidia-kernel-open-dkms {bound} | nvidia-kernel-dkms {bound}, "
            f"nvidia-modprobe, nvidia-persistenced",
            recommends=f"nvidia-settings {bound}",
        ),
        _package(
            *("nvidia-driver-libs", driver, "NVIDIA metapackage (libraries)"),
            depends=f"libnvidia-cfg1 {bound}, libnvidia-gpucomp {bound}",
        ),
        _package(
            "nvidia-settings", driver, "Tool for configuring the NVIDIA graphics driver", source="nvidia-settings"
        ),
    )


def _branch_metas(branch: str, version: str) -> tuple[Package, ...]:
    what = f"NVIDIA Driver meta-package, branch {branch}"
    return tuple(
        Package(f"{name}-{branch}", version, what, source=name, relations={"Depends": f"{name} (= {version})"})
        for name in ("nvidia-open", "cuda-drivers")
    )


def _cuda_part(driver: str) -> Package:
    version = release(driver)
    names = ("libcuda1", "libcudadebugger1", "libnvcuvid1", "libnvidia-encode1", "libnvidia-ml1", "libnvidia-nvvm4")
    depends = ", ".join(f"{name} (= {version})" for name in names) + ", nvidia-modprobe, nvidia-persistenced, python3"
    made = _package("nvidia-driver-cuda", driver, "NVIDIA driver CUDA integration components", depends=depends)
    return Package(**{**vars(made), "files": {"/usr/bin/nvidia-smi": tool("nvidia_smi", driver)}})


def _support(driver: str) -> Package:
    made = _package("nvidia-kernel-support", driver, "NVIDIA binary kernel module support files")
    files: dict[str, File | Link] = {
        "/usr/lib/udev/rules.d/60-nvidia.rules": File(_UDEV.encode()),
        "/usr/lib/modprobe.d/nvidia.conf": File(b"softdep nvidia post: nvidia-uvm\n"),
    }
    return Package(**{**vars(made), "files": files})


def _firmware(driver: str) -> Package:
    made = _package("firmware-nvidia-gsp", driver, "NVIDIA GSP firmware")
    names = ("gsp_ga10x.bin", "gsp_tu10x.bin")
    files: dict[str, File | Link] = {
        f"/lib/firmware/nvidia/{driver}/{name}": File(f"stand-in {driver}\n".encode()) for name in names
    }
    return Package(**{**vars(made), "files": files})


def _source(folder: Path, driver: str, *, is_open: bool, broken: bool) -> dict[str, bytes]:
    """The module's source by file name: its release filled in, the flavour chosen."""
    found = {}
    for path in sorted(folder.iterdir()):
        text = path.read_text().replace("@VERSION@", driver)
        if not is_open and path.name == "common.h":
            text = text.replace("#define NV_OPEN 1", "#define NV_OPEN 0")
        found[path.name] = text + (_WRONG_LINE if broken and path.name == "nvidia.c" else "")
    return {name: text.encode() for name, text in found.items()}


def _module(name: str, driver: str, source: dict[str, bytes], *, hidden: bool) -> Package:
    version = release(driver)
    flavour = "source open flavor" if "open" in name else "source"
    other = "nvidia-kernel-dkms" if "open" in name else "nvidia-kernel-open-dkms"
    made = _package(
        *(name, driver, f"NVIDIA binary kernel module DKMS {flavour}"),
        depends=f"dkms, nvidia-kernel-support (= {version}), firmware-nvidia-gsp (= {version})",
        conflicts=other,
    )
    files: dict[str, File | Link] = {f"/usr/src/nvidia-{driver}/{path}": File(text) for path, text in source.items()}
    ignored = ' || echo "dkms: ignored"' if hidden else ""
    scripts = {
        "postinst": _DKMS_POSTINST.format(version=driver, name=name, ignored=ignored),
        "prerm": _DKMS_PRERM.format(version=driver),
    }
    return Package(**{**vars(made), "files": files, "scripts": scripts})


def _modprobe(driver: str) -> Package:
    what = "utility to load NVIDIA kernel modules and create device nodes"
    made = _package("nvidia-modprobe", driver, what, source="nvidia-modprobe", depends="python3, kmod")
    return Package(**{**vars(made), "files": {"/usr/bin/nvidia-modprobe": tool("nvidia_modprobe", driver)}})


def _persistenced(driver: str) -> Package:
    made = _package(
        *("nvidia-persistenced", driver, "daemon to maintain persistent software state in the NVIDIA driver"),
        source="nvidia-persistenced",
        depends=f"libnvidia-cfg1 (>= {driver}), python3",
    )
    files: dict[str, File | Link] = {"/usr/bin/nvidia-persistenced": tool("nvidia_persistenced", driver)}
    made = Package(**{**vars(made), "files": files})
    return with_unit(made, "nvidia-persistenced.service", _PERSISTENCED, enabled=True)


_PIN = """Package: {names}
Pin: version {pattern}
Pin-Priority: 1000
"""
_SOURCES = ("nvidia-open", "cuda-drivers", "nvidia-driver", "nvidia-modprobe", "nvidia-persistenced", "nvidia-settings")
_PINNED = tuple(f"src:{name}:any" for name in (*_SOURCES, "nvidia-fabric", "nvidia-imex"))


def pinning(driver: str) -> tuple[Package, ...]:
    """The packages that tie apt to a branch, or to a full version, by a preferences file: one at a time."""
    branch = driver.split(".")[0]
    return tuple(
        Package(
            f"nvidia-driver-pinning-{what}",
            f"{what}-1",
            f"APT driver pinning file for driver {'branch' if what == branch else 'version'} {what}",
            source="nvidia-driver-pinning",
            architecture="all",
            section="non-free/admin",
            relations={
                "Provides": "nvidia-driver-pinning",
                "Conflicts": "nvidia-driver-pinning",
                "Replaces": "nvidia-driver-pinning",
            },
            files={
                "/etc/apt/preferences.d/nvidia-driver-pin": File(
                    "\n".join(_PIN.format(names=name, pattern=pattern) for name in _PINNED).encode()
                )
            },
        )
        for what, pattern in ((branch, f"{branch}.*"), (driver, f"{driver}-*"))
    )
