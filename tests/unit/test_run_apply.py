"""Real runs of ansible-playbook against this machine."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from llmhw_provision.documents import read
from llmhw_provision.errors import InputError
from llmhw_provision.run import estimate, events, lock, text
from llmhw_provision.run.command import Choice
from llmhw_provision.run.outcome import Result
from llmhw_provision.run.progress import Lines
from llmhw_provision.run.record import Applied
from tests.unit.test_run_site import AWAY, IDENTITY, LOCAL, content, host, plan, run, site

WRITE = """
- name: Write the file
  ansible.builtin.lineinfile:
    path: "{path}"
    line: hello
    create: true
    mode: "0644"
"""
REASONS = "{local}\n      llmhw_reboot_reasons_folder: {folder}"


REBOOT = """
- hosts: all
  gather_facts: false
  tasks:
    - name: Reboot
      ansible.builtin.debug:
      when: llmhw_allow_reboot | bool
"""


def test_a_run_changes_and_reboots_and_the_next_one_does_not(tmp_path: Path) -> None:
    (tmp_path / "reasons").mkdir()
    (tmp_path / "reasons" / "initramfs").write_text("the running kernel has an older initramfs")
    connection = REASONS.format(local=LOCAL, folder=tmp_path / "reasons")
    site(tmp_path / "site", plan(host("one", reboots=1)), {"one": connection})
    content(tmp_path / "content", WRITE.format(path=tmp_path / "out"), reboot=REBOOT)
    first, folder = run(tmp_path, "", choice=Choice(tags=("all",)), allow_reboot=True)
    assert (first.exit_code, first.state, first.hosts[0].changed) == (0, "done", 1)
    assert [(change.role, change.task) for change in first.changes] == [("demo", "Write the file")]
    assert first.hosts[0].reboot_reasons == ("initramfs: the running kernel has an older initramfs",)
    assert "reboot wanted: one: initramfs: the running kernel has an older initramfs" in list(text.ending(first))
    assert read(folder / "result.json", Result) == first
    made = ("plan.json", "order.json", "command.txt", "events.jsonl", "ansible.log", "result.json", "closing.jsonl")
    assert {path.name for path in folder.iterdir()} == set(made)
    assert _tasks(folder) == ["Write the file", "Reboot"]
    lines = (folder / "command.txt").read_text().splitlines()
    assert ["--tags" in line for line in lines] == [True, False]

    second, other = run(tmp_path, "")
    assert (second.exit_code, second.hosts[0].changed, second.hosts[0].ok) == (0, 0, 1)
    assert _tasks(other) == ["Write the file"]
    assert not (folder / "applied").exists()  # with --tags only a part was done
    record = tmp_path / "site" / "etc" / "applied.json"
    assert oct(record.stat().st_mode) == "0o100644"
    kept = read(other / "applied" / "one.json", Applied)
    assert (kept, kept.plan, kept.roles) == (read(record, Applied), IDENTITY, ("tmpfs",))
    assert kept.kernel == os.uname().release
    assert [path.name for path in record.parent.iterdir()] == ["applied.json"]
    earlier = estimate.earlier(folder.parent, verb="apply", plan=IDENTITY, choice=Choice())
    assert earlier is not None
    assert earlier.tasks == {"one": 1}


def test_facts_are_gathered_once_for_all_plays(tmp_path: Path) -> None:
    play = '- hosts: all\n  gather_facts: true\n  gather_subset: ["!all", "!min", distribution]\n  roles: [demo]\n'
    root = content(tmp_path / "content", '- ansible.builtin.debug: msg="{{ ansible_facts.distribution }}"\n')
    (root / "playbooks" / "site.yml").write_text(play * 3)
    result, folder = run(tmp_path, "")
    assert (result.exit_code, result.hosts[0].ok) == (0, 4)
    assert _tasks(folder).count("Gathering Facts") == 1


def _tasks(folder: Path) -> list[str]:
    found = events.read(folder / "events.jsonl")
    return [event.task for event in found if isinstance(event, events.TaskResult)]


def test_check_alters_nothing_and_its_command_line_works_without_us(tmp_path: Path) -> None:
    result, folder = run(tmp_path, WRITE.format(path=tmp_path / "out"), choice=Choice(check=True, diff=True))
    assert not (tmp_path / "out").exists()
    assert (result.exit_code, result.hosts[0].changed) == (0, 1)
    shown = "\n".join(text.changes(result))
    assert "one: 1 task would change it\n  demo · Write the file" in shown
    assert "    +hello" in shown

    line = (folder / "command.txt").read_text().replace(" --check", "")
    done = subprocess.run(["sh", "-c", line], env={"PATH": "/usr/bin:/bin"}, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out").read_text() == "hello\n"


MODULE = """#!/usr/bin/python
from ansible.module_utils.basic import AnsibleModule
module = AnsibleModule(argument_spec={"bad": {"type": "bool"}}, supports_check_mode=True)
if module.params["bad"]:
    problems = [{"message": "disk A is mounted", "hint": "unmount it"}, {"message": "disk B is missing", "hint": ""}]
    module.fail_json(msg="2 problems", problems=problems)
module.warn("one disk is slow")
module.exit_json(changed=True, actions=["create /dev/md/scratch over 2 disks"])
"""
FAILING = """
- block:
    - name: Try
      ansible.builtin.command: "false"
  rescue:
    - name: Handle
      disks:
        bad: false
- name: Use the key
  ansible.builtin.shell: "echo {{ item }} >&2; exit 1"
  no_log: true
  ignore_errors: true
  loop: ["{{ demo_key }}"]
- name: Refuse
  disks:
    bad: true
  when: inventory_hostname == "one"
- name: Look at the disks
  ansible.builtin.command: ls /no/such/folder
"""


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    folder = tmp_path_factory.mktemp("failed")
    root = content(folder / "content", FAILING)
    (root / "roles" / "demo" / "library").mkdir()
    (root / "roles" / "demo" / "library" / "disks.py").write_text(MODULE)
    hosts = plan(*map(host, ("one", "two", "three", "away")))
    with (site(folder / "site", hosts, {"away": AWAY}) / "inventory/group_vars/all.yml").open("a") as file:
        file.write("demo_key: S3CRET\n")
    return run(folder, "", choice=Choice(diff=True))


def test_a_failure_names_hosts_task_cause_and_log_line(failed: tuple[Result, Path]) -> None:
    result, folder = failed
    assert (result.exit_code, result.state) == (4, "failed")
    block = "\n".join(text.failures(result))
    assert "failed: two, three\n  task: demo · Look at the disks  (roles/demo/tasks/main.yml:18)" in block
    cause = "error: non-zero return code (exit status 2): ls: cannot access '/no/such/folder'"
    assert block.count(cause) == 1
    lines = (folder / "ansible.log").read_text().splitlines()
    for failure in result.failures:
        assert lines[failure.log_line - 1].startswith((f"fatal: [{failure.host}]", f"failed: [{failure.host}]"))
        assert f"log: {result.folder}/ansible.log:{failure.log_line}" in block


def test_sentences_and_problems_of_a_module_are_shown(failed: tuple[Result, Path]) -> None:
    result, _ = failed
    assert result.changes[0].actions == ("create /dev/md/scratch over 2 disks",)
    assert "warning: two: one disk is slow" in list(text.ending(result))
    block = "\n".join(text.failures(result))
    assert "failed: one\n  task: demo · Refuse" in block
    assert "error: disk A is mounted\nhint: unmount it\nerror: disk B is missing\nlog:" in block


def test_a_handled_or_ignored_failure_is_not_the_cause(failed: tuple[Result, Path]) -> None:
    result, _ = failed
    tasks = {failure.host: failure.task for failure in result.failures}
    assert tasks.pop("away") == "Try"
    assert "Try" not in tasks.values()
    assert next(each.ignored for each in result.hosts if each.host == "one") == 1


def test_a_secret_is_neither_in_the_events_nor_in_the_log(failed: tuple[Result, Path]) -> None:
    result, folder = failed
    found = [event for event in events.read(folder / "events.jsonl") if isinstance(event, events.TaskResult)]
    (key, *_) = (event for event in found if event.task == "Use the key" and event.host == "one")
    assert (key.status, key.hidden) == ("ignored", True)
    assert "no_log" in key.message
    assert result.exit_code == 4
    for path in folder.iterdir():
        assert b"S3CRET" not in path.read_bytes(), path.name


def test_an_unreachable_host_ends_with_3_and_the_other_is_done(tmp_path: Path) -> None:
    site(tmp_path / "site", plan(host("away"), host("here")), {"away": AWAY})
    (tmp_path / "site" / "etc").write_text("in the way of the record")
    watcher = Lines(io.StringIO())
    tasks = "- name: Look\n  ansible.builtin.debug:\n- name: Connect\n  ansible.builtin.ping:\n"
    result, folder = run(tmp_path, tasks, watcher=watcher, retry_after_s=(0.1,))
    assert result.exit_code == 3
    found = events.read(folder / "events.jsonl")
    assert [type(event) for event in found].count(events.Start) == 2
    pings = [event.host for event in found if isinstance(event, events.TaskResult) and event.task == "Connect"]
    assert sorted(pings) == ["away", "away", "here"]
    assert "away: connection lost; trying again in 0 s" in watcher._stream.getvalue()  # type: ignore[attr-defined]
    (here,) = (each for each in result.hosts if each.host == "here")
    assert here.warnings == ("the record /etc/llmhw/applied.json could not be written; see ansible.log",)
    assert {each.host: each.state for each in result.hosts} == {"away": "unreachable", "here": "done"}
    block = "\n".join(text.failures(result))
    assert "unreachable: away" in block
    assert "hint: is it up" in block


def test_a_role_that_ansible_cannot_read_fails_with_what_it_said(tmp_path: Path) -> None:
    result, _ = run(tmp_path, "- name: x\n  nosuchmodule:\n")
    assert (result.exit_code, result.failures[0].host) == (4, "")
    shown = "\n".join(text.failures(result))
    assert "nosuchmodule" in shown
    assert "roles/demo/tasks/main.yml" in shown


def test_a_tag_that_no_task_carries_is_said(tmp_path: Path) -> None:
    choice = Choice(check=True, tags=("nosuch",))
    result, _ = run(tmp_path, WRITE.format(path=tmp_path / "out"), choice=choice)
    assert (result.exit_code, result.state) == (4, "failed")
    assert result.failures[0].problems[0].message == "no task carries the tag nosuch"


LONG = """
- name: First
  ansible.builtin.debug:
- name: Long
  ansible.builtin.shell: echo $$ > {0}/starting; mv {0}/starting {0}/started; exec sleep 60
- name: Never
  ansible.builtin.file:
    path: {0}/never
    state: touch
"""


class _Stopping(Lines):
    """Presses Ctrl-C when the long task has begun."""

    def __init__(self, folder: Path, times: int) -> None:
        self.folder, self.times, self.said = folder, times, io.StringIO()
        super().__init__(self.said)

    def tick(self) -> None:
        if self.times and (self.folder / "started").exists():
            self.times -= 1
            os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_leaves_a_readable_record_and_a_free_lock(tmp_path: Path, times: int) -> None:
    watcher = _Stopping(tmp_path, times)
    result, folder = run(tmp_path, LONG.format(tmp_path), watcher=watcher)
    assert (result.exit_code, result.state) == (130, "unfinished")
    assert "the next apply finishes the job" in watcher.said.getvalue()
    assert _tasks(folder)[0] == "First"
    assert json.loads((folder / "result.json").read_text())["exit_code"] == 130
    assert not (folder / "tmp").exists()
    assert not (tmp_path / "never").exists()
    with lock.held(tmp_path / "site" / "runs", verb="apply"):
        pass
    if times == 2:
        assert not Path(f"/proc/{(tmp_path / 'started').read_text().strip()}").exists()


APPLY = """
import io, sys
from pathlib import Path
from llmhw_provision.run import apply, orders
from llmhw_provision.run.command import Choice
from llmhw_provision.run.progress import Lines
apply.run(orders.prepare(Path(sys.argv[1]), choice=Choice()), Lines(io.StringIO()), content=Path(sys.argv[2]))
"""


def test_while_an_orphaned_ansible_works_no_second_apply_starts(tmp_path: Path) -> None:
    folder, root = site(tmp_path / "site", plan(host("one"))), content(tmp_path / "content", LONG.format(tmp_path))
    with subprocess.Popen([sys.executable, "-c", APPLY, str(folder), str(root)]) as process:
        _wait_for(lambda: (tmp_path / "started").exists())
        process.kill()
    with pytest.raises(InputError, match="died; its ansible-playbook") as caught, lock.held(folder / "runs", verb="x"):
        pass
    os.kill(int(caught.value.problems[0].hint.split()[-1]), signal.SIGINT)
    _wait_for(lambda: _free(folder / "runs"))


def _free(runs: Path) -> bool:
    try:
        with lock.held(runs, verb="x"):
            return True
    except InputError:
        return False


def _wait_for(condition: object) -> None:
    deadline = time.monotonic() + 20
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.05)
