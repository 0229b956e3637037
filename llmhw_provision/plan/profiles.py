"""What hosts share stands in plan.json once: profiles, and notes that are said of several hosts.

In memory every host carries everything and equal hosts carry the same objects; only the file is folded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from llmhw_provision.hostlist import compress, expand

if TYPE_CHECKING:
    from llmhw_provision.plan.model import HostPlan, Note, Plan, RoleConfigs

_OF_THE_HOST = ("/dev/disk/by-id/of-the-host",)  # in profiles; host.members has the real ones
SHARED = ("roles", "expected", "thresholds", "reservations", "node")


def shared_roles(roles: RoleConfigs) -> RoleConfigs:
    """`roles` without what identifies a host: the members of its volumes and its consents to erase."""
    storage = roles.nvme_raid0
    if storage is None:
        return roles
    volumes = tuple(volume.model_copy(update={"members": _OF_THE_HOST}) for volume in storage.volumes)
    return roles.model_copy(update={"nvme_raid0": storage.model_copy(update={"volumes": volumes, "wipe": ()})})


def groups(hosts: Iterable[HostPlan]) -> dict[str, tuple[dict[str, Any], list[HostPlan]]]:
    """Profile name to what its hosts share (values of SHARED) and to the hosts, in order of appearance."""
    found: list[tuple[dict[str, Any], list[HostPlan]]] = []
    for host in hosts:
        values = {key: getattr(host, key) for key in SHARED} | {"roles": shared_roles(host.roles)}
        for shared, members in found:
            if shared == values:
                members.append(host)
                break
        else:
            found.append((values, [host]))
    return {f"profile_{index}": group for index, group in enumerate(found, 1)}


def folded(plan: Plan) -> dict[str, Any]:
    """The plan as plan.json holds it."""
    profiles, hosts = [], {}
    for name, (shared, members) in groups(plan.hosts).items():
        data = {key: _plain(value) for key, value in shared.items()}
        profiles.append({"name": name, **{key: value for key, value in data.items() if value is not None}})
        for host in members:
            storage = host.roles.nvme_raid0
            hosts[host.name] = {
                **host.model_dump(mode="json", exclude=set(SHARED)),
                "profile": name,
                "members": {item.name: list(item.members) for item in storage.volumes} if storage else {},
                "wipe": [item.model_dump(mode="json") for item in storage.wipe] if storage else [],
            }
    return {
        "schema": plan.format,
        **{key: getattr(plan, key) for key in ("site", "origin", "workload", "identity")},
        **({"cluster": _plain(plan.cluster)} if plan.cluster else {}),
        "profiles": profiles,
        "hosts": [hosts[host.name] for host in plan.hosts],
        "stacks": [stack.model_dump(mode="json") for stack in plan.stacks],
        "work": [item.model_dump(mode="json") for item in plan.work],
        **({"launch": plan.launch.model_dump(mode="json", exclude_none=True)} if plan.launch else {}),
        "notes": [note.model_dump(mode="json") for note in _folded_notes(plan.notes)],
    }


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else value


def in_file_order(notes: Iterable[Note]) -> tuple[Note, ...]:
    """The notes as plan.json gives them back when it is read: what is said of several hosts stands together."""
    return tuple(each for note in _folded_notes(notes) for each in _unfolded_note(note))


def _folded_notes(notes: Iterable[Note]) -> list[Note]:
    found: dict[tuple[object, ...], tuple[Note, list[str]]] = {}
    for note in notes:
        found.setdefault((note.rule, note.choice, note.inputs, note.source), (note, []))[1].append(note.host)
    return [
        note.model_copy(update={"host": compress(host for host in hosts if host)}) for note, hosts in found.values()
    ]


def unfolded(plan: Plan) -> dict[str, Any]:
    """Fields of `plan`, as it was read, that change when each host carries everything again.

    Raises ValueError for a profile that no one defines.
    """
    profiles = {profile.name: profile for profile in plan.profiles}
    hosts = []
    for host in plan.hosts:
        if not host.profile:
            hosts.append(host)
            continue
        if host.profile not in profiles:
            raise ValueError(f"host {host.name!r} has profile {host.profile!r}, which is not there")
        shared = profiles[host.profile]
        given = {key: getattr(shared, key) for key in SHARED} | {"roles": _own_roles(shared.roles, host)}
        hosts.append(host.model_copy(update={**given, "profile": "", "members": {}, "wipe": ()}))
    notes = tuple(each for note in plan.notes for each in _unfolded_note(note))
    return {"hosts": tuple(hosts), "notes": notes, "profiles": ()}


def _own_roles(roles: RoleConfigs, host: HostPlan) -> RoleConfigs:
    storage = roles.nvme_raid0
    if storage is None:
        return roles
    lacking = [volume.name for volume in storage.volumes if not host.members.get(volume.name)]
    if lacking:
        raise ValueError(f"host {host.name!r} names no disks for the volume {lacking[0]!r} of its profile")
    volumes = tuple(volume.model_copy(update={"members": host.members[volume.name]}) for volume in storage.volumes)
    own = storage.model_copy(update={"volumes": volumes, "wipe": host.wipe})
    return roles.model_copy(update={"nvme_raid0": own})


def _unfolded_note(note: Note) -> Iterable[Note]:
    if not {"[", ","} & set(note.host):
        return (note,)
    return (note.model_copy(update={"host": name}) for name in expand(note.host))
