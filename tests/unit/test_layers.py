"""Imports point one way, and only the rooms that may start processes do."""

from __future__ import annotations

import ast
from pathlib import Path

import llmhw_provision

PACKAGE = Path(llmhw_provision.__file__).parent
# architecture.md: a module may import from its own level or from an earlier one
LEVELS = (
    ("errors", "units", "documents", "content", "hostlist", "expected", "on_host"),
    (
        "catalogue",
        "model",
        "workload",
        "site_base",
        "site_text",
        "site_storage",
        "site_cluster",
        "site",
        "machine",
        "connection",
    ),
    ("sizing",),
    ("claims", "plan"),
    ("inventory", "launch", "evidence", "evidence_file", "evidence_archive", "evidence_refusals"),
    ("probes",),
    ("checks", "discover", "first_contact"),
    ("run", "report"),
    ("cli",),
)
RANK = {name: rank for rank, names in enumerate(LEVELS) for name in names}
STARTS = {"subprocess", "paramiko", "testinfra", "socket", "multiprocessing"}


def modules() -> list[tuple[str, Path]]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        if parts[0] not in ("__init__", "_ansible"):
            found.append((parts[0], path))
    return found


def imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{name.name}" for name in node.names)}
    return found


def wrong(room: str, names: set[str]) -> list[str]:
    inside = {name.split(".")[1] for name in names if name.startswith("llmhw_provision.")} - {"__version__"}
    return [f"{room} imports {name}" for name in sorted(inside) if RANK[name] > RANK[room]]


def test_every_room_has_a_level() -> None:
    assert {room for room, _ in modules()} <= set(RANK)


def test_imports_point_one_way() -> None:
    assert [line for room, path in modules() for line in wrong(room, imports(path))] == []


def test_the_rule_notices_a_wrong_import() -> None:
    assert wrong("sizing", {"llmhw_provision.plan.build"}) == ["sizing imports plan"]


def test_only_reading_running_and_first_contact_start_processes_or_connections() -> None:
    # first_contact: paramiko; checks: the testinfra module; on_host: programs that run on the machine itself
    allowed = {"evidence", "run", "first_contact", "checks", "on_host"}
    rooms = {room for room, path in modules() if {name.split(".")[0] for name in imports(path)} & STARTS}
    assert rooms <= allowed
