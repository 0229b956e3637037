"""A process that is asked to stop ends, also when it takes no notice."""

from __future__ import annotations

import time
from pathlib import Path

from llmhw_provision.run import lock, process
from llmhw_provision.run.command import Command


def test_what_takes_no_notice_of_the_first_stop_is_killed_with_its_children(tmp_path: Path) -> None:
    script = f"trap '' INT; sh -c 'sleep 20; touch {tmp_path}/worked' & touch {tmp_path}/started; wait; sleep 20"
    command = Command(argv=("sh", "-c", script), settings={}, recording={}, cwd=tmp_path, given="")
    stops, ticks = process.Stops(), []

    def tick() -> None:
        ticks.append(time.monotonic())
        stops.count = int((tmp_path / "started").exists())

    with lock.held(tmp_path / "runs", verb="apply") as held:
        status = process.run(command, log=tmp_path / "log", lock=held, stops=stops, tick=tick)
    assert status == -9
    assert process.GRACE_S <= ticks[-1] - ticks[0] < process.GRACE_S + 5
    assert not (tmp_path / "worked").exists()
