"""Runs of the role nvme_raid0 that are cut off, and the run after them that finishes the job."""

from __future__ import annotations

import subprocess
import time

from tests.rehearsal.layout import CUSTOMER_SERIAL
from tests.rehearsal.machine import Machine
from tests.rehearsal.role import Play, Played, actions

SENTENCES = "journalctl --follow --lines=0 --output=cat --identifier=ansible-{module}"
# On the machine itself, so that the kill comes within milliseconds of the line.
KILL = r"""sudo sh -c '
{follow} | grep --quiet --max-count=1 "{line}"
{wait}
pkill -9 -x python3; pkill -9 "^({victims})$"; sleep 1; pgrep -l --runstates D,R,S "^({victims})$"; true'"""
EMPTY = r"""sudo sh -c '
systemctl stop proving.mount
wipefs --all --quiet /dev/md/proving
mdadm --stop --scan
for name in LLMHW0006 LLMHW0007 LLMHW0008; do wipefs --all --quiet /dev/disk/by-id/nvme-QEMU_NVMe_Ctrl_$name; done
sed -i /proving/d /etc/mdadm/mdadm.conf; udevadm settle; cat /proc/mdstat'"""
DONE = r"""sudo sh -c '
findmnt -no FSTYPE,OPTIONS /proving; cat /sys/block/md*/md/array_state; ls -A /var/lib/llmhw/nvme_raid0
grep -c "^ARRAY /dev/md/proving " /etc/mdadm/mdadm.conf
dpkg-query --show --showformat "\${db:Status-Abbrev}\${Package}\n" | grep "^i[HUF]"; true'"""


def kill(play: Play, *, module: str, line: str, victims: str, wait: str = "") -> str:
    """Starts a run and kills it, with `victims`, on the line that its `module` writes; what is left of them."""
    follow = SENTENCES.format(module=module)
    script = KILL.format(follow=follow, line=line, wait=wait, victims=victims)
    ssh = ["ssh", "-F", str(play.machine.ssh_config), Machine.alias, script]
    killer = subprocess.Popen(ssh, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    time.sleep(2)  # it follows the journal by then
    with play.cut() as running:
        left, _ = killer.communicate(timeout=300)
        assert running.wait(timeout=120) != 0, "the run came to its end before it was killed"
    return left


def finished(play: Play, customer: str) -> list[str]:
    """What the next run did to the disks, after a look that all is there and the customer's drive as it was."""
    done = play()
    assert done.failed == ""
    told = play.machine.run(DONE).stdout.splitlines()
    assert told[0].startswith("xfs ")
    assert "sunit=512,swidth=1536" in told[0]
    assert told[1:] == ["clean", "1"]
    assert play.machine.drive_hashes()[CUSTOMER_SERIAL] == customer
    assert play() == Played({}, "")
    return actions(done)
