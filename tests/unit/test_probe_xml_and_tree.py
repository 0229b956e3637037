"""`nvidia-smi -q -x` is read into what `nvidia-smi -q` says; `lsblk` without -J is read by its columns."""

from __future__ import annotations

import pytest

from llmhw_provision.probes import lsblk_text
from llmhw_provision.probes.nvidia_xml import parse
from llmhw_provision.probes.reading import ProbeError
from llmhw_provision.probes.registry import facts_of, form_of

# The elements as driver 575 writes them; the numbers are ours.
XML = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
\t<timestamp>Mon Nov 30 10:00:00 2026</timestamp>
\t<driver_version>590.48.01</driver_version>
\t<cuda_version>13.1</cuda_version>
\t<attached_gpus>1</attached_gpus>
\t<gpu id="00000000:1B:00.0">
\t\t<product_name>NVIDIA H100 80GB HBM3</product_name>
\t\t<persistence_mode>Enabled</persistence_mode>
\t\t<mig_mode>
\t\t\t<current_mig>Disabled</current_mig>
\t\t\t<pending_mig>Disabled</pending_mig>
\t\t</mig_mode>
\t\t<serial>1650000000001</serial>
\t\t<pci>
\t\t\t<pci_gpu_link_info>
\t\t\t\t<pcie_gen><max_link_gen>5</max_link_gen><current_link_gen>5</current_link_gen></pcie_gen>
\t\t\t\t<link_widths><max_link_width>16x</max_link_width><current_link_width>8x</current_link_width></link_widths>
\t\t\t</pci_gpu_link_info>
\t\t\t<replay_counter>9</replay_counter>
\t\t</pci>
\t\t<clocks_event_reasons>
\t\t\t<clocks_event_reason_gpu_idle>Not Active</clocks_event_reason_gpu_idle>
\t\t\t<clocks_event_reason_hw_slowdown>Active</clocks_event_reason_hw_slowdown>
\t\t\t<clocks_event_reason_hw_thermal_slowdown>Active</clocks_event_reason_hw_thermal_slowdown>
\t\t</clocks_event_reasons>
\t\t<fb_memory_usage><total>81559 MiB</total><used>4 MiB</used></fb_memory_usage>
\t\t<ecc_mode><current_ecc>Enabled</current_ecc><pending_ecc>Enabled</pending_ecc></ecc_mode>
\t\t<ecc_errors>
\t\t\t<volatile><dram_correctable>3</dram_correctable><dram_uncorrectable>0</dram_uncorrectable></volatile>
\t\t\t<aggregate><sram_uncorrectable_secded>1</sram_uncorrectable_secded></aggregate>
\t\t</ecc_errors>
\t\t<remapped_rows>
\t\t\t<remapped_row_corr>0</remapped_row_corr>
\t\t\t<remapped_row_pending>Yes</remapped_row_pending>
\t\t</remapped_rows>
\t\t<temperature><gpu_temp>41 C</gpu_temp><memory_temp>48 C</memory_temp></temperature>
\t\t<gpu_power_readings>
\t\t\t<average_power_draw>69.85 W</average_power_draw>
\t\t\t<current_power_limit>700.00 W</current_power_limit>
\t\t</gpu_power_readings>
\t\t<fabric><state>Completed</state><status>Success</status><cliqueId>0</cliqueId></fabric>
\t\t<processes>
\t\t\t<process_info><process_name>a &lt;b&gt; c</process_name></process_info>
\t\t</processes>
\t</gpu>
</nvidia_smi_log>
"""
EXPECTED = {
    "driver": "590.48.01",
    "cuda": "13.1",
    "attached_gpus": 1,
    "gpus": ["00000000:1B:00.0"],
    "product": "NVIDIA H100 80GB HBM3",
    "serial": "1650000000001",
    "pcie_width_current": 8,
    "pcie_replays": 9,
    "slowdown": ["HW Slowdown", "HW Thermal Slowdown"],
    "memory_total_mib": 81559,
    "dram_correctable_volatile": 3,
    "sram_uncorrectable_sec_ded_aggregate": 1,
    "remap_pending": "Yes",
    "memory_temperature_c": 48,
    "power_draw_w": 69.85,
    "power_limit_w": 700.0,
    "fabric_state": "Completed",
}


def test_the_xml_gives_the_facts_of_the_text() -> None:
    form = form_of(XML.encode())
    assert form
    assert form.name == "nvidia-smi -q -x"
    got = facts_of(XML.encode())
    assert {name: got.get(name) for name in EXPECTED} == EXPECTED
    newer = XML.replace("driver_version", "kmd_version").replace("cuda_version", "cuda_umd_version")
    assert facts_of(newer.encode())["driver"] == "590.48.01"
    sliced = XML.replace("<remapped_row_corr>0</remapped_row_corr>", "").replace(
        "<remapped_row_pending>Yes</remapped_row_pending>", "N/A"
    )
    assert facts_of(sliced.encode())["remap_pending"] is None


BOMB = '<!DOCTYPE nvidia_smi_log [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;&a;">]>'
DOCTYPE = '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">'
HOSTILE = {
    "entities that grow": XML.replace(DOCTYPE, BOMB),
    "a file of the machine": XML.replace(DOCTYPE, '<!DOCTYPE nvidia_smi_log SYSTEM "file:///etc/passwd">'),
    "a subset behind the vendor's line": XML.replace('v12.dtd">', 'v12.dtd" [<!ENTITY a "b">]>'),
    "two declarations": XML.replace(DOCTYPE, f"{DOCTYPE}\n{DOCTYPE}"),
    "a comment": XML.replace("<processes>", "<!-- x --><processes>"),
    "an entity without declaration": XML.replace("41 C", "&a;"),
    "cut off": XML[:-12] + "\n",
    "a GPU less than announced": XML.replace("<attached_gpus>1<", "<attached_gpus>2<"),
    "a GPU without address": XML.replace("00000000:1B:00.0", "first"),
    "no number where one must be": XML.replace("69.85 W", "warm"),
    "nested without end": XML.replace("<processes>", "<processes>" + "<a>" * 40 + "</a>" * 40),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_xml_that_is_not_the_vendors_is_refused(what: str) -> None:
    with pytest.raises(ProbeError, match="could not read nvidia-smi -q"):
        facts_of(HOSTILE[what].encode())


def test_xml_without_end_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(ProbeError, match="more than"):
        parse(XML.encode() + b"\n" * (17 << 20))


TREE = """NAME        MAJ:MIN RM   SIZE RO TYPE  MOUNTPOINTS
sda           8:0    0 447.1G  0 disk
├─sda1        8:1    0   512M  0 part  /boot/efi
└─sda2        8:2    0 446.6G  0 part  /
                                       /srv
nvme0n1     259:0    0   3.5T  0 disk
└─md127       9:127  0  27.9T  0 raid0 /scratch
"""
COLUMNS = """NAME        MODEL                       SIZE TYPE SERIAL
nvme0n1     VENDOR GEN5 3.84TB 3840755982336 disk S6XYZ01
|-nvme0n1p1                       1073741824 part
vdb                            3840755982336 disk S6XYZ02
"""


def test_the_tree_of_lsblk() -> None:
    assert facts_of(TREE.encode()) == {
        "ok": True,
        "top_level": 2,
        "types": ["disk", "part", "raid0"],
        "mountpoint_key": "mountpoints",
        "size_is_int": False,
        "disks": ["sda", "nvme0n1"],
        "mounts": {"/boot/efi": "sda1", "/": "sda2", "/srv": "sda2", "/scratch": "md127"},
    }
    assert (
        facts_of(TREE.replace("├─", "|-").replace("└─", "`-").encode())["mounts"] == facts_of(TREE.encode())["mounts"]
    )


def test_cells_are_told_apart_by_where_they_stand() -> None:
    first, part, second = lsblk_text.parse(COLUMNS.encode())
    assert (first.cells["MODEL"], first.cells["SERIAL"], part.cells["TYPE"]) == (
        "VENDOR GEN5 3.84TB",
        "S6XYZ01",
        "part",
    )
    assert ("MODEL" in second.cells, second.cells["SERIAL"]) == (False, "S6XYZ02")


@pytest.mark.parametrize(
    "text",
    [TREE[:-3], TREE.replace("sda1        8:1    0   512M  0 part  /boot/efi", "sda1"), TREE.splitlines()[0] + "\n"],
    ids=["cut off", "a row without cells", "no row"],
)
def test_a_damaged_tree_is_refused(text: str) -> None:
    with pytest.raises(ProbeError, match="could not read"):
        facts_of(text.encode())
