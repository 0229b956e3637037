"""The report: verdicts, both languages, nothing from the network, and a rehearsal never reads accepted."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import get_args

import pytest

from llmhw_provision.checks import table
from llmhw_provision.checks.model import Area, Finding
from llmhw_provision.checks.texts import TEXTS
from llmhw_provision.documents import dump_json, read
from llmhw_provision.evidence import Evidence, Result
from llmhw_provision.plan.model import Note, Plan
from llmhw_provision.report import chinese, english
from llmhw_provision.report.build import build_report
from llmhw_provision.report.folder import last_run, read_report, write_report
from llmhw_provision.report.html import render_html
from llmhw_provision.report.model import Report, Waiver, verdict
from llmhw_provision.report.page import Language
from llmhw_provision.report.text import render_text
from tests.unit.recordings import host_plan, plan, recorded, replaced

RUNBOOKS = Path(__file__).resolve().parents[2] / "docs" / "runbooks"
BOTH: tuple[Language, ...] = ("en", "zh")


def bare(name: str) -> Evidence:
    """A reading as if from a machine of its own."""
    return replaced(recorded(name), "virt", Result(1, b"none\n", b"", 0.1))


def server_plan() -> Plan:
    return plan().model_copy(update={"hosts": (host_plan().model_copy(update={"rehearsal": False}),)})


def made(evidence: Evidence, of: Plan, **more: tuple[Waiver, ...]) -> Report:
    found = table.judge_all(of.hosts[0], evidence, "quick")
    return build_report(of, {"vm-01": evidence}, found, level="quick", date="2026-11-30 10:12:00", seconds=6.44, **more)


REHEARSED = made(recorded("provisioned"), plan())
REHEARSED_BROKEN = made(recorded("missing-drive"), plan())
ACCEPTED = made(bare("provisioned"), server_plan())
REJECTED = made(bare("missing-drive"), server_plan())
UNREACHABLE = made(
    Evidence("vm-01", "machine", {}, problem="vm-01 (192.0.2.1): cannot be reached: refused", hint="check the port"),
    server_plan(),
)
ALL = {"rehearsed": REHEARSED, "broken": REHEARSED_BROKEN, "accepted": ACCEPTED, "rejected": REJECTED}
ALL["unreachable"] = UNREACHABLE


def test_verdicts() -> None:
    assert {name: report.verdict for name, report in ALL.items()} == {
        "rehearsed": "REHEARSAL PASSED",
        "broken": "REJECTED",
        "accepted": "ACCEPTED",
        "rejected": "REJECTED",
        "unreachable": "INCOMPLETE",
    }


def finding(status: str) -> Finding:
    first = REHEARSED.findings[0]
    return first.model_copy(update={"status": status})


@pytest.mark.parametrize(
    ("statuses", "real", "rehearsal"),
    [
        (("pass",), "ACCEPTED", "REHEARSAL PASSED"),
        (("pass", "warn"), "ACCEPTED", "REHEARSAL PASSED"),
        (("pass", "could-not-run"), "INCOMPLETE", "INCOMPLETE"),
        (("fail", "could-not-run"), "REJECTED", "REJECTED"),
        (("fail", "pass"), "REJECTED", "REJECTED"),
        ((), "INCOMPLETE", "INCOMPLETE"),
    ],
)
def test_verdict_of_findings(statuses: tuple[str, ...], real: str, rehearsal: str) -> None:
    found = tuple(finding(status) for status in statuses)
    assert verdict(found, rehearsal=False) == real
    assert verdict(found, rehearsal=True) == rehearsal


def test_a_waiver_covers_its_failure_only() -> None:
    failure = finding("fail")
    waiver = Waiver(host=failure.host, check=failure.check, subject=failure.subject, reason="agreed", by="customer")
    assert verdict((failure,), rehearsal=False, waivers=(waiver,)) == "ACCEPTED WITH WAIVERS"
    assert verdict((failure,), rehearsal=True, waivers=(waiver,)) == "REHEARSAL PASSED"
    other = failure.model_copy(update={"subject": "LAB7"})
    assert verdict((failure, other), rehearsal=False, waivers=(waiver,)) == "REJECTED"


def test_a_stand_in_is_never_accepted() -> None:
    evidence = Evidence("vm-01", "stand-in", bare("provisioned").results)
    report = made(evidence, server_plan())
    assert (report.verdict, report.mark) == ("REHEARSAL PASSED", "REHEARSAL, not a measurement")


class Page(HTMLParser):
    """What a page asks for, and what a reader sees."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "action", "srcset")]

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.mark.parametrize("language", BOTH)
@pytest.mark.parametrize("name", ALL)
def test_a_page_stands_alone(name: str, language: Language) -> None:
    text = render_html(ALL[name], language)
    page = Page(text)
    assert page.links == ["report.zh.html" if language == "en" else "report.html"]
    assert page.tags.isdisjoint({"script", "img", "link", "iframe"})
    assert not re.search(r"url\(|@import|https?://", text)


@pytest.mark.parametrize("name", ["rehearsed", "broken"])
def test_a_rehearsal_says_so_everywhere(name: str) -> None:
    report = ALL[name]
    marks = {"en": "REHEARSAL, not a measurement", "zh": "演练（REHEARSAL），不是测量结果"}
    for language in BOTH:
        text = render_html(report, language)
        assert f'<div class="mark screen">{marks[language]}</div>' in text
        # the head of the frame is repeated on every printed page
        assert re.search(rf'<table class="frame".*?>\s*<thead>.*{marks[language]}.*</thead>', text)
        assert marks[language] in text[: text.index("</title>")]
        assert ".frame > thead { display: table-header-group; }" in text
    assert render_text(report).startswith("REHEARSAL, not a measurement")
    assert '"mark": "REHEARSAL, not a measurement"' in dump_json(report)
    shown = render_html(report, "en") + render_text(report) + dump_json(report)
    assert "ACCEPTED" not in shown
    assert "验收通过" not in render_html(report, "zh")


def test_a_server_is_not_marked() -> None:
    for language in BOTH:
        assert 'class="mark' not in render_html(ACCEPTED, language)
    assert "REHEARSAL" not in render_text(ACCEPTED) + dump_json(ACCEPTED)


@pytest.mark.parametrize("language", BOTH)
def test_status_is_a_word_and_never_a_colour_alone(language: Language) -> None:
    words = {"en": ("fail", "could not run", "pass"), "zh": ("不通过", "无法执行", "通过")}[language]
    shown = [word.strip() for word in Page(render_html(REJECTED, language)).words]
    for word in words:
        assert word in shown


def test_each_failure_says_what_to_do() -> None:
    shown = " ".join(Page(render_html(REJECTED, "en")).words)
    for item in REJECTED.findings:
        if item.status == "fail":
            for text in (item.title, item.found, item.expected, item.cause, item.next_step):
                assert text in shown
            assert f"docs/runbooks/{item.runbook}.md" in shown
            assert f"evidence/vm-01.json → {item.evidence}" in shown


def test_the_plans_statements_stand_in_the_report() -> None:
    for language in BOTH:
        shown = " ".join(Page(render_html(REHEARSED, language)).words)
        assert "one dead drive of 2 loses everything on /scratch" in shown
        assert "checkpoints worth keeping must be copied to /srv/project" in shown


def test_chinese_has_every_word_of_english() -> None:
    assert chinese.LABELS.keys() == english.LABELS.keys()
    assert chinese.TEXTS.keys() == TEXTS.keys()
    for key, text in TEXTS.items():
        for field in ("title", "cause", "next_step"):
            theirs, ours = getattr(text, field), getattr(chinese.TEXTS[key], field)
            assert bool(theirs) == bool(ours)
            assert re.findall(r"{\w+}", theirs) == re.findall(r"{\w+}", ours)
            assert not ours or re.search(r"[\u4e00-\u9fff]", ours)


def test_checks_that_differ_in_english_differ_in_chinese() -> None:
    english_of: dict[str, set[str]] = {}
    for key, text in TEXTS.items():
        english_of.setdefault(chinese.TEXTS[key].title, set()).add(text.title)
    assert {title: names for title, names in english_of.items() if len(names) > 1} == {}


def test_chinese_has_its_own_colon() -> None:
    text = render_html(REJECTED, "zh")
    shown = [*Page(text).words, *re.findall(r'data-label="([^"]+)"', text)]
    assert [word for word in shown if re.search(r"[\u4e00-\u9fff]:", word)] == []
    assert 'data-label="实际："' in text


def test_areas_of_a_host_are_counted_and_one_that_falls_short_is_marked() -> None:
    text = render_html(REJECTED, "en")
    mine = [finding.status for finding in REJECTED.findings if finding.area == "array"]
    good = sum(status in ("pass", "warn") for status in mine)
    assert good < len(mine)
    assert f'<span class="area short"><span>Arrays</span> {good}/{len(mine)}</span>' in text
    assert '<span class="area"><span>Host</span> 5/5</span>' in text


def test_chinese_page_gives_cause_and_next_step_in_chinese() -> None:
    shown = " ".join(Page(render_html(REJECTED, "zh")).words)
    assert "阵列 scratch 成员齐全（按序列号）" in shown
    assert "不要创建任何阵列；按序列号找到磁盘，按操作手册处理" in shown
    assert "先处理那一项，再次执行 verify" in shown
    assert "the drive is dead" not in shown


def test_what_a_machine_says_cannot_break_the_page() -> None:
    evil = REJECTED.findings[0].model_copy(update={"status": "fail", "found": "<script>alert(1)</script>"})
    report = REJECTED.model_copy(
        update={"findings": (evil,), "notes": (Note(rule="<b>", choice="</div><script>", source="&"),)}
    )
    for language in BOTH:
        assert "script" not in Page(render_html(report, language)).tags


def test_text_for_the_terminal() -> None:
    assert render_text(ACCEPTED).splitlines() == [
        "vm-01   host 5/5   disks 4/4   array 15/15   filesystem 16/16   tmpfs 3/3   PASS   (6.4 s)",
        "",
        "ACCEPTED  site reading · plan 0123456789ab · level quick",
    ]
    lines = render_text(REJECTED).splitlines()
    at = next(index for index, line in enumerate(lines) if "array scratch is complete" in line)
    assert lines[at : at + 3] == [
        (
            "  FAIL  array scratch is complete, by serial: 1 of 2; missing LAB1: everything on /scratch is lost;"
            " expected 2 members: LAB0, LAB1"
        ),
        "        likely: a drive is dead, pulled or was exchanged",
        (
            "        next: do not create anything; find the drive by its serial and follow the runbook"
            " · runbook storage-replace-drive · evidence mdadm-detail"
        ),
    ]


def test_an_unreachable_host_is_one_block() -> None:
    assert render_text(UNREACHABLE).splitlines() == [
        "vm-01   access 0/1   COULD NOT RUN   (6.4 s)",
        "",
        "  COULD NOT RUN  vm-01 (192.0.2.1): cannot be reached: refused",
        "        next: check the port",
        "",
        "INCOMPLETE  site reading · plan 0123456789ab · level quick",
    ]


def test_a_report_is_read_as_it_was_written(tmp_path: Path) -> None:
    page = write_report(REJECTED, tmp_path)
    assert read_report(tmp_path) == REJECTED
    assert read(tmp_path / "report.json", Report) == REJECTED
    assert page.read_text() == render_html(REJECTED, "en")
    assert (tmp_path / "report.zh.html").read_text() == render_html(REJECTED, "zh")


def test_the_last_run_is_the_newest_with_a_report(tmp_path: Path) -> None:
    for name in ("2026-11-30T10-00-00Z-verify", "2026-11-30T11-00-00Z-verify", "2026-11-30T12-00-00Z-apply"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "report.json").write_text("{}")
    (tmp_path / "2026-11-30T13-00-00Z-verify").mkdir()  # was stopped before it wrote one
    assert last_run(tmp_path).name == "2026-11-30T11-00-00Z-verify"


def test_every_runbook_that_is_named_exists() -> None:
    named = {check.runbook for check in table.CHECKS}
    assert {name for name in named if not (RUNBOOKS / f"{name}.md").is_file()} == set()


def test_the_list_of_runbooks_names_every_check_that_leads_there() -> None:
    text = (RUNBOOKS / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[([\w-]+)\]\(\1\.md\) \| (.+) \|$", text, re.MULTILINE)
    listed = {(page, check) for page, checks in rows for check in checks.split(", ")}
    assert listed == {(check.runbook, check.id) for check in table.CHECKS}


@pytest.mark.parametrize("area", get_args(Area))
def test_every_area_is_counted_in_text_and_page(area: Area) -> None:
    one = ACCEPTED.findings[0].model_copy(update={"area": area})
    report = ACCEPTED.model_copy(update={"findings": (one,)})
    assert f"   {area} 1/1   PASS" in render_text(report)
    assert english.LABELS[f"area-{area}"] in Page(render_html(report, "en")).words
    assert chinese.LABELS[f"area-{area}"] in Page(render_html(report, "zh")).words
