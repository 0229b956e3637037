"""Hostile inputs for the parsers: grown, cut, translated or mangled from real outputs."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator

import yaml

from llmhw_provision.probes.registry import form_of
from tests.unit import gpu_texts, test_probe_forms, variants_gpu, variants_host
from tests.unit.recordings import FOLDER, SAMPLES

# What is repeated without end behind, or in the middle of, an output that begins as its tool's does.
FILLERS = (
    b"a",
    b"0",
    b" ",
    b"\t",
    b"\n",
    b"\r",
    b"\r\n",
    b"\0",
    b"\xff",
    b"[",
    b'{"a":',
    b'"',
    b"(",
    b"-",
    b"=",
    b"| ",
)
FILLERS += (
    b"| ",
    b"1 ",
    b"1,",
    b": ",
    b"x=",
    b"\x1b[",
    b"\x1b[4m",
    b"GPU ",
    b"\xc3\xa4",
    b"...",
    b"\\",
    b"a:\n",
    b"#\n",
)
_GROWING = (b"a", b"0", b" ", b"\t", b"\n", b"\0", b"\xff", b"[", b'{"a":', b'"', b"(", b"-", b"| ", b"\x1b[", b": ")
# The same words in other languages, and numbers as they are written there.
_TRANSLATED = (
    (b"not found", b"nicht gefunden"),
    (b"Permission denied", b"Keine Berechtigung"),
    (b"No such file or directory", b"Datei oder Verzeichnis nicht gefunden"),
    (b"No such file or directory", "没有那个文件或目录".encode()),
    (b"active", b"aktiv"),
    (b"Architecture", b"Architektur"),
    (b"Model name", "型号名称".encode()),
    (b"CPU(s)", b"Prozessor(en)"),
    (b"Error", b"Fehler"),
    (b"Failed", "失败".encode()),
    (b"Version", "Versión".encode()),
    (b"State", "État".encode()),
    (b"yes", b"ja"),
    (b"No", b"Nein"),
)


def seeds() -> dict[str, bytes]:
    """Outputs by name: the samples that are kept here (all where this checkout has them), and the constructed ones."""
    folder = SAMPLES if (SAMPLES / "index.yaml").exists() else FOLDER / "tools"
    names = [str(item["file"]) for item in yaml.safe_load((folder / "index.yaml").read_text())["samples"]]
    found = {name: (folder / name).read_bytes() for name in names}
    for module in (test_probe_forms, gpu_texts, variants_gpu, variants_host):
        texts = {key: value for key, value in vars(module).items() if key.isupper() and isinstance(value, str)}
        found |= {f"{module.__name__}.{key}": text.encode() for key, text in texts.items()}
    found["smartctl"] = json.dumps(test_probe_forms.SMARTCTL_JSON, indent=2).encode()
    return {name: raw for name, raw in found.items() if form_of(raw) is not None}


def one_a_form(found: dict[str, bytes]) -> dict[str, bytes]:
    """The longest of the outputs of each form below 40 kB, by the form's name."""
    best: dict[str, bytes] = {}
    for raw in sorted(found.values(), key=len):
        form = form_of(raw)
        if form and (form.name not in best or len(raw) < 40_000):
            best[form.name] = raw
    return best


def grown(seed: bytes, size: int, *, heads: bool = True) -> Iterator[tuple[str, bytes]]:
    """Outputs of about `size` bytes made from `seed`; `heads`: also such that begin as the tool's do and go on wild."""
    text = seed if seed.endswith(b"\n") else seed + b"\n"
    rows = text.splitlines(keepends=True)
    longest = max(rows, key=len)
    yield "whole, repeated", text * (size // len(text))
    for name, row in (("first", rows[0]), ("last", rows[-1]), ("longest", longest)):
        yield f"{name} line, repeated", text + row * (size // len(row))
    at = len(text) // 2
    for filler in _GROWING:
        many = filler * (size // len(filler))
        yield f"{filler!r} in the middle", text[:at] + many + text[at:]
        if heads:
            yield f"{filler!r} below the first line", rows[0] + many + b"\n"


def mangled(raw: bytes, chance: random.Random) -> bytes:
    """`raw` damaged in one or two of the ways that cables, terminals, editors and locales damage text."""
    for _ in range(chance.randint(1, 2)):
        raw = chance.choice(_WAYS)(raw, chance)
    return raw


def _cut(raw: bytes, chance: random.Random) -> bytes:
    return raw[: chance.randrange(len(raw) + 1)]


def _behead(raw: bytes, chance: random.Random) -> bytes:
    return raw[chance.randrange(len(raw) + 1) :]


def _crlf(raw: bytes, _: random.Random) -> bytes:
    return raw.replace(b"\n", b"\r\n")


def _insert(raw: bytes, chance: random.Random) -> bytes:
    at = chance.randrange(len(raw) + 1)
    return raw[:at] + chance.choice(FILLERS) * chance.choice((1, 2, 300)) + raw[at:]


def _drop_line(raw: bytes, chance: random.Random) -> bytes:
    rows = raw.splitlines(keepends=True)
    if rows:
        del rows[chance.randrange(len(rows))]
    return b"".join(rows)


def _double_line(raw: bytes, chance: random.Random) -> bytes:
    rows = raw.splitlines(keepends=True)
    if rows:
        at = chance.randrange(len(rows))
        rows.insert(chance.randrange(len(rows)), rows[at])
    return b"".join(rows)


def _drop_word(raw: bytes, chance: random.Random) -> bytes:
    rows = raw.splitlines(keepends=True)
    if rows:
        at = chance.randrange(len(rows))
        words = rows[at].split(b" ")
        del words[chance.randrange(len(words))]
        rows[at] = b" ".join(words)
    return b"".join(rows)


def _decimal_commas(raw: bytes, _: random.Random) -> bytes:
    return re.sub(rb"(?<=[0-9])\.(?=[0-9])", b",", raw)


def _translate(raw: bytes, _: random.Random) -> bytes:
    for english, other in _TRANSLATED:
        raw = raw.replace(english, other)
    return raw


def _digits(raw: bytes, chance: random.Random) -> bytes:
    """A digit becomes what no number holds: thousands of digits, a sign, a superscript, another script, a word."""
    places = [found.start() for found in re.finditer(rb"[0-9]", raw)]
    if not places:
        return raw
    at = chance.choice(places)
    return raw[:at] + chance.choice(_NUMBERS) + raw[at + 1 :]


def _json_kind(raw: bytes, chance: random.Random) -> bytes:
    """One JSON value, or what looks like one, becomes another kind."""
    places = [found.span(1) for found in re.finditer(rb":([^,\n}]+)", raw)]
    if not places:
        return raw
    start, end = chance.choice(places)
    return raw[:start] + chance.choice(_VALUES) + raw[end:]


_NUMBERS = (
    b"9" * 400,
    b"9" * 5000,
    b"-1",
    b"",
    b"x",
    b"1e999",
    "٣".encode(),
    "²".encode(),
    b"nan",
    b"null",
    b"[]",
    b"0x1F",
)
_VALUES = (b" null", b" []", b" {}", b' ""', b" true", b" -1", b" 1.5", b' "x"', b" [null]", b" NaN", b" [{}]")
_WAYS = (_cut, _behead, _crlf, _insert, _drop_line, _double_line, _drop_word)
_WAYS += (_decimal_commas, _translate, _digits, _json_kind)
