"""CUDA toolkits side by side, cuDNN, NCCL, Nsight Systems, DCGM and the keyring, named and bound as NVIDIA's are.

Names of the parts as `dpkg -l` of machines with the vendor's toolkits shows them (public reports), fewer of them: what
a metapackage pulls in beside compiler, runtime and cuBLAS is left out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from tests.rehearsal.gpu.deb import File, Link, Package
from tests.rehearsal.gpu.layout import shared


@dataclass(frozen=True)
class Toolkit:
    """One CUDA toolkit: its release, the build of nvcc, the driver that it is bundled with."""

    version: str
    nvcc: str
    driver: str

    @property
    def minor(self) -> str:
        return ".".join(self.version.split(".")[:2])

    @property
    def dash(self) -> str:
        return self.minor.replace(".", "-")

    @property
    def major(self) -> str:
        return self.version.split(".")[0]

    @property
    def home(self) -> str:
        return f"/usr/local/cuda-{self.minor}"


TOOLKITS = (
    Toolkit("12.8.1", "12.8.93", "570.124.06"),
    Toolkit("13.0.2", "13.0.88", "580.95.05"),
    Toolkit("13.1.0", "13.1.80", "590.44.01"),
)
CUDNN = ("9.24.0.43", "9.26.0.51")
NCCL = ("2.30.7-1+cuda12.9", "2.30.7-1+cuda13.0", "2.32.3-1+cuda13.1")
NSIGHT = "2025.5.1.121"
DCGM = "4.4.2"
NVLSM = "2025.06.11"
_NVCC = """#!/bin/sh
# Stand-in of the rehearsal machine: says its version, compiles nothing.
case "$*" in
    --version|-V)
        echo 'nvcc: NVIDIA (R) Cuda compiler driver'
        echo 'Copyright (c) 2005-2025 NVIDIA Corporation'
        echo 'Cuda compilation tools, release {minor}, V{nvcc}'
        echo 'Build cuda_{minor}.r{minor}/compiler.00000000_0' ;;
    *)
        echo 'nvcc fatal   : No input files specified; use option --help for more information' >&2
        exit 1 ;;
esac
"""
_ALTERNATIVES = """#!/bin/sh
set -e
if [ "$1" = configure ]; then
    update-alternatives --install /usr/local/cuda cuda {home} {priority}
    update-alternatives --install /usr/local/cuda-{major} cuda-{major} {home} {priority}
fi
"""
_NO_ALTERNATIVES = """#!/bin/sh
set -e
if [ "$1" = remove ]; then
    update-alternatives --remove cuda {home}
    update-alternatives --remove cuda-{major} {home}
fi
"""


def packages() -> tuple[Package, ...]:
    """Everything of the repository that is not a driver."""
    newest = TOOLKITS[-1]
    found = [package for toolkit in TOOLKITS for package in (*_parts(toolkit), *_metas(toolkit))]
    found += [_config(newest, "cuda-toolkit-config-common", "CUDA Toolkit")]
    for major in sorted({toolkit.major for toolkit in TOOLKITS}):
        last = [toolkit for toolkit in TOOLKITS if toolkit.major == major][-1]
        found.append(_config(last, f"cuda-toolkit-{major}-config-common", f"CUDA Toolkit {major}"))
        found.append(_meta(f"cuda-toolkit-{major}", last, f"cuda-toolkit-{last.dash} (>= {last.version})"))
    found.append(_meta("cuda-toolkit", newest, f"cuda-toolkit-{newest.dash} (>= {newest.version})"))
    found.append(_meta("cuda", newest, f"cuda-{newest.dash} (>= {newest.version})"))
    return (*found, *_cudnn(), *_nccl(), *_nsight(), *_dcgm())


def _meta(name: str, toolkit: Toolkit, depends: str) -> Package:
    what = f"{name} meta-package"
    return Package(name, f"{toolkit.version}-1", what, section="non-free/devel", relations={"Depends": depends})


def _config(toolkit: Toolkit, name: str, what: str, depends: str = "") -> Package:
    files: dict[str, File | Link] = {}
    if name == "cuda-toolkit-config-common":
        files["/etc/ld.so.conf.d/000_cuda.conf"] = File(b"/usr/local/cuda/targets/x86_64-linux/lib\n")
    return Package(
        *(name, f"{toolkit.nvcc}-1", f"Common config package for {what}."),
        architecture="all",
        section="non-free/devel",
        relations={"Depends": depends},
        files=files,
    )


def _parts(toolkit: Toolkit) -> tuple[Package, ...]:
    dash, home, build = toolkit.dash, toolkit.home, f"{toolkit.nvcc}-1"
    target = f"{home}/targets/x86_64-linux"

    def part(name: str, what: str, files: dict[str, File | Link], depends: str = "") -> Package:
        relations = {"Depends": depends}
        return Package(f"{name}-{dash}", build, what, section="non-free/devel", relations=relations, files=files)

    nvcc = File.program(_NVCC.format(minor=toolkit.minor, nvcc=toolkit.nvcc))
    config = _config(
        *(toolkit, f"cuda-toolkit-{dash}-config-common", f"CUDA Toolkit {toolkit.minor}"),
        f"cuda-toolkit-{toolkit.major}-config-common, cuda-toolkit-config-common",
    )
    values = {"home": home, "major": toolkit.major, "priority": toolkit.minor.replace(".", "")}
    scripts = {"postinst": _ALTERNATIVES.format(**values), "prerm": _NO_ALTERNATIVES.format(**values)}
    version = {"cuda": {"name": "CUDA SDK", "version": toolkit.version}}
    versions: dict[str, File | Link] = {f"{home}/version.json": File(json.dumps(version).encode())}
    runtime = {f"{target}/lib/{path.rpartition('/')[2]}": file for path, file in _runtime(toolkit).items()}
    header: dict[str, File | Link] = {f"{target}/include/cuda_runtime.h": File(b"/* stand-in */\n")}
    links: dict[str, File | Link] = {f"{home}/lib64": Link("targets/x86_64-linux/lib")}
    return (
        Package(**{**vars(config), "scripts": scripts, "files": versions}),
        part("cuda-nvcc", "CUDA nvcc", {f"{home}/bin/nvcc": nvcc}),
        part("cuda-cudart", "CUDA Runtime native Libraries", runtime | links, f"cuda-toolkit-{dash}-config-common"),
        part("cuda-cudart-dev", "CUDA Runtime native dev links, headers", header, f"cuda-cudart-{dash}"),
        part("libcublas", "CUBLAS native runtime libraries", {}, f"cuda-toolkit-{dash}-config-common"),
        part("cuda-nvml-dev", "NVML native dev links, headers", {}),
    )


def _runtime(toolkit: Toolkit) -> dict[str, File | Link]:
    return shared("libcudart", toolkit.nvcc, f"libcudart.so.{toolkit.major}")


def _metas(toolkit: Toolkit) -> tuple[Package, ...]:
    dash = toolkit.dash

    def meta(name: str, *depends: str) -> Package:
        return _meta(f"{name}-{dash}", toolkit, ", ".join(f"{one}-{dash} (>= {toolkit.minor})" for one in depends))

    parts = ("cuda-compiler", "cuda-libraries", "cuda-libraries-dev", "cuda-tools")
    runtime = f"cuda-libraries-{dash} (>= {toolkit.minor}), cuda-drivers (>= {toolkit.driver})"
    return (
        meta("cuda-compiler", "cuda-nvcc"),
        meta("cuda-libraries", "cuda-cudart", "libcublas"),
        meta("cuda-libraries-dev", "cuda-cudart-dev"),
        meta("cuda-tools", "cuda-nvml-dev"),
        meta("cuda-toolkit", *parts),
        meta("cuda", "cuda-runtime", "cuda-toolkit"),
        _meta(f"cuda-runtime-{dash}", toolkit, runtime),
    )


def _cudnn() -> tuple[Package, ...]:
    found = []
    for version in CUDNN:
        for major in ("12", "13"):
            head = f"/usr/include/x86_64-linux-gnu/cudnn_version_v9.h.cuda-{major}"
            runtime = f"libcudnn9-cuda-{major}"
            headers = f"libcudnn9-headers-cuda-{major}"
            exact = f"(= {version}-1)"
            found += [
                _of_cudnn(runtime, version, "cuDNN runtime libraries", "", dict(_libcudnn(version)), conflicts=major),
                _of_cudnn(headers, version, "cuDNN header files", "", {head: File(_cudnn_header(version))}),
                _of_cudnn(
                    *(f"libcudnn9-dev-cuda-{major}", version, "cuDNN development libraries"),
                    *(f"{runtime} {exact}, {headers} {exact}", {}),
                ),
                _of_cudnn(
                    *(f"cudnn9-cuda-{major}", version, "NVIDIA CUDA Deep Neural Network library (cuDNN)"),
                    *(f"libcudnn9-dev-cuda-{major} {exact}", {}),
                ),
            ]
    return tuple(found)


def _of_cudnn(
    name: str, version: str, what: str, depends: str, files: dict[str, File | Link], *, conflicts: str = ""
) -> Package:
    relations = {"Depends": depends}
    if conflicts:  # the two majors share their file names
        other = f"libcudnn9-cuda-{'12' if conflicts == '13' else '13'}"
        relations |= {"Conflicts": other, "Replaces": other}
    return Package(
        name, f"{version}-1", what, source="cudnn", section="non-free/devel", relations=relations, files=files
    )


def _libcudnn(version: str) -> dict[str, File | Link]:
    return shared("libcudnn", ".".join(version.split(".")[:3]), "libcudnn.so.9")


def _cudnn_header(version: str) -> bytes:
    major, minor, patch = version.split(".")[:3]
    lines = f"#define CUDNN_MAJOR {major}\n#define CUDNN_MINOR {minor}\n#define CUDNN_PATCHLEVEL {patch}\n"
    return lines.encode()


def _nccl() -> tuple[Package, ...]:
    found = []
    for version in NCCL:
        number = version.partition("-")[0]
        files = dict(shared("libnccl", number, "libnccl.so.2"))
        what = "NVIDIA Collective Communication Library (NCCL)"
        header = "\n".join(
            f"#define NCCL_{name} {value}"
            for name, value in zip(("MAJOR", "MINOR", "PATCH"), number.split("."), strict=True)
        )
        found += [
            Package("libnccl2", version, f"{what} Runtime", source="nccl", files=files),
            Package(
                *("libnccl-dev", version, f"{what} Development Files"),
                source="nccl",
                relations={"Depends": f"libnccl2 (= {version})"},
                files={"/usr/include/nccl.h": File(f"{header}\n".encode())},
            ),
        ]
    return tuple(found)


def _nsight() -> tuple[Package, ...]:
    short = ".".join(NSIGHT.split(".")[:3])
    text = f'#!/bin/sh\n# Stand-in of the rehearsal machine.\necho "NVIDIA Nsight Systems version {NSIGHT}"\n'
    files: dict[str, File | Link] = {"/usr/local/bin/nsys": File.program(text)}
    return (
        Package("nsight-systems-cli", f"{NSIGHT}-1", "Nsight Systems CLI", section="non-free/devel", files=files),
        Package(f"nsight-systems-{short}", f"{NSIGHT}-1", "Nsight Systems", section="non-free/devel"),
    )


def _dcgm() -> tuple[Package, ...]:
    version = f"1:{DCGM}-1"
    stem = "datacenter-gpu-manager-4"
    exact = f"(= {version})"
    names = {f"{stem}-core": "", f"{stem}-proprietary": f"{stem}-core {exact}"}
    for major in ("12", "13"):
        names[f"{stem}-cuda{major}"] = f"{stem}-core {exact}"
        names[f"{stem}-proprietary-cuda{major}"] = f"{stem}-proprietary {exact}, {stem}-cuda{major} {exact}"
    return tuple(
        Package(name, version, "NVIDIA Datacenter GPU Management", source=stem, relations={"Depends": depends})
        for name, depends in names.items()
    )


def keyring(uri: str, public: bytes) -> Package:
    """`cuda-keyring`: a list for `uri`, the key that it names, and a preference for everything from there."""
    ring = "/usr/share/keyrings/cuda-archive-keyring.gpg"
    pin = "Package: *\nPin: release l=NVIDIA CUDA\nPin-Priority: 600\n"
    return Package(
        *("cuda-keyring", "1.1-1", "GPG keyring for the CUDA repository"),
        architecture="all",
        section="non-free/admin",
        files={
            ring: File(public),
            "/etc/apt/sources.list.d/cuda-debian12-x86_64.list": File(f"deb [signed-by={ring}] {uri} /\n".encode()),
            "/etc/apt/preferences.d/cuda-repository-pin-600": File(pin.encode()),
        },
    )
