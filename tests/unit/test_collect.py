"""collect and the archive it writes: the same answers come out elsewhere, and nothing hostile comes in."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from click.testing import Result as Called

from llmhw_provision import evidence_archive
from llmhw_provision.checks.collecting import GENERAL, unanswered
from llmhw_provision.checks.identity import planned_host
from llmhw_provision.cli import main
from llmhw_provision.errors import InputError
from llmhw_provision.evidence import Command, Evidence, Result, read_here
from tests.unit.recordings import FOLDER, changed, plan, recorded
from tests.unit.test_verify_cli import call, run_folder, site

__all__ = ["site"]  # a fixture


def packed(evidence: Evidence, path: Path, **about: object) -> Path:
    said = {"own_name": "vm-01", "machine_id": "", "level": "quick", "plan": "", "user": 0} | about
    evidence_archive.write(evidence, path, **said)  # type: ignore[arg-type]
    return path


def members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {item.name: tar.extractfile(item).read() for item in tar}  # type: ignore[union-attr]


def repacked(path: Path, files: dict[str, bytes], edit: Callable[[tarfile.TarInfo], None] | None = None) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, raw in files.items():
            about = tarfile.TarInfo(name)
            about.size = len(raw)
            if edit:
                edit(about)
            tar.addfile(about, io.BytesIO(raw))
    return path


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packed(recorded("provisioned"), tmp_path_factory.mktemp("once") / "a.evidence.tar.gz")


@pytest.fixture
def archive(once: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy2(once, tmp_path))


def test_answers_come_out_as_they_went_in(archive: Path) -> None:
    manifest, evidence = evidence_archive.read(archive)
    assert evidence == recorded("provisioned")
    assert (manifest.host, manifest.level, manifest.user) == ("vm-01", "quick", 0)
    assert archive.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in archive.parent.iterdir()] == [archive.name]


def test_credentials_are_left_out(tmp_path: Path) -> None:
    said = b"index-url = https://robot:s3cret@mirror.example/simple\nssh://git@host/x http://h:80/ a:b@c\n"
    evidence = Evidence("h", "machine", {"pip": Result(0, said, said, 0.1, ("cat",))}, "2026-11-30T10:00:00Z")
    manifest, found = evidence_archive.read(packed(evidence, tmp_path / "a"))
    assert b"s3cret" not in gzip.decompress((tmp_path / "a").read_bytes())
    assert found.results["pip"].stdout == said.replace(b"robot:s3cret", b"***")
    assert manifest.hidden == 2


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    evidence = replace(recorded("provisioned"), read_at="yesterday")
    with pytest.raises(ValueError, match="isoformat"):
        packed(evidence, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_every_cut_is_refused(archive: Path) -> None:
    raw = archive.read_bytes()
    for end in [*range(0, len(raw), len(raw) // 10), len(raw) - 1, len(raw) - 8]:
        archive.write_bytes(raw[:end])
        with pytest.raises(InputError, match="not an evidence archive, or damaged"):
            evidence_archive.read(archive)


def test_every_flipped_byte_is_refused(archive: Path) -> None:
    raw = archive.read_bytes()
    for at in range(10, len(raw), len(raw) // 12):
        archive.write_bytes(raw[:at] + bytes([raw[at] ^ 0x55]) + raw[at + 1 :])
        with pytest.raises(InputError, match="not an evidence archive, or damaged"):
            evidence_archive.read(archive)


def _named(name: str) -> Callable[[dict[str, bytes]], dict[str, bytes]]:
    return lambda files: files | {name: b"x"}


def _manifest(**values: object) -> Callable[[dict[str, bytes]], dict[str, bytes]]:
    return lambda files: files | {"manifest.json": json.dumps(json.loads(files["manifest.json"]) | values).encode()}


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (_named("../../etc/cron.d/x"), "none of ours"),
        (_named("/etc/passwd"), "none of ours"),
        (_named("answers/../manifest.json"), "none of ours"),
        (_named("answers/9999.out"), "files for"),
        (lambda files: dict(reversed(files.items())), "instead of manifest.json"),
        (lambda files: {name: raw for name, raw in files.items() if name != "answers/0003.err"}, "missing or altered"),
        (lambda files: files | {"answers/0003.out": b"all is well\n"}, "missing or altered"),
        (_manifest(answers=[]), "files for 0 answers"),
        (_manifest(host=7), "host"),
        (lambda files: files | {"manifest.json": b"[" * 100_000}, "nested too deeply"),
        (lambda files: files | {"manifest.json": b"\xff"}, "utf-8"),
        (lambda _: {}, "nothing"),
    ],
)
def test_foreign_contents_are_refused(
    archive: Path, edit: Callable[[dict[str, bytes]], dict[str, bytes]], said: str
) -> None:
    repacked(archive, edit(members(archive)))
    with pytest.raises(InputError, match=said) as refused:
        evidence_archive.read(archive)
    assert len(refused.value.problems) == 1
    assert "\n" not in refused.value.problems[0].message


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE])
def test_links_and_devices_are_refused(archive: Path, kind: bytes) -> None:
    files = {name: raw if name == "manifest.json" else b"" for name, raw in members(archive).items()}

    def edit(about: tarfile.TarInfo) -> None:
        if about.name != "manifest.json":
            about.type, about.linkname = kind, "/etc/shadow"

    with pytest.raises(InputError, match="none of ours"):
        evidence_archive.read(repacked(archive, files, edit))


def test_a_newer_format_is_named(archive: Path) -> None:
    repacked(archive, _manifest(schema=2, tool="9.0")(members(archive)))
    with pytest.raises(InputError, match=r"archive format 2, made by llmhw-provision 9\.0; this is"):
        evidence_archive.read(archive)


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two gigabytes announced, zeros behind: refused at the limit, whatever kind of entry announces them."""
    monkeypatch.setattr(evidence_archive, "LARGEST", 8 << 20)
    head = tarfile.TarInfo("manifest.json")
    head.size = 2 << 30
    zeros = gzip.compress(b"\0" * (4 << 20), 1) * 8  # members of one gzip file are read on as one
    path = tmp_path / "bomb"
    path.write_bytes(gzip.compress(head.tobuf()) + zeros)
    with pytest.raises(InputError, match=r"manifest\.json has 2147483648 bytes"):
        evidence_archive.read(path)
    for kind in (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME):
        head.type = kind
        path.write_bytes(gzip.compress(head.tobuf()) + zeros)
        with pytest.raises(InputError, match="unpacks to more than 8 MiB"):
            evidence_archive.read(path)


def test_the_machine_is_known_by_its_disks() -> None:
    evidence, known = recorded("provisioned"), plan()
    assert planned_host(known, evidence, ("renamed.example",), source="f").name == "vm-01"
    assert planned_host(known, evidence, ("vm-01.example",), source="f").name == "vm-01"
    other = changed(evidence, "lsblk", lambda raw: raw.replace(b"LAB", b"BAL"))
    with pytest.raises(InputError, match=r"a machine named vm-01 with none of the . disks planned for it"):
        planned_host(known, other, ("vm-01",), source="f")
    with pytest.raises(InputError, match="read on 'elsewhere', which is not in plan"):
        planned_host(known, other, ("elsewhere",), source="f")
    twin = known.model_copy(
        update={"hosts": (*known.hosts, known.hosts[0].model_copy(update={"name": "vm-02", "disks": ()}))}
    )
    with pytest.raises(InputError, match="is named vm-02, but its disks are those of vm-01"):
        planned_host(twin, evidence, ("vm-02",), source="f")
    silent = Evidence("vm-01", "machine", {}, "2026-11-30T10:00:00Z")
    assert planned_host(known, silent, ("vm-01",), source="f").name == "vm-01"


def test_verify_judges_an_archive(site: Path, tmp_path: Path) -> None:
    found = replace(recorded("provisioned"), host="storage-box")
    path = packed(found, tmp_path / "a", own_name="storage-box", user=1000, plan="ba9876543210")
    result = call("verify", "--site", site, "--evidence", path)
    assert result.return_value == 0, result.stdout
    assert "recording answers" not in result.stderr
    assert "read by user 1000, not by root" in result.stderr
    assert "made for plan ba9876543210, judged by plan 0123456789ab" in result.stderr
    saved = evidence_archive_free(run_folder(site))
    assert saved == ["vm-01.json"]


def evidence_archive_free(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "evidence").iterdir())


def test_what_a_recording_does_not_answer() -> None:
    found = recorded("provisioned")
    few = replace(found, results={key: found.results[key] for key in ("lsblk", "os-release", "uname")})
    (line,) = unanswered(plan(), {"vm-01": few}, "quick")
    assert line.startswith("warning: vm-01: the recording answers 3 of the ")
    assert " questions of level quick: no " in line
    assert list(unanswered(plan(), {"vm-01": found}, "quick")) == []
    assert len(list(unanswered(plan(), {"vm-01": found}, "before"))) == 1
    assert list(unanswered(plan(), {"vm-01": Evidence("vm-01", "machine", {}, problem="off")}, "quick")) == []


def test_verify_refuses_two_recordings_of_one_host(site: Path, archive: Path) -> None:
    result = call("verify", "--site", site, "--evidence", archive, "--evidence", FOLDER / "provisioned.json")
    assert isinstance(result.exception, InputError)
    assert "a second recording of vm-01" in result.exception.problems[0].message
    assert not (site / "runs").exists()


def collected(*arguments: object) -> Called:
    return CliRunner().invoke(main, ["collect", *map(str, arguments)], standalone_mode=False)


def test_collect_reads_this_machine(tmp_path: Path) -> None:
    result = collected("--out", tmp_path)
    assert result.return_value == 0, result.output
    (path,) = tmp_path.iterdir()
    assert result.stdout == f"{path}\n"
    manifest, evidence = evidence_archive.read(path)
    assert [answer.key for answer in manifest.answers] == list(dict.fromkeys(command.key for command in GENERAL))
    assert manifest.own_name == os.uname().nodename
    assert manifest.user == os.geteuid()
    assert evidence.results["uname"].rc == 0
    raw = gzip.decompress(path.read_bytes())
    own = Path("/etc/machine-id").read_text().strip() if Path("/etc/machine-id").exists() else ""
    assert not own or own.encode() not in raw.partition(b"answers/")[0]


def test_collect_asks_what_the_plan_asks(tmp_path: Path) -> None:
    wrong = collected("--plan", FOLDER / "provisioned.plan.json", "--out", tmp_path)
    assert isinstance(wrong.exception, InputError)
    assert "hosts of the plan: vm-01" in wrong.exception.problems[0].hint
    assert list(tmp_path.iterdir()) == []
    alone = collected("--level", "before", "--out", tmp_path)
    assert isinstance(alone.exception, InputError)
    assert "without --plan" in alone.exception.problems[0].message


def test_reading_here() -> None:
    commands = (Command("a", ("echo", "x"), 5), Command("b", ("no-such-program",), 5))
    found = read_here("box", commands)
    assert (found.host, found.results["a"].stdout, found.results["b"].missing) == ("box", b"x\n", True)


def test_an_answer_without_end_is_cut_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llmhw_provision.evidence._LONGEST", 1 << 20)
    monkeypatch.setattr("llmhw_provision.evidence._RUNAWAY", 4 << 20)
    found = read_here("box", (Command("a", ("yes",), 60), Command("b", ("echo", "x"), 5)))
    assert found.results["a"].why() == "yes said more than 1 MiB"
    assert len(found.results["a"].stdout) <= 1 << 20
    assert found.results["b"].stdout == b"x\n"


def test_a_command_may_write_more_than_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """apt writes a cache of tens of megabytes when it is only asked for versions."""
    monkeypatch.setattr("llmhw_provision.evidence._LONGEST", 1 << 20)
    writes = 'f=$(mktemp); head -c 3000000 /dev/zero >"$f" && wc -c <"$f"; rm "$f"'
    assert read_here("box", (Command("a", ("sh", "-c", writes), 20),)).results["a"].stdout.strip() == b"3000000"
