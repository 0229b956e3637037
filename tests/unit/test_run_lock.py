"""One apply per site at a time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from llmhw_provision.errors import InputError
from llmhw_provision.run import lock

HOLD = """
import sys, time
from pathlib import Path
from llmhw_provision.run import lock
with lock.held(Path(sys.argv[1]), verb="apply"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_holder_is_refused_and_told_who_holds(tmp_path: Path) -> None:
    taken = r"apply is already at work on this site: pid \d+, "
    with lock.held(tmp_path / "runs", verb="apply"):
        with pytest.raises(InputError, match=taken) as caught, lock.held(tmp_path / "runs", verb="apply"):
            pass
        assert "Ctrl-C" in caught.value.problems[0].hint
    with lock.held(tmp_path / "runs", verb="apply"):
        pass


def test_the_lock_is_free_after_its_holder_was_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path / "runs")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(InputError, match=f"pid {holder.pid}"), lock.held(tmp_path / "runs", verb="apply"):
            pass
        holder.kill()
    with lock.held(tmp_path / "runs", verb="apply"):
        pass


def test_a_damaged_lock_file_does_not_hide_the_holder(tmp_path: Path) -> None:
    with lock.held(tmp_path, verb="apply") as held:
        with (tmp_path / ".lock").open("w") as file:
            file.write("{")
        with pytest.raises(InputError, match="another run is at work"), lock.held(tmp_path, verb="apply"):
            pass
        held.started_ansible(1)
