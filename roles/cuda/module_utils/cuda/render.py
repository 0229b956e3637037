"""The environment that finds a CUDA toolkit, and what its compiler says of itself. Pure functions."""

from __future__ import annotations

import re
from typing import Optional

from ansible.module_utils.host_modules.files import HEAD, File

ENVIRONMENT, PROFILE = "/etc/llmhw/cuda.env", "/etc/profile.d/llmhw-cuda.sh"
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_RELEASE = re.compile(r"\brelease (\d+\.\d+)\b")


def files(home: str, compiler: Optional[str]) -> list[File]:  # noqa: UP045
    """For units (EnvironmentFile=, which expands nothing) and for people. LD_LIBRARY_PATH is left alone.

    `compiler` is what nvcc calls. Debian's probes whichever gcc it finds first, then calls another: it is told one.
    """
    told = f"NVCC_PREPEND_FLAGS=-ccbin={compiler}\n" if compiler else ""
    shell = f'export CUDA_HOME={home}\ncase ":$PATH:" in\n*:{home}/bin:*) ;;\n*) PATH="{home}/bin:$PATH" ;;\nesac\n'
    shell += f"export {told}" if told else ""
    return [
        File(ENVIRONMENT, f"{HEAD}CUDA_HOME={home}\nPATH={home}/bin:{_PATH}\n{told}"),
        File(PROFILE, HEAD + shell),
    ]


def release(said: str) -> str:
    """major.minor out of `nvcc --version`, empty where it says something else."""
    match = _RELEASE.search(said)
    return match[1] if match else ""


def manual(state: str) -> bool:
    """Whether somebody has chosen the alternative; the first line of update-alternatives' own file says so."""
    return state.partition("\n")[0].strip() == "manual"
