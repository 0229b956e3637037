"""Launch files agree with the plan and with each other; what cannot be started is refused with all reasons."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from llmhw_provision.cli import entry
from llmhw_provision.errors import InputError
from llmhw_provision.launch.build import launch_files
from llmhw_provision.plan.difference import differences
from tests.unit.launches import CASES, IMAGE, case, planned

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


@pytest.mark.parametrize("name", CASES)
def test_scripts_are_bash(name: str) -> None:
    _, files = case(name)
    for file in (file for file in files.values() if file.executable):
        assert file.text.startswith("#!/bin/bash\n")
        done = subprocess.run(["bash", "-n"], input=file.text, capture_output=True, text=True, check=False)
        assert done.stderr == "", file.path


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


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    paths = []
    for name in CASES:
        for file in case(name)[1].values():
            if file.path.endswith(".service"):
                paths.append(tmp_path / file.path)
                # the programs are not on this machine; everything else is as written
                text = re.sub(r"(/opt/llmhw/envs/serve/bin/vllm|/usr/bin/docker)", "/bin/true", file.text)
                paths[-1].write_text(text.replace("User=vllm", "User=daemon"), encoding="utf-8")
    (tmp_path / "docker.service").write_text("[Service]\nExecStart=/bin/true\n", encoding="utf-8")
    broken = tmp_path / "broken.service"
    broken.write_text(paths[0].read_text().replace("Restart=on-failure", "Restart=sometimes"), encoding="utf-8")
    variables = {**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"}

    def said(*units: Path) -> list[str]:
        command = ["systemd-analyze", "verify", "--man=no", *map(str, units)]
        done = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)
        return [
            line for line in done.stderr.splitlines() if str(tmp_path) in line or any(u.name in line for u in units)
        ]

    assert said(*paths) == []
    assert any("sometimes" in line for line in said(broken))


def _copier(tmp_path: Path) -> tuple[Path, Path, Path]:
    setup, files = case("lora-8b-a330")
    source, target = tmp_path / "scratch", tmp_path / "project/checkpoints"
    text = (
        files["copy-checkpoints.sh"]
        .text.replace(setup.output, str(source))
        .replace(f"{setup.kept}/checkpoints", str(target))
    )
    script = tmp_path / "copy.sh"
    script.write_text(text, encoding="utf-8")
    source.mkdir()
    return script, source, target


def _checkpoint(folder: Path, *, age: int) -> None:
    folder.mkdir()
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "trainer_state.json").write_text("{}", encoding="utf-8")
    os.utime(folder / "trainer_state.json", (time.time() - age, time.time() - age))


def test_finished_checkpoints_are_copied_and_unfinished_ones_are_not(tmp_path: Path) -> None:
    script, source, target = _copier(tmp_path)
    _checkpoint(source / "checkpoint-100", age=120)
    _checkpoint(source / "checkpoint-200", age=0)
    (source / "checkpoint-300").mkdir()  # being written: no trainer_state.json
    with subprocess.Popen(["bash", script], stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert "copied checkpoint-100" in running.stdout.readline()
        assert sorted(path.name for path in target.iterdir()) == ["checkpoint-100"]
        running.terminate()  # training is over
        assert running.wait(timeout=20) == 0
    assert sorted(path.name for path in target.iterdir()) == ["checkpoint-100", "checkpoint-200"]
    assert (target / "checkpoint-200/model.safetensors").read_bytes() == b"weights"


def test_start_refuses_another_folder_than_its_paths_name(tmp_path: Path) -> None:
    setup, files = case("lora-8b-a330")
    (tmp_path / "start.sh").write_text(files["start.sh"].text, encoding="utf-8")
    done = subprocess.run(["bash", tmp_path / "start.sh"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"error: these files belong into {setup.kept}/launch" in done.stderr


_SFT = {"model": "llama-3.1-8b", "job": "sft"}
_SERVE = {"model": "llama-3.1-8b", "job": "serve", "serving": {"concurrency": 8, "context": 4096}}


@pytest.mark.parametrize(
    ("load", "words"),
    [
        ({**_SFT, "method": "qlora"}, "qlora needs bitsandbytes, which the locks of the environments do not hold"),
        (
            {**_SFT, "method": "lora", "launch": {"one_bit": True, "framework": "llamafactory"}},
            "launch.one_bit: deepspeed 0.19.8 has no 1-bit optimizers",
        ),
        ({**_SFT, "launch": {"framework": "vllm"}, "method": "lora"}, None),
        ({**_SFT, "method": "lora", "launch": {"framework": "trl"}}, "launch.framework trl does not do sft"),
        ({**_SFT, "method": "lora", "launch": {"zero_plus_plus": True}, "layout": {"zero": 1}}, "needs ZeRO 3"),
        ({**_SFT, "job": "ppo", "launch": {"framework": "llamafactory"}, "batch": 64}, "ppo needs launch.reward_model"),
        ({**_SFT, "job": "dpo", "layout": {"tp": 2}}, "llamafactory does not divide a model: the layout has tp 2"),
        ({**_SFT, "job": "pretrain", "layout": {"sharder": "megatron"}}, "megatron counts optimizer steps"),
        ({**_SFT, "method": "lora", "launch": {"model_path": "/home/me/model"}}, "lies neither below /srv/project"),
        ({**_SERVE, "launch": {"framework": "tgi"}}, "launch.image names none"),
        ({**_SERVE, "launch": {"framework": "triton", "image": IMAGE, "listen": "all"}}, "has no key of its own"),
        ({**_SERVE, "serving": {"concurrency": 8, "context": 4096, "kv": "int4"}}, "vllm: no cache in int4"),
    ],
)
def test_what_cannot_be_started_is_refused(load: dict[str, Any], words: str | None) -> None:
    plan, need, site = planned("alphapro660", 1, load)
    if words is None:  # a framework for serving says nothing about training
        assert "train.yaml" in {file.path for file in launch_files(plan, need, site)}
        return
    with pytest.raises(InputError) as caught:
        launch_files(plan, need, site)
    assert words in "\n".join(problem.message for problem in caught.value.problems)
    assert all(problem.hint for problem in caught.value.problems)


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


def test_a_path_with_dots_is_refused_where_it_is_read() -> None:
    with pytest.raises(InputError, match="model_path"):
        planned("alphapro660", 1, {**_SFT, "launch": {"model_path": "/srv/project/../../etc"}})


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


def test_roles_of_grpo_on_gpus_of_their_own_are_refused_each_and_together_they_start() -> None:
    launch = {"framework": "trl", "reward_model": "/srv/project/models/reward"}
    load = {"model": "qwen2.5-7b", "job": "grpo", "batch": 64, "launch": launch}
    with pytest.raises(InputError) as caught:
        launch_files(*planned("alphapro660", 1, {**load, "placement": "split"}))
    said = [problem.message for problem in caught.value.problems]
    assert [text.split(" on GPUs")[0] for text in said] == ["launch: actor, reference", "launch: rollout engine"]
    files = launch_files(*planned("alphapro660", 1, {**load, "placement": "colocated"}))
    assert "grpo.yaml" in {file.path for file in files}


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
