"""What only tests do to CPU environments, so that the GPU builds of PyPI in them do not stand in the way.

PyPI has no torchvision, torchaudio and torchcodec for CPUs: theirs look for libc10_cuda.so. They are taken out, and an
empty torchaudio stands where LLaMA-Factory imports it. Never part of a role, a lock or a plan.
"""

from tests.containers.container import Container

BUILT_FOR_CUDA = ("torchvision", "torchaudio", "torchcodec")
_STUB = 'cd "$1"/lib/python3.*/site-packages && mkdir torchaudio && : > torchaudio/__init__.py'


def without_cuda_builds(container: Container, uv: str, link: str, copy: str) -> None:
    """Makes at `copy` an environment like the one behind `link`, without what cannot be imported on CPUs."""
    container.run(f"cp -al $(readlink -f {link}) {copy}")
    container.run([uv, "pip", "uninstall", "--quiet", "--python", copy, *BUILT_FOR_CUDA])
    container.run(["sh", "-c", _STUB, "sh", copy])
