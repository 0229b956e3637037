"""What cut outputs of the GPU tools still say: a run that did not end says so, and each whole part stays true."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmhw_provision.probes.reading import ProbeError
from llmhw_provision.probes.registry import facts_of, form_of
from tests.unit.recordings import SAMPLES

FOLDERS = ("nvidia-smi", "fabricmanager", "pci", "bw", "nccl", "dcgm", "stress")
FILES = sorted(path for name in FOLDERS for path in (SAMPLES / name).rglob("*") if path.is_file())
STEPS = 60


def named(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def cuts(raw: bytes) -> list[dict[str, object]]:
    """What can still be read when the output ends early."""
    found = []
    for end in range(1, len(raw), max(10, len(raw) // STEPS)):
        try:
            found.append(facts_of(raw[:end]))
        except ProbeError:
            continue
    return found


def test_recorded_outputs_are_there() -> None:
    if not SAMPLES.is_dir():
        pytest.skip(f"no recorded samples at {SAMPLES}")
    assert len(FILES) >= 84


@pytest.mark.parametrize("path", [path for path in FILES if path.parent.name == "nccl"], ids=named)
def test_a_cut_collective_run_is_no_pass_and_its_sizes_are_true(path: Path) -> None:
    raw = path.read_bytes()
    whole = facts_of(raw)
    for got in cuts(raw):
        if "rows" not in got and "ranks" not in got:
            continue
        assert got["verdict"] != "pass" or got == whole
        for key, value in got.items():
            if key.startswith(("busbw_oop_at_", "busbw_ip_at_", "algbw_")) and not key.endswith("_max"):
                assert key not in whole or whole[key] == value


@pytest.mark.parametrize(
    "path", [path for path in FILES if "nvlink_s" in path.name or "nvband" in path.name], ids=named
)
def test_what_is_said_of_one_gpu_or_test_does_not_hang_on_the_rest(path: Path) -> None:
    raw = path.read_bytes()
    whole = facts_of(raw)
    for got in cuts(raw):
        for key, value in got.items():
            if key in ("link_gbps", "links_per_gpu", "driver", "name") or key.endswith(("_links_active", "_memcpy_ce")):
                assert whole[key] == value, key
            if key == "inactive":
                assert isinstance(value, dict)
                assert value.items() <= dict(whole["inactive"]).items()  # type: ignore[call-overload]


@pytest.mark.parametrize("path", FILES, ids=named)
def test_with_windows_line_ends_it_says_the_same(path: Path) -> None:
    raw = path.read_bytes()
    if path.parent.name == "stress":
        pytest.skip("carriage returns part the frames of gpu_burn")
    assert form_of(raw) is not None
    if not path.name.endswith(".json"):
        assert facts_of(raw.replace(b"\n", b"\r\n")) == facts_of(raw)
