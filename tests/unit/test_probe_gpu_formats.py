"""The GPU tools' outputs: recorded ones give the facts they hold; damaged ones an error or the same facts."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest
import yaml

from llmhw_provision.probes import (
    dcgm,
    dcgm_diag,
    fabric_manager,
    gpu_burn,
    gpu_copy,
    lspci,
    nccl_json,
    nccl_tests,
    nvbandwidth,
    nvidia_csv,
    nvidia_dmon,
    nvidia_errors,
    nvidia_list,
    nvidia_nvlink,
    nvidia_query,
    nvidia_topo,
    p2p_bandwidth,
)
from llmhw_provision.probes.format import Format
from llmhw_provision.probes.reading import ProbeError
from llmhw_provision.probes.registry import facts_of, form_of
from llmhw_provision.probes.score import judge
from tests.unit.recordings import SAMPLES

MODULES = (
    dcgm,
    dcgm_diag,
    fabric_manager,
    gpu_burn,
    gpu_copy,
    lspci,
    nccl_json,
    nccl_tests,
    nvbandwidth,
    nvidia_csv,
    nvidia_dmon,
    nvidia_errors,
    nvidia_list,
    nvidia_nvlink,
    nvidia_query,
    nvidia_topo,
    p2p_bandwidth,
)
OURS: tuple[Format, ...] = tuple(form for module in MODULES for form in module.FORMATS)
FOLDERS = ("nvidia-smi", "fabricmanager", "pci", "bw", "nccl", "dcgm", "stress")
# No closing line: a prefix that ends with a whole record is a shorter, true output.
OPEN_ENDED = {
    "fabric manager log",
    "fabric manager journal",
    "fabric manager status",
    "lspci",
    "SuperBench gpu_copy",
    "nvidia-smi -L",
    "nvidia-smi --version",
    "nvidia-smi --query-gpu",
    "nvidia-smi --help-query-gpu",
    "nvidia-smi nvlink",
    "nvidia-smi dmon",
    "dcgmi dmon",
    "p2pBandwidthLatencyTest",
    "nvbandwidth",
}
# What the index says and the bytes do not: 34 rows stand in the file, 13 fields in each row, no warning in the listing.
INDEX_ERRORS = {
    ("nccl/all_reduce_a100_40g_8gpu_error_col_noisy.txt", "rows"),
    ("nccl/all_reduce_h100_2node_stripped_comments.txt", "fields_per_row"),
    ("pci/lspci_vvv_vm_root.txt", "stderr_warning"),
}


@cache
def entries() -> list[dict[str, Any]]:
    if not SAMPLES.is_dir():
        return []
    listed = yaml.safe_load((SAMPLES / "index.yaml").read_text())["samples"]
    return [item for item in listed if item["file"].split("/")[0] in FOLDERS]


def read(item: dict[str, Any]) -> bytes:
    return (SAMPLES / item["file"]).read_bytes()


def named(item: dict[str, Any]) -> str:
    return str(item["file"])


recorded = pytest.mark.parametrize("item", entries(), ids=named)


def test_recorded_outputs_are_there() -> None:
    if not SAMPLES.is_dir():
        pytest.skip(f"no recorded samples at {SAMPLES}")
    assert len(entries()) >= 84


@recorded
def test_recorded_output_gives_the_expected_facts(item: dict[str, Any]) -> None:
    expected = {key: value for key, value in item["expect"].items() if (item["file"], key) not in INDEX_ERRORS}
    row = judge(item["file"], read(item), expected)
    assert (row["verdict"], row["got"]) == ("match", row["got"])


@recorded
def test_only_one_of_our_forms_reads_it(item: dict[str, Any]) -> None:
    raw = read(item)
    form = form_of(raw)
    assert form in OURS
    others = [one.name for one in OURS if one is not form and one.recognise(raw)]
    for name in others:
        with_facts = [one for one in OURS if one.name == name]
        assert _refuses(with_facts[0], raw) or form.name in ("gpu_burn", "nvidia-smi nvlink", "nvidia-smi topo -p2p")


def _refuses(form: Format, raw: bytes) -> bool:
    try:
        form.facts(raw)
    except ProbeError:
        return True
    return False


def _parts(value: object) -> object:
    return {str(key): _parts(item) for key, item in value.items()} if isinstance(value, dict) else value


@recorded
def test_cut_output_gives_an_error_or_the_same_facts(item: dict[str, Any]) -> None:
    raw = read(item)
    whole = facts_of(raw)
    form = form_of(raw)
    assert form is not None
    for end in range(len(raw) - len(raw.lstrip()) + 1, len(raw), max(10, len(raw) // 60)):
        try:
            got = facts_of(raw[:end])
        except ProbeError:
            continue
        now = form_of(raw[:end])
        assert now is not None
        if now.name == "nccl-tests":
            _true_of_a_prefix(got, whole)
        elif now.name in OPEN_ENDED:
            _true_of_each(got, whole)
        else:
            assert got.items() <= whole.items() or got == whole, (end, got)


def _true_of_each(got: dict[str, object], whole: dict[str, object]) -> None:
    """What is said of one GPU, link or test does not hang on those that were cut off."""
    for key, value in got.items():
        if key in ("link_gbps", "links_per_gpu", "driver", "cuda", "name") or key.endswith(
            ("_links_active", "_memcpy_ce")
        ):
            assert whole[key] == value, key
        if key in ("inactive", "rows_by_gpu", "last") and isinstance(value, dict) and isinstance(whole[key], dict):
            assert value.items() <= whole[key].items()  # type: ignore[attr-defined]


def _true_of_a_prefix(got: dict[str, object], whole: dict[str, object]) -> None:
    """A run that was cut says so; each size that it has is as in the whole one."""
    assert got["verdict"] != "pass" or got == whole
    for key, value in got.items():
        if "_at_" in key and not key.endswith("_at_max"):
            assert key not in whole or whole[key] == value or key == "collapse_at"


@recorded
def test_noise_is_never_read(item: dict[str, Any]) -> None:
    raw = bytearray(read(item))
    noise = random.Random(item["file"])
    for _ in range(len(raw) // 50 + 1):
        raw[noise.randrange(len(raw))] = noise.choice((0, 1, 7, 200, 255))
    with pytest.raises(ProbeError, match="could not read"):
        facts_of(bytes(raw))


@recorded
def test_with_windows_line_ends_it_says_the_same(item: dict[str, Any]) -> None:
    raw = read(item)
    if item["file"].startswith("stress/"):
        pytest.skip("carriage returns part the frames of gpu_burn")
    if b"\r" not in raw and not item["file"].endswith(".json"):
        assert facts_of(raw.replace(b"\n", b"\r\n")) == facts_of(raw)


@pytest.mark.parametrize("form", OURS, ids=lambda form: form.name)
@pytest.mark.parametrize(
    "raw", [b"", b"\n", b"\0" * 100, b"{}", b"[]", b"GPU 0:\n", b"\xff\xfe" * 50, b"bash: x: not found\n"]
)
def test_foreign_output_is_refused(form: Format, raw: bytes) -> None:
    if form.recognise(raw):
        with pytest.raises(ProbeError, match="could not read"):
            form.facts(raw)
    else:
        assert _refuses(form, raw)
