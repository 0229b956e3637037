"""The planner: which disk is for what, in words and in role configs."""

from __future__ import annotations

import pytest

from llmhw_provision.documents import dump_json
from llmhw_provision.errors import DoesNotFit, InputError, ProvisionError
from llmhw_provision.machine import Array, Content, Machine
from llmhw_provision.plan.build import build_plan
from llmhw_provision.plan.difference import differences
from llmhw_provision.plan.model import HostPlan, Plan
from llmhw_provision.site import Site
from llmhw_provision.sizing.need import Need
from llmhw_provision.units import GB
from tests.unit.machines import CUSTOMER, drive, drives, machine, need, site

HOST = "ga660m-01"
MEMBER = Content(where="disk", kind="raid-member", type="linux_raid_member", uuid="r", label="any:scratch")


def plan(found: Machine, of: Site | None = None, load: Need | None = None) -> Plan:
    return build_plan(load or need(), of or site(), {HOST: found})


def host(found: Machine, of: Site | None = None, load: Need | None = None) -> HostPlan:
    return plan(found, of, load).hosts[0]


def scratch(result: HostPlan) -> tuple[str, ...]:
    assert result.roles.nvme_raid0
    return tuple(name.rpartition("_")[2] for volume in result.roles.nvme_raid0.volumes for name in volume.members)


def words(result: Plan) -> str:
    return "\n".join(f"{note.rule}: {note.choice}" for note in result.notes)


def test_same_input_gives_the_same_bytes() -> None:
    assert dump_json(plan(machine(*drives()))) == dump_json(plan(machine(*drives())))


def test_scratch_takes_all_empty_equal_drives_in_by_id_order() -> None:
    result = host(machine(*reversed(drives())))
    assert scratch(result) == ("D1", "D2", "D3", "D4")
    assert result.roles.nvme_raid0
    assert result.roles.nvme_raid0.volumes[0].level == "raid0"


def test_system_disk_and_disk_with_data_are_never_chosen() -> None:
    result = host(machine(*drives(), drive("KEEP", CUSTOMER)))
    purposes = {disk.serial: (disk.purpose, disk.reason) for disk in result.disks}
    assert purposes["SYS0"][0] == "system"
    assert purposes["KEEP"][0] == "kept"
    assert "ext4 filesystem 'home'" in purposes["KEEP"][1]


def test_drives_of_another_size_are_left_out_with_the_reason() -> None:
    result = host(machine(*drives(), drive("D9", size=1920 * GB)))
    assert scratch(result) == ("D1", "D2", "D3", "D4")
    assert "1.92 TB" in next(disk.reason for disk in result.disks if disk.serial == "D9")


def test_drives_with_another_sector_size_are_left_out() -> None:
    assert scratch(host(machine(*drives(), drive("D9", sector=4096)))) == ("D1", "D2", "D3", "D4")


def test_plan_says_what_one_dead_drive_loses_and_where_checkpoints_go() -> None:
    text = words(plan(machine(*drives())))
    assert "one dead drive of 4 loses everything on /scratch (15.36 TB)" in text
    assert "checkpoints worth keeping must be copied to /srv/project" in text


def test_one_drive_that_carries_the_system_gets_a_folder_and_no_array() -> None:
    result = host(machine())
    assert result.roles.nvme_raid0
    assert result.roles.nvme_raid0.volumes == ()
    assert [item.path for item in result.roles.nvme_raid0.directories] == ["/scratch", "/srv/project"]
    assert result.reboots == 1  # for the kernel command line, not for an array


def test_one_spare_drive_gets_a_file_system_and_no_array() -> None:
    result = host(machine(drive("D1")))
    assert result.roles.nvme_raid0
    assert result.roles.nvme_raid0.volumes[0].level == "single"


def test_consent_for_exactly_this_signature_lets_the_disk_be_used() -> None:
    consent = {"host": HOST, "serial": "D5", "type": "ext4", "uuid": CUSTOMER.uuid}
    result = host(machine(*drives(), drive("D5", CUSTOMER)), site(wipe=[consent]))
    assert scratch(result) == ("D1", "D2", "D3", "D4", "D5")
    assert "ext4 filesystem 'home'" in result.erases[0]


def test_consent_for_another_signature_is_void_and_said_so() -> None:
    consent = {"host": HOST, "serial": "D5", "type": "ext4", "uuid": "another"}
    result = plan(machine(*drives(), drive("D5", CUSTOMER)), site(wipe=[consent]))
    assert result.hosts[0].erases == ()
    assert scratch(result.hosts[0]) == ("D1", "D2", "D3", "D4")
    assert "consent to erase is void: D5: ext4 another is not there" in words(result)


def test_named_disks_that_cannot_be_used_are_all_reported_at_once() -> None:
    with pytest.raises(InputError) as error:
        plan(machine(*drives(), drive("D5", CUSTOMER)), site(scratch={"disks": ["D5", "SYS0", "NONE", "D1"]}))
    text = "\n".join(problem.message for problem in error.value.problems)
    assert len(error.value.problems) == 3
    assert "D5 holds ext4 filesystem 'home'" in text
    assert "SYS0 carries the operating system" in text
    assert "NONE is not on this machine" in text


def array(*members: str) -> Array:
    return Array(
        name="scratch",
        device="/dev/md127",
        level="raid0",
        uuid="u",
        chunk_bytes=524288,
        members=members,
        raid_devices=4,
    )


def test_array_that_exists_is_planned_again_as_it_is() -> None:
    parts = tuple(drive(f"D{index}", MEMBER) for index in range(1, 5))
    result = host(machine(*parts, drive("D9"), arrays=(array("D2", "D1", "D3", "D4"),)))
    assert scratch(result) == ("D2", "D1", "D3", "D4")
    assert "exists and is used as it is" in result.creates[0]
    assert "not a member of the array" in next(disk.reason for disk in result.disks if disk.serial == "D9")


def test_array_with_a_missing_member_is_a_problem_not_a_new_array() -> None:
    parts = tuple(drive(f"D{index}", MEMBER) for index in range(1, 4))
    with pytest.raises(InputError, match="'scratch' lacks 1 of 4 members"):
        plan(machine(*parts, drive("NEW"), arrays=(array("D1", "D2", "D3"),)))
    with pytest.raises(InputError, match="3 disks are members of an array 'scratch' that is not running"):
        plan(machine(*parts, drive("NEW")))


def test_two_project_disks_are_mirrored_and_one_is_single() -> None:
    two = host(machine(*drives(6)), site(project={"disks": ["D5", "D6"]}))
    assert two.roles.nvme_raid0
    assert [(item.name, item.level) for item in two.roles.nvme_raid0.volumes] == [
        ("scratch", "raid0"),
        ("project", "raid1"),
    ]
    one = plan(machine(*drives(5)), site(project={"disks": ["D5"]}))
    assert "single; is lost with its only drive" in words(one)


def test_ext4_with_quotas_on_ephemeral_drives() -> None:
    wanted = site(scratch={"filesystem": "ext4", "project_quota": True, "ephemeral": True}, trim="never")
    result = host(machine(*drives()), wanted).roles.nvme_raid0
    assert result
    (volume,) = result.volumes
    assert (volume.filesystem, volume.trim, volume.ephemeral) == ("ext4", "never", True)
    assert volume.mount_options == ("noatime", "nofail", "prjquota")
    assert result.max_wear_percent == 90


def test_scratch_that_is_too_small_names_its_parts() -> None:
    with pytest.raises(DoesNotFit, match=r"scratch needs 250\.02 TB .*dataset 200\.00 TB.*; 4 drives hold 15\.36 TB"):
        plan(machine(*drives()), load=need(dataset={"size": "200 TB"}))


def test_gpu_memory_that_cannot_suffice_is_refused() -> None:
    with pytest.raises(
        DoesNotFit, match=r"Llama 3\.1 405B needs .* does not fit; FSDP over 4, .*weights bf16 189\.0 GiB"
    ):
        plan(machine(*drives()), load=need(model="llama-3.1-405b"))


def test_tmpfs_only_for_a_stated_hot_set() -> None:
    assert host(machine(*drives()), load=need(dataset={"size": "200 GB"})).roles.tmpfs is None
    tmpfs = host(machine(*drives())).roles.tmpfs
    assert tmpfs
    assert tmpfs.mounts[0].size_mib == 4301


def test_tmpfs_beyond_a_tenth_of_memory_is_refused_unless_asked() -> None:
    load = need(dataset={"size": "200 GB", "hot": "60 GiB"})
    with pytest.raises(InputError, match=r"tmpfs of 63\.0 GiB is more than 51\.2 GiB"):
        plan(machine(*drives()), load=load)
    assert host(machine(*drives()), site(tmpfs={"beyond_tenth": True}), load).roles.tmpfs


def test_virtual_machine_is_marked_as_rehearsal() -> None:
    assert host(machine(*drives(), virtualization="kvm")).rehearsal
    assert not host(machine(*drives())).rehearsal


def test_machine_sold_as_something_else_is_refused() -> None:
    sold = site().model_copy(update={"hosts": (site().hosts[0].model_copy(update={"machine": "alphapro660"}),)})
    with pytest.raises(ProvisionError, match="sold as AlphaPro660 with 8× h100-sxm, found 4× h100-pcie"):
        plan(machine(*drives()), sold)


def test_host_without_observation_or_catalogue_name_is_refused() -> None:
    known = site().hosts[0]
    two = site().model_copy(update={"hosts": (known, known.model_copy(update={"name": "b", "address": "192.0.2.9"}))})
    with pytest.raises(InputError, match="b: neither observed nor sold"):
        build_plan(need(), two, {HOST: machine(*drives())})


def test_differences_are_named_by_host_and_path() -> None:
    lines = differences(plan(machine(*drives())), plan(machine(*drives(5))))
    assert any(line.startswith("    D5 is new") for line in lines)
    assert differences(plan(machine(*drives())), plan(machine(*drives()))) == ()


def test_the_memory_of_a_rehearsal_is_told_and_not_judged() -> None:
    little, load = 8 << 30, need(dataset={"size": "200 GB", "hot": "64 MiB"})
    with pytest.raises(DoesNotFit, match=r"of host memory, of 8\.0 GiB"):
        plan(machine(*drives(), memory=little), load=load)
    told = plan(machine(*drives(), memory=little, virtualization="kvm"), load=load)
    assert "of host memory are needed; not judged: a virtual machine, a rehearsal" in words(told)
