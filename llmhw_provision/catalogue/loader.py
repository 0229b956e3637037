"""The catalogue's records and how to find one by name."""

from __future__ import annotations

import difflib
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import Field

from llmhw_provision.documents import Record, check
from llmhw_provision.errors import InputError
from llmhw_provision.model import Architecture
from llmhw_provision.workload import DiskSize

Entry = TypeVar("Entry", bound="Sourced")


class Sourced(Record):
    """Every record says where it comes from."""

    title: str
    source: str
    date: str
    confidence: Literal["high", "medium", "low"]


class Gpu(Sourced):
    """A graphics processor; memory as nvidia-smi shows it."""

    pci_ids: tuple[str, ...]
    memory_mib: int
    usable_mib: int = 0
    memory_gb_marketing: int
    memory_bandwidth_gbs: float
    nvlink_gbs_both_ways: float
    nvswitch: bool
    power_w: int
    compute_capability: str

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


class ModelKind(Sourced):
    """A language model, from its published config.json; `params` is the published count."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    tied: bool
    attention_bias: bool = False
    qk_norm: bool = False
    params: int

    @property
    def architecture(self) -> Architecture:
        """The model as the sizing reads it."""
        return Architecture(
            title=self.title,
            family="llama",
            layers=self.layers,
            hidden=self.hidden,
            heads=self.heads,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            ffn=self.ffn,
            vocab=self.vocab,
            tied=self.tied,
            attention_bias=self.attention_bias,
            qk_norm=2 * self.head_dim if self.qk_norm else 0,
        )


@cache
def _read(name: str) -> dict[str, Any]:
    path = Path(__file__).with_name(f"{name}.yml")
    loaded: dict[str, Any] = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    return loaded


def names(table: str) -> tuple[str, ...]:
    """Names in one table of the catalogue, for example `models`."""
    return tuple(_read(table))


def find(table: str, name: str, kind: type[Entry]) -> Entry:
    """The record `name` of `table`; raises InputError naming the nearest one that exists."""
    known = _read(table)
    if name not in known:
        near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
        raise InputError(f"{table[:-1]} {name[:60]!r} is not in the catalogue", hint)
    return check(known[name], kind, path=Path(f"catalogue/{table}.yml#{name}"))


def gpu_by_pci(pci_id: str) -> str | None:
    """Catalogue name of the GPU with PCI id `vendor:device` (lower case hex), None when unknown."""
    return next((name for name, record in _read("gpus").items() if pci_id in record["pci_ids"]), None)
