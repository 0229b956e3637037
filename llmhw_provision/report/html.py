"""The report as one self-contained HTML page, in English or Simplified Chinese, from one template."""

from __future__ import annotations

from dataclasses import dataclass

from llmhw_provision.checks.model import Finding
from llmhw_provision.checks.texts import TEXTS, Text
from llmhw_provision.report.chinese import LABELS as CHINESE_LABELS
from llmhw_provision.report.chinese import TEXTS as CHINESE_TEXTS
from llmhw_provision.report.english import LABELS as ENGLISH_LABELS
from llmhw_provision.report.model import Report
from llmhw_provision.report.page import CODES, Language, template
from llmhw_provision.report.text import AREAS

_SYMBOLS = {"pass": "✓", "warn": "!", "fail": "✗", "could-not-run": "?"}
_ATTENTION = ("fail", "could-not-run", "warn")


@dataclass(frozen=True)
class _Words:
    """One language: labels by key, and the texts of findings."""

    labels: dict[str, str]
    texts: dict[str, Text]

    def label(self, key: str) -> str:
        return self.labels[key]

    def title(self, finding: Finding) -> str:
        return self._text(finding).title.format(subject=finding.subject)

    def cause(self, finding: Finding) -> str:
        return self._advice(finding).cause

    def next_step(self, finding: Finding) -> str:
        if finding.next_step != _advice_of(finding, TEXTS).next_step:
            return finding.next_step  # an unreachable host brings its own hint, in English only
        return self._advice(finding).next_step

    def _text(self, finding: Finding) -> Text:
        return self.texts.get(f"{finding.check}/{finding.variant}", self.texts[finding.check])

    def _advice(self, finding: Finding) -> Text:
        return _advice_of(finding, self.texts)


def _advice_of(finding: Finding, texts: dict[str, Text]) -> Text:
    """Cause and next step of a finding; those without an answer share theirs."""
    check = "could-not-run" if finding.status == "could-not-run" else finding.check
    return texts.get(f"{check}/{finding.variant}", texts[check])


def _attention(report: Report) -> list[list[Finding]]:
    """One list per card, worst first; what the same reason left without an answer shares a card."""
    cards: dict[tuple[str, ...], list[Finding]] = {}
    for status in _ATTENTION:
        for finding in report.findings:
            if finding.status == status:
                own = finding.found if status == "could-not-run" else f"{finding.check} {finding.subject}"
                cards.setdefault((status, finding.host, own), []).append(finding)
    return list(cards.values())


_LANGUAGES = {"en": _Words(ENGLISH_LABELS, TEXTS), "zh": _Words(CHINESE_LABELS, CHINESE_TEXTS)}


def render_html(report: Report, language: Language) -> str:
    """The page; asks for nothing from the network."""
    words = _LANGUAGES[language]
    return template("report.html.j2").render(
        report=report,
        language=CODES[language],
        other={"en": "report.zh.html", "zh": "report.html"}[language],
        t=words.label,
        words=words,
        symbols=_SYMBOLS,
        areas=[area for area in AREAS if any(finding.area == area for finding in report.findings)],
        attention=_attention(report),
        counts={status: sum(f.status == status for f in report.findings) for status in _SYMBOLS},
    )
