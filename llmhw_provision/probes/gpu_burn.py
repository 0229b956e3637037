"""gpu_burn: frames that overwrite each other, then one line a GPU. Its exit status may be 0 for a faulty GPU.

Source of the forms: wilicc/gpu-burn (progress line, "Tested N GPUs:", "GPU n: OK|FAULTY", "(DIED!)").
"""

from __future__ import annotations

import re
import shlex

from llmhw_provision.evidence import Command
from llmhw_provision.probes.format import Format
from llmhw_provision.probes.reading import unreadable
from llmhw_provision.probes.screen import common, screen, shows

_TOOL = "gpu_burn"


def burn(folder: str, seconds: int) -> Command:
    """gpu_burn in `folder`, where its comparison kernel lies, for `seconds`; without a limit it may loop for ever."""
    line = f"cd {shlex.quote(folder)} && exec ./gpu_burn {seconds}"
    return Command("gpu-burn", ("sh", "-c", line), seconds + 60)


_TESTED = re.compile(r"^Tested (\d+) GPUs:$", re.M)
_RESULT = re.compile(r"^[ \t]+GPU (\d+): (OK|FAULTY)$", re.M)
_FRAME = re.compile(
    r"(?<![\d.,])(\d+(?:\.\d+)?)%\s+proc'd: (.*?)\s+errors: (.*?)\s+temps: ([^%]*?)"
    r"(?=\s*\d+(?:\.\d+)?%\s+proc'd|\s*$|\n)"
)
_RATE = re.compile(r"\((\d+) Gflop/s\)")
_GPU = re.compile(r"^GPU (\d+): (.+) \(UUID: \S+\)$", re.M)
_ERRORS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("cuda_802", re.compile(r"system not yet initialized|CUDA_ERROR_SYSTEM_NOT_READY")),
    (
        "driver_mismatch",
        re.compile(r"driver version is insufficient|unsupported toolchain|system has unsupported display driver"),
    ),
    (
        "compare_kernel_missing",
        re.compile(r"couldn't find compare kernel|couldn't (?:open|find) .*compare\.(?:ptx|fatbin)", re.I),
    ),
    ("out_of_memory", re.compile(r"out of memory|Low mem for result", re.I)),
    ("no_devices", re.compile(r"No CUDA devices|no CUDA-capable device")),
    (
        "cuda_error",
        re.compile(r"Couldn't init (?:a GPU test|CUDA): |what\(\):\s+Error|Error \(gpu_burn-drv\.cpp:\d+\): "),
    ),
    ("no_clients", re.compile(r"No clients are alive!")),
)


def facts(raw: bytes) -> dict[str, object]:
    """Result of each GPU, and what stopped the run; without the summary it is an error, never a pass."""
    text = "\n".join(screen(_TOOL, re.sub(rb"\r(?!\n)", b"\n", raw)))
    results = {int(index): verdict for index, verdict in _RESULT.findall(text)}
    tested = _TESTED.search(text)
    facts: dict[str, object] = {}
    frames = list(_FRAME.finditer(text))
    if frames:
        last = frames[-1]
        facts["percent"] = float(last[1])
        facts["gflops"] = [int(rate) for rate in _RATE.findall(last[2])]
        facts["errors"] = [int(count) for count in re.findall(r"(?<![\d.])(\d+)(?!\S)", last[3])]
        facts["temps"] = [int(degrees) for degrees in re.findall(r"(\d+) C\b", last[4])]
        facts["died"] = last[3].count("DIED")
    if tested:
        if len(results) != int(tested[1]):
            raise unreadable(_TOOL, text.splitlines()[-1], f"{len(results)} of {tested[1]} results: cut off")
        faulty = [index for index, verdict in sorted(results.items()) if verdict == "FAULTY"]
        names = {f"GPU{index}": name for index, name in _GPU.findall(text)}
        return facts | {
            "gpus": [f"GPU{index}" for index in sorted(results)],
            "faulty": faulty,
            "ok": not faulty,
            "verdict": "fail" if faulty or not results else "pass",
            **({"name": common(dict(names))} if names else {}),
        }
    for name, pattern in _ERRORS:
        if pattern.search(text):
            return facts | {"error": name, "verdict": "fail"}
    raise unreadable(_TOOL, text.splitlines()[-1] if text else "", "no summary: cut off")


FORMATS: tuple[Format, ...] = (
    Format(
        "gpu_burn",
        shows(
            r"(?:Burning for \d+ seconds|Using compare file: |GPU Burn|"
            r"[ \t]*\d+(?:\.\d+)?%[ \t]+proc'd: |Tested \d+ GPUs:|Killing processes|.*\(gpu_burn-drv\.cpp:\d+\))"
        ),
        facts,
    ),
)
