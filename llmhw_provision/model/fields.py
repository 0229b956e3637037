"""Reading the keys of a config.json by type and range, collecting every problem instead of stopping at the first."""

from __future__ import annotations

import json
from collections.abc import Iterable

from llmhw_provision.errors import InputError, Problem

LIMIT = 100_000_000
LAYER_LIMIT = 10_000


class Fields:
    """One object of a config.json; what is wrong gathers in `problems` and a harmless value is returned instead."""

    def __init__(self, data: dict[str, object], where: str, problems: list[Problem] | None = None) -> None:
        self.data = data
        self.where = where
        self.problems: list[Problem] = problems if problems is not None else []
        self._names: dict[str, str] = {}  # first name asked for -> name found and good

    def has(self, *names: str) -> bool:
        """Whether any of `names` is there with a value."""
        return any(self.data.get(name) is not None for name in names)

    def refuse(self, name: str, what: str, hint: str = "") -> None:
        """Notes that the value of `name` cannot be used."""
        self.problems.append(Problem(f"{self.where}: {name}: {what}", hint))

    def integer(self, *names: str, default: int | None = None, low: int = 1, high: int = LIMIT) -> int:
        """The whole number under the first of `names` present; without a default it must be there."""
        name = next((name for name in names if self.data.get(name) is not None), None)
        if name is None:
            if default is not None:
                return default
            self.refuse(names[0], "missing", f"also read as {', '.join(names[1:])}" if names[1:] else "")
            return low or 1
        value = self.data[name]
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(name, f"{shown(value)} is not a whole number")
        elif not low <= value <= high:
            self.refuse(name, f"{shown(value)} is outside {low:,} to {high:,}")
        else:
            self._names[names[0]] = name
            return value
        return low or 1

    def or_none(self, name: str, *, high: int = LIMIT) -> int:
        """The whole number under `name`, 0 when the file says null; it must be there."""
        return self.integer(name, default=0 if name in self.data else None, low=0, high=high)

    def flag(self, name: str, *, default: bool) -> bool:
        """The truth value under `name`."""
        value = self.data.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.refuse(name, f"{shown(value)} is not true or false")
            return default
        return value

    def text(self, name: str, *, default: str = "") -> str:
        """The text under `name`."""
        value = self.data.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            self.refuse(name, f"{shown(value)} is not text")
            return default
        return value

    def nested(self, name: str) -> Fields:
        """The object under `name` with its problems counted here; empty when absent."""
        value = self.data.get(name)
        if value is None:
            value = {}
        if not isinstance(value, dict):
            self.refuse(name, f"{shown(value)} is not an object")
            value = {}
        return Fields(value, f"{self.where}: {name}", self.problems)

    def texts(self, name: str) -> tuple[str, ...]:
        """The list of texts under `name`, empty when absent."""
        items = self._list(name)
        found = tuple(item for item in items if isinstance(item, str))
        self._all_good(name, items, len(found), "text")
        return found

    def integers(self, name: str) -> tuple[int, ...]:
        """The list of whole numbers under `name`, empty when absent."""
        items = self._list(name)
        found = tuple(item for item in items if isinstance(item, int) and not isinstance(item, bool))
        self._all_good(name, items, len(found), "whole numbers")
        return found

    def layers(self, name: str, count: int) -> frozenset[int]:
        """The layers listed under `name`, of a model with `count` of them."""
        found = frozenset(self.integers(name))
        outside = sorted(index for index in found if not 0 <= index < count)
        if outside:
            self.refuse(name, f"{shown(outside[0])} is not one of the layers 0 to {count - 1:,}")
        return found

    def kinds(self, count: int) -> tuple[str, ...]:
        """The kind of each layer if `layer_types` lists them, else nothing."""
        found = self.texts("layer_types")
        if found and len(found) != count:
            self.refuse("layer_types", f"lists {len(found):,} layers, the model has {count:,}")
        return found

    def _all_good(self, name: str, items: list[object], good: int, kind: str) -> None:
        if good < len(items):
            self.refuse(name, f"{len(items) - good} of {len(items)} items are not {kind}")

    def length(self, name: str) -> int:
        """How many items the list under `name` has, 0 when absent."""
        return len(self._list(name))

    def _list(self, name: str) -> list[object]:
        value = self.data.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            self.refuse(name, f"{shown(value)} is not a list")
            return []
        return value

    def divides(self, small: str, large: str) -> None:
        """Notes when the value read as `large` is no multiple of that read as `small`."""
        if small in self._names and large in self._names:
            (one, low), (other, high) = self._read(small), self._read(large)
            if high % low:
                self.refuse(other, f"{high:,} is not a multiple of {one} {low:,}")

    def at_most(self, small: str, large: str) -> None:
        """Notes when the value read as `small` exceeds that read as `large`."""
        if small in self._names and large in self._names:
            (one, low), (other, high) = self._read(small), self._read(large)
            if low > high:
                self.refuse(one, f"{low:,} is more than {other} {high:,}")

    def _read(self, name: str) -> tuple[str, int]:
        found = self._names[name]
        value = self.data[found]
        return found, value if isinstance(value, int) else 1

    def stop_on_problems(self) -> None:
        """Raises InputError with everything noted so far, each once."""
        if self.problems:
            raise InputError.of(tuple(dict.fromkeys(self.problems)))


def shown(value: object) -> str:
    """A value as an error shows it, cut short."""
    if isinstance(value, (dict, list)):
        return f"a{'n object' if isinstance(value, dict) else ' list'} of {len(value)}"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 128:
        return f"a number of {value.bit_length()} bits"
    text = json.dumps(value) if value is None or isinstance(value, (bool, float)) else repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def count(items: Iterable[str], *kinds: str) -> int:
    """How many of `items` are one of `kinds`."""
    return sum(item in kinds for item in items)
