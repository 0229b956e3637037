"""What one process measures."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch

from . import collectives, copies, products, watch
from .device import Device


def run(request: dict[str, Any], out: Path) -> None:
    """Does what the request asks for; each thing that is found is one line of `out`."""

    def say(line: dict[str, Any]) -> None:
        with out.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps(line) + "\n")

    {"survey": _survey, "gpu": _gpu, "pairs": _pairs, "rank": _rank}[str(request["stage"])](request, say)


def _survey(request: dict[str, Any], say: collectives.Say) -> None:
    """Every device with its memory, and how much of it others have taken; versions of what measures."""
    cuda = request["device"] == "cuda"
    nccl = torch.cuda.nccl.version() if cuda else ()
    say(
        {
            "torch": str(torch.__version__),
            "cuda": torch.version.cuda or "",
            "nccl": ".".join(map(str, nccl)) if isinstance(nccl, tuple) else str(nccl),
        }
    )
    if not cuda:
        for index in range(int(request["gpus"])):
            say({"gpu": {"index": index, "name": "processor"}})
        return
    torch.cuda.init()
    for index in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(index)
        free, total = torch.cuda.mem_get_info(index)
        pci = watch.address(index)
        say({"gpu": {"index": index, "name": about.name, "memory_bytes": total, "free_bytes": free, "pci": pci}})


def _gpu(request: dict[str, Any], say: collectives.Say) -> None:
    device = Device(str(request["device"]), int(request["gpu"]))
    node, beside = watch.near(watch.address(device.index) if device.cuda else "")
    if beside & os.sched_getaffinity(0):
        os.sched_setaffinity(0, beside & os.sched_getaffinity(0))
    say({"at": "copies"})
    for row in copies.host_and_back(device, request):
        say({"copy": row | {"numa": node}})
    say({"copy": copies.within(device, request)})
    if device.cuda:
        torch.cuda.empty_cache()
    say({"at": "products"})
    for row in products.all_of(device, request):
        say({"product": row})
    say({"at": "the checksum"})
    say({"sum": products.checksum(device, request)})


def _pairs(request: dict[str, Any], say: collectives.Say) -> None:
    say({"at": "copies between GPUs"})
    for row in copies.pairs(request):
        say({"pair": row})


def _rank(request: dict[str, Any], say: collectives.Say) -> None:
    collectives.take_part(request, int(request["rank"]), say)
