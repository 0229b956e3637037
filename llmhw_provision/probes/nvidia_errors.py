"""What nvidia-smi (and the NVML behind it) prints instead of an answer."""

from __future__ import annotations

import re

from llmhw_provision.probes.format import Format
from llmhw_provision.probes.reading import unreadable
from llmhw_provision.probes.screen import screen

_PCI = r"(?P<pci>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])"
_ERRORS: tuple[tuple[str, str], ...] = (
    ("gpu_lost", rf"Unable to determine the device handle for GPU ?(?:\d+: ?)?{_PCI}"),
    ("gpu_lost", rf"Unable to determine the device handle for GPU\d+: {_PCI}"),
    ("gpu_lost", r"GPU is lost\.?"),
    ("driver_library_mismatch", r"Failed to initialize NVML: Driver/library version mismatch"),
    ("driver_not_loaded", r"Failed to initialize NVML: (?:Driver Not Loaded|NVML: Driver Not Loaded)"),
    ("driver_not_loaded", r"NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver\."),
    ("nvml_not_found", r"NVIDIA-SMI couldn't find libnvidia-ml\.so library"),
    ("nvml_not_found", r"Failed to initialize NVML: (?:NVML )?Shared Library Not Found"),
    ("insufficient_permissions", r"Failed to initialize NVML: Insufficient Permissions"),
    ("gpu_access_blocked", r"Failed to initialize NVML: GPU access blocked by the operating system"),
    ("nvml_unknown_error", r"Failed to initialize NVML: Unknown Error"),
    ("nvml_failure", r"Failed to initialize NVML: \S[^\n]*\n"),
    ("no_devices", r"No devices were found\.?\s*$"),
    ("invalid_field", r'Field "(?P<field>[^"]*)" is not a valid field to query\.'),
    ("nvml_failure", r"NVIDIA-SMI has failed because (?!it couldn)[^\n]*\.\s*$"),
    ("not_installed", r"(?:[\w/.-]+: )?(?:(?:line )?\d+: )?nvidia-smi: (?:command )?not found"),
    ("not_installed", r"Command 'nvidia-smi' not found"),
)
_COMPILED = tuple((name, re.compile(rf"^[ \t]*{pattern}", re.M | re.I)) for name, pattern in _ERRORS)
_LIBRARY = re.compile(r"^[ \t]*NVML library version: (\d+(?:\.\d+)+)[ \t\r]*$", re.M)


_HEAD = 1 << 16


def _found(text: str) -> tuple[str, re.Match[str]] | None:
    for name, pattern in _COMPILED:
        match = pattern.search(text)
        if match:
            return name, match
    return None


def recognise(raw: bytes) -> bool:
    """Whether nvidia-smi failed: one of its own error lines begins a line."""
    return _found(raw[:_HEAD].decode("utf-8", "replace")) is not None


def parse(raw: bytes) -> dict[str, object]:
    """`error` is our name of the failure; `pci`, `field`, `nvml` where the line names them."""
    text = "\n".join(screen("nvidia-smi", raw if raw.count(b"\n") else raw + b"\n")) + "\n"
    found = _found(text)
    if found is None:
        raise unreadable("nvidia-smi", text, "no error line")
    name, match = found
    facts: dict[str, object] = {"error": name, "verdict": "fail"}
    facts |= {key: value for key, value in match.groupdict().items() if value}
    library = _LIBRARY.search(text)
    if library:
        facts["nvml"] = library[1]
    return facts


FORMATS: tuple[Format, ...] = (Format("nvidia-smi error", recognise, parse),)
