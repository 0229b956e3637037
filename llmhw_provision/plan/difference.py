"""What changed between two plans, in words: by host, then by area; hosts with the same changes share them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from llmhw_provision.plan.model import Plan

_SHOWN = 3  # hosts that are named of many
_LONG = 100  # characters of a value that are shown
# what tells records apart
_NAMES = ("name", "serial", "path", "topic", "metric", "rule", "use", "host", "device", "unit")
_SITE = "site"
_APART = ("hosts", "notes", "stacks", "profiles", "identity", "format")  # of a plan: by host, or of no interest

Lines = tuple[str, ...]


def differences(old: Plan, new: Plan) -> tuple[str, ...]:
    """Hosts, under each its areas, under each one line per change; empty for equal plans."""
    before, after = _by_host(old), _by_host(new)
    changed: dict[Lines, list[str]] = {}
    for host in [*before, *(name for name in after if name not in before)]:
        found = tuple(_host(before.get(host), after.get(host)))
        if found:
            changed.setdefault(found, []).append(host)
    return tuple(line for lines, hosts in changed.items() for line in (_heading(hosts), *lines))


def _heading(hosts: list[str]) -> str:
    rest = len(hosts) - _SHOWN
    return ", ".join(hosts[:_SHOWN]) + (f" and {rest:,} more" if rest > 0 else "")


def _by_host(plan: Plan) -> dict[str, dict[str, Any]]:
    """What the plan says by host and area; the whole site's under `site`."""
    whole = {name: _plain(getattr(plan, name)) for name in type(plan).model_fields if name not in _APART}
    found: dict[str, dict[str, Any]] = {_SITE: {"plan": whole}}
    for host in (item.model_dump(mode="json") for item in plan.hosts):
        name = host.pop("name")
        roles = host.pop("roles")
        areas = {
            "disks": host.pop("disks"),
            "expected": host.pop("expected", None),
            "limits": host.pop("thresholds", []),
        }
        areas["reservations"] = host.pop("reservations", [])
        done = {key: host.pop(key) for key in ("creates", "erases")}
        found[name] = {"host": host, **areas, "what apply does": done}
        found[name] |= {f"role {role}": config for role, config in roles.items()}
    for stack in (item.model_dump(mode="json") for item in plan.stacks):
        for name in stack.pop("hosts"):
            found.setdefault(name, {})["versions"] = stack
    for note in (item.model_dump(mode="json") for item in plan.notes):
        name = note.pop("host") or _SITE
        found.setdefault(name, {}).setdefault("reasons", []).append(note)
    return found


def _plain(value: Any) -> Any:
    """Records as mappings, tuples as lists."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def _host(old: dict[str, Any] | None, new: dict[str, Any] | None) -> Iterator[str]:
    if old is None or new is None:
        yield "  new in the plan" if old is None else "  no longer in the plan"
        return
    for area in [*old, *(name for name in new if name not in old)]:
        before, after = old.get(area), new.get(area)
        if before is None and after is not None:
            yield f"  {area}: new"
        elif after is None and before is not None:
            yield f"  {area}: gone"
        elif found := tuple(_walk(before, after, ())):
            yield f"  {area}"
            yield from (f"    {line}" for line in found)


def _walk(old: Any, new: Any, path: tuple[str, ...]) -> Iterator[str]:
    if old == new:
        return
    old, new = _keyed(old), _keyed(new)
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            where = (*path, str(key))
            if key not in new:
                yield f"{_words(where)} is gone, was {_short(old[key])}"
            elif key not in old:
                yield f"{_words(where)} is new: {_short(new[key])}"
            else:
                yield from _walk(old[key], new[key], where)
    elif isinstance(old, list) and isinstance(new, list):
        gone = [_short(item) for item in old if item not in new]
        come = [_short(item) for item in new if item not in old]
        said = [f"no longer {', '.join(gone)}"] if gone else []
        said += [f"now also {', '.join(come)}"] if come else []
        yield f"{_words(path)}: {'; '.join(said) or 'in another order'}"
    else:
        yield f"{_words(path)}: was {_short(old)}, is now {_short(new)}"


def _keyed(value: Any) -> Any:
    """A list of records as a mapping by what tells them apart; anything else as it is."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        return value
    for name in _NAMES:
        keys = [item.get(name) for item in value]
        if all(isinstance(key, str) for key in keys) and len(set(keys)) == len(keys):
            return {item[name]: {key: inner for key, inner in item.items() if key != name} for item in value}
    return value


def _words(path: tuple[str, ...]) -> str:
    return ", ".join(part.replace("_", " ") if part.isidentifier() else part for part in path) or "it"


def _short(value: Any) -> str:
    """The value on one line: of a record its fields, nothing for what is empty."""
    if isinstance(value, dict):
        said = [
            f"{key.replace('_', ' ')} {_short(inner)}" for key, inner in value.items() if inner not in ("", [], None)
        ]
        value = ", ".join(said)
    elif isinstance(value, list):
        value = ", ".join(_short(item) for item in value) or "nothing"
    text = "nothing" if value is None else {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)
    return text if len(text) <= _LONG else text[: _LONG - 3] + "..."
