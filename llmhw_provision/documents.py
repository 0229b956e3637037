"""Reading and writing the files of a site: YAML and JSON into typed models, all problems at once."""

from __future__ import annotations

import contextlib
import difflib
import json
import os
import tempfile
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, ClassVar, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from llmhw_provision.errors import InputError, Problem
from llmhw_provision.units import MB, disk

Model = TypeVar("Model", bound=BaseModel)

SIZE_LIMIT = 8 * MB
DEPTH_LIMIT = 40


class Record(BaseModel):
    """Base of everything that is read from a file: frozen, strict, unknown keys refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
    size_limit: ClassVar[int] = SIZE_LIMIT  # bytes of a file that may hold one


class _Loader(yaml.CSafeLoader):
    """SafeLoader that refuses a key written twice (YAML would silently keep the last)."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key.value!r} is written twice", key.start_mark
                )
            seen.add(key.value if isinstance(key, yaml.ScalarNode) else "")
        return super().construct_mapping(node, deep=deep)


def read(path: Path, model: type[Model]) -> Model:
    """The file at `path` (JSON if so named, else YAML) as `model`; raises InputError with every problem."""
    text = _text(path, getattr(model, "size_limit", SIZE_LIMIT))
    data = _json(path, text) if path.suffix == ".json" else _yaml(path, text)
    return check(data, model, path=path)


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in the file at `path`; raises InputError (missing, too large, not JSON, a key written twice)."""
    data = _json(path, _text(path))
    if not isinstance(data, dict):
        raise InputError(f"{path}: holds a {type(data).__name__}, not an object with keys")
    return data


def check(data: object, model: type[Model], *, path: Path) -> Model:
    """`data`, read from `path`, as `model`; raises InputError naming each wrong key by its path in the file."""
    if not isinstance(data, dict):
        found = "nothing" if data is None else f"a {type(data).__name__}"
        raise InputError(f"{path}: holds {found}, not keys with values", _keys_hint(model))
    try:
        return model.model_validate_json(json.dumps(data, default=str))
    except ValidationError as error:
        items = error.errors(include_url=False)
        deepest = [item for item in items if not _explained(item, items)]
        problems = tuple(_problem(path, model, item) for item in deepest)
        raise InputError.of(problems) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be used: {str(error)[:200]}") from None


def _text(path: Path, limit: int = SIZE_LIMIT) -> str:
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{path}: not a file")
        size = path.stat().st_size
        if size > limit:
            raise InputError(
                f"{path}: {disk(size)} is larger than any such file of a site (limit {disk(limit)})",
                "this is not one of our files; restore it from your copy",
            )
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start})", "restore the file from your copy") from None
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", "run inside the site's folder or name it with --site") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def _yaml(path: Path, text: str) -> object:
    try:
        _refuse_traps(path, text)
        return yaml.load(text, Loader=_Loader)  # _Loader derives from the safe loader
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        what = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error).splitlines()[0]
        raise InputError(f"{path}:{where} is not YAML: {what}", "check indentation and colons there") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not YAML we can read: {str(error)[:200]}") from None


def _refuse_traps(path: Path, text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        line = event.start_mark.line + 1 if event.start_mark else 0
        if isinstance(event, yaml.AliasEvent):
            raise InputError(f"{path}: line {line}: alias *{event.anchor} is not accepted", "write the value out")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > DEPTH_LIMIT:
            raise InputError(f"{path}: line {line}: nested deeper than {DEPTH_LIMIT} levels", "this is not our file")


def _json(path: Path, text: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_no_duplicates)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{path}: line {error.lineno}, column {error.colno} is not JSON: {error.msg}",
            "the file may be cut off; write it again with the command that made it",
        ) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not JSON we can read: {str(error)[:200]}") from None


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"key {key!r} is written twice")
        found[key] = value
    return found


def _explained(item: Any, items: list[Any]) -> bool:
    """Whether a list counts as too short only because its entries were refused for reasons of their own."""
    loc = item["loc"]
    return item["type"] == "too_short" and any(len(o["loc"]) > len(loc) and o["loc"][: len(loc)] == loc for o in items)


def _problem(path: Path, model: type[BaseModel], item: Any) -> Problem:
    loc = tuple(part for part in item["loc"] if isinstance(part, int) or not part.startswith("function-"))
    where = f"{path}: {_dotted(loc)}" if loc else str(path)
    kind = item["type"]
    if kind == "extra_forbidden":
        names = _names(model, loc[:-1])
        near = difflib.get_close_matches(str(loc[-1]), names, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}" if near else f"known keys: {', '.join(names)}"
        return Problem(f"{where}: unknown key", hint)
    if kind == "missing":
        return Problem(f"{where}: missing", f"required; see llmhw-provision schema {_schema_name(model)}")
    shown = repr(item["input"])
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    message = str(item["msg"]).removeprefix("Value error, ").removeprefix("Input ")
    hint = str(item.get("ctx", {}).get("hint", ""))
    if kind in ("value_error", "assertion_error"):
        return Problem(f"{where}: {message}", hint)
    return Problem(f"{where}: {shown} {message[:1].lower()}{message[1:]}", hint)


def _dotted(loc: tuple[Any, ...]) -> str:
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _names(model: type[BaseModel], loc: tuple[Any, ...]) -> list[str]:
    current: Any = model
    for part in loc:
        if isinstance(part, str) and _is_model(current) and part in current.model_fields:
            current = _inner(current.model_fields[part].annotation)
    return list(current.model_fields) if _is_model(current) else []


def _inner(annotation: Any) -> Any:
    """The record inside Optional, tuple, dict or Annotated."""
    if get_origin(annotation) in (Union, UnionType, tuple, list, dict, Annotated):
        found = [_inner(part) for part in get_args(annotation)]
        return next((part for part in found if _is_model(part)), None)
    return annotation


def _is_model(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseModel)


def _schema_name(model: type[BaseModel]) -> str:
    return model.__name__.lower()


def _keys_hint(model: type[BaseModel]) -> str:
    return f"expected keys: {', '.join(model.model_fields)}"


def dump_json(model: BaseModel) -> str:
    """The model as indented JSON with a final newline; same value, same bytes."""
    return json.dumps(model.model_dump(mode="json", by_alias=True), indent=2, ensure_ascii=False) + "\n"


def write_atomic(path: Path, text: str, *, mode: int = 0o644) -> bool:
    """Writes `text` to `path` through a temporary name; returns whether the bytes changed."""
    raw = text.encode()
    with contextlib.suppress(OSError):
        if path.read_bytes() == raw:
            return False
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return True
