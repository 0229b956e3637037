"""The committed inventories are what `plan` writes today, byte for byte; `--update-golden` writes them again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from llmhw_provision.cli.plan import make_plan
from llmhw_provision.documents import dump_json
from llmhw_provision.inventory import render_inventory, write_inventory

ROOT = Path(__file__).resolve().parents[2] / "inventories"
SITES = sorted(path.name for path in ROOT.iterdir() if path.is_dir())


@pytest.mark.parametrize("name", SITES)
def test_committed_inventory_is_current(name: str, request: pytest.FixtureRequest) -> None:
    folder = ROOT / name
    plan = make_plan(folder)
    if request.config.getoption("--update-golden"):
        (folder / "plan.json").write_text(dump_json(plan), encoding="utf-8")
        write_inventory(plan, folder / "inventory")
    assert (folder / "plan.json").read_text(encoding="utf-8") == dump_json(plan)
    files = {str(path.relative_to(folder / "inventory")): path for path in (folder / "inventory").rglob("*.yml")}
    rendered = render_inventory(plan)
    assert sorted(files) == sorted(rendered)
    for path, text in rendered.items():
        assert files[path].read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", SITES)
def test_plain_ansible_reads_the_inventory(name: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / name, tmp_path / "site")
    tool = Path(sys.executable).with_name("ansible-inventory")
    environment = {**os.environ, "ANSIBLE_LOCAL_TEMP": str(tmp_path / "tmp"), "HOME": str(tmp_path)}
    done = subprocess.run(
        [tool, "-i", tmp_path / "site" / "inventory" / "hosts.yml", "--list"],
        capture_output=True,
        env=environment,
        check=True,
    )
    data = json.loads(done.stdout)
    assert set(data["all"]["children"]) >= {"nvme_raid0", "tmpfs", "initramfs"}
