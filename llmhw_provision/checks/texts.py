"""What each check is called, why it usually fails and what to do then. `{subject}` is the volume, disk or folder.

A key `check/variant` holds cause and next step of a failure that differs from the usual one of that check.
Each area has a module of its own; the same keys stand in Chinese in report/chinese*.py.
"""

from __future__ import annotations

from dataclasses import dataclass

from llmhw_provision.checks.texts_base import BASE
from llmhw_provision.checks.texts_before import BEFORE
from llmhw_provision.checks.texts_fabric import FABRIC, MACHINE
from llmhw_provision.checks.texts_gpu import GPU
from llmhw_provision.checks.texts_gpu_stack import GPU_STACK
from llmhw_provision.checks.texts_python import PYTHON
from llmhw_provision.checks.texts_services import SERVICES
from llmhw_provision.checks.texts_storage import STORAGE
from llmhw_provision.checks.texts_throughput import THROUGHPUT


@dataclass(frozen=True)
class Text:
    """Title of a check, likely cause and next step of its failure."""

    title: str
    cause: str
    next_step: str


_AREAS = (BASE, BEFORE, STORAGE, GPU, GPU_STACK, FABRIC, MACHINE, SERVICES, PYTHON, THROUGHPUT)
TEXTS: dict[str, Text] = {
    **{key: Text(*words) for part in _AREAS for key, words in part.items()},
    "host-os": Text(
        "operating system as planned",
        "the machine was installed again or upgraded after the plan was made",
        "run discover and plan again, and read what differs before apply",
    ),
    "host-memory": Text(
        "memory as planned",
        "a memory module failed or is not seated; the firmware maps it out",
        "read the BMC's event log for the slot; count modules with dmidecode -t memory",
    ),
    "host-memory/changed": Text(
        "memory as planned",
        "memory was added, or the kernel reserves another amount (crashkernel, huge pages at boot)",
        "if it is meant, run discover and plan again",
    ),
    "host-nature": Text(
        "the planned machine, not a stand-in for it",
        "the plan was made from another machine than the one at this address",
        "check the address in site.yaml; run discover and plan again",
    ),
    "host-units": Text(
        "no failed unit",
        "a service could not start",
        "systemctl --failed, then journalctl -b -u UNIT",
    ),
    "host-trim": Text(
        "fstrim.timer runs",
        "the timer was disabled or masked after apply",
        "systemctl unmask fstrim.timer && systemctl enable --now fstrim.timer, or run apply again",
    ),
    "could-not-run": Text(
        "",
        "the tool is missing, has no answer, or the host cannot be reached",
        "run the command of the evidence by hand; without an answer nothing is proven",
    ),
    "could-not-run/not-there": Text(
        "",
        "what the question is about is not there, which is a finding of its own",
        "settle that finding first, then verify again",
    ),
}


def text_of(check: str, variant: str) -> Text:
    """Text of a finding: that of the variant where there is one."""
    return TEXTS.get(f"{check}/{variant}", TEXTS[check])
