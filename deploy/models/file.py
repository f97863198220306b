"""A file of models, TOML or JSON, turned into records; what is wrong with it, a line a fault.

Pure but for reading the file. The file is a table `models`: an array with one table a model, its
fields those of docs/schemas/model-record.json.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

import orjson
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from schemas.control import ModelRecord
from schemas.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found]  # only there on 3.10

NAME_MAX = 256
"""Characters, as in requests."""
_OURS = {"version", "revision"}


class Parsed(NamedTuple):
    """What a file says; it counts only without faults."""

    models: tuple[ModelRecord, ...]
    faults: tuple[str, ...]


def read_file(path: Path) -> Parsed:
    """Return the models of a file and its faults; raise UsageError if it is no such file at all."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    is_json = path.suffix == ".json"
    try:
        document = orjson.loads(raw) if is_json else tomllib.loads(raw.decode())
    except ValueError as error:
        raise UsageError(f"{path} is not {'JSON' if is_json else 'TOML'}: {error}") from None
    return parse(document)


def parse(document: Any) -> Parsed:
    """Return the models in a document and what is wrong with it."""
    entries = document.get("models") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not entries or len(document) > 1:
        return Parsed((), ("the file: give one array `models` with a table for each, and no more",))
    models: list[ModelRecord] = []
    faults: list[str] = []
    for number, entry in enumerate(entries, 1):
        where = f"model {number}"
        if isinstance(entry, dict) and isinstance(entry.get("name"), str):
            where += f" ({entry['name']})"
        wrong = _faults(entry)
        faults += [f"{where}: {fault}" for fault in wrong]
        if not wrong:
            models.append(ModelRecord.model_validate(entry))
    names = [model.name for model in models]
    faults += [
        f"model {name}: it stands there {names.count(name)} times; give it once"
        for name in dict.fromkeys(names)
        if names.count(name) > 1
    ]
    return Parsed(tuple(models), tuple(faults))


def _faults(entry: Any) -> list[str]:
    if not isinstance(entry, dict):
        return ["it is no table"]
    faults = [f"{field}: we write it; leave it out" for field in sorted(_OURS & entry.keys())]
    try:
        name = ModelRecord.model_validate(entry, extra="forbid").name
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
        return faults + [f"{_place(wrong['loc'])}: {_told(wrong)}" for wrong in found]
    if not 1 <= len(name) <= NAME_MAX:
        faults.append(f"name: give 1 to {NAME_MAX} characters")
    return faults


def _place(steps: tuple[int | str, ...]) -> str:
    return ".".join(str(step) for step in steps if step != "[key]")


def _told(wrong: ErrorDetails) -> str:
    return "there is no such field" if wrong["type"] == "extra_forbidden" else wrong["msg"]
