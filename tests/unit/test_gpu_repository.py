"""The generated repository: index and files agree, relations lead somewhere, faults do what they are said to do."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest

from tests.rehearsal.gpu.deb import File, Link, Package
from tests.rehearsal.gpu.driver import packages
from tests.rehearsal.gpu.layout import tool
from tests.rehearsal.gpu.repository import DRIVERS, FAULTS, Repository, build
from tests.rehearsal.gpu.signing import Key

_DEBIAN = {"dkms", "python3", "pciutils", "kmod"}  # what the distribution gives
A, B, NEWEST = DRIVERS


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Key]:
    if shutil.which("gpg") is None:
        pytest.skip("gpg is not installed")
    made = Key.make(tmp_path_factory.mktemp("key") / "home")
    yield made
    made.close()


@pytest.fixture(scope="module")
def repository(key: Key, tmp_path_factory: pytest.TempPathFactory) -> Repository:
    return build(tmp_path_factory.mktemp("repository"), key=key)


def index(repository: Repository) -> list[dict[str, str]]:
    """The paragraphs of the index."""
    text = (repository.folder / "Packages").read_text().strip()
    return [dict(line.split(": ", 1) for line in part.splitlines()) for part in text.split("\n\n")]


def names(relation: str) -> set[tuple[str, ...]]:
    """The alternatives of each relation of a field."""
    return {tuple(re.split(r"[ (]", one.strip())[0] for one in part.split("|")) for part in relation.split(",") if part}


def test_the_index_names_the_files_as_they_are(repository: Repository, key: Key, tmp_path: Path) -> None:
    entries = index(repository)
    assert len(entries) == len(list(repository.folder.glob("*.deb"))) > 150
    for entry in entries:
        content = (repository.folder / entry["Filename"]).read_bytes()
        assert (entry["Size"], entry["SHA256"]) == (str(len(content)), hashlib.sha256(content).hexdigest())
    listed = (repository.folder / "Packages").read_bytes()
    assert hashlib.sha256(listed).hexdigest() in (repository.folder / "InRelease").read_text()
    assert re.fullmatch(r"[0-9A-F]{40}", repository.fingerprint)
    again = build(tmp_path, key=key)
    assert (again.folder / "Packages").read_bytes() == listed  # the same packages to the last byte


def test_every_relation_leads_somewhere(repository: Repository) -> None:
    entries = index(repository)
    given = {entry["Package"] for entry in entries} | {entry.get("Provides", "") for entry in entries} | _DEBIAN
    lost = {
        (entry["Package"], found)
        for entry in entries
        for found in names(entry.get("Depends", ""))
        if not set(found) & given
    }
    assert lost == set()


def test_a_release_binds_its_own_parts() -> None:
    for package in packages(B):
        for relation in package.relations.get("Depends", "").split(", "):
            if "=" in relation and not relation.startswith("libnvidia-cfg1 (>="):
                assert f"(= {B}-1)" in relation
    loose = {package.name: package.relations.get("Depends", "") for package in packages(B, loose=True)}
    assert f"nvidia-kernel-open-dkms (>= {B})" in loose["nvidia-open"]


def test_the_kernel_module_carries_its_release_and_its_flavour() -> None:
    made = {package.name: package for package in packages(B)}
    for name, flavour in (("nvidia-kernel-open-dkms", "1"), ("nvidia-kernel-dkms", "0")):
        header = made[name].files[f"/usr/src/nvidia-{B}/common.h"]
        assert isinstance(header, File)
        assert f'#define NV_VERSION "{B}"\n'.encode() in header.content
        assert f"#define NV_OPEN {flavour}\n".encode() in header.content
        assert f"/usr/src/nvidia-{B}/dkms.conf" in made[name].files
    broken = {package.name: package for package in packages(B, broken=True, hidden=True)}["nvidia-kernel-open-dkms"]
    source = broken.files[f"/usr/src/nvidia-{B}/nvidia.c"]
    assert isinstance(source, File)
    assert b"pci_resize_resource_gone" in source.content
    assert "||" in broken.scripts["postinst"]


@pytest.mark.parametrize("name", ["nvidia_smi", "nvidia_modprobe", "nvidia_persistenced", "nv_fabricmanager"])
def test_a_packaged_program_runs_alone_and_knows_its_release(name: str, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(tool(name, B).content)
    asked = "--help" if name == "nvidia_smi" else "--version"
    done = subprocess.run((sys.executable, "-IS", program, asked), capture_output=True, text=True, check=True)
    assert B in done.stdout
    assert b"Stand-in" in program.read_bytes()[:64]


def test_of_the_half_release_only_the_libraries_are_there(key: Key, tmp_path: Path) -> None:
    entries = index(build(tmp_path, key=key, faults=["half"]))
    newest = {entry["Package"] for entry in entries if entry["Version"] == f"{NEWEST}-1"}
    assert "libnvidia-ml1" in newest
    assert not {name for name in newest if "kernel" in name or name == "nvidia-open"}
    with pytest.raises(ValueError, match="unknown faults"):
        build(tmp_path, key=key, faults=["haalf"])
    assert set(FAULTS) == {"stub", "dkms-broken", "dkms-hidden", "half"}


def test_a_package_is_an_archive_of_two_tarballs() -> None:
    files: dict[str, File | Link] = {"/etc/a.conf": File(b"a\n"), "/usr/bin/a": File.program("#!/bin/sh\n")}
    package = Package("a", "1:2.0-1", "a test", files=files | {"/usr/lib/a": Link("../bin/a")})
    built = package.build()
    assert package.filename == "a_2.0-1_amd64.deb"
    place, members = 8, {}
    while place < len(built):
        name, size = built[place : place + 16].decode().strip(), int(built[place + 48 : place + 58])
        members[name] = built[place + 60 : place + 60 + size]
        place += 60 + size + size % 2
    assert list(members) == ["debian-binary", "control.tar.gz", "data.tar.gz"]
    with tarfile.open(fileobj=BytesIO(members["data.tar.gz"])) as data:
        modes = {entry.name: oct(entry.mode) for entry in data if entry.isfile()}
    assert modes == {"./etc/a.conf": "0o644", "./usr/bin/a": "0o755"}
    with tarfile.open(fileobj=BytesIO(members["control.tar.gz"])) as control:
        conffiles = control.extractfile("./conffiles")
        assert conffiles is not None
        assert conffiles.read() == b"/etc/a.conf\n"
