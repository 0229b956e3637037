"""One rank of the collectives: speed of each size, in place as far as nccl-tests has it, and every value checked."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from . import formulas
from .device import Device, spread

_DTYPE, _WIDTH = torch.float32, 4  # nccl-tests' default
_CHUNK = 1 << 24
_ROOM = 0.85  # of the free memory of a GPU

Say = Callable[[dict[str, Any]], None]


def value(first: int, count: int, rank: int, place: Any) -> Any:
    """What rank `rank` puts at `count` places from `first` on: 0 to 16, so that sums are exact in float32."""
    return (torch.arange(first, first + count, device=place) * 7 + rank * 13) % 17


def pieces(count: int) -> list[tuple[int, int]]:
    """Begin and length of the pieces in which a buffer is filled and compared."""
    return [(begin, min(_CHUNK, count - begin)) for begin in range(0, count, _CHUNK)]


def fill(buffer: Any, rank: int) -> None:
    """Writes what `rank` contributes."""
    for begin, length in pieces(buffer.numel()):
        buffer[begin : begin + length] = value(begin, length, rank, buffer.device)


def wrong(buffer: Any, ranks: list[tuple[int, int]]) -> int:
    """How many values are not the sum of what these (rank, first place) put there."""
    found = 0
    for begin, length in pieces(buffer.numel()):
        parts = [value(first + begin, length, rank, buffer.device) for rank, first in ranks]
        found += int((buffer[begin : begin + length] != sum(parts[1:], parts[0])).sum())
    return found


class Operation:
    """One collective of one size on this rank."""

    def __init__(self, name: str, nbytes: int, rank: int, ranks: int, place: Any) -> None:
        self.name, self.rank, self.ranks = name, rank, ranks
        self.count = formulas.share(name, nbytes, ranks, _WIDTH)
        self.nbytes = formulas.size(name, self.count, ranks, _WIDTH)
        self.in_place = name != "all_to_all"
        self.whole = torch.empty(self.nbytes // _WIDTH, dtype=_DTYPE, device=place)
        self.other = None if self.in_place else torch.empty_like(self.whole)
        self.own = self.whole if name == "all_reduce" else self.part(rank)

    def part(self, rank: int) -> Any:
        """The share of `rank` in the buffer."""
        return self.whole[rank * self.count : (rank + 1) * self.count]

    def refill(self) -> None:
        """Puts this rank's values in, as they must be before a run whose result is looked at."""
        if self.name == "all_gather":
            self.whole.fill_(-1)
            fill(self.own, self.rank)
        else:
            fill(self.whole, self.rank)

    def run(self) -> None:
        """Once."""
        if self.name == "all_reduce":
            dist.all_reduce(self.whole)
        elif self.name == "all_gather":
            dist.all_gather_into_tensor(self.whole, self.own)
        elif self.name == "reduce_scatter":
            dist.reduce_scatter_tensor(self.own, self.whole)
        else:
            dist.all_to_all_single(self.other, self.whole)

    def wrong(self) -> int:
        """Wrong values on this rank after one run on what `refill` wrote."""
        all_ranks = range(self.ranks)
        if self.name == "all_reduce":
            return wrong(self.whole, [(rank, 0) for rank in all_ranks])
        if self.name == "all_gather":
            return sum(wrong(self.part(rank), [(rank, 0)]) for rank in all_ranks)
        mine = self.rank * self.count
        if self.name == "reduce_scatter":
            return wrong(self.own, [(rank, mine) for rank in all_ranks])
        assert self.other is not None
        return sum(wrong(self.other[rank * self.count : (rank + 1) * self.count], [(rank, mine)]) for rank in all_ranks)


def room(device: Device, name: str, nbytes: int) -> str:
    """Why there is no room for an operation of this size; empty when there is."""
    if not device.cuda:
        return ""
    free = torch.cuda.mem_get_info(device.place)[0] + torch.cuda.memory_reserved(device.place)
    wanted = nbytes * (2 if name == "all_to_all" else 1)
    return "" if wanted < free * _ROOM else f"{wanted} bytes needed, {free} free"


def measured(device: Device, name: str, nbytes: int, rank: int, request: dict[str, Any]) -> dict[str, Any]:
    """One row: seconds and wrong values of this rank; `unsupported` where the backend has no such operation."""
    ranks, iterations = int(request["ranks"]), int(request["iterations"])
    row: dict[str, Any] = {"name": name, "asked": nbytes}
    tight = room(device, name, nbytes)
    if tight:
        return {**row, "skipped": tight}
    one = Operation(name, nbytes, rank, ranks, device.place)
    row |= {"bytes": one.nbytes, "count": one.count, "in_place": one.in_place, "iterations": iterations}
    one.refill()
    try:
        one.run()
    except (NotImplementedError, RuntimeError) as error:
        text = str(error).splitlines()[0]
        if isinstance(error, NotImplementedError) or "support" in text.lower():
            return {"name": name, "asked": nbytes, "unsupported": text[:200]}
        raise
    device.wait()
    bad = one.wrong()
    dist.barrier()
    one.refill()
    each, together = device.timed(one.run, int(request["warm"]), iterations)
    return {**row, "wrong": bad, "seconds": spread(each), "each": together / iterations}


def take_part(request: dict[str, Any], rank: int, say: Say) -> None:
    """Runs every operation of the request as rank `rank`; says where it is, then each row."""
    kind, ranks = str(request["device"]), int(request["ranks"])
    device = Device(kind, rank)
    more = {"device_id": device.place} if device.cuda else {}
    dist.init_process_group(
        "nccl" if device.cuda else "gloo",
        init_method=f"file://{request['store']}",
        rank=rank,
        world_size=ranks,
        timeout=timedelta(seconds=int(request["seconds"])),
        **more,
    )
    for name, nbytes in request["operations"]:
        say({"at": f"{name} of {nbytes} bytes"})
        say({"row": measured(device, name, int(nbytes), rank, request)})
        if device.cuda:
            torch.cuda.empty_cache()
        dist.barrier()
    dist.destroy_process_group()
