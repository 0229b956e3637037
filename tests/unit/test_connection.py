"""The one ssh_config of a site."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from llmhw_provision.connection import control_folder, render_ssh_config, write_ssh_config
from llmhw_provision.errors import InputError
from llmhw_provision.site import Host, Jump, Site

SITE = Site(
    schema=1,
    site="customer-a",
    hosts=(
        Host(name="ap660-01", address="192.0.2.10", user="engineer", identity_file="keys/id"),
        Host(name="ap660-02", address="192.0.2.11", port=2222),
    ),
)


def options(folder: Path, host: str) -> dict[str, str]:
    """What ssh itself makes of the file."""
    (folder / "ssh_config").write_text(render_ssh_config(SITE, folder))
    return configured(folder, host)


def configured(folder: Path, host: str) -> dict[str, str]:
    """What ssh itself makes of the file that is there."""
    path = folder / "ssh_config"
    out = subprocess.run(["ssh", "-G", "-F", str(path), host], capture_output=True, text=True, check=True).stdout
    return dict(line.split(" ", 1) for line in out.splitlines() if " " in line)


def test_ssh_reads_it_as_meant(tmp_path: Path) -> None:
    found = options(tmp_path, "ap660-01")
    assert found["hostname"] == "192.0.2.10"
    assert found["user"] == "engineer"
    assert found["identityfile"] == str(tmp_path / "keys" / "id")
    assert found["identitiesonly"] == "yes"
    assert found["userknownhostsfile"] == str(tmp_path / "known_hosts")
    assert found["globalknownhostsfile"] == "/dev/null"
    assert found["stricthostkeychecking"] == "true"
    assert found["controlmaster"] == "auto"
    assert found["controlpersist"] == "120"
    assert found["batchmode"] == "yes"
    assert found["connecttimeout"] == "10"
    assert len(found["controlpath"]) < 80


def test_port_and_default_user(tmp_path: Path) -> None:
    found = options(tmp_path, "ap660-02")
    assert (found["hostname"], found["port"], found["user"]) == ("192.0.2.11", "2222", "root")


def test_a_folder_with_blanks_and_percent_signs(tmp_path: Path) -> None:
    folder = tmp_path / "50 % customer"
    folder.mkdir()
    # ssh -G prints the value before it expands %% to %
    assert options(folder, "ap660-01")["identityfile"].endswith("/50 %% customer/keys/id")


def test_a_folder_that_cannot_be_written_down_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot stand in ssh_config"):
        render_ssh_config(SITE, tmp_path / 'a"b')


def test_through_the_jump_host(tmp_path: Path) -> None:
    jump = Jump(address="203.0.113.5", port=2200, user="gate", identity_file="keys/gate")
    text = render_ssh_config(SITE.model_copy(update={"jump": jump}), tmp_path)
    (tmp_path / "ssh_config").write_text(text)
    for host in ("ap660-01", "ap660-02"):
        assert configured(tmp_path, host)["proxyjump"] == "_jump"
    found = configured(tmp_path, "_jump")
    assert (found["hostname"], found["port"], found["user"]) == ("203.0.113.5", "2200", "gate")
    assert found["identityfile"] == str(tmp_path / "keys" / "gate")
    assert found["stricthostkeychecking"] == "true"
    assert "proxyjump" not in found


def test_same_site_same_bytes(tmp_path: Path) -> None:
    assert render_ssh_config(SITE, tmp_path) == render_ssh_config(SITE, tmp_path)


def test_the_folder_of_control_sockets_is_private(tmp_path: Path) -> None:
    write_ssh_config(SITE, tmp_path)
    found = control_folder().stat()
    assert (found.st_mode & 0o777, found.st_uid) == (0o700, os.getuid())


def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    control_folder().mkdir(mode=0o755)
    with pytest.raises(InputError, match="not a private folder"):
        write_ssh_config(SITE, tmp_path)
