"""Events from lines, and what follows from them."""

from __future__ import annotations

import json
from pathlib import Path

from llmhw_provision.errors import Problem
from llmhw_provision.run import events, folder
from llmhw_provision.run.estimate import Clock, timeline
from llmhw_provision.run.outcome import Tally, exit_code, failure, worst

START = {"event": "start", "time": 0.0, "playbook": "site.yml", "check": False, "diff": False, "ansible": "2.19.14"}


def task(name: str, at: float) -> dict[str, object]:
    return {"event": "task", "time": at, "role": "tmpfs", "task": name, "path": "", "handler": False}


def result(host: str, status: str, at: float = 1.0, **more: object) -> dict[str, object]:
    found = {"event": "result", "time": at, "host": host, "role": "tmpfs", "task": "mount", "status": status}
    return {**found, "seconds": 0.5, **more}


def stats(at: float = 2.0, **hosts: dict[str, int]) -> dict[str, object]:
    return {"event": "stats", "time": at, "hosts": hosts, "custom": {}}


def parsed(*lines: dict[str, object]) -> list[events.Event]:
    found = [events.parse(json.dumps(line)) for line in lines]
    return [event for event in found if event is not None]


def tally(*lines: dict[str, object]) -> Tally:
    found = Tally()
    for event in parsed(*lines):
        found.add(event)
    return found


def test_cut_and_foreign_lines_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    lines = [json.dumps(START), "Traceback", '{"event": "nosuch", "time": 1}', "[1]", json.dumps(result("one", "ok"))]
    path.write_text("\n".join(lines) + '\n{"event": "result", "time": 3.0, "ho')
    assert [event.event for event in events.read(path)] == ["start", "result"]


def test_a_tail_gives_each_event_once_and_waits_for_the_end_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    tail = events.Tail(path)
    assert list(tail.new()) == []
    line = json.dumps(START) + "\n"
    path.write_text(line + line[:20])
    assert len(list(tail.new())) == 1
    path.write_text(line + line)
    assert len(list(tail.new())) == 1
    assert list(tail.new()) == []
    assert list(events.Tail(path, skip=True).new()) == []


def test_problems_become_problems() -> None:
    (event,) = parsed(result("one", "failed", problems=[{"message": "a", "hint": "b"}]))
    assert isinstance(event, events.TaskResult)
    assert event.problems == (Problem("a", "b"),)


def test_reasons_on_lines_of_their_own_with_a_closing_hint_are_several_problems() -> None:
    (event,) = parsed(
        result("one", "failed", message="raid: A is mounted\nraid: B is gone\nhint: nothing was changed.")
    )
    assert isinstance(event, events.TaskResult)
    found = failure(event, log_line=0, unreachable_hint="")
    assert found.problems == (Problem("raid: A is mounted"), Problem("raid: B is gone", "nothing was changed."))


def test_any_other_message_is_one_problem() -> None:
    (event,) = parsed(result("one", "failed", message="first line\nsecond line"))
    assert isinstance(event, events.TaskResult)
    assert failure(event, log_line=0, unreachable_hint="").problems == (Problem("first line\nsecond line"),)


def test_what_programs_say_of_a_full_disk_gets_a_hint() -> None:
    said = "dpkg: error: failed to write status database record: No space left on device"
    (event,) = parsed(result("one", "failed", message=said))
    (problem,) = failure(event, log_line=0, unreachable_hint="").problems
    assert problem == Problem(said, "make room there: df -h on the host shows which file system is full")


def test_a_run_without_an_end_is_unfinished() -> None:
    found = tally(START, result("one", "ok"), result("two", "changed"))
    assert [found.host(name).state for name in ("one", "two", "never")] == ["unfinished"] * 3
    assert found.host("two").changed == 1


def test_a_failure_that_ansible_does_not_count_was_handled() -> None:
    found = tally(START, result("one", "failed"), result("one", "ok"), stats(one={"failures": 0}))
    assert (found.host("one").state, found.host("one").failed) == ("done", 1)


def test_a_failure_in_the_second_playbook_counts() -> None:
    found = tally(
        START, result("one", "ok"), stats(), START, result("one", "unreachable"), stats(one={"unreachable": 1})
    )
    assert found.host("one").state == "unreachable"


def test_the_worst_host_decides_and_ansible_has_the_last_word() -> None:
    assert worst(["done", "unreachable", "failed"]) == "failed"
    assert exit_code("unreachable", status=4, stopped=False) == 3
    assert exit_code("failed", status=2, stopped=False) == 4
    assert exit_code("done", status=250, stopped=False) == 4
    assert exit_code("done", status=0, stopped=False) == 0
    assert exit_code("failed", status=99, stopped=True) == 130


def test_time_left_needs_an_earlier_run_and_ten_seconds() -> None:
    assert timeline(()) is None
    earlier = timeline(tuple(parsed(START, task("a", 10), task("a", 50), result("one", "ok", 100.0))))
    assert earlier is not None
    clock = Clock(earlier)
    assert clock.left_s(60.0) is None
    for event in parsed(task("a", 0), task("a", 0)):
        assert isinstance(event, events.TaskStart)
        clock.add(event)
    assert clock.left_s(5.0) is None
    assert clock.left_s(25.0) == 25.0  # twice as fast as the earlier run: 50 s are left there


def test_the_log_line_is_the_last_report_of_that_host_before_the_event() -> None:
    log = b"PLAY\nfatal: [one]: FAILED!\nok: [two]\nfatal: [one]: FAILED!\nfatal: [one]: later\n"
    assert folder.log_line(log, end=log.index(b"fatal: [one]: later"), host="one") == 4
    assert folder.log_line(log, end=len(log), host="two") == 0
