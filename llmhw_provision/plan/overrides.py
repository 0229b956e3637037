"""What site.yaml and workload.yaml fix instead of leaving it to the planner, as notes of the plan."""

from __future__ import annotations

import json
from collections.abc import Iterator

from pydantic import BaseModel

from llmhw_provision.plan.model import Note
from llmhw_provision.site import Site
from llmhw_provision.workload import Workload

_SITE = ("storage", "software", "site_base", "host_tuning")
_LOAD = ("layout", "placement", "training")
_LONG = 80  # characters of a value that are shown


def override_notes(workload: Workload, site: Site) -> tuple[Note, ...]:
    """One note per file that fixes anything: every field that differs from its default, with its value."""
    notes = []
    for model, names, source in ((workload, _LOAD, "workload.yaml"), (site, _SITE, "site.yaml")):
        written = [text for name in names if name in model.model_fields_set for text in _fields(model, name, "")]
        if written:
            notes.append(
                Note(
                    rule=f"what {source} fixes is not chosen",
                    choice=f"{len(written)} value{'s' * (len(written) != 1)}",
                    inputs=tuple(written),
                    source=source,
                )
            )
    return tuple(notes)


def _fields(model: BaseModel, name: str, path: str) -> Iterator[str]:
    """`storage.scratch.mount = "/data"`; lists of records on one line."""
    value = getattr(model, name)
    where = f"{path}.{name}" if path else name
    default = type(model).model_fields[name].get_default(call_default_factory=True)
    if value == default:
        return  # written out, and no other than what is chosen
    if isinstance(value, BaseModel):
        inner = [
            text
            for each in type(value).model_fields
            if each in value.model_fields_set
            for text in _fields(value, each, where)
        ]
        if inner:
            yield from inner
            return
    text = json.dumps(model.model_dump(mode="json", include={name}, exclude_unset=True)[name], ensure_ascii=False)
    yield f"{where} = {text if len(text) <= _LONG else text[: _LONG - 3] + '...'}"
