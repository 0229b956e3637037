"""What is seen while a run works."""

from __future__ import annotations

import io

from rich.console import Console

from llmhw_provision.run.progress import Bars, Lines, clock_text, left_text, watcher
from tests.unit.test_run_events import START, parsed, result, stats, task


def test_elsewhere_than_on_a_terminal_one_line_per_role_and_change() -> None:
    stream = io.StringIO()
    shown = watcher(stream, roles={"one": ("tmpfs",)}, earlier=None)
    assert isinstance(shown, Lines)
    with shown:
        for event in parsed(START, task("a", 1), result("one", "ok"), task("b", 2), result("one", "changed"), stats()):
            shown.show(event)
            shown.tick()
    assert stream.getvalue().splitlines() == [
        "00:00:00Z site.yml begins",
        "00:00:01Z tmpfs",
        "00:00:01Z   one  changed  tmpfs · mount  (0.5 s)",
    ]


def test_a_check_says_what_would_change() -> None:
    stream = io.StringIO()
    shown = Lines(stream)
    for event in parsed({**START, "check": True}, result("one", "changed")):
        shown.show(event)
    assert stream.getvalue().splitlines()[0] == "00:00:00Z site.yml begins (check: nothing is altered)"
    assert "one  would change  tmpfs · mount" in stream.getvalue()


def _bars(count: int) -> str:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=120, color_system=None)
    roles = {f"h{n}": ("tmpfs", "initramfs") for n in range(count)}
    with Bars(console, roles=roles, earlier=None) as bars:
        for event in parsed(task("mount [/] it", 1), result("h0", "ok"), result("h0", "failed")):
            bars.show(event)
        bars.tick()
        bars.note("a [note]")
    return stream.getvalue()


def test_on_a_terminal_each_host_has_a_bar_that_counts_roles() -> None:
    shown = _bars(2)
    assert "h0" in shown
    assert "failed tmpfs · mount" in shown
    assert "1/2 roles" in shown
    assert "tmpfs · mount [/] it" in shown
    assert "a [note]" in shown


def test_many_hosts_share_one_bar() -> None:
    shown = _bars(40)
    assert "40 hosts" in shown
    assert "1/80 roles" in shown


def test_times_are_short() -> None:
    assert [clock_text(s) for s in (5, 252, 3852)] == ["0:05", "4:12", "1:04:12"]
    assert [left_text(s) for s in (3, 44, 89, 170)] == ["10 s", "40 s", "90 s", "3 min"]
