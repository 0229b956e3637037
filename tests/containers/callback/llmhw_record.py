"""Ansible callback: one JSON line per task and host, appended to the file that LLMHW_RECORD names."""

import json
import os
from pathlib import Path
from typing import Any

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: llmhw_record
type: notification
short_description: task results as JSON lines
description:
  - Appends one JSON object per task and host to the file that the environment variable LLMHW_RECORD names.
"""


class CallbackModule(CallbackBase):  # type: ignore[misc]
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "llmhw_record"
    CALLBACK_NEEDS_ENABLED = True

    def v2_runner_on_ok(self, result: Any) -> None:
        self._write("changed" if result.result.get("changed") else "ok", result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        self._write("ignored" if ignore_errors else "failed", result)

    def v2_runner_on_skipped(self, result: Any) -> None:
        self._write("skipped", result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        self._write("unreachable", result)

    def _write(self, status: str, result: Any) -> None:
        event = {
            "host": result.host.get_name(),
            "task": result.task.get_name(),
            "action": result.task.action,
            "status": status,
            "result": json.loads(self._dump_results(result.result)),
        }
        with Path(os.environ["LLMHW_RECORD"]).open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(event) + "\n")
