"""Damaged site files: clear errors, exit 1, no traceback, nothing written."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest

from llmhw_provision.cli import entry
from llmhw_provision.documents import dump_json
from tests.unit.machines import drives, machine

WORKLOAD = "schema: 1\nmodel: llama-3.1-8b\njob: sft\nmethod: lora\n"
SITE = "schema: 1\nsite: a\nhosts:\n  - {name: ga660m-01, address: 192.0.2.11}\n"
OBSERVED = dump_json(machine(*drives()))
NOISE = random.Random(1).randbytes(10_000_000)
BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [{','.join(['*' + a] * 9)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)

# file, what it holds, every message expected on standard error in order
DAMAGED: list[tuple[str, str | bytes, list[str]]] = [
    ("workload.yaml", "", ["workload.yaml: holds nothing, not keys with values"]),
    ("workload.yaml", "- a\n- b\n", ["workload.yaml: holds a list, not keys"]),
    ("workload.yaml", WORKLOAD[:20], ["workload.yaml: job: missing"]),
    ("workload.yaml", WORKLOAD + "modle: x\n", ["workload.yaml: modle: unknown key", "did you mean 'model'"]),
    ("workload.yaml", WORKLOAD + "sequence: many\n", ["workload.yaml: sequence: 'many' should be a valid integer"]),
    (
        "workload.yaml",
        WORKLOAD + "sequence: -5\n",
        ["workload.yaml: sequence: -5 should be greater than or equal to 1"],
    ),
    ("workload.yaml", WORKLOAD + "batch: .nan\n", ["workload.yaml: batch: nan should be a valid integer"]),
    ("workload.yaml", WORKLOAD + "dataset: {size: 20}\n", ["workload.yaml: dataset.size: 20 has no unit", "'2 TB'"]),
    ("workload.yaml", WORKLOAD + "dataset: {size: 20 gb}\n", ["unit 'gb' in '20 gb' is not known; did you mean 'GB'"]),
    (
        "workload.yaml",
        WORKLOAD + "job: serve\n",
        ["workload.yaml: line 5, column 1 is not YAML: key 'job' is written twice"],
    ),
    ("workload.yaml", WORKLOAD.replace("8b", "8x"), ["model 'llama-3.1-8x' is not in the catalogue", "did you mean"]),
    ("workload.yaml", WORKLOAD.replace("sft", "serve"), ["workload.yaml: serving: missing"]),
    ("workload.yaml", BOMB, ["workload.yaml: line 2: alias *a is not accepted"]),
    ("workload.yaml", NOISE, ["workload.yaml: 10.0 MB is larger than any such file of a site (limit 8.0 MB)"]),
    ("workload.yaml", NOISE[:1000], ["workload.yaml: not UTF-8 text"]),
    ("workload.yaml", "a: " + "[" * 500, ["workload.yaml: line 1: nested deeper than 40 levels"]),
    ("workload.yaml", "a: !!python/object/apply:os.system ['true']\n", ["could not determine a constructor"]),
    ("site.yaml", SITE.replace("192.0.2.11", "not an address!"), ["site.yaml: hosts[0].address: 'not an address!'"]),
    ("site.yaml", SITE + SITE.splitlines()[-1] + "\n", ["hosts[1].name: 'ga660m-01' is already hosts[0]"]),
    (
        "site.yaml",
        SITE + "storage: {scratch: {mount: /etc/x}}\n",
        ["storage.scratch.mount: '/etc/x' belongs to the system"],
    ),
    (
        "site.yaml",
        SITE + "storage: {wipe: [{host: b, serial: s, type: t, uuid: u}]}\n",
        ["storage.wipe[0].host: 'b' is not"],
    ),
    ("site.yaml", SITE.replace(", address: 192.0.2.11", ""), ["site.yaml: hosts[0].address: missing"]),
    (
        "site.yaml",
        SITE + "  - {name: b, address: 192.0.2.11}\n",
        ["hosts[1].address: '192.0.2.11:22' is already hosts[0]"],
    ),
    (
        "site.yaml",
        SITE.replace("2.11", "2.11, machine: ga660x"),
        ["site.yaml: hosts[0].machine: machine 'ga660x' is not in the catalogue", "did you mean 'ga660m'"],
    ),
    (
        "site.yaml",
        SITE + "software: {distro: ubuntu2599}\n",
        ["site.yaml: software.distro: 'ubuntu2599' is not in the matrix", "known: ubuntu2204, "],
    ),
    (
        "site.yaml",
        SITE + "storage: {project: {path: /scratch/p}, tmpfs: {mount: /scratch}}\n",
        [
            "site.yaml: storage.project.path: '/scratch/p' lies on scratch (/scratch)",
            "site.yaml: storage.project.path: '/scratch/p' lies in memory",
            "site.yaml: storage.tmpfs.mount: '/scratch' is storage.scratch.mount as well",
        ],
    ),
    (
        "site.yaml",
        SITE + "storage: {tmpfs: {mount: /hot}, scratch: {mount: /hot/x}}\n",
        ["site.yaml: storage.scratch.mount: '/hot/x' lies in memory"],
    ),
    (
        "site.yaml",
        SITE + "storage: {scratch: {disks: [D1, D2, D2]}, project: {disks: [D1]}}\n",
        [
            "site.yaml: storage.scratch.disks[2]: 'D2' is already storage.scratch.disks[1]",
            "site.yaml: storage.project.disks[0]: 'D1' is already storage.scratch.disks[0]",
        ],
    ),
    (
        "site.yaml",
        SITE + "storage: {wipe: [" + ", ".join(["{host: ga660m-01, serial: D1, type: ext4, uuid: u}"] * 2) + "]}\n",
        ["site.yaml: storage.wipe[1]: the consent for 'D1' is already storage.wipe[0]"],
    ),
    (
        "site.yaml",
        SITE + "software: {environments: [{name: a, packages: [vllm]}, {name: a, packages: [torch]}]}\n",
        ["site.yaml: software.environments[1].name: 'a' is already software.environments[0]"],
    ),
    (
        "site.yaml",
        SITE + "host_tuning: {profile: none, sysctl: {vm.swappiness: '1'}}\n",
        ["site.yaml: host_tuning.sysctl: host_tuning.profile is none, so nothing of it would be set"],
    ),
    (
        "site.yaml",
        SITE + "thresholds: [{metric: nccl_tests.all_reduce_busbw, fail: 12, reason: agreed}]\n",
        ["site.yaml: thresholds[0].unit: missing"],
    ),
    (
        "site.yaml",
        SITE + "thresholds: [{metric: nccl_tests.all_reduce_busb, fail: 12, unit: GB/s, reason: agreed}]\n",
        ["site.yaml: thresholds[0].metric: ga660m-01 has no limit", "did you mean 'nccl_tests.all_reduce_busbw'"],
    ),
    ("site.yaml", SITE[:-10], ["site.yaml: line 5, column 1 is not YAML"]),
    ("observed/ga660m-01.json", OBSERVED[:300], ["observed/ga660m-01.json: line", "may be cut off"]),
    ("observed/ga660m-01.json", "{}", ["observed/ga660m-01.json: schema: missing", "cpu: missing"]),
    (
        "observed/ga660m-01.json",
        OBSERVED.replace('"memory_bytes": 549755813888', '"memory_bytes": "lots"'),
        ["memory_bytes: 'lots' should be a valid integer"],
    ),
    ("observed/ga660m-01.json", "[" * 100_000, ["observed/ga660m-01.json: is not JSON we can read"]),
    ("plan.json", "null", ["plan.json: holds nothing, not keys"]),
    ("plan.json", '{"schema": 2}', ["plan.json: schema: 2 should be 1", "plan.json: site: missing"]),
]


def site_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    (folder / "observed").mkdir(parents=True)
    (folder / "workload.yaml").write_text(WORKLOAD)
    (folder / "site.yaml").write_text(SITE)
    (folder / "observed/ga660m-01.json").write_text(OBSERVED)
    return folder


def digest(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def run(folder: Path, *arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        entry(["plan", "--site", str(folder), *arguments])
    assert isinstance(stop.value.code, int)
    return stop.value.code


def test_the_undamaged_site_is_planned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(site_folder(tmp_path)) == 0
    assert "raid0 array /dev/md/scratch over 4 disks" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "content", "expected"), DAMAGED, ids=[str(index) for index in range(len(DAMAGED))])
def test_damage_gives_a_clear_error_and_nothing_is_written(
    name: str, content: str | bytes, expected: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = site_folder(tmp_path)
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    before = digest(folder)
    assert run(folder, *(["--diff"] if name == "plan.json" else [])) == 1
    streams = capsys.readouterr()
    assert streams.out == ""
    assert "Traceback" not in streams.err
    for text in expected:
        assert text in streams.err
    lines = streams.err.splitlines()
    assert all(line.startswith(("error: ", "hint: ")) for line in lines)
    assert all(len(line) < 400 for line in lines)
    assert digest(folder) == before


def test_problems_of_all_files_are_reported_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = site_folder(tmp_path)
    (folder / "workload.yaml").write_text(WORKLOAD + "a: 1\nb: 2\n")
    (folder / "site.yaml").write_text(SITE + "c: 3\n")
    assert run(folder) == 1
    assert capsys.readouterr().err.count("unknown key") == 3
