"""Copies: host to GPU and back from pinned memory, within a GPU's own memory, and between every pair of GPUs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import torch

from .device import Device
from .formulas import algbw, median
from .watch import under_load

_OWN = 2  # a copy within one memory reads and writes each byte


def host_and_back(device: Device, request: dict[str, Any]) -> list[dict[str, Any]]:
    """Median GB/s of copies to and from pinned memory of the host; on a GPU with its PCIe link while copying."""
    nbytes, iterations = int(request["copy"]["bytes"]), int(request["copy"]["iterations"])
    host = _random(nbytes, torch.device("cpu"), device.index)
    host = host.pin_memory() if device.cuda else host
    there = torch.empty(nbytes, dtype=torch.uint8, device=device.place)
    rows = []
    for kind, target, source in (("host_to_device", there, host), ("device_to_host", host, there)):

        def work(target: Any = target, source: Any = source) -> None:
            target.copy_(source, non_blocking=True)

        each, _ = device.timed(work, 3, iterations)
        row = {"kind": kind, "gpu": device.index, "bytes": nbytes, "gbs": algbw(nbytes, median(each))}
        rows.append(row | under_load(device, work, median(each)))
    return rows


def within(device: Device, request: dict[str, Any]) -> dict[str, Any]:
    """Median GB/s, read and written, of a copy within the device's own memory."""
    nbytes = int(request["copy"]["bytes"])
    source = _random(nbytes, device.place, device.index)
    target = torch.empty_like(source)
    each, _ = device.timed(lambda: target.copy_(source), 3, int(request["copy"]["iterations"]), flushed=True)
    return {"kind": "own_memory", "gpu": device.index, "bytes": nbytes, "gbs": _OWN * algbw(nbytes, median(each))}


def pairs(request: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """GB/s from each GPU to each other one, and of both ways at once; whether the driver lets them reach each other."""
    gpus, nbytes, count = int(request["gpus"]), int(request["copy"]["bytes"]), int(request["copy"]["iterations"])
    devices = [Device("cuda", index) for index in range(gpus)]
    source = [_random(nbytes, device.place, device.index) for device in devices]
    target = [torch.empty_like(one) for one in source]
    streams = [torch.cuda.Stream(device.place) for device in devices]
    for device in devices:
        device.wait()

    def seconds(ways: list[tuple[int, int]], times: int) -> float:
        """Wall time of `times` copies on each way, all ways at once: so long that starting them does not count."""
        for index in range(gpus):
            torch.cuda.synchronize(index)
        begin = time.perf_counter()
        for _ in range(times):
            for first, second in ways:
                with torch.cuda.stream(streams[first]):
                    target[second].copy_(source[first], non_blocking=True)
        for first, second in ways:
            torch.cuda.synchronize(first)
            torch.cuda.synchronize(second)
        return time.perf_counter() - begin

    sent = [fingerprint(one) for one in source]
    for first in range(gpus):
        for second in range(gpus):
            if first == second:
                continue
            ways = [(first, second)]
            seconds(ways, 2)
            row: dict[str, Any] = {"from": first, "to": second, "bytes": nbytes}
            row["peer"] = bool(torch.cuda.can_device_access_peer(first, second))
            row["gbs"] = algbw(nbytes * count, seconds(ways, count))
            row["equal"] = fingerprint(target[second]) == sent[first]
            if first < second:
                row["both_gbs"] = algbw(2 * nbytes * count, seconds([*ways, (second, first)], count))
            yield row


def fingerprint(buffer: Any) -> int:
    """A sum over the bytes and their places, exact modulo 2^64, computed where they lie."""
    words = buffer.view(torch.int64)
    return int((words * torch.arange(1, words.numel() + 1, device=buffer.device)).sum())


def _random(nbytes: int, place: Any, seed: int) -> Any:
    """Random bytes, others for each GPU, so that a copy from the wrong one shows."""
    generator = torch.Generator(device=place).manual_seed(seed)
    return torch.randint(0, 256, (nbytes,), dtype=torch.uint8, device=place, generator=generator)
