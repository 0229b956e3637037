"""The GPU boards of the rehearsal machine are those of the catalogue; its stand-in driver is laid out like NVIDIA's."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from llmhw_provision.catalogue.loader import Gpu, find, sold_machine
from tests.rehearsal import layout
from tests.rehearsal.errors import RehearsalError

GPU = Path(layout.__file__).parent / "gpu"


def boards() -> dict[str, list[str]]:
    """Ids of the functions of each product, in order, as boards.h has them."""
    text = (GPU / "hardware/boards.h").read_text(encoding="utf-8")
    ids = {
        name: f"{vendor}:{device}"
        for name, vendor, device in re.findall(r"\[(\w+)\] = \{[^{}]*?\.vendor = 0x(\w{4}), \.device = 0x(\w{4})", text)
    }
    seats = dict(re.findall(r"struct seat (\w+)\[\] = \{(.*?)\};", text, re.S))
    return {
        product: [ids[kind] for kind in re.findall(r"0x\w\w, \d, (\w+) ", seats[name])]
        for product, name in re.findall(r'BOARD\("([^"]+)", (\w+)\)', text)
    }


def test_every_product_has_a_board() -> None:
    assert tuple(boards()) == layout.PRODUCTS


@pytest.mark.parametrize("name", ["alphapro660", "ga660m", "a330"])
def test_a_board_carries_the_gpus_of_the_catalogue(name: str) -> None:
    machine = sold_machine(name)
    gpu = find("gpus", machine.gpu.kind, Gpu)
    found = boards()[machine.title]
    assert found.count(gpu.pci_ids[0]) == machine.gpu.count
    assert found.count("10de:22a3") == (4 if gpu.nvswitch else 0)


def test_the_blackwell_board_has_no_switch_functions_but_managing_network_functions() -> None:
    found = boards()["B200-HGX"]
    assert found.count("10de:2901") == 8
    assert "10de:22a3" not in found
    assert found.count("15b3:1021") == 4


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(layout, "STATE", tmp_path)
    # a temporary folder that QEMU's user cannot enter would send layout to the folder that all checkouts share
    monkeypatch.setattr(layout, "images_dir", lambda: tmp_path / "drives")
    monkeypatch.setattr(layout, "_FILE", tmp_path / "drives.json")
    monkeypatch.setattr(layout, "_PRODUCT_FILE", tmp_path / "product")
    return tmp_path


@pytest.mark.usefixtures("state")
def test_a_machine_without_product_is_what_qemu_makes_it() -> None:
    assert "-smbios" not in layout.qemu_arguments()


@pytest.mark.usefixtures("state")
def test_the_product_is_told_to_the_guest_until_the_machine_is_gone() -> None:
    layout.write_product("B200-HGX")
    arguments = layout.qemu_arguments()
    assert arguments[arguments.index("-smbios") + 1] == "type=1,manufacturer=llmhw,product=B200-HGX"
    layout.remove_images()
    assert layout.product() is None


@pytest.mark.usefixtures("state")
def test_an_unknown_product_is_refused() -> None:
    with pytest.raises(RehearsalError, match=r"no GPU board for product DGX.*AlphaPro660, GA660M, A330, B200-HGX"):
        layout.write_product("DGX")
    assert layout.product() is None


def test_dkms_installs_every_module_that_is_built() -> None:
    folder = GPU / "module"
    conf = (folder / "dkms.conf").read_text(encoding="utf-8")
    listed = re.search(r"^obj-m := (.*)$", (folder / "Makefile").read_text(encoding="utf-8"), re.M)
    assert listed
    built = re.findall(r"BUILT_MODULE_NAME\[(\d)\]=\"([\w-]+)\"", conf)
    assert [f"{name}.o" for _, name in built] == listed[1].split()
    assert len(re.findall(r"^DEST_MODULE_LOCATION\[\d\]", conf, re.M)) == len(built)
    assert sorted(path.stem for path in folder.glob("*.c")) == sorted(name for _, name in built)


def test_every_module_carries_the_version_of_its_package() -> None:
    for source in (GPU / "module").glob("*.c"):
        assert "MODULE_VERSION(NV_VERSION);" in source.read_text(encoding="utf-8"), source.name
    with_version = [path.name for path in (GPU / "module").iterdir() if "@VERSION@" in path.read_text(encoding="utf-8")]
    assert sorted(with_version) == ["common.h", "dkms.conf"]
