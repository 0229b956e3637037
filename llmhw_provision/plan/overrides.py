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
    """One note per file that fixes anything: every field that is written there, with its value."""
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
    if isinstance(value, BaseModel):
        for inner in type(value).model_fields:
            if inner in value.model_fields_set:
                yield from _fields(value, inner, where)
        return
    text = json.dumps(model.model_dump(mode="json", include={name})[name], ensure_ascii=False)
    yield f"{where} = {text if len(text) <= _LONG else text[: _LONG - 3] + '...'}"
