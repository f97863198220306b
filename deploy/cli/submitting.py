"""The work of `overspill submit`: check, send, wait, print."""

from __future__ import annotations

import asyncio
import sys
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import IO, Any, NamedTuple

import click
import orjson

from deploy.cli.called import as_called
from deploy.cli.printing import print_terminal
from deploy.client.reader import Reader
from deploy.client.sender import Sender
from deploy.client.terminal import Terminal, read_terminal
from runtime.connection import connection_of
from runtime.settings import Settings
from schemas.document import to_json
from schemas.errors import RecordRejected
from schemas.headers import Origin
from schemas.outcomes import Status
from schemas.parsing import parse_request

EARLY_MAX = 10_000
"""Results of requests whose acknowledgement is still on its way; most are other people's. Far more
than end while one acknowledgement travels."""
AT_ONCE = 500
"""Records on their way to the broker: enough to fill batches, little memory."""


class Line(NamedTuple):
    """One request to send: where it came from, and its bytes."""

    place: str
    value: bytes


def lines_of(file: IO[bytes]) -> Iterator[Line]:
    """Yield the lines of a file that are not empty."""
    for number, line in enumerate(file, 1):
        if value := line.strip():
            yield Line(f"line {number}", value)


def one_of_flags(
    *,
    request_id: str | None,
    prompt: str | None,
    payload: str | None,
    max_tokens: int,
    **fields: Any,
) -> list[Line]:
    """Return the one request that flags describe; raise click.UsageError."""
    if (prompt is None) == (payload is None):
        raise click.UsageError("give either --prompt or --payload")
    try:
        body = (
            {"prompt": prompt, "max_tokens": max_tokens}
            if payload is None
            else orjson.loads(payload)
        )
    except orjson.JSONDecodeError as error:
        raise click.UsageError(f"--payload is not JSON (column {error.colno})") from None
    document = {"id": request_id or str(uuid.uuid4()), "payload": body}
    document |= {name: value for name, value in fields.items() if value not in (None, False)}
    return [Line("the request", to_json(document))]


class Submission:
    """One run of the command."""

    def __init__(self, settings: Settings, *, as_json: bool) -> None:
        self._settings = settings
        self._connection = connection_of(settings)
        self._as_json = as_json
        self._waiting: dict[Origin, str] = {}
        self._early: dict[Origin, Terminal] = {}
        self._failed = 0

    async def run(self, lines: Iterable[Line], wait_s: float | None) -> int:
        """Send the lines; wait for their results if told how long. Return the exit code."""
        if wait_s is None:
            sent = await self._send(lines)
            self._say_sent(sent)
            return 1 if self._failed else 0
        names = self._settings.topics
        # From before the first is sent: no result can come unseen.
        async with Reader(
            self._connection, (names.results, names.dead_letter), from_end=True
        ) as reader:
            sending = asyncio.ensure_future(self._send(lines))
            give_up_s = float("inf")
            while not sending.done() or self._waiting:
                for record in await reader.some():
                    self._take(read_terminal(record, names))
                if sending.done() and give_up_s == float("inf"):
                    give_up_s = time.monotonic() + wait_s
                if time.monotonic() > give_up_s:
                    break
            sent = await sending
        if self._waiting:
            some = next(iter(self._waiting.values()))
            told = (
                f"error: {len(self._waiting)} of {sent} requests have no result after {wait_s:g} s "
                f"(one is {some}): look at `overspill status`; an id that was sent before gets no "
                "second result within ten minutes"
            )
            click.echo(as_called(told), err=True)
            return 1
        return 1 if self._failed else 0

    async def _send(self, lines: Iterable[Line]) -> int:
        sent = 0
        async with Sender(self._connection, self._settings.topics.requests) as sender:
            pending: set[asyncio.Task[None]] = set()
            numbered = iter(lines)
            # The next line may be long in coming (a pipe): results are printed meanwhile.
            while (line := await asyncio.to_thread(next, numbered, None)) is not None:
                try:
                    request = parse_request(line.value)
                except RecordRejected as rejection:
                    self._failed += 1
                    click.echo(f"{line.place} was not sent: {rejection.message}", err=True)
                    continue
                key = (request.conversation_id or request.id).encode()
                pending.add(
                    asyncio.ensure_future(self._send_one(sender, key, line.value, request.id))
                )
                sent += 1
                if len(pending) >= AT_ONCE:
                    done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                    await asyncio.gather(*done)
            await asyncio.gather(*pending)
        return sent

    async def _send_one(self, sender: Sender, key: bytes, value: bytes, request_id: str) -> None:
        origin = await sender.send(key, value)
        if (terminal := self._early.pop(origin, None)) is None:
            self._waiting[origin] = request_id
        else:
            self._print(terminal)

    def _take(self, terminal: Terminal) -> None:
        """Take a terminal record that may be ours, or of a request that we are still sending."""
        if terminal.supersedes:
            return
        if self._waiting.pop(terminal.origin, None) is not None:
            self._print(terminal)
            return
        self._early[terminal.origin] = terminal
        if len(self._early) > EARLY_MAX:
            del self._early[next(iter(self._early))]

    def _print(self, terminal: Terminal) -> None:
        if terminal.result is None or terminal.result.status is not Status.OK:
            self._failed += 1
        print_terminal(terminal, as_json=self._as_json)

    def _say_sent(self, sent: int) -> None:
        if self._as_json:
            ids = list(self._waiting.values())
            click.echo(to_json({"sent": sent, "not_sent": self._failed, "ids": ids}))
        else:
            what = "; `overspill results` shows what came of it" if sent else ""
            click.echo(as_called(f"sent {sent}{what}"))
            sys.stdout.flush()
