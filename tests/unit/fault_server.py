"""A server of the OpenAI protocol that fails on demand: the model's name says how."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
from aiohttp import web

from schemas.outcomes import ErrorCategory
from schemas.topics import MIB

KEY = "sk-not-to-be-told"
GOOD = "good"
SELF_TEST = "The"
"""What the backend's own test asks."""
HUGE_BYTES = 200 * MIB


class FaultServer:
    """What it was asked, how many it is answering, and how much it could send.

    It answers a self-test well: what fails is requests. While it is `ill`, it answers nothing.
    """

    def __init__(self) -> None:
        self.url = ""
        self.asked: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.tokenizers: list[str] = []
        self.keys: set[str | None] = set()
        self.open = 0
        self.sent = 0
        self.ill = False
        self.runner: web.AppRunner

    async def stop(self) -> None:
        """Refuse connections from now on."""
        await self.runner.cleanup()

    async def models(self, _: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": name} for name in (GOOD, *FAULTS)]})

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = orjson.loads(await request.read())
        self.asked.append(body)
        self.keys.add(request.headers.get("Authorization"))
        self.open += 1
        try:
            if self.ill:
                return web.json_response({"error": "ill"}, status=500)
            if body["prompt"] == SELF_TEST:
                return web.json_response(completion(body["model"]))
            return await ANSWERS[body["model"]](self, request)
        finally:
            self.open -= 1

    async def elsewhere(self, request: web.Request) -> web.Response:
        self.paths.append(request.path)
        if request.path == "/tokenize":
            self.tokenizers.append(orjson.loads(await request.read())["model"])
        return web.Response(status=404)


Fault = Callable[[FaultServer, web.Request], Awaitable[web.StreamResponse]]


def completion(model: str) -> dict[str, Any]:
    """Return an answer in one piece."""
    choice = {"index": 0, "text": "yes", "finish_reason": "length"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return {"object": "text_completion", "model": model, "choices": [choice], "usage": usage}


def status(
    code: int, error: object = None, headers: dict[str, str] | None = None, text: str | None = None
) -> Fault:
    async def answer(_: FaultServer, __: web.Request) -> web.StreamResponse:
        if text is not None:
            return web.Response(status=code, text=text, headers=headers)
        return web.json_response({"error": error}, status=code, headers=headers)

    return answer


async def good(_: FaultServer, __: web.Request) -> web.StreamResponse:
    return web.json_response(completion(GOOD))


async def hang(_: FaultServer, __: web.Request) -> web.StreamResponse:
    await asyncio.sleep(3600)
    raise AssertionError("nobody waits that long")


async def _begun(request: web.Request, headers: dict[str, str]) -> web.StreamResponse:
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)
    return response


async def drip(_: FaultServer, request: web.Request) -> web.StreamResponse:
    response = await _begun(request, {"Content-Type": "application/json"})
    while True:
        await response.write(b" ")
        await asyncio.sleep(0.01)


async def fall_silent(_: FaultServer, request: web.Request) -> web.StreamResponse:
    response = await _begun(request, {"Content-Type": "text/event-stream"})
    await response.write(b"data: " + orjson.dumps(_PIECE) + b"\n\n")
    await asyncio.sleep(3600)
    raise AssertionError("nobody waits that long")


async def cut(_: FaultServer, request: web.Request) -> web.StreamResponse:
    response = await _begun(request, {"Content-Length": "500", "Content-Type": "application/json"})
    await response.write(b'{"choices": [')
    assert request.transport is not None
    request.transport.close()
    return response


def streamed(*events: object) -> Fault:
    async def answer(_: FaultServer, request: web.Request) -> web.StreamResponse:
        response = await _begun(request, {"Content-Type": "text/event-stream"})
        for event in events:
            text = event if isinstance(event, bytes) else orjson.dumps(event)
            await response.write(b"data: " + text + b"\n\n")
        return response

    return answer


async def huge(server: FaultServer, request: web.Request) -> web.StreamResponse:
    response = await _begun(request, {"Content-Type": "application/json"})
    try:
        while server.sent < HUGE_BYTES:
            await response.write(b" " * MIB)
            server.sent += MIB
    except ConnectionError:
        pass  # as it should be: nobody reads all of it
    return response


async def wrong_json(_: FaultServer, __: web.Request) -> web.StreamResponse:
    return web.Response(text='{"choices": [', content_type="application/json")


async def no_form(_: FaultServer, __: web.Request) -> web.StreamResponse:
    return web.json_response({"model": "no-form", "choices": "none"})


async def wrong_model(_: FaultServer, __: web.Request) -> web.StreamResponse:
    return web.json_response(completion("another"))


async def not_http(_: FaultServer, request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.write(b"220 mail.example ready\r\n\r\n")
    request.transport.close()
    return web.Response()


_PIECE = {"model": "x", "choices": [{"index": 0, "text": "a", "finish_reason": None}]}
_BUSY = {"message": "busy", "type": "overloaded"}
_LONG = {"message": "This model's maximum context length is 512 tokens", "code": 400}
_TRACEBACK = 'Traceback (most recent call last):\n  File "/srv/secret.py", line 1'

_FAULTS: dict[str, tuple[Fault, ErrorCategory]] = {
    "http-429": (status(429, _BUSY, {"Retry-After": "7"}), ErrorCategory.OVERLOADED),
    "http-503": (status(503, _BUSY), ErrorCategory.OVERLOADED),
    "http-502": (status(502, text="<html>bad gateway</html>"), ErrorCategory.UNAVAILABLE),
    "http-500": (status(500, "boom"), ErrorCategory.BACKEND_ERROR),
    "traceback": (status(500, text=_TRACEBACK), ErrorCategory.BACKEND_ERROR),
    "http-400": (status(400, {"message": "no"}), ErrorCategory.BAD_REQUEST),
    "http-422": (status(422, text='{"detail": [{"msg": "x"}]}'), ErrorCategory.BAD_REQUEST),
    "too-long": (status(400, _LONG), ErrorCategory.CONTEXT_TOO_LONG),
    "http-404": (status(404, {"message": "no such model"}), ErrorCategory.MODEL_NOT_FOUND),
    "http-401": (status(401, {"message": f"bad key {KEY}"}), ErrorCategory.BACKEND_ERROR),
    "redirect": (status(307, headers={"Location": "/elsewhere"}), ErrorCategory.BACKEND_ERROR),
    "hang": (hang, ErrorCategory.UNAVAILABLE),
    "slow": (drip, ErrorCategory.UNAVAILABLE),
    "silent": (fall_silent, ErrorCategory.UNAVAILABLE),
    "cut": (cut, ErrorCategory.UNAVAILABLE),
    "cut-stream": (streamed({**_PIECE, "model": "cut-stream"}), ErrorCategory.UNAVAILABLE),
    "error-in-stream": (streamed({"error": {"code": 503}}), ErrorCategory.OVERLOADED),
    "nonsense-in-stream": (streamed(b"{{"), ErrorCategory.BACKEND_ERROR),
    "chunks-of-no-form": (streamed({"choices": [{}]}), ErrorCategory.BACKEND_ERROR),
    "huge": (huge, ErrorCategory.RESULT_TOO_LARGE),
    "wrong-json": (wrong_json, ErrorCategory.BACKEND_ERROR),
    "no-form": (no_form, ErrorCategory.BACKEND_ERROR),
    "wrong-model": (wrong_model, ErrorCategory.BACKEND_ERROR),
    "not-http": (not_http, ErrorCategory.BACKEND_ERROR),
}
FAULTS = {name: category for name, (_, category) in _FAULTS.items()}
"""What each is to be called."""
ANSWERS: dict[str, Fault] = {GOOD: good, **{name: fault for name, (fault, _) in _FAULTS.items()}}


@asynccontextmanager
async def fault_server() -> AsyncIterator[FaultServer]:
    """Run the server on a free port."""
    server = FaultServer()
    app = web.Application()
    app.router.add_get("/v1/models", server.models)
    app.router.add_post("/v1/completions", server.complete)
    app.router.add_route("*", "/{any:.*}", server.elsewhere)
    # A handler whose client has gone is cancelled: so the count of open ones tells.
    server.runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await server.runner.setup()
    await web.TCPSite(server.runner, "127.0.0.1", 0).start()
    host, port = server.runner.addresses[0]
    server.url = f"http://{host}:{port}/v1"
    try:
        yield server
    finally:
        await server.stop()
