"""verify and report as they are called; the machine is a recording, pytest and JUnit are real."""

from __future__ import annotations

import json
import os
import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from llmhw_provision.cli import main
from llmhw_provision.documents import dump_json
from llmhw_provision.errors import InputError
from llmhw_provision.evidence_file import load
from tests.unit.recordings import FOLDER, plan, recorded

MARK = "REHEARSAL, not a measurement"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    shutil.copy(FOLDER / "provisioned.plan.json", tmp_path / "plan.json")
    (tmp_path / "site.yaml").write_text(
        "schema: 1\nsite: reading\nhosts:\n  - {name: vm-01, address: 127.0.0.1, port: 1}\n"
    )
    return tmp_path


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(item) for item in arguments], standalone_mode=False)


def run_folder(site: Path) -> Path:
    (found,) = (site / "runs").iterdir()
    return found


def test_a_machine_as_planned(site: Path) -> None:
    result = call("verify", "--site", site, "--evidence", FOLDER / "provisioned.json")
    assert result.return_value == 0
    assert result.stdout.splitlines()[0].startswith(MARK)
    assert "REHEARSAL PASSED" in result.stdout
    out = run_folder(site)
    assert out.name.endswith("Z-verify")
    assert f"report: {out}/report.html  (中文: report.zh.html)" in result.stdout
    assert sorted(path.name for path in out.iterdir()) == [
        "evidence", "junit.xml", "report.html", "report.json", "report.zh.html",
    ]  # fmt: skip
    assert load(out / "evidence" / "vm-01.json") == recorded("provisioned")


def test_junit_by_testinfra(site: Path) -> None:
    call("verify", "--site", site, "--evidence", FOLDER / "missing-drive.json")
    out = run_folder(site)
    suite = ET.parse(out / "junit.xml").getroot().find("testsuite")
    assert suite is not None
    report = json.loads((out / "report.json").read_text())
    statuses = [item["status"] for item in report["findings"]]
    assert int(suite.get("tests", "0")) == len(statuses)
    assert int(suite.get("failures", "0")) == statuses.count("fail") == 5
    assert int(suite.get("errors", "0")) == statuses.count("could-not-run")
    properties = {item.get("name"): item.get("value") for item in suite.findall("properties/property")}
    assert properties == {"plan": "0123456789ab", "rehearsal": MARK}
    hosts = {item.get("value") for item in suite.iter("property") if item.get("name") == "host"}
    assert hosts == {"safe-ssh://vm-01"}


def test_a_machine_that_is_not_as_planned(site: Path) -> None:
    result = call("verify", "--site", site, "--evidence", FOLDER / "pulled-drive.json")
    assert result.return_value == 3
    assert "missing LAB1: everything on /scratch is lost" in result.stdout
    assert "REJECTED" in result.stdout


def test_json_is_all_that_standard_output_holds(site: Path) -> None:
    result = call("verify", "--site", site, "--json", "--evidence", FOLDER / "provisioned.json")
    report = json.loads(result.stdout)
    assert (report["mark"], report["verdict"]) == (MARK, "REHEARSAL PASSED")
    assert "report.html" in result.stderr


def test_a_host_that_cannot_be_reached(site: Path) -> None:
    result = call("verify", "--site", site)
    assert result.return_value == 3
    assert "COULD NOT RUN  vm-01 (127.0.0.1): cannot be reached:" in result.stdout
    assert "INCOMPLETE" in result.stdout
    assert (run_folder(site) / "report.html").is_file()


def test_the_callers_pytest_settings_change_nothing(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "--collect-only -k nothing")
    (site / "conftest.py").write_text("raise SystemExit('read')\n")
    (site / "pytest.ini").write_text("[pytest]\naddopts = --no-such-option\n")
    monkeypatch.chdir(site)
    assert call("verify", "--evidence", FOLDER / "provisioned.json").return_value == 0
    assert os.environ["PYTEST_ADDOPTS"] == "--collect-only -k nothing"
    assert "PYTEST_DISABLE_PLUGIN_AUTOLOAD" not in os.environ


def test_a_purchase_plan_is_refused(site: Path) -> None:
    (site / "plan.json").write_text(dump_json(plan().model_copy(update={"origin": "purchase"})))
    result = call("verify", "--site", site)
    assert isinstance(result.exception, InputError)
    assert "purchase plan" in result.exception.problems[0].message
    assert not (site / "runs").exists()


def test_a_recording_of_another_host_is_refused(site: Path) -> None:
    other = plan().hosts[0].model_copy(update={"name": "vm-02", "disks": ()})
    (site / "plan.json").write_text(dump_json(plan().model_copy(update={"hosts": (other,)})))
    result = call("verify", "--site", site, "--evidence", FOLDER / "provisioned.json")
    assert isinstance(result.exception, InputError)
    assert "'vm-01', which is not in plan.json" in str(result.exception)


def test_report_writes_the_pages_again(site: Path) -> None:
    call("verify", "--site", site, "--evidence", FOLDER / "provisioned.json")
    out = run_folder(site)
    before = (out / "report.zh.html").read_text()
    (out / "report.html").unlink()
    (out / "report.zh.html").unlink()
    for arguments in ((), (out.name,), (str(out),)):
        result = call("report", "--site", site, *arguments)
        assert f"report: {out}/report.html" in result.stdout
        assert (out / "report.zh.html").read_text() == before


def test_report_without_a_verify(site: Path) -> None:
    result = call("report", "--site", site)
    assert isinstance(result.exception, InputError)
    assert result.exception.problems[0].hint == "run llmhw-provision verify first"
    assert isinstance(call("report", "--site", site, "nothing-there").exception, InputError)


def test_a_host_that_does_not_answer_is_one_finding(site: Path) -> None:
    result = call("verify", "--site", site)
    assert result.return_value == 3
    assert "INCOMPLETE" in result.stdout
    (found,) = json.loads((run_folder(site) / "report.json").read_text())["findings"]
    assert (found["check"], found["status"], found["severity"]) == ("access", "could-not-run", "critical")
    assert "Connection refused" in found["found"]
    assert found["next_step"] == "no ssh server on that port; check port in site.yaml"
