"""What the modules of site_base and host_tuning decide, without any machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.unit import role_modules

from ansible.module_utils.host_modules import apt_lists, files  # isort: skip
from ansible.module_utils.host_tuning import boot, render as tuning  # isort: skip
from ansible.module_utils.site_base import decide, firewall  # isort: skip

PASSWD = ["root:x:0:0::/root:/bin/bash", "ceph:x:64030:64031::/:/bin/false", "munge:x:901:901::/:/bin/false"]
GROUP = ["root:x:0:", "ceph:x:64031:", "munge:x:901:"]


def test_taken_numbers_name_their_owner_and_free_ones_pass() -> None:
    assert decide.user_refusals([{"name": "slurm", "uid": 64030, "gid": 64031}], PASSWD, GROUP) == [
        "uid 64030 for slurm is taken by ceph",
        "gid 64031 for slurm is taken by ceph",
    ]
    assert decide.user_refusals([{"name": "munge", "uid": 64130, "gid": 901}], PASSWD, GROUP) == [
        "munge has uid 901, planned is 64130"
    ]
    assert decide.user_refusals([{"name": "munge", "uid": 901, "gid": 901}], PASSWD, GROUP) == []


def test_hosts_that_say_otherwise_are_refused_but_the_installers_line_is_not() -> None:
    entries = [{"name": "n1", "address": "192.0.2.1"}, {"name": "n2", "address": "192.0.2.2"}]
    lines = ["127.0.1.1 n1.example n1", "192.0.2.2 n2 # right", "::1 n2", "192.0.2.9 n2 # wrong", "# 192.0.2.8 n2", ""]
    assert decide.host_refusals(entries, lines, "n1") == ["/etc/hosts says n2 is 192.0.2.9, the plan says 192.0.2.2"]
    assert decide.host_refusals(entries, ["127.0.1.1 n1"], "n2") == [
        "/etc/hosts says n1 is 127.0.1.1, the plan says 192.0.2.1"
    ]


def test_a_second_source_for_the_same_archive_is_found_in_both_forms() -> None:
    mirror = [{"uri": "http://m/debian"}]
    texts = {
        "/a.list": "# deb http://m/debian x main\ndeb [signed-by=/k] http://m/debian/ bookworm main\n",
        "/b.sources": "Types: deb\nURIs: http://m/debian\n",
        "/c.list": "deb http://m/debian-security bookworm main\n",
    }
    assert [text.split()[0] for text in decide.source_conflicts(mirror, texts)] == ["/a.list:2", "/b.sources:2"]


def test_a_time_service_is_kept_only_when_it_works() -> None:
    assert decide.own_time_service(["ptp4l.service"], synchronized=True) == "ptp4l.service"
    assert decide.own_time_service(["ntpsec.service"], synchronized=False) == ""
    assert decide.own_time_service(["systemd-timesyncd.service"], synchronized=True) == ""


def test_a_bundle_carries_a_certificate_whatever_its_line_length() -> None:
    pem = "-----BEGIN CERTIFICATE-----\nAAAA\nBBBB\n-----END CERTIFICATE-----\n"
    assert decide.in_bundle(pem, f"# x\n{pem.replace('AAAA', 'CCCC')}{pem.replace(chr(10) + 'BBBB', 'BBBB')}")
    assert not decide.in_bundle(pem, pem.replace("AAAA", "CCCC"))
    assert not decide.in_bundle("no certificate", pem)


def test_lists_are_named_as_apt_names_them() -> None:
    # taken from /var/lib/apt/lists of apt 2.6
    assert apt_lists.list_name("127.0.0.1:8000/dists/bookworm") == "127.0.0.1:8000_dists_bookworm"
    assert apt_lists.list_name("m/a_b~c/dists/x") == "m_a%5fb%7ec_dists_x"


def test_blocks_come_and_go_and_the_rest_stays() -> None:
    text = "127.0.0.1 localhost\n# by hand\n"
    there = files.with_block(text, ["192.0.2.1 n1"])
    assert there == text + "# BEGIN llmhw-provision\n192.0.2.1 n1\n# END llmhw-provision\n"
    assert (
        files.with_block(there + "after\n", ["x"])
        == text + "after\n# BEGIN llmhw-provision\nx\n# END llmhw-provision\n"
    )
    assert files.with_block(there, []) == text


def test_a_file_is_never_there_with_a_wider_mode_and_a_sentence_never_tells_its_text(tmp_path: Path) -> None:
    path = str(tmp_path / "a" / "secret")
    wanted = files.File(path, "hunter2\n", 0o600)
    assert [text for _, text in files.differing([wanted])] == [f"write {path}"]
    if os.geteuid() == 0:
        files.put(wanted)
        assert files.differing([wanted]) == []
        Path(path).chmod(0o644)
        assert [text for _, text in files.differing([wanted])] == [f"give {path} to root with mode 0600"]
        files.put(files.File(path, "/dev/null", link=True))
        assert str(Path(path).readlink()) == "/dev/null"
        assert [text for _, text in files.differing([files.File(path, None)])] == [f"remove {path}"]
        assert list(Path(path).parent.iterdir()) == [Path(path)]


def ruleset(*items: dict[str, Any]) -> str:
    return json.dumps({"nftables": [{"metainfo": {}}, *items]})


def chain(name: str, *, family: str = "inet", **more: Any) -> dict[str, Any]:
    return {"chain": {"family": family, "table": "filter", "name": name, **more}}


def rule(where: str, *expr: Any, family: str = "inet", **more: Any) -> dict[str, Any]:
    return {"rule": {"family": family, "table": "filter", "chain": where, "expr": list(expr), **more}}


HOOK = {"type": "filter", "hook": "input", "prio": 0, "policy": "accept"}
SSH = {"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 22}}


@pytest.mark.parametrize(
    ("items", "drops"),
    [
        ([], False),
        ([chain("input", **{**HOOK, "policy": "drop"})], True),
        ([chain("forward", **{**HOOK, "hook": "forward", "policy": "drop"})], False),
        ([chain("input", family="bridge", **{**HOOK, "policy": "drop"})], False),
        ([chain("input", **HOOK), rule("input", SSH, {"drop": None})], False),
        ([chain("input", **HOOK), rule("input", {"counter": {}}, {"log": None}, {"drop": None})], True),
        ([chain("input", **HOOK), rule("input", {"jump": {"target": "x"}}), rule("x", {"reject": {}})], True),
        ([chain("input", **HOOK), rule("input", SSH, {"jump": {"target": "x"}}), rule("x", {"drop": None})], False),
        ([chain("input", **HOOK), rule("input", {"goto": {"target": "input"}})], False),
    ],
)
def test_only_a_chain_that_drops_what_is_left_is_a_firewall(items: list[dict[str, Any]], drops: bool) -> None:
    assert bool(firewall.dropping_chains(ruleset(*items))) is drops


def test_our_rules_are_those_of_the_plan_or_are_put_again() -> None:
    where, ports, sources = firewall.Chain("ip", "filter", "input"), ["22/tcp", "53/udp"], ["192.0.2.1", "2001:db8::1"]
    assert firewall.lines(where, ports, sources) == [
        "ip saddr { 192.0.2.1 } tcp dport { 22 } accept",
        "ip saddr { 192.0.2.1 } udp dport { 53 } accept",
    ]
    assert len(firewall.lines(where._replace(family="inet"), ports, sources)) == 4
    comment = firewall.mark(where, ports, sources)
    jump = rule("input", {"jump": {"target": "llmhw"}}, family="ip")
    mine = [rule("llmhw", family="ip", comment=comment) for _ in range(2)]
    assert firewall.in_force(ruleset(jump, *mine), where, ports, sources)
    assert not firewall.in_force(ruleset(*mine), where, ports, sources)
    assert not firewall.in_force(ruleset(jump, jump, *mine), where, ports, sources)
    assert not firewall.in_force(ruleset(jump, mine[0]), where, ports, sources)
    assert not firewall.in_force(ruleset(jump, *mine), where, ["22/tcp"], sources)


def test_ufw_is_told_host_by_host() -> None:
    assert firewall.ufw_rules(["22/tcp", "6817-6819/tcp", "53/udp"], ["192.0.2.1"]) == [
        "allow from 192.0.2.1 to any port 22,6817:6819 proto tcp comment 'llmhw'",
        "allow from 192.0.2.1 to any port 53 proto udp comment 'llmhw'",
    ]


def test_el_keeps_its_entry_before_under_another_title() -> None:
    entry = "title Rocky Linux (5.14.0) 9.4\nversion 5.14.0-427.el9.x86_64\nlinux /vmlinuz-5.14.0\noptions root=x ro\n"
    kept = boot.kept_bls(entry)
    assert kept.splitlines()[0] == "title Before llmhw-provision changed the command line"
    assert kept.splitlines()[2:] == entry.splitlines()[2:]
    info = 'index=0\nkernel="/boot/vmlinuz-5.14.0"\nargs="ro crashkernel=1G iommu=pt"\nid="abc-5.14.0"\n'
    assert boot.lacking(["iommu=pt", "x=1"], boot.grubby_field(info, "args")) == ["x=1"]
    assert boot.grubby_field(info, "id") == "abc-5.14.0"


def test_a_grub_cfg_without_an_entry_gives_none() -> None:
    assert boot.default_entry("set default=0\n") is None
    assert boot.default_entry("menuentry 'x' {\n linux /v\n") is None


def test_acs_is_cleared_on_every_bridge_above_gpus_and_nics_and_nowhere_else(tmp_path: Path) -> None:
    sys_folder, log = tmp_path / "sys", tmp_path / "log"
    devices = sys_folder / "bus/pci/devices"
    devices.mkdir(parents=True)
    tree = {
        "pci0000:00/0000:00:01.0": ("0x060400", "0x8086"),
        "pci0000:00/0000:00:01.0/0000:01:00.0": ("0x060400", "0x1000"),
        "pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0": ("0x030200", "0x10de"),
        "pci0000:00/0000:00:02.0": ("0x060400", "0x8086"),
        "pci0000:00/0000:00:02.0/0000:03:00.0": ("0x010802", "0x144d"),
        "pci0000:80/0000:80:01.0": ("0x060400", "0x8086"),
        "pci0000:80/0000:80:01.0/0000:81:00.0": ("0x020700", "0x15b3"),
    }
    for path, (kind, vendor) in tree.items():
        folder = sys_folder / "devices" / path
        folder.mkdir(parents=True)
        (folder / "class").write_text(kind + "\n")
        (folder / "vendor").write_text(vendor + "\n")
        (devices / folder.name).symlink_to(folder)
    setpci = tmp_path / "bin/setpci"
    setpci.parent.mkdir()
    setpci.write_text(f'#!/bin/sh\necho "$@" >> {log}\n[ "$2" = 0000:80:01.0 ] || echo 001d\n')  # one without ACS
    setpci.chmod(0o755)
    environment = {"LLMHW_SYS": str(sys_folder), "PATH": f"{setpci.parent}:/usr/bin:/bin"}
    subprocess.run(["sh", "-eu", "-c", tuning.ACS], env=environment, check=True)
    written = [line for line in log.read_text().splitlines() if "=" in line]
    assert sorted(written) == ["-s 0000:00:01.0 ECAP_ACS+6.w=0000", "-s 0000:01:00.0 ECAP_ACS+6.w=0000"]


def test_the_shipped_roles_need_no_python_beyond_3_9() -> None:
    """EL 9's interpreter: no match statement, no X | Y that is evaluated."""
    import ast

    for role in ("site_base", "host_tuning", "host_modules", "python_env"):
        for path in (role_modules.ROLES / role).rglob("*.py"):
            if "lookup_plugins" not in path.parts:  # runs on the controller
                ast.parse(path.read_text(encoding="utf-8"), feature_version=(3, 9))


@pytest.mark.parametrize(
    ("text", "mode", "says"),
    [("joe:pw", 0o644, "has mode 0644; chmod 0600"), ("joe", 0o600, "one line USER:PASSWORD"), (None, 0, "no file")],
)
def test_a_secret_that_others_read_is_refused_and_never_quoted(
    tmp_path: Path, text: str | None, mode: int, says: str
) -> None:
    path = tmp_path / "secret"
    if text is not None:
        path.write_text(text)
        path.chmod(mode)
    with pytest.raises(Exception, match=says) as caught:
        _lookup().run([str(path)])
    assert "joe" not in str(caught.value)


def test_a_secret_is_read_whole_also_from_a_vault(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("joe:p:w d\n")
    path.chmod(0o600)
    assert _lookup().run([str(path)]) == ["joe:p:w d"]
    password = tmp_path / "vault"
    password.write_text("open\n")
    vault = Path(sys.executable).with_name("ansible-vault")
    subprocess.run([vault, "encrypt", "--vault-password-file", password, path], check=True, capture_output=True)
    assert "joe" not in path.read_text()
    play = [{"hosts": "localhost", "gather_facts": False, "connection": "local", "tasks": [_assert(path)]}]
    (tmp_path / "play.yml").write_text(json.dumps(play))
    environment = {**os.environ, "ANSIBLE_LOOKUP_PLUGINS": str(role_modules.ROLES / "site_base/lookup_plugins")}
    environment |= {"HOME": str(tmp_path), "ANSIBLE_LOCALHOST_WARNING": "false"}
    command = [
        sys.executable,
        "-m",
        "ansible",
        "playbook",
        "--vault-password-file",
        str(password),
        str(tmp_path / "play.yml"),
    ]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def _assert(path: Path) -> dict[str, Any]:
    return {"ansible.builtin.assert": {"that": f"lookup('site_secret', '{path}') == 'joe:p:w d'", "quiet": True}}


def _lookup() -> Any:
    import importlib.util

    from ansible.parsing.dataloader import DataLoader

    path = role_modules.ROLES / "site_base/lookup_plugins/site_secret.py"
    spec = importlib.util.spec_from_file_location("site_secret", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.LookupModule(loader=DataLoader())


@pytest.mark.parametrize("named", ["", " $menuentry_id_option 'gnulinux-simple-1'", " --id simple", " --id=simple"])
def test_the_kept_entry_can_be_chosen_by_its_id_whatever_the_first_one_has(named: str) -> None:
    kept = boot.kept_entry(f"menuentry 'Debian GNU/Linux' --class os{named} {{\n\tlinux /vmlinuz ro\n}}")
    name = "Before llmhw-provision changed the command line"
    assert kept == f"menuentry '{name}' --class os --id llmhw-before {{\n\tlinux /vmlinuz ro\n}}"
