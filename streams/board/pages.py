"""Serves the board: the page, its files, and a stream of what there is to show, once a second.

Read-only, and nothing is fetched from elsewhere: the page works without any network but this.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path

from aiohttp import web

from schemas.document import to_json
from streams.board.board import Board
from streams.board.document import document, history

EVERY_S = 1.0
STREAMS_MAX = 32
"""Screens at once; each costs a document a second."""

_FOLDER = Path(__file__).parent / "page"
_FILES = {
    "/": ("index.html", "text/html"),
    "/board.css": ("board.css", "text/css"),
    "/board.js": ("board.js", "text/javascript"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
    "/uPlot.js": ("uplot/uPlot.iife.min.js", "text/javascript"),
    "/uPlot.css": ("uplot/uPlot.min.css", "text/css"),
}
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def board_routes(board: Board) -> Sequence[web.RouteDef]:
    """Return the routes of the page and of its data."""
    pages = Pages(board)
    return (
        *(web.get(path, pages.file) for path in _FILES),
        web.get("/board", pages.now),
        web.get("/board/stream", pages.stream),
    )


class Pages:
    """Answers who looks at the board."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._streams = 0
        self._files = {
            path: ((_FOLDER / name).read_bytes(), kind) for path, (name, kind) in _FILES.items()
        }

    async def file(self, request: web.Request) -> web.Response:
        """Answer with a file of the page."""
        body, kind = self._files[request.path]
        return web.Response(body=body, content_type=kind, charset="utf-8", headers=_HEADERS)

    async def now(self, _: web.Request) -> web.Response:
        """Answer with what there is to show now."""
        return web.Response(
            body=self._document(), content_type="application/json", headers=_HEADERS
        )

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Answer with server-sent events: the history, then the document every second."""
        if self._streams >= STREAMS_MAX:
            return web.Response(status=503, text=f"{STREAMS_MAX} screens are open already\n")
        response = web.StreamResponse(headers={**_HEADERS, "Content-Type": "text/event-stream"})
        self._streams += 1
        try:
            await response.prepare(request)
            await response.write(_event("history", to_json(history(self._board))))
            while True:
                await response.write(_event("board", self._document()))
                await asyncio.sleep(EVERY_S)
        except ConnectionError:
            return response  # whoever looked has gone
        finally:
            self._streams -= 1

    def _document(self) -> bytes:
        return to_json(document(self._board, time.time_ns() // 1_000_000, time.monotonic()))


def _event(name: str, data: bytes) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"
