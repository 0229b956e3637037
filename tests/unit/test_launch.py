"""Launch files agree with the plan and with each other, and the verb writes them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from llmhw_provision.cli import entry
from llmhw_provision.launch.build import launch_files
from llmhw_provision.plan.difference import differences
from tests.unit.launches import CASES, case, planned

ROOT = Path(__file__).resolve().parents[2]
_PATHS = ("/scratch", "/srv/project", "/opt/llmhw/envs/", "/dev/", "/etc/llmhw/secrets/", "/usr/", "/bin")
_IN_CONTAINER = ("/model", "/models")
TRAINED = [name for name, (_, _, load) in CASES.items() if load["job"] != "serve"]


@pytest.mark.parametrize("name", TRAINED)
def test_ranks_and_batches_multiply_to_the_whole(name: str) -> None:
    setup, files = case(name)
    of = setup.layout
    assert of.tp * of.pp * of.cp * of.dp == of.gpus == setup.work.count * setup.nodes
    assert of.micro_batch * of.micro_batches * of.dp == setup.need.workload.batch
    start = files["start.sh"].text
    if "torchrun" in start:
        assert f"--nnodes {of.nodes} --nproc-per-node {setup.work.count} " in start
    if "deepspeed.json" in files:
        found = json.loads(files["deepspeed.json"].text)
        micro, accumulation = found["train_micro_batch_size_per_gpu"], found["gradient_accumulation_steps"]
        assert micro * accumulation * of.dp == found["train_batch_size"] == setup.need.workload.batch
    if "train.yaml" in files:
        found = yaml.safe_load(files["train.yaml"].text)
        ranks = found["per_device_train_batch_size"] * found["gradient_accumulation_steps"]
        assert ranks * of.dp == setup.need.workload.batch


@pytest.mark.parametrize("name", TRAINED)
def test_zero_2_and_3_never_meet_a_pipeline(name: str) -> None:
    setup, files = case(name)
    stage = json.loads(files["deepspeed.json"].text)["zero_optimization"]["stage"] if "deepspeed.json" in files else 0
    assert stage < 2 or setup.layout.pp == 1
    assert ("megatron.args" in files) == (setup.layout.sharder == "megatron")
    assert not ("megatron.args" in files and ("deepspeed.json" in files or "accelerate.yaml" in files))


@pytest.mark.parametrize("name", CASES)
def test_paths_lie_on_what_the_plan_mounts_or_makes(name: str) -> None:
    _, files = case(name)
    for file in files.values():
        text = "\n".join(line for line in file.text.splitlines() if not line.startswith("#"))
        for path in re.findall(r"(?<![\w./}$*\"])/[a-z][\w./-]*", text):
            assert path.startswith((*_PATHS, *_IN_CONTAINER)), f"{file.path}: {path}"


@pytest.mark.parametrize("name", CASES)
def test_no_secret_stands_in_a_file(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HF_TOKEN", "VLLM_API_KEY", "API_KEY", "WANDB_API_KEY"):
        monkeypatch.setenv(variable, "s3cr3t-of-the-operator")
    _, files = case(name)
    for file in files.values():
        assert "s3cr3t" not in file.text
        assert not re.search(r"(?i)(api[_-]?key|token|password)\"?\s*[=:]\s*[\w-]{6,}", file.text), file.path


@pytest.mark.parametrize("name", CASES)
def test_every_file_names_the_plan_and_every_setting_its_source(name: str) -> None:
    setup, files = case(name)
    for file in files.values():
        no_comments = file.path.endswith(("dataset_info.json", "model.json"))
        assert no_comments or setup.plan.identity in file.text, file.path
        assert all(item.rule and item.source for item in file.settings), file.path


def test_servers_listen_on_loopback_unless_opened_with_a_key() -> None:
    assert yaml.safe_load(case("serve-70b-vllm")[1]["vllm.yaml"].text)["host"] == "127.0.0.1"
    closed = case("serve-70b-triton")[1]["triton-llama-3.1-70b.service"].text
    assert "--publish 127.0.0.1:8000:8000" in closed
    opened = case("serve-70b-tgi-open")[1]["tgi-llama-3.1-70b.service"].text
    assert "--publish 8000:8000" in opened
    assert "ExecStartPre=/bin/grep --quiet ^API_KEY=. /etc/llmhw/secrets/llama-3.1-70b.env" in opened
    assert "--env-file /etc/llmhw/secrets/llama-3.1-70b.env" in opened
    load = {**CASES["serve-70b-vllm"][2], "launch": {"listen": "all"}}
    unit = {file.path: file.text for file in launch_files(*planned("alphapro660", 1, load))}[
        "vllm-llama-3.1-70b.service"
    ]
    assert "\nEnvironmentFile=/etc/llmhw/secrets/llama-3.1-70b.env\n" in unit
    assert "no VLLM_API_KEY" in unit


_SFT = {"model": "llama-3.1-8b", "job": "sft"}
_BASE = {**_SFT, "method": "lora", "sequence": 4096, "batch": 16}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"launch": {"learning_rate": 0.0003}}, "launch, settings, learning rate: was nothing, is now 0.0003"),
        ({"launch": {"save_every": 50}}, "launch, settings, save every: was nothing, is now 50"),
        ({"launch": {"template": "mine"}}, "launch, settings, template: was nothing, is now mine"),
        ({"launch": {"data_format": "openai"}}, "launch, settings, data format: was alpaca, is now openai"),
        ({"launch": {"steps": 10}}, "launch, settings, steps: was nothing, is now 10"),
        ({"training": {"rank": 32}}, "launch, training, rank: was 16, is now 32"),
        ({"checkpoints": {"keep": 5}}, "launch, keep: was 3, is now 5"),
        ({"model": "qwen2.5-7b"}, "launch, model: was llama-3.1-8b, is now qwen2.5-7b"),
    ],
)
def test_what_changes_a_file_changes_the_plan(changes: dict[str, Any], said: str) -> None:
    base, other = planned("ga660m", 1, _BASE), planned("ga660m", 1, {**_BASE, **changes})
    before, after = base[0], other[0]
    texts = [
        {file.path: file.text.replace(plan.identity, "") for file in launch_files(plan, need, site)}
        for plan, need, site in (base, other)
    ]
    assert texts[0] != texts[1], "this change is one of launch files"
    assert before.identity != after.identity
    assert f"    {said}" in differences(before, after)


def test_groups_of_one_host_have_folders_of_their_own() -> None:
    load = {
        **_SFT,
        "method": "lora",
        "batch": 24,
        "placement": "serve=2",
        "serving": {"concurrency": 8, "context": 4096},
    }
    names = (("train-lf", "llamafactory"), ("serve", "vllm"))
    environments = [{"name": name, "packages": [package]} for name, package in names]
    found = launch_files(*planned("alphapro660", 1, load, environments=environments))
    files = {file.path: file.text for file in found}
    serving = next(text for path, text in files.items() if path.endswith("vllm.yaml"))
    training = next(text for path, text in files.items() if path.endswith("start.sh"))
    unit = next(text for path, text in files.items() if path.endswith(".service"))
    count = len(re.search(r"CUDA_VISIBLE_DEVICES=([\d,]+)", training)[1].split(","))  # type: ignore[index]
    seen = set(re.search(r"CUDA_VISIBLE_DEVICES=([\d,]+)", unit)[1].split(","))  # type: ignore[index]
    assert (count, len(seen)) == (6, 2)
    assert "model: /srv/project/models/llama-3.1-8b" in serving
    assert len({path.split("/")[0] for path in files}) == 2


def run(*arguments: str) -> int | str | None:
    with pytest.raises(SystemExit) as stop:
        entry(["launch", *arguments])
    return stop.value.code


def test_the_verb_prints_writes_and_explains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = ("--site", str(ROOT / "inventories/ga660m"))
    assert run(*site) == 0
    assert "── train.yaml\n# LLaMA-Factory; plan " in capsys.readouterr().out
    assert run(*site, "--out", str(tmp_path / "files")) == 0
    assert "written: " in capsys.readouterr().out
    assert (tmp_path / "files/start.sh").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "files/train.yaml").stat().st_mode & 0o777 == 0o644
    assert run(*site, "--explain") == 0
    text = capsys.readouterr().out
    assert "save_steps = " in text
    assert "      source: transformers 5.6.0, training_args.py" in text
    assert run(*site, "--json") == 0
    assert {"path", "text", "settings", "executable"} == set(json.loads(capsys.readouterr().out)[0])


def test_a_plan_of_another_workload_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(ROOT / "inventories/ga660m", tmp_path / "site")
    path = tmp_path / "site/workload.yaml"
    path.write_text(path.read_text().replace("batch: 16", "batch: 32"), encoding="utf-8")
    assert run("--site", str(tmp_path / "site"), "--out", str(tmp_path / "files")) == 1
    assert "plan.json: is not of the present workload.yaml" in capsys.readouterr().err
    assert not (tmp_path / "files").exists()
