"""What DKMS has built for which kernel, and the first error of a build that failed."""

from __future__ import annotations

import re
from dataclasses import dataclass

from llmhw_provision.evidence import Command, Evidence
from llmhw_provision.probes.reading import closed_sections, output, unreadable

_ASK = """echo "== status"; dkms status 2>/dev/null
echo "== errors"; for f in /var/lib/dkms/nvidia*/*/build/make.log /var/lib/dkms/nvidia*/*/*/*/log/make.log; do
[ -r "$f" ] && l=$(grep -m1 -E 'error:|not found|No such file|\\*\\*\\* .*Error' "$f") && echo "$f|$l"; done
echo "== end\""""
COMMAND = Command("dkms", ("sh", "-c", _ASK), 30)
_TOOL = "dkms status"
# dkms 3 writes `nvidia/580.126.09, 6.1.0-28-amd64, x86_64: installed`, dkms 2 commas only.
_LINE = re.compile(
    r"^(?P<name>[\w.+-]+)(?:/|, )(?P<version>[\w.+~-]+)(?:, (?P<kernel>[\w.+~-]+), (?P<machine>\w+))?: ?"
    r"(?P<state>added|built|installed|broken)\b(?P<rest>.*)$"
)
_ASIDE = re.compile(r"^(Deprecated feature: |Warning: |$)")
_DRIVER = re.compile(r"^nvidia(-(current|open|srv|[0-9]{3})[\w-]*)?$")  # not nvidia-fs, not nvidia-peermem's own


@dataclass(frozen=True)
class Built:
    """One module of DKMS; `kernel` is empty where it was only added."""

    name: str
    version: str
    kernel: str
    state: str
    warning: str

    @property
    def driver(self) -> bool:
        """Whether it is NVIDIA's driver."""
        return _DRIVER.match(self.name) is not None


def parse_status(text: list[str]) -> tuple[Built, ...]:
    """Every module that DKMS knows; raises ProbeError for a line that is not of `dkms status`."""
    found = []
    for line in text:
        match = _LINE.match(line)
        if match:
            parts = match.groupdict(default="")
            rest = parts["rest"].strip(" ()")
            found.append(Built(parts["name"], parts["version"], parts["kernel"], parts["state"], rest))
        elif not _ASIDE.match(line):
            raise unreadable(_TOOL, line)
    return tuple(found)


def built(evidence: Evidence) -> tuple[Built, ...]:
    """NVIDIA's driver as DKMS has it on the host."""
    found = closed_sections(_TOOL, output(evidence, COMMAND.key), ("status", "errors"))
    return tuple(item for item in parse_status(found["status"]) if item.driver)


def error(evidence: Evidence, version: str) -> str:
    """The first line of the compiler's complaint in the build log of `version`; empty where there is none."""
    found = closed_sections(_TOOL, output(evidence, COMMAND.key), ("status", "errors"))
    lines = [line.partition("|") for line in found["errors"]]
    return next((said.strip() for path, _, said in lines if f"/{version}/" in path), "")
