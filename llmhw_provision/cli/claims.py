"""llmhw-provision claims"""

from __future__ import annotations

import json
from typing import Any, get_args

import click

from llmhw_provision.claims.chinese import translated
from llmhw_provision.claims.judge import Judged, Language, Verdict, claims, judge

_MARKS = {"holds": "✓", "condition": "~", "false": "✗"}
_WORDS: dict[Language, dict[str, str]] = {
    "en": {
        "holds": "holds",
        "condition": "holds with a condition",
        "false": "false",
        "source": "source",
        "count": "{all} claims: {holds} hold, {condition} hold with a condition, {false} are false",
        "more": "arithmetic and source: llmhw-provision claims NAME, or --why for all",
        "stop": ": ",
        "open": " (",
        "close": ")",
    },
    "zh": {
        "holds": "成立",
        "condition": "有条件成立",
        "false": "不成立",
        "source": "来源",
        "count": "共 {all} 条：{holds} 条成立，{condition} 条有条件成立，{false} 条不成立",
        "more": "算式与来源：llmhw-provision claims 名称，或用 --why 全部显示",
        "stop": "：",
        "open": "（",
        "close": "）",
    },
}


@click.command("claims")
@click.argument("wanted", metavar="[NAME]...", nargs=-1)
@click.option("--verdict", type=click.Choice(list(get_args(Verdict))), help="Only claims with this verdict.")
@click.option("--why", is_flag=True, help="Show arithmetic and source of every claim.")
@click.option("--lang", "language", type=click.Choice(["en", "zh"]), default="en", show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON, in both languages.")
def command(wanted: tuple[str, ...], verdict: str | None, why: bool, language: Language, as_json: bool) -> None:
    """Which claims of the source articles hold, hold with a condition, or are false; computed from the catalogue."""
    found = [judge(name) for name in wanted or claims()]
    found = [item for item in found if verdict is None or item.verdict == verdict]
    if as_json:
        click.echo(json.dumps([_data(item) for item in found], indent=2, ensure_ascii=False))
        return
    words = _WORDS[language]
    shown = why or bool(wanted)
    for item in found:
        click.echo("\n".join(_lines(item, language, shown)))
    if not wanted:
        counts = {key: sum(item.verdict == key for item in found) for key in _MARKS}
        click.echo("\n" + words["count"].format(all=len(found), **counts))
    if not shown:
        click.echo(words["more"])


def _lines(item: Judged, language: Language, shown: bool) -> list[str]:
    words = _WORDS[language]
    condition = item.condition(language)
    verdict = words[item.verdict] + (f"{words['open']}{condition}{words['close']}" if condition else "")
    lines = [f"{_MARKS[item.verdict]} {item.name} ({item.claim.article}){words['stop']}{item.says(language)}"]
    lines.append(f"    {verdict}{words['stop']}{item.because(language)}")
    if shown:
        lines += [f"      {translated(line) if language == 'zh' else line}" for line in item.lines]
        claim = item.claim
        lines.append(f"      {words['source']}{words['stop']}{claim.source} [{claim.confidence}, {claim.date}]")
    return lines


def _data(item: Judged) -> dict[str, Any]:
    languages: tuple[Language, ...] = ("en", "zh")
    return {
        "name": item.name,
        "article": item.claim.article,
        "verdict": item.verdict,
        "says": {key: item.says(key) for key in languages},
        "because": {key: item.because(key) for key in languages},
        "condition": {key: item.condition(key) for key in languages} if item.condition("en") else None,
        "computed": item.shown is not None,
        "arithmetic": list(item.lines),
        "source": item.claim.source,
        "confidence": item.claim.confidence,
        "date": item.claim.date,
    }
