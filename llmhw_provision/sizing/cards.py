"""A card by the names that people write: `A100-80GB SXM`, `RTX 4090`, `48GB`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from statistics import median, median_low

from llmhw_provision.catalogue.loader import Gpu, find, names
from llmhw_provision.errors import InputError
from llmhw_provision.units import GIB

SAME_MEMORY = {"A800": "A100", "H800": "H100"}  # export versions: slower links, same memory
_NOMINAL = re.compile(r"(\d+) ?GB")
_CHIP = re.compile(r"\b((?:RTX (?:PRO )?)?(?:[A-Z]{1,2}\d{1,4}|\d{4})S?)\b(?! ?GB| W)")


@dataclass(frozen=True)
class Card:
    """One GPU: `usable` bytes for a process, `nominal` as it is sold, in GB."""

    title: str
    usable: int
    nominal: int
    kind: str = ""  # name in the catalogue; empty for a size alone


def card_of(gpu: Gpu, kind: str = "") -> Card:
    """The card of a catalogue record; `kind` is its name there."""
    return Card(gpu.title, gpu.usable_bytes, gpu.memory_gb_marketing, kind)


def generic_card(nominal: int) -> Card:
    """A card sold with `nominal` GB: the usual one of the catalogue, else the usual share of it."""
    known = [card_of(find("gpus", name, Gpu)) for name in names("gpus")]
    same = [card.usable for card in known if card.nominal == nominal]
    if same:
        return Card(f"a card of {nominal} GB", median_low(same), nominal)
    share = median(card.usable / (card.nominal * GIB) for card in known)
    return Card(f"a card of {nominal} GB", int(nominal * GIB * share), nominal)


def find_card(text: str) -> Card:
    """The card that `text` names; raises InputError when neither chip nor size is known."""
    nominal = _NOMINAL.search(text)
    chip = _CHIP.search(text)
    wanted = SAME_MEMORY.get(chip[1], chip[1]) if chip else ""
    found = [
        card
        for card in (card_of(find("gpus", name, Gpu)) for name in names("gpus"))
        if wanted and re.search(rf"\b{re.escape(wanted)}\b", card.title)
    ]
    if nominal:
        same = [card for card in found if card.nominal == int(nominal[1])]
        return min(same, key=lambda card: card.usable) if same else generic_card(int(nominal[1]))
    if not found:
        raise InputError(f"GPU {text[:60]!r} is not in the catalogue", f"known: {', '.join(names('gpus'))}")
    return max(found, key=lambda card: card.usable)
