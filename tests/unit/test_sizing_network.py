"""GPUs by name, their links, collectives."""

from __future__ import annotations

import pytest

from llmhw_provision.catalogue.loader import Gpu, find, names
from llmhw_provision.errors import InputError
from llmhw_provision.sizing.chips import chip_of, find_chip
from llmhw_provision.sizing.network import Links, factor, seconds, sharding_volume


def test_collectives() -> None:
    assert factor("all-reduce", 8) == 2 * 7 / 8
    assert factor("all-gather", 8) == factor("reduce-scatter", 8) == factor("all-to-all", 8) == 7 / 8
    assert factor("all-reduce", 1) == 0
    assert seconds(8e9, "all-reduce", 8, 480e9) == pytest.approx(8e9 * 1.75 / 480e9)
    assert [sharding_volume(stage) for stage in range(4)] == [2, 2, 2, 3]


def test_bus_bandwidth_by_link() -> None:
    h200 = Links(chip_of("h200-sxm"))
    assert h200.bus(8) == pytest.approx(361e9, rel=0.01)
    assert h200.bus(8, collective="all-reduce") == pytest.approx(480e9)
    assert Links(chip_of("h800-sxm")).bus(8) == pytest.approx(160e9)
    assert h200.bus(64) == pytest.approx(360e9)  # a ring leaves each host on eight ports
    assert h200.bus(8, inner=8) == pytest.approx(45e9)  # one rank per host
    assert h200.bus(64, collective="all-to-all") == pytest.approx(45e9)
    pairs = Links(chip_of("h100-pcie"), 4)
    assert pairs.bus(2) == pytest.approx(240e9)  # inside a bridge
    assert pairs.bus(4) == pytest.approx(0.4 * 63e9)  # over PCIe
    assert Links(chip_of("rtx-5090"), 2).bus(2) == pytest.approx(0.4 * 63e9)
    assert Links(chip_of("gb200")).bus(64) == pytest.approx(720e9)  # one domain of 72


def test_cards_beyond_the_articles_have_memory_links_and_a_source() -> None:
    links = {"h200-sxm": 18, "h20": 18, "h800-sxm": 8, "a800-sxm-80": 8, "l20": 0, "b200-sxm": 18}
    links |= {"rtx-pro-6000-blackwell-server": 0, "rtx-pro-6000-blackwell-ws": 0}
    for name, count in links.items():
        gpu = find("gpus", name, Gpu)
        assert gpu.nvlink_links == count
        assert 0.9 * gpu.memory_gb_marketing < gpu.usable_bytes / 2**30 < 1.02 * gpu.memory_gb_marketing
        assert gpu.usable_bytes <= gpu.memory_bytes
        assert len(gpu.source) > 20
        assert gpu.pci_ids


@pytest.mark.parametrize("name", names("gpus"))
def test_every_card_has_speeds(name: str) -> None:
    chip = chip_of(name)
    assert 0 < chip.reached <= chip.peak
    assert chip.reached_fp8 <= chip.peak_fp8
    assert chip.bandwidth > 1e11
    assert find_chip(chip.title.upper()).kind == name or chip.title in (
        "NVIDIA H100 80GB PCIe",
        "NVIDIA A100 80GB PCIe",
    )


def test_two_hosts_of_four_are_joined_by_their_ports_not_by_nvlink() -> None:
    h100 = chip_of("h100-sxm")
    whole, halves = Links(h100, 8, 50e9).bus(8), Links(h100, 4, 50e9).bus(8)
    assert whole == pytest.approx(0.8 * 450e9)
    assert halves == pytest.approx(4 * 0.9 * 50e9)
    assert Links(h100, 4, 50e9).bus(4) == whole
    assert Links(chip_of("gb200"), 4).domain == 72


def test_nvlink_links() -> None:
    """What nvidia-smi nvlink --status lists."""
    counts = {name: find("gpus", name, Gpu).nvlink_links for name in names("gpus")}
    assert {counts[name] for name in ("h100-sxm", "h200-sxm", "h20", "b200-sxm", "gb200")} == {18}
    assert {counts[name] for name in ("a100-sxm-80", "a100-pcie-80", "h100-pcie", "h100-nvl")} == {12}
    assert (counts["h800-sxm"], counts["a800-sxm-80"], counts["v100-sxm-32"]) == (8, 8, 6)
    assert (counts["rtx-3090"], counts["rtx-a6000"], counts["rtx-5090"], counts["l20"]) == (4, 4, 0, 0)


def test_cards_by_the_names_of_cases() -> None:
    known = {
        "A100-80GB SXM": "a100-sxm-80",
        "A100-40GB SXM": "a100-sxm-40",
        "A100": "a100-sxm-80",
        "H100-80GB SXM": "h100-sxm",
        "H100-96GB HBM2e 500W": "h100-sxm",
        "H200-141GB": "h200-sxm",
        "H200": "h200-sxm",
        "H20-96GB": "h20",
        "H800-80GB": "h800-sxm",
        "A800-80GB": "a800-sxm-80",
        "V100-32GB": "v100-sxm-32",
        "RTX 4090": "rtx-4090",
        "RTX A6000": "rtx-a6000",
        "DGX-GB300": "gb300",
    }
    assert {text: find_chip(text).kind for text in known} == known
    with pytest.raises(InputError, match="48GB"):
        find_chip("48GB")


def test_a_power_limit_slows_products_but_not_memory() -> None:
    limited, full = find_chip("A100-80GB SXM (330 W)"), find_chip("A100-80GB SXM")
    assert limited.rate() == pytest.approx(full.rate() * (330 / 400) ** (1 / 3))
    assert limited.bandwidth == full.bandwidth
