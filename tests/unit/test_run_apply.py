"""Real runs of ansible-playbook against this machine."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from llmhw_provision.documents import read
from llmhw_provision.run import events, lock, text
from llmhw_provision.run.command import Choice
from llmhw_provision.run.outcome import Result
from llmhw_provision.run.progress import Lines
from tests.unit.test_run_site import AWAY, host, plan, run, site

WRITE = """
- name: Write the file
  ansible.builtin.copy:
    content: "hello\\n"
    dest: "{path}"
    mode: "0644"
"""


def test_a_run_changes_and_the_next_one_does_not(tmp_path: Path) -> None:
    tasks = WRITE.format(path=tmp_path / "out")
    first, folder = run(tmp_path, tasks)
    assert (first.exit_code, first.state, first.hosts[0].changed) == (0, "done", 1)
    assert [(change.role, change.task) for change in first.changes] == [("demo", "Write the file")]
    assert read(folder / "result.json", Result) == first
    assert {path.name for path in folder.iterdir()} == {
        *("plan.json", "command.txt", "events.jsonl", "ansible.log", "result.json", "reboot-reasons.jsonl")
    }
    second, other = run(tmp_path, tasks)
    assert (second.exit_code, second.hosts[0].changed, second.hosts[0].ok) == (0, 0, 1)
    assert other != folder


def test_check_alters_nothing_and_lists_what_would_change(tmp_path: Path) -> None:
    result, _ = run(tmp_path, WRITE.format(path=tmp_path / "out"), choice=Choice(check=True, diff=True))
    assert not (tmp_path / "out").exists()
    assert (result.exit_code, result.hosts[0].changed) == (0, 1)
    shown = "\n".join(text.changes(result))
    assert "one: 1 task would change it\n  demo · Write the file" in shown
    assert "    +hello" in shown


def test_a_failure_names_host_task_cause_hint_and_log_line(tmp_path: Path) -> None:
    tasks = """
- name: Look at the disks
  ansible.builtin.fail:
    msg: disk nvme-A holds an ext4 filesystem
"""
    result, folder = run(tmp_path, tasks, made=plan(host("one"), host("two")))
    assert (result.exit_code, result.state) == (4, "failed")
    block = "\n".join(text.failures(result))
    assert "failed: one, two" in block
    assert "task: demo · Look at the disks  (roles/demo/tasks/main.yml:2)" in block
    assert block.count("error: disk nvme-A holds an ext4 filesystem") == 1
    line = (folder / "ansible.log").read_text().splitlines()[result.failures[0].log_line - 1]
    assert line.startswith("fatal: [one]")
    assert f"log: {result.folder}/ansible.log:{result.failures[0].log_line}" in block


MODULE = """#!/usr/bin/python
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(argument_spec={"bad": {"type": "bool"}}, supports_check_mode=True)
if module.params["bad"]:
    problems = [{"message": "disk A is mounted", "hint": "unmount it"}, {"message": "disk B is missing", "hint": ""}]
    module.fail_json(msg="2 problems", problems=problems)
module.exit_json(changed=True, actions=["create /dev/md/scratch over 2 disks"])
"""


def test_sentences_and_problems_of_a_module_are_shown(tmp_path: Path) -> None:
    library = tmp_path / "content" / "playbooks" / "library"
    tasks = "- name: Good\n  disks:\n    bad: false\n- name: Bad\n  disks:\n    bad: true\n"
    site(tmp_path / "site", plan(host("one")))
    from tests.unit.test_run_site import content

    content(tmp_path / "content", tasks)
    library.mkdir()
    (library / "disks.py").write_text(MODULE)
    result, _ = run(tmp_path, tasks)
    assert result.exit_code == 4
    assert result.changes[0].actions == ("create /dev/md/scratch over 2 disks",)
    block = "\n".join(text.failures(result))
    assert "error: disk A is mounted\nhint: unmount it\nerror: disk B is missing\nlog:" in block


def test_a_handled_failure_is_no_failure(tmp_path: Path) -> None:
    tasks = """
- block:
    - name: Try
      ansible.builtin.command: "false"
  rescue:
    - name: Handle
      ansible.builtin.debug:
        msg: handled
"""
    result, _ = run(tmp_path, tasks)
    assert (result.exit_code, result.state, result.failures) == (0, "done", ())


def test_an_unreachable_host_ends_with_3_and_the_other_is_done(tmp_path: Path) -> None:
    site(tmp_path / "site", plan(host("away"), host("here")), connections={"away": AWAY})
    result, _ = run(tmp_path, WRITE.format(path=tmp_path / "out"))
    assert result.exit_code == 3
    assert {each.host: each.state for each in result.hosts} == {"away": "unreachable", "here": "done"}
    block = "\n".join(text.failures(result))
    assert "unreachable: away" in block
    assert "hint: is it up" in block


def test_a_secret_is_neither_in_the_events_nor_in_the_log(tmp_path: Path) -> None:
    tasks = """
- name: Use the key
  ansible.builtin.shell: "echo S3CRET >&2; exit {status}"
  no_log: true
  ignore_errors: "{ignore}"
- name: Use more keys
  ansible.builtin.command: "false {{{{ item }}}}"
  no_log: true
  loop: [S3CRET]
"""
    result, folder = run(tmp_path, tasks.format(status=1, ignore="{{ true }}"), choice=Choice(diff=True))
    assert result.exit_code == 4
    assert "no_log" in result.failures[0].problems[0].message
    for path in folder.iterdir():
        assert b"S3CRET" not in path.read_bytes(), path.name


def test_a_playbook_that_is_not_yaml_fails_with_what_ansible_said(tmp_path: Path) -> None:
    result, _ = run(tmp_path, "- name: x\n  nosuchmodule:\n")
    assert result.exit_code == 4
    assert result.failures[0].host == ""
    assert "nosuchmodule" in "\n".join(text.failures(result))


def test_a_tag_that_no_task_carries_is_said(tmp_path: Path) -> None:
    result, _ = run(tmp_path, WRITE.format(path=tmp_path / "out"), choice=Choice(tags=("nosuch",)))
    assert (result.exit_code, result.state) == (4, "failed")
    assert result.failures[0].problems[0].message == "no task carries the tag nosuch"


class _Stopping(Lines):
    """Presses Ctrl-C when the long task begins."""

    def __init__(self, path: Path, times: int) -> None:
        self.path, self.times = path, times
        super().__init__(path.open("w"))

    def tick(self) -> None:
        started = (self.path.parent / "started").exists()
        if started and self.times:
            self.times -= 1
            os.kill(os.getpid(), signal.SIGINT)

    def __exit__(self, *_: object) -> None:
        self._stream.close()


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_leaves_a_readable_record_and_a_free_lock(tmp_path: Path, times: int) -> None:
    tasks = f"""
- name: First
  ansible.builtin.command: "true"
- name: Long
  ansible.builtin.shell: echo $$ > {tmp_path}/started; exec sleep 60
- name: Never
  ansible.builtin.file:
    path: {tmp_path}/never
    state: touch
"""
    result, folder = run(tmp_path, tasks, watcher=_Stopping(tmp_path / "said", times))
    assert (result.exit_code, result.state) == (130, "unfinished")
    assert "the next apply finishes the job" in (tmp_path / "said").read_text()
    found = [event.task for event in events.read(folder / "events.jsonl") if isinstance(event, events.TaskResult)]
    assert found[0] == "First"
    assert json.loads((folder / "result.json").read_text())["exit_code"] == 130
    assert not (folder / "tmp").exists()
    assert not (tmp_path / "never").exists()
    with lock.held(tmp_path / "site" / "runs", verb="apply"):
        pass
    if times == 2:
        assert not Path(f"/proc/{(tmp_path / 'started').read_text().strip()}").exists()
