"""The catalogue's records and how to find one by name."""

from __future__ import annotations

import difflib
import re
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import Field

from llmhw_provision.documents import Record, check
from llmhw_provision.errors import InputError
from llmhw_provision.model import Architecture
from llmhw_provision.workload import DiskSize

Entry = TypeVar("Entry", bound="Dated")


class Dated(Record):
    """Every record says where it comes from."""

    source: str
    date: str
    confidence: Literal["high", "medium", "low"]


class Sourced(Dated):
    """A record with a name to print."""

    title: str


class Gpu(Sourced):
    """A graphics processor; memory as nvidia-smi shows it."""

    pci_ids: tuple[str, ...]
    memory_mib: int
    usable_mib: int = 0
    memory_gb_marketing: int
    memory_bandwidth_gbs: float
    nvlink_gbs_both_ways: float
    nvswitch: bool
    nvlink_domain: int = 8  # GPUs that one NVSwitch connects
    tflops_16bit: float  # bf16 or fp16 without sparsity, fp32 accumulation; 10**12 per second
    tflops_32bit: float = 0  # plain fp32 units, no tensor cores; 0: not recorded
    tflops_fp8: float = 0  # 0: no FP8 units
    reached_16bit: float = 0  # best that matrix products reach (MAMF); 0: not measured
    reached_fp8: float = 0
    pcie: int  # generation, 16 lanes
    power_w: int
    compute_capability: str

    @property
    def nvlink_links(self) -> int:
        """NVLink links of one card: each carries 50 GB/s both ways, from Blackwell on 100, on GA102 cards 28."""
        major, minor = (int(part) for part in self.compute_capability.split("."))
        each = 100.0 if major >= 10 else 28.125 if (major, minor) == (8, 6) else 50.0
        return round(self.nvlink_gbs_both_ways / each)

    @property
    def memory_bytes(self) -> int:
        """Memory in bytes as nvidia-smi shows it."""
        return self.memory_mib * 2**20

    @property
    def usable_bytes(self) -> int:
        """Bytes that a CUDA process can allocate."""
        return (self.usable_mib or self.memory_mib) * 2**20


class CpuKind(Sourced):
    """A processor."""

    cores: int
    threads: int
    memory_channels: int
    memory_mts: int  # official DDR5 rate with one module per channel, in millions of transfers per second
    power_w: int


class NicKind(Sourced):
    """A network adapter."""

    rate_gbit: int
    pci_ids: tuple[str, ...]


class DiskKind(Sourced):
    """A drive; sequential rates in GB/s."""

    read_gbs: float
    write_gbs: float


class CpuCount(Record):
    """Processors of a catalogue machine."""

    kind: str
    sockets: int = Field(ge=1)


class PartCount(Record):
    """Parts of one kind in a catalogue machine."""

    kind: str
    count: int = Field(ge=1)


class DiskCount(Record):
    """Equal drives of a catalogue machine."""

    kind: str
    count: int = Field(ge=1)
    size: DiskSize
    system: bool


class MachineKind(Sourced):
    """A machine as sold, beside what was quoted."""

    use: str
    form: str
    cpu: CpuCount
    gpu: PartCount
    memory_gib: int
    disks: tuple[DiskCount, ...]
    nics: PartCount | None
    quoted: dict[str, str]
    differs: tuple[str, ...]


class Sentence(Record):
    """One text in the languages of the product."""

    en: str
    zh: str


class ClaimKind(Dated):
    """What an article says of hardware or memory; `{name}` in `because` is computed when it is shown."""

    article: Literal["A", "B"]
    says: Sentence
    because: Sentence
    condition: Sentence | None = None  # under which it holds
    stated: Literal["holds", "condition", "false"] | None = None  # only where there is nothing to compute


class ModelKind(Dated):
    """A language model; `params` is a count made by others, None where none was found."""

    repo: str
    aliases: tuple[str, ...] = ()
    architecture: Architecture
    params: int | None = None

    @property
    def title(self) -> str:
        """Name to print."""
        return self.architecture.title


@cache
def _blocks(table: str) -> dict[str, str]:
    """The text of each record by its name: a command parses the few records it needs, not the whole table."""
    text = Path(__file__).with_name(f"{table}.yml").read_text(encoding="utf-8")
    pieces = re.split(r"(?m)^(?=[^\s#])", text)[1:]
    return {piece.partition(":")[0]: piece for piece in pieces}


@cache
def _record(table: str, name: str) -> dict[str, Any]:
    loaded: dict[str, dict[str, Any]] = yaml.load(_blocks(table)[name], Loader=yaml.CSafeLoader)
    return loaded[name]


def names(table: str) -> tuple[str, ...]:
    """Names in one table of the catalogue, for example `models`."""
    return tuple(_blocks(table))


def find(table: str, name: str, kind: type[Entry]) -> Entry:
    """The record `name` of `table`, in any case, or one that has it as alias; raises InputError naming the nearest."""
    key = name if name in _blocks(table) else _spellings(table).get(name.lower())
    if key is None:
        near = difflib.get_close_matches(name.lower(), _spellings(table), n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names(table))}"
        raise InputError(f"{table[:-1]} {name[:60]!r} is not in the catalogue", hint)
    found: Entry = _checked(table, key, kind)
    return found


@cache
def _checked(table: str, key: str, kind: type[Any]) -> Any:
    return check(_record(table, key), kind, path=Path(f"catalogue/{table}.yml#{key}"))


def sold_machine(name: str) -> MachineKind:
    """The machine or tier `name`; raises InputError naming the nearest machine."""
    return find("tiers" if name in names("tiers") else "machines", name, MachineKind)


@cache
def _spellings(table: str) -> dict[str, str]:
    """Every name by which a record is found, in lower case: its own, its repository, its aliases."""
    found: dict[str, str] = {}
    for name in names(table):
        record = _record(table, name)
        others = (record.get("repo", name), *record.get("aliases", ()))
        found |= {spelling.lower(): name for spelling in (*others, name)}
    return found


def gpu_by_pci(pci_id: str) -> str | None:
    """Catalogue name of the GPU with PCI id `vendor:device` (lower case hex), None when unknown."""
    return next((name for name in names("gpus") if pci_id in _record("gpus", name)["pci_ids"]), None)
