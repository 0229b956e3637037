"""Ansible callback: one JSON line per thing that happened, flushed at once so that a killed run keeps all lines."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from typing import Any

from ansible import context
from ansible.playbook.task_include import TaskInclude
from ansible.plugins.callback import CallbackBase
from ansible.release import __version__

DOCUMENTATION = """
name: llmhw_events
type: notification
short_description: JSON lines of a run
description:
  - Appends one JSON line per event to the file named by the environment variable LLMHW_EVENTS.
requirements:
  - enable in configuration
"""

_HIDDEN = "the output is hidden because the task handles a secret (no_log)"
_LONGEST = 64 * 1024
_BARE = ("non-zero return code", "MODULE FAILURE", "Module result deserialization failed")


class CallbackModule(CallbackBase):  # type: ignore[misc]
    """Writes what it is told; decides nothing."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "llmhw_events"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._file = open(  # noqa: SIM115, PTH123 - open until Ansible ends
            os.environ["LLMHW_EVENTS"], "a", buffering=1, encoding="utf-8", errors="backslashreplace"
        )
        self._began: dict[tuple[str, str], float] = {}

    def _write(self, event: str, **fields: Any) -> None:
        line = {"event": event, "time": round(time.time(), 3), **fields}
        self._file.write(json.dumps(line, ensure_ascii=False, default=str) + "\n")
        self._file.flush()

    def v2_playbook_on_start(self, playbook: Any) -> None:
        """The file name, whether machines are altered, and the version of Ansible."""
        name = os.path.basename(playbook._file_name)  # noqa: PTH119 - Ansible gives text
        check, diff = (bool(context.CLIARGS.get(key)) for key in ("check", "diff"))
        self._write("start", playbook=name, check=check, diff=diff, ansible=__version__)

    def v2_playbook_on_play_start(self, play: Any) -> None:
        """The play's name."""
        self._write("play", play=play.get_name())

    def v2_playbook_on_task_start(self, task: Any, is_conditional: bool) -> None:  # noqa: ARG002
        """A task begins on the hosts of the play."""
        self._write("task", **_names(task), handler=False)

    def v2_playbook_on_handler_task_start(self, task: Any) -> None:
        """A handler begins."""
        self._write("task", **_names(task), handler=True)

    def v2_runner_on_start(self, host: Any, task: Any) -> None:
        """Not written: only the time is kept."""
        self._began[host.get_name(), task._uuid] = time.monotonic()

    def v2_runner_on_ok(self, result: Any) -> None:
        """A task ended well, with or without a change."""
        self._result("changed" if result.is_changed() else "ok", result)

    def v2_runner_on_failed(self, result: Any, ignore_errors: bool = False) -> None:
        """A task failed."""
        self._result("ignored" if ignore_errors else "failed", result)

    def v2_runner_on_skipped(self, result: Any) -> None:
        """A task had nothing to do by its own condition."""
        self._result("skipped", result)

    def v2_runner_on_unreachable(self, result: Any) -> None:
        """The machine did not answer."""
        self._result("ignored" if result.task.ignore_unreachable else "unreachable", result)

    def v2_runner_retry(self, result: Any) -> None:
        """An attempt failed and will be repeated."""
        attempts, retries = (result.result.get(key, 0) for key in ("attempts", "retries"))
        self._write("retry", host=result.host.get_name(), **_names(result.task), attempts=attempts, retries=retries)

    def v2_playbook_on_stats(self, stats: Any) -> None:
        """Ansible's own counts per host, and what plays handed over with set_stats."""
        hosts = {host: stats.summarize(host) for host in sorted(stats.processed)}
        self._write("stats", hosts=hosts, custom=stats.custom)

    def _result(self, status: str, result: Any) -> None:
        if isinstance(result.task, TaskInclude):
            return
        host, data = result.host.get_name(), result.result
        began = self._began.pop((host, result.task._uuid), None)
        hidden = bool(data.get("_ansible_no_log") or "censored" in data)
        bad = status in ("failed", "unreachable", "ignored")
        fields: dict[str, Any] = {"message": (_HIDDEN if hidden else _message(data)) if bad else ""}
        if not hidden:
            fields["actions"] = [str(each) for part in _parts(data) for each in _list(part, "actions")]
            fields["problems"] = [p for part in _parts(data) for p in map(_problem, _list(part, "problems")) if p]
            fields["warnings"] = [str(each) for part in _parts(data) for each in _list(part, "warnings")]
            fields["hint"] = str(data.get("hint", "")) if bad else ""
            fields["diff"] = self._diff(data)
        names = _names(result.task)
        names["task"] = result.task_name.removeprefix(f"{names['role']} : ")  # newer cores put the role before it
        seconds = round(time.monotonic() - began, 3) if began is not None else 0.0
        log = _size(os.environ.get("LLMHW_LOG", ""))
        self._write("result", host=host, **names, status=status, seconds=seconds, log=log, hidden=hidden, **fields)

    def _diff(self, data: dict[str, Any]) -> str:
        """Text of what the task changed or would change; cut at 64 KiB."""
        found = [self._get_diff(p["diff"]) for p in _parts(data) if p.get("changed") and p.get("diff")]
        return "".join(found)[:_LONGEST]


def _names(task: Any) -> dict[str, str]:
    role = task._role.get_name() if task._role else ""
    return {"role": role, "task": (task.name or task.action).strip(), "path": task.get_path() or ""}


def _parts(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The result itself, then that of each loop item that may be shown."""
    yield data
    items = data.get("results")
    for item in items if isinstance(items, list) else []:
        if isinstance(item, dict) and not (item.get("_ansible_no_log") or "censored" in item):
            yield item


def _list(data: dict[str, Any], key: str) -> list[Any]:
    value = data.get(key)
    return value if isinstance(value, list) else []


def _problem(value: Any) -> dict[str, str] | None:
    if not isinstance(value, dict) or not value.get("message"):
        return None
    return {"message": str(value["message"]), "hint": str(value.get("hint", ""))}


def _message(data: dict[str, Any]) -> str:
    """The cause in words: of the failed loop items if there are any, else of the task."""
    failed = [item for item in list(_parts(data))[1:] if item.get("failed") or item.get("unreachable")]
    if failed:
        return "\n".join(dict.fromkeys(_one(item, label=True) for item in failed))[:_LONGEST]
    return _one(data, label=False)[:_LONGEST]


def _one(data: dict[str, Any], *, label: bool) -> str:
    msg = data.get("msg", "")
    text = "\n".join(map(str, msg)) if isinstance(msg, list) else str(msg).strip()
    text = text.removeprefix("Task failed: ")
    if text == "Assertion failed":
        text = f"{text}: {data.get('assertion', '')}"
    if not text or text.startswith(_BARE):
        output = next((str(data[key]) for key in ("stderr", "module_stderr", "stdout") if data.get(key)), "")
        code = f" (exit status {data['rc']})" if "rc" in data else ""
        text = f"{text}{code}: {_tail(output)}".rstrip(": ")
    item = data.get("_ansible_item_label", data.get("item")) if label else None
    return f"{item}: {text}" if isinstance(item, str) else text


def _tail(output: str) -> str:
    return "\n".join(line for line in output.strip().splitlines() if line.strip())[-600:]


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116 - a number, asked for at every event
    except OSError:
        return 0
