"""llmhw-provision schema"""

from __future__ import annotations

import json

import click

from llmhw_provision.documents import Record
from llmhw_provision.machine import Machine
from llmhw_provision.plan.model import Plan
from llmhw_provision.site import Site
from llmhw_provision.sizing.constants import Constants
from llmhw_provision.sizing.measured import Measured
from llmhw_provision.workload import Workload

_FORMS: dict[str, type[Record]] = {
    "workload": Workload,
    "site": Site,
    "observed": Machine,
    "plan": Plan,
    "measured": Measured,
    "constants": Constants,
}


@click.command("schema")
@click.argument("form", type=click.Choice(list(_FORMS)))
def command(form: str) -> None:
    """Print the JSON Schema of one of a site's files, for editors and for people."""
    click.echo(json.dumps(_FORMS[form].model_json_schema(by_alias=True), indent=2, ensure_ascii=False))
