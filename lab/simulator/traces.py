"""Reads public request traces: when requests came, and how long they and their answers were.

Two formats, told apart by their columns: Azure's CSV and Mooncake's JSON lines, gzipped or not.
Nothing else is in them; what else a request needs, the workload rule makes up.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any

import orjson

from schemas.errors import UsageError
from schemas.value import Value

AZURE = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
MOONCAKE = ("timestamp", "input_length", "output_length")
_GZIP = b"\x1f\x8b"
_SECONDS = len("2023-11-16 18:15:46")
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  as little of a zone as the times it is taken from


_Row = tuple[float, int, int, tuple[int, ...]]
"""As an arrival, but in epoch ms."""


class Arrival(Value, frozen=True):
    """One request of a trace.

    Attributes:
        at_ms: since the first request.
        blocks: hashes of its prompt's blocks, each of which stands for all before it too; none
            where the trace does not tell.
    """

    at_ms: float
    prompt_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] = ()


def read_trace(file: Path) -> list[Arrival]:
    """Return the requests of a trace in order of time; raise UsageError if it is none."""
    try:
        raw = file.read_bytes()
        text = (gzip.decompress(raw) if raw.startswith(_GZIP) else raw).decode()
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror or error}") from None
    except (EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is no trace: {error}") from None
    read = _mooncake if text.lstrip().startswith("{") else _azure
    rows = sorted(read(file, text), key=itemgetter(0))
    if not rows:
        raise UsageError(f"{file} holds no request")
    first_ms = rows[0][0]
    return [
        Arrival(at_ms - first_ms, prompt, output, blocks) for at_ms, prompt, output, blocks in rows
    ]


def _azure(file: Path, text: str) -> Iterator[_Row]:
    rows = csv.reader(io.StringIO(text))
    columns = next(rows, [])
    if not set(AZURE) <= set(columns):
        raise UsageError(
            f"{file} is no trace: it needs the columns {', '.join(AZURE)} (CSV), "
            f"or {', '.join(MOONCAKE)} (JSON lines)"
        )
    # No DictReader: it takes as long for a row as simulating the request.
    at, prompt, output = (columns.index(column) for column in AZURE)
    for row in filter(None, rows):
        try:
            yield _epoch_ms(row[at]), _tokens(int(row[prompt])), _tokens(int(row[output])), ()
        except IndexError:
            raise _unreadable(file, rows.line_num, "a column is missing") from None
        except ValueError as error:
            raise _unreadable(file, rows.line_num, error) from None


def _mooncake(file: Path, text: str) -> Iterator[_Row]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row: dict[str, Any] = orjson.loads(line)
            at, prompt, output = (row[column] for column in MOONCAKE)
            blocks = tuple(int(block) for block in row.get("hash_ids", ()))
            yield float(at), _tokens(prompt), _tokens(output), blocks
        except KeyError as error:
            raise _unreadable(file, number, f"{error} is missing") from None
        except (ValueError, TypeError) as error:
            raise _unreadable(file, number, error) from None


def _tokens(count: object) -> int:
    if not isinstance(count, int) or count < 0:
        raise ValueError(f"{count!r} is no number of tokens")
    return count


def _epoch_ms(text: str) -> float:
    """Return the time; Azure writes seven digits of a second, which Python 3.10 does not read."""
    # One zone holds for a whole trace, and only differences of its times are used.
    second_ms, fraction = _second_ms(text[:_SECONDS]), text[_SECONDS:]
    if "+" in fraction:
        fraction = fraction.partition("+")[0]
    return second_ms + float(fraction) * 1000 if fraction else second_ms


@lru_cache(maxsize=1)  # the rows of a second follow each other
def _second_ms(text: str) -> float:
    return (datetime.fromisoformat(text).replace(tzinfo=None) - _EPOCH).total_seconds() * 1000


def _unreadable(file: Path, line: int, why: object) -> UsageError:
    return UsageError(f"{file}, line {line}: {why}")
