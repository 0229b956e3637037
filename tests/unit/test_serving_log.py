"""The engine's log leaves the host without the key of its API, and a log that cannot be read is no answer."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from llmhw_provision.probes import vllm_log

LOG = """INFO non-default args: {'model_tag': 'm', 'api_key': ['topsecret', 'other'], 'port': 8000}
INFO args: Namespace(host='127.0.0.1', api_key='topsecret', port=8000)
INFO command: vllm serve m --api-key topsecret
INFO:     Application startup complete.
"""


def asked(folder: Path, journalctl: str) -> subprocess.CompletedProcess[str]:
    for name, text in (("systemctl", "echo 0123"), ("journalctl", journalctl)):
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    argv = vllm_log.command("vllm.service").argv
    return subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)


def test_the_key_of_the_api_stays_on_the_host(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(LOG)
    said = asked(tmp_path, f"cat {tmp_path}/log").stdout
    assert "topsecret" not in said
    assert "'port': 8000" in said
    assert vllm_log.facts(said.encode())["ready"]


@pytest.mark.parametrize("status", [1, 127])
def test_a_log_that_cannot_be_read_is_no_answer(tmp_path: Path, status: int) -> None:
    assert asked(tmp_path, f"exit {status}").returncode == status
