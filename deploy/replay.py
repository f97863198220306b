"""Reads decisions, from the topic or a dump, hands each on, and keeps them if that is wanted."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, aclosing
from pathlib import Path

from runtime.connection import connection_of
from runtime.settings import Settings
from schemas.decisions import DecisionsRecord
from schemas.errors import UsageError
from streams.replay.source import Stated, open_dump, read_dump, read_topic

TELL_EVERY = 1000
"""Records between two lines of progress."""


async def run_replay(
    settings: Settings,
    source: Path | None,
    dump: Path | None,
    take: Callable[[DecisionsRecord], None],
    progress: Callable[[str], None],
) -> None:
    """Hand on every record, in order; raise UsageError, or what the topic raises."""
    if source is not None and dump is not None and _are_one(source, dump):
        raise UsageError(f"--dump would write over {source} before it is read: name another file")
    stated = (
        _file(source) if source else read_topic(connection_of(settings), settings.topics.decisions)
    )
    records = rows = 0
    with ExitStack() as stack:
        kept = None
        if dump is not None:
            try:
                kept = stack.enter_context(open_dump(dump, "wb"))
            except OSError as error:
                raise UsageError(f"cannot write {dump}: {error.strerror or error}") from None
        async with aclosing(stated) as each:
            async for record, raw in each:
                if kept is not None:
                    kept.write(raw.rstrip(b"\n") + b"\n")
                take(record)
                records += 1
                rows += len(record.rows)
                if records % TELL_EVERY == 0:
                    progress(f"{rows:,} decisions in {records:,} records")


def _are_one(source: Path, dump: Path) -> bool:
    return source.exists() and dump.exists() and source.samefile(dump)


async def _file(source: Path) -> AsyncGenerator[Stated, None]:
    for stated in read_dump(source):
        yield stated
