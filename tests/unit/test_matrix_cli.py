"""matrix: shows, explains, refuses; ends of life with an exit status."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from llmhw_provision.cli import entry

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as stop:
        entry(["matrix", *arguments])
    return stop.value.code


def site(folder: Path, software: str, name: str = "alphapro660") -> Path:
    shutil.copytree(ROOT / "inventories" / name, folder / name)
    path = folder / name / "site.yaml"
    kept = "".join(line for line in path.read_text().splitlines(True) if not line.startswith("software:"))
    path.write_text(kept + f"software: {software}\n")
    return folder / name


def test_the_matrix_fits_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--date", "2026-11-30") == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= 50
    assert "580     LTSB  to 2028-06    13    open, closed  ← default" in text
    assert "570     PB    over" in text
    assert "ubuntu2204    to 2027-04    5.15    3.10        21.08 (refused)" in text


def test_the_whole_matrix_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["drivers"]["580"]["end_of_life"] == "2028-06"
    assert data["slurm"]["debian12"]["source"]


def test_one_machine_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--machine", "alphapro660", "--distro", "ubuntu2404", "--job", "pretrain", "--date", "2026-11-30")
    assert run(*arguments) == 0
    text = capsys.readouterr().out
    for word in (
        "alphapro660 · ubuntu2404 x86_64 · NVIDIA H100 80GB SXM5",
        "installs nvidia-fabricmanager=580.159.03",
        "kept by nvidia-driver-pinning-580.159.03",
        "[high, 2026-11-29] docs.nvidia.com",
        "train-hf from lock train-hf",
        "warning             nccl 2.30.7 rests on low confidence",
    ):
        assert word in text
    assert run(*arguments, "--json") == 0
    (stack,) = json.loads(capsys.readouterr().out)
    assert stack["fabric_manager"] == stack["driver"]["version"] == "580.159.03"
    assert all(item["source"] and item["date"] and item["confidence"] for item in stack["choices"])


def test_options_override_and_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    base = ("--gpu", "b200-sxm", "--distro", "ubuntu2404", "--job", "serve", "--date", "2026-11-30")
    assert run(*base, "--driver", "570", "--modules", "closed") == 1
    text = capsys.readouterr().err
    assert "error: b200-sxm: driver 570: support ended with 2026-02" in text
    assert "error: b200-sxm: modules closed: NVIDIA B200 180GB SXM" in text
    assert "error: b200-sxm: cuda 13.0 needs driver 580 or newer" in text
    assert run(*base, "--driver", "595", "--cuda", "13.1") == 0
    assert "595.71.05" in capsys.readouterr().out
    assert run(*base, "--driver", "610", "--eol-ok") == 0
    assert "taken because of eol_ok" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--gpu", "h100-sxm"), "name --distro, one of ubuntu2204"),
        (("--distro", "debian12"), "name either --machine or --gpu"),
        (("--machine", "a330", "--gpu", "l4", "--distro", "debian12"), "name either --machine or --gpu"),
        (("--site", ".", "--gpu", "l4"), "--site says it all; leave out --gpu"),
        (("--date", "tomorrow"), "--date 'tomorrow' is not a day"),
    ],
)
def test_usage(arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    assert words in capsys.readouterr().err


def test_a_wrong_value_names_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--gpu", "l4", "--distro", "debian12", "--driver", "latest") == 1
    assert "driver: 'latest' is not accepted; write for example '580'" in capsys.readouterr().err


def test_a_site_is_resolved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = site(tmp_path, "{distro: ubuntu2404, slurm: true}")
    assert run("--site", str(folder), "--date", "2026-11-30", "--json") == 0
    (stack,) = json.loads(capsys.readouterr().out)
    assert (*stack["hosts"], stack["slurm"], stack["gres"]) == ("ap660-01", "23.11", "Name=gpu File=/dev/nvidia[0-7]")
    assert stack["environments"][0]["lock"] == "train-hf"
    assert {"rdma", "gpudirect rdma"} <= {item["topic"] for item in stack["choices"]}


def test_gds_on_the_raid0_that_storage_plans(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = site(tmp_path, "{distro: ubuntu2404, gds: p2pdma}")
    assert run("--site", str(folder), "--date", "2026-11-30") == 1
    assert "ap660-01: gds p2pdma: NVIDIA does not support it on RAID0" in capsys.readouterr().err
    single = site(tmp_path, "{distro: ubuntu2404, gds: p2pdma}", "a330")
    assert run("--site", str(single), "--date", "2026-11-30") == 0


def test_a_purchase_needs_the_distribution(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--site", str(site(tmp_path, "{driver: '580'}"))) == 1
    assert "ap660-01: not yet observed, and its distribution is not named" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("day", "code", "words"),
    [
        ("2026-11-30", 0, "nothing that is offered is past its end of life on 2026-11-30"),
        ("2027-03-31", 0, "nothing"),
        ("2027-04-01", 3, "drivers.595: support ended with 2027-03"),
        ("2028-07-01", 3, "drivers.580: support ended with 2028-06"),
    ],
)
def test_check_finds_what_is_past_its_end(day: str, code: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--check", "--date", day) == code
    text = capsys.readouterr().out
    assert words in text
    assert "drivers.570" not in text  # known to be over, and refused


def test_check_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--check", "--date", "2027-04-01", "--json") == 3
    data = json.loads(capsys.readouterr().out)
    assert [item["record"] for item in data["past"]] == ["drivers.595"]
