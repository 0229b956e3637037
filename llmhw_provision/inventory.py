"""Plan → folder that plain ansible-playbook understands.

group_vars carry what hosts of a kind share, host_vars only what identifies a host. Address, port, key and host key
stand in the site's one ssh_config, which both Ansible and testinfra use.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from llmhw_provision.documents import write_atomic
from llmhw_provision.plan.model import HostPlan, Plan
from llmhw_provision.plan.profiles import groups
from llmhw_provision.plan.roles import ROLES

_HEADER = "# Written by llmhw-provision plan; changes here are lost at the next plan.\n"
_TEMPLATE = ("{{", "{%", "{#")


class Reference(str):
    """A template of our own: the only kind of text that Ansible may evaluate."""

    __slots__ = ()


class _Dumper(yaml.CSafeDumper):
    """YAML in which text that looks like a template is marked, so that Ansible takes it as text."""


def _reference(dumper: yaml.CSafeDumper, value: Reference) -> yaml.Node:
    return dumper.represent_str(str(value))


def _text(dumper: yaml.CSafeDumper, value: str) -> yaml.Node:
    if any(mark in value for mark in _TEMPLATE):
        return dumper.represent_scalar("!unsafe", value, style="'")
    return dumper.represent_str(value)


_Dumper.add_representer(Reference, _reference)
_Dumper.add_representer(str, _text)


def render_inventory(plan: Plan) -> dict[str, str]:
    """Files of the inventory by relative path; same plan, same bytes."""
    profiles = _profiles(plan)
    files = {
        "hosts.yml": _dump(_hosts(plan, profiles)),
        "group_vars/all.yml": _dump(_all(plan)),
    }
    for name, (config, _) in profiles.items():
        files[f"group_vars/{name}.yml"] = _dump(config)
    for host in plan.hosts:
        files[f"host_vars/{host.name}.yml"] = _dump(_identity(host))
    return files


def write_inventory(plan: Plan, folder: Path) -> None:
    """Writes the inventory below `folder`; files of an earlier plan that are not part of this one are removed."""
    files = render_inventory(plan)
    for name, text in files.items():
        write_atomic(folder / name, text)
    for kind in ("group_vars", "host_vars"):
        for path in sorted((folder / kind).glob("*.yml")):
            if f"{kind}/{path.name}" not in files:
                path.unlink()


def _profiles(plan: Plan) -> dict[str, tuple[dict[str, Any], list[str]]]:
    """Role configs that hosts share, by group name, with the hosts that share them."""
    return {
        name: (_shared(members[0]), [host.name for host in members])
        for name, (_, members) in groups(plan.hosts).items()
    }


def _shared(host: HostPlan) -> dict[str, Any]:
    """The host's role configs with what identifies the host replaced by a reference to its host_vars."""
    config: dict[str, Any] = {}
    for role in ROLES:
        value = getattr(host.roles, role)
        if value is None:
            continue
        data = value.model_dump(mode="json")
        if role == "nvme_raid0":
            for volume in data["volumes"]:
                volume["members"] = Reference("{{ host_disks['" + volume["name"] + "'] }}")
            data["wipe"] = Reference("{{ host_wipe }}")
        config[f"{role}_config"] = data
    return config


def _identity(host: HostPlan) -> dict[str, Any]:
    storage = host.roles.nvme_raid0
    return {
        "ansible_user": host.user,
        "host_disks": {volume.name: list(volume.members) for volume in storage.volumes} if storage else {},
        "host_wipe": [wipe.model_dump(mode="json") for wipe in storage.wipe] if storage else [],
    }


def _all(plan: Plan) -> dict[str, Any]:
    return {
        "llmhw_plan": plan.identity,
        "llmhw_site": plan.site,
        "ansible_python_interpreter": "/usr/bin/python3",
        "ansible_become": Reference("{{ ansible_user != 'root' }}"),
        "ansible_ssh_args": Reference("-F '{{ inventory_dir }}/../ssh_config'"),
    }


def _hosts(plan: Plan, profiles: dict[str, tuple[dict[str, Any], list[str]]]) -> dict[str, Any]:
    groups: dict[str, Any] = {name: {"hosts": dict.fromkeys(hosts)} for name, (_, hosts) in profiles.items()}
    for role in ROLES:
        members = [host.name for host in plan.hosts if getattr(host.roles, role) is not None]
        groups[role] = {"hosts": dict.fromkeys(members)} if members else {"hosts": {}}
    return {"all": {"hosts": {host.name: None for host in plan.hosts}, "children": groups}}


def _dump(data: dict[str, Any]) -> str:
    return _HEADER + yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)
