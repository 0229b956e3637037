"""What changed between two plans, in lines a person reads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from llmhw_provision.plan.model import Plan


def differences(old: Plan, new: Plan) -> tuple[str, ...]:
    """One line per value that was added, removed or changed, by its path in plan.json; hosts go by name."""
    return tuple(_walk(_keyed(old), _keyed(new), ""))


def _keyed(plan: Plan) -> dict[str, Any]:
    data = plan.model_dump(mode="json", by_alias=True)
    data.pop("identity")
    data["profiles"] = {profile.pop("name"): profile for profile in data["profiles"]}
    data["hosts"] = {host.pop("name"): host for host in data["hosts"]}
    for host in data["hosts"].values():
        host["disks"] = {item.pop("serial"): item for item in host["disks"]}
    data["stacks"] = {", ".join(stack.pop("hosts")): stack for stack in data["stacks"]}
    for stack in data["stacks"].values():
        stack["choices"] = {choice.pop("topic"): choice for choice in stack["choices"]}
    data["notes"] = {f"{note.pop('host') or 'site'}: {note.pop('rule')}": note for note in data["notes"]}
    return data


def _walk(old: Any, new: Any, path: str) -> Iterator[str]:
    if old == new:
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            where = f"{path}.{key}" if path else key
            if key not in new:
                yield f"- {where}: {_short(old[key])}"
            elif key not in old:
                yield f"+ {where}: {_short(new[key])}"
            else:
                yield from _walk(old[key], new[key], where)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _walk(before, after, f"{path}[{index}]")
    else:
        yield f"~ {path}: {_short(old)} → {_short(new)}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 160 else text[:157] + "..."
