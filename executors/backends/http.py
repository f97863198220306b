"""A server of inference as a backend reaches it over HTTP: bounded in time and size.

Knows no protocol of inference. The URL is the configuration's; nothing of a request goes into it
but what a backend puts there. Redirects are not followed, cookies and proxies not taken up.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

import aiohttp
import orjson

from executors.backends.base import BackendError
from executors.backends.http_errors import error_of
from schemas.document import to_json
from schemas.errors import BackendUnavailable, UsageError
from schemas.outcomes import ErrorCategory
from schemas.topics import MIB

CONNECT_S = 5.0
"""A server that does not take a connection for so long is away."""
ASK_S = 10.0
"""For questions about the server itself: models, health, metrics."""
SILENCE_S = 60.0
"""Between two pieces of an answer that has begun: slower than a token a minute is a hang."""
ANSWER_BYTES_MAX = 8 * MIB
"""A result takes 4 MiB; the rest is spaces and digits that our writing of it saves."""
STREAM_BYTES_MAX = 32 * MIB
"""A streamed token takes about 250 bytes: 130,000 tokens, half a megabyte of text."""
ERROR_BYTES_MAX = 64 * 1024
"""What is read of an error; the message is in the first few hundred bytes."""


def checked_url(url: str) -> str:
    """Return the URL without its last slash; raise UsageError if it is no URL of a server."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"--url {url}: give http://host:port or https://host, and a path")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise UsageError("--url: give no user, password or query in it; a key goes to api_key_file")
    return url.rstrip("/")


def read_key(path: Path | None) -> dict[str, str]:
    """Return the header for the key in a file, none without a file; raise UsageError."""
    if path is None:
        return {}
    try:
        key = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        raise UsageError(f"no key can be read from {path}: a file with the key alone") from None
    if not key.isprintable() or not key:
        raise UsageError(f"the key in {path} is empty or has more than one line")
    return {"Authorization": f"Bearer {key}"}


class Answer:
    """A status of 200 with its body still to come."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.headers = response.headers

    @property
    def streamed(self) -> bool:
        """Return whether it is a stream of events."""
        return self._response.content_type == "text/event-stream"

    async def pieces(self, bytes_max: int) -> AsyncIterator[bytes]:
        """Yield the body as it comes; raise BackendError if it is too long or falls silent."""
        size = 0
        chunks = self._response.content.iter_any().__aiter__()
        while True:
            try:
                piece = await asyncio.wait_for(chunks.__anext__(), SILENCE_S)
            except StopAsyncIteration:
                return
            size += len(piece)
            if size > bytes_max:
                raise BackendError(
                    ErrorCategory.RESULT_TOO_LARGE,
                    f"the server's answer takes more than {bytes_max} bytes: ask for less",
                )
            yield piece

    async def document(self, bytes_max: int = ANSWER_BYTES_MAX) -> dict[str, Any]:
        """Return the body as a JSON object; raise BackendError if it is none."""
        body = b"".join([piece async for piece in self.pieces(bytes_max)])
        return json_object(body)


def json_object(body: bytes) -> dict[str, Any]:
    """Return bytes of a server as a JSON object; raise BackendError if they are none.

    No bytes are an empty object: servers answer so that they are ready.
    """
    try:
        document = orjson.loads(body or b"{}")
    except orjson.JSONDecodeError:
        document = None
    if not isinstance(document, dict):
        raise BackendError(ErrorCategory.BACKEND_ERROR, "the server's answer is no JSON object")
    return document


class Server:
    """One server, asked over a connection a request."""

    def __init__(self, url: str, headers: dict[str, str], connections: int) -> None:
        self.url = checked_url(url)
        self._headers = headers
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None

    @property
    def address(self) -> str:
        """Return host and port, to tell people."""
        return urlsplit(self.url).netloc

    async def open(self) -> None:
        """Make ready to ask; connects to nothing yet."""
        self._session = aiohttp.ClientSession(
            headers={**self._headers, "Accept-Encoding": "identity"},
            # A server that closes after its answer races with a request that takes the connection
            # up again: of llama.cpp's, two of eight at once were lost. Connecting takes 0.2 ms.
            connector=aiohttp.TCPConnector(limit=self._connections, force_close=True),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
        )

    async def close(self) -> None:
        """Close all connections, if any were opened."""
        if self._session is not None:
            await self._session.close()

    @asynccontextmanager
    async def ask(
        self,
        path: str,
        body: dict[str, Any] | None = None,
        *,
        within_s: float = ASK_S,
        adapter: str | None = None,
        headers: dict[str, str] | None = None,
    ) -> AsyncIterator[Answer]:
        """Send a body (none: GET) and yield the answer; raise BackendError for any other status.

        Leaving early, by an error or a cancellation, closes the connection: the server stops.

        Args:
            path: relative to the URL, as `models` or `../metrics`.
            body: sent as JSON.
            within_s: for all of it.
            adapter: that the body asks for, to tell what was not found.
            headers: beside the usual.
        """
        if self._session is None:
            raise BackendError(ErrorCategory.UNAVAILABLE, "this node has not started")
        timeout = aiohttp.ClientTimeout(total=within_s, sock_connect=CONNECT_S)
        try:
            async with self._session.request(
                "GET" if body is None else "POST",
                urljoin(self.url + "/", path),
                data=None if body is None else to_json(body),
                headers={"Content-Type": "application/json", **(headers or {})},
                allow_redirects=False,
                timeout=timeout,
            ) as response:
                try:
                    await _check_status(response, adapter)
                    yield Answer(response)
                except BaseException:
                    response.close()
                    raise
        except asyncio.TimeoutError:
            raise BackendError(
                ErrorCategory.UNAVAILABLE,
                f"{self.address} hung, or did not answer within {within_s:g} s",
            ) from None
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, OSError) as error:
            # Refused, no such host, or a body that was cut off: it may be back in a moment.
            raise BackendError(
                ErrorCategory.UNAVAILABLE, f"{self.address} is away ({type(error).__name__})"
            ) from error
        except aiohttp.ClientError as error:
            raise BackendError(
                ErrorCategory.BACKEND_ERROR,
                f"{self.address} does not speak HTTP ({type(error).__name__})",
            ) from error

    async def document(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the JSON object at a path; raise BackendError."""
        async with self.ask(path, body) as answer:
            return await answer.document()


async def _check_status(response: aiohttp.ClientResponse, adapter: str | None) -> None:
    if response.status == HTTPStatus.OK:
        return
    body = b""
    async for piece in response.content.iter_any():
        body += piece
        if len(body) >= ERROR_BYTES_MAX:
            break
    retry_after = response.headers.get("Retry-After")
    raise error_of(
        response.status, body[:ERROR_BYTES_MAX], retry_after, time.time(), adapter=adapter
    )


READY_WITHIN_S = 60.0
"""A server that starts with its node loads meanwhile; a supervisor starts the node again."""
ASK_AGAIN_S = 1.0
_MAY_COME = (ErrorCategory.UNAVAILABLE, ErrorCategory.OVERLOADED)


async def when_ready(server: Server, path: str, *, whatever: bool = False) -> dict[str, Any]:
    """Return the JSON object at a path once the server answers; raise BackendUnavailable.

    Args:
        path: as of `ask`.
        whatever: it says instead until then; otherwise what is no sign of loading ends the wait.
    """
    give_up = time.monotonic() + READY_WITHIN_S
    while True:
        try:
            return await server.document(path)
        except BackendError as error:
            loading = whatever or error.category in _MAY_COME
            if not loading or time.monotonic() > give_up:
                raise BackendUnavailable(
                    f"no inference server at {server.url}: {error}; start it, or correct --url"
                ) from error
        await asyncio.sleep(ASK_AGAIN_S)
