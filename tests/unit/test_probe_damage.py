"""Over all output forms: cut, noisy or foreign text is refused or yields no other value than the whole output does."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from llmhw_provision.probes.reading import ProbeError
from llmhw_provision.probes.registry import FORMATS, facts_of, form_of
from tests.unit.recordings import FOLDER, SAMPLES

COPIED = FOLDER / "tools"
# Lists and logs without an end mark: what is missing after a whole line cannot be told.
OPEN_ENDED = frozenset(
    {
        "dcgmi dmon",
        "dmesg",
        "dmesg excerpt",
        "fabric manager journal",
        "fabric manager log",
        "fabric manager status",
        "ibhosts",
        "iblinkinfo",
        "ibstat",
        "ibstat panic",
        "ibv_devinfo",
        "infiniband-diags error",
        "ipmitool sdr",
        "ipmitool sel list",
        "lsblk",
        "lspci",
        "nvbandwidth",
        "nvidia-smi --help-query-gpu",
        "nvidia-smi --query-gpu",
        "nvidia-smi --version",
        "nvidia-smi -L",
        "nvidia-smi dmon",
        "nvidia-smi nvlink",
        "p2pBandwidthLatencyTest",
        "rdma link",
        "scontrol ping",
        "sinfo",
        "Slurm error",
        "Slurm log",
        "Slurm option",
        "slurmd -G",
        "SuperBench gpu_copy",
        "sysfs infiniband",
        "vLLM /metrics",
        "vLLM log",
    }
)


# A run that was cut is an answer of its own (`complete` is false); test_probe_gpu_formats.py holds it to that.
SAYS_THAT_IT_IS_CUT = frozenset({"nccl-tests"})


def _files() -> Iterator[Path]:
    """The whole collection where this checkout has it, else the part of it that is kept here."""
    folder = SAMPLES if (SAMPLES / "index.yaml").exists() else COPIED
    listed = yaml.safe_load((folder / "index.yaml").read_text())["samples"]
    yield from (folder / item["file"] for item in listed)


def _readable() -> list[Path]:
    return [path for path in _files() if form_of(path.read_bytes()) is not None]


@pytest.fixture(params=_readable(), ids=lambda path: f"{path.parent.name}/{path.name}")
def raw(request: pytest.FixtureRequest) -> bytes:
    path: Path = request.param
    return path.read_bytes()


def _read(raw: bytes) -> dict[str, object] | None:
    """The facts, or None when the output is refused; any other exception is a failure of the test."""
    try:
        return facts_of(raw)
    except ProbeError as refused:
        if "could not read" not in str(refused):
            raise
        return None


def _cuts(raw: bytes) -> Iterator[bytes]:
    step = max(10, len(raw) // 50)
    yield from (raw[:end] for end in range(step, len(raw), step))


def test_cut_anywhere(raw: bytes) -> None:
    whole, form = facts_of(raw), form_of(raw)
    assert form is not None
    if form.name in SAYS_THAT_IT_IS_CUT:
        return
    for cut in _cuts(raw):
        got = _read(cut)
        if got is None or (form.name in OPEN_ENDED and cut.endswith(b"\n")):
            continue
        changed = {key: value for key, value in got.items() if key not in whole or whole[key] != value}
        assert not changed, (form.name, cut[-80:])


def test_cut_within_a_line_is_refused(raw: bytes) -> None:
    body, form = raw.rstrip(), form_of(raw)
    if form is not None and form.name in SAYS_THAT_IT_IS_CUT:
        return
    if len(body.splitlines()) > 1 and len(body) > 20:
        assert _read(body[:-3]) is None


def test_binary_noise(raw: bytes) -> None:
    chance = random.Random(20)
    for _ in range(8):
        at = chance.randrange(len(raw))
        assert _read(raw[:at] + bytes([0xFF, 0x00, 0xC3, chance.randrange(128, 192)]) + raw[at:]) is None


def test_no_form_breaks_on_another_tool_s_output(raw: bytes) -> None:
    own = form_of(raw)
    for form in FORMATS:
        if form is own or form.recognise(raw):
            continue
        with pytest.raises(ProbeError, match="could not read"):
            form.read(raw)


def test_changed_characters_give_no_traceback(raw: bytes) -> None:
    chance = random.Random(7)
    for _ in range(25):
        changed = bytearray(raw)
        for _ in range(chance.randrange(1, 6)):
            at = chance.randrange(len(changed))
            changed[at : at + chance.randrange(1, 8)] = bytes(
                chance.choices(b" \n\t0:=,.x-[](){}\"'", k=chance.randrange(4))
            )
            if not changed:
                break
        _read(bytes(changed))


def test_at_most_forms_of_one_module_know_an_output(raw: bytes) -> None:
    modules = {form.facts.__module__ for form in FORMATS if form.recognise(raw)}
    assert len(modules - {"llmhw_provision.probes.format", "llmhw_provision.probes.ibstat"}) <= 1, modules


@pytest.mark.parametrize("text", [b"", b"\n", b"hello\n", b"{}\n", b"[]\n", b"{\n", b"\x00\x01\x02", b"no such file\n"])
def test_foreign_text(text: bytes) -> None:
    if text.strip():
        assert _read(text) is None
