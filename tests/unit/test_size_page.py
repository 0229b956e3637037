"""The sizing page: it draws what was computed, asks for nothing, runs nothing, and reads well when narrow."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from llmhw_provision.cli import main
from llmhw_provision.report.sizing_words import LABELS

TRAIN = ("--model", "llama-3.1-8b", "--job", "sft", "--seq", "4096")
PIPELINE = ("--model", "llama-3.1-70b", "--job", "sft", "--pp", "2", "--tp", "4", "--machine", "alphapro660")
SERVE = ("--model", "llama-3.1-70b", "--job", "serve", "--concurrency", "16", "--context", "8192")
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def page(path: Path, *arguments: str) -> str:
    result = CliRunner().invoke(main, ["size", *arguments, "--html", str(path)])
    assert result.exit_code == 0, result.output
    assert f"page: {path}" in result.stderr
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    made = {"train": TRAIN, "serve": (*SERVE, "--machine", "alphapro660"), "chinese": (*SERVE, "--lang", "zh")}
    for name, arguments in made.items():
        page(folder / f"{name}.html", *arguments)
    return {name: folder / f"{name}.html" for name in made}


def test_it_is_self_contained_and_runs_nothing(pages: dict[str, Path]) -> None:
    for path in pages.values():
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"https?://|<script|@import|url\(|<img|srcset|<iframe", text)
        assert re.findall(r'(?:href|src)="([^"]*)"', text) == ["data:,"]


def test_a_bar_adds_up_to_the_need(pages: dict[str, Path]) -> None:
    data = json.loads(CliRunner().invoke(main, ["size", *TRAIN, "--json"]).stdout)["machines"]
    found = re.findall(r'<div class="track">(.*?)</div>', pages["train"].read_text(encoding="utf-8"))
    drawn = [sum(map(float, re.findall(r"width: ([0-9.]+)%", track))) for track in found]
    need, card = data[0]["device_bytes"], data[0]["usable_bytes"]
    assert drawn[0] == pytest.approx(100 * need / card, abs=0.1)
    assert drawn[1] == pytest.approx(100, abs=0.1)  # the parts of a step
    for term in max(data[0]["moments"], key=lambda moment: moment["bytes"])["terms"]:
        assert html.escape(term["formula"]) in pages["train"].read_text(encoding="utf-8")


def test_every_pipeline_stage_has_its_bar(tmp_path: Path) -> None:
    text = page(tmp_path / "p.html", *PIPELINE)
    assert "first pipeline stage:" in text
    assert "last pipeline stage:" in text


def test_what_if_is_what_size_says_of_it(tmp_path: Path) -> None:
    ways = ("--tp", "1", "--pp", "1", "--cp", "1", "--zero", "3", "--sharder", "fsdp", "--offload", "none")
    fixed = ("--machine", "alphapro660", *ways, "--micro-batch", "1", "--recompute", "none")
    text = page(tmp_path / "w.html", *TRAIN, *fixed)
    current = re.search(r'current">([0-9.,]+)<', text)
    row = re.search(r'<th scope="row">8,192</th><td class="(\w+)">([0-9.,]+)<', text)
    assert current
    assert row
    command = ["size", *TRAIN[:4], "--seq", "8192", *fixed, "--json"]
    other = json.loads(CliRunner().invoke(main, command).stdout)["machines"][0]
    assert float(row[2]) == pytest.approx(other["device_bytes"] / 2**30, abs=0.06)
    assert row[1] == {"fits": "fits", "tight": "tight"}.get(other["verdict"], "fail")
    assert f"each GPU: {current[1]} GiB" in text


def test_no_point_lies_above_the_roof(pages: dict[str, Path]) -> None:
    text = pages["serve"].read_text(encoding="utf-8")
    roof = re.search(r'<polyline points="([^"]+)"', text)
    assert roof
    (x0, y0), (x1, y1), (x2, _) = [tuple(map(float, pair.split(","))) for pair in roof[1].split()]
    points = [tuple(map(float, pair)) for pair in re.findall(r'<circle cx="([0-9.]+)" cy="([0-9.]+)"', text)]
    points += [(float(x), float(y)) for x, y in re.findall(r'<path d="M ([0-9.]+) ([0-9.]+) ', text)]
    assert len(points) >= 7
    for x, y in points:
        edge = y1 if x >= x1 else y0 + (y1 - y0) * (x - x0) / (x1 - x0)
        assert x <= x2
        assert y > edge - 9  # a diamond begins at its upper corner
    assert text.count("asked for") == 2
    assert "decode, batch 8" in text


def test_labels_are_the_same_in_both_languages() -> None:
    assert LABELS["en"].keys() == LABELS["zh"].keys()


def test_chinese_leaves_hardly_a_word_of_english(pages: dict[str, Path]) -> None:
    text = pages["chinese"].read_text(encoding="utf-8")
    text = re.sub(r'<div class="source">.*?</div>', "", text[text.index("<main") :])
    words = set(re.findall(r"\b[a-z][a-z-]{3,}\b", re.sub("<[^>]+>", " ", text)))
    assert words <= {"token", "llmhw-provision", "explain"}
    assert "不成立" not in text
    assert "放不下" in text


def test_the_same_input_gives_the_same_bytes(pages: dict[str, Path], tmp_path: Path) -> None:
    assert page(tmp_path / "again.html", *TRAIN) == pages["train"].read_text(encoding="utf-8")


def test_a_language_without_a_page_is_refused() -> None:
    result = CliRunner().invoke(main, ["size", *TRAIN, "--lang", "zh"])
    assert result.exit_code == 2
    assert "name it with --html" in result.output


BROKEN = (
    '<!DOCTYPE html><html><body><div style="width: 700px">wide</div><img src="http://127.0.0.1:59999/x.png">'
    "<script>console.error('seen')</script></body></html>"
)
PROBE = """
<!DOCTYPE html><html><body>FRAMES<pre id="out"></pre><script>
addEventListener("load", () => { const out = {};
  for (const frame of document.querySelectorAll("iframe")) { const page = frame.contentDocument.documentElement;
    out[frame.id] = { overflow: page.scrollWidth - page.clientWidth, height: page.scrollHeight,
      requests: frame.contentWindow.performance.getEntriesByType("resource").map((entry) => entry.name) }; }
  document.getElementById("out").textContent = JSON.stringify(out); });
</script></body></html>
"""


@pytest.mark.skipif(BROWSER is None, reason="needs Chromium on this machine (apt-get install chromium)")
def test_in_a_browser(pages: dict[str, Path], tmp_path: Path) -> None:
    broken = tmp_path / "broken.html"
    broken.write_text(BROKEN)
    frames = "".join(
        f'<iframe id="{name}-{width}" src="{path.as_uri()}" style="width: {width}px; border: 0"></iframe>'
        for name, path in (*pages.items(), ("broken", broken))
        for width in (390, 1280)
    )
    probe = tmp_path / "probe.html"
    probe.write_text(PROBE.replace("FRAMES", frames))
    done = subprocess.run(
        [
            *(
                str(BROWSER),
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
                "--allow-file-access-from-files",
            ),
            *("--disable-background-networking", "--no-first-run", f"--user-data-dir={tmp_path / 'profile'}"),
            *("--enable-logging=stderr", "--log-level=0", "--timeout=15000", "--dump-dom", probe.as_uri()),
        ],
        env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=180,
        check=True,
    )
    answer = re.search(r'<pre id="out">(.*?)</pre>', done.stdout)
    assert answer, done.stderr[-2000:]
    seen: dict[str, Any] = json.loads(html.unescape(answer[1]))
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert {name: (item["overflow"], item["requests"]) for name, item in seen.items() if "broken" not in name} == {
        f"{name}-{width}": (0, []) for name in pages for width in (390, 1280)
    }
    assert [line for line in console if "broken.html" not in line] == []
    # what the test would not overlook
    assert seen["broken-390"]["overflow"] > 300
    assert seen["broken-390"]["requests"] == ["http://127.0.0.1:59999/x.png"]
    assert any("seen" in line for line in console)
