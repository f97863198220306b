"""A backend that takes the time of a profile and makes up its answers.

For simulation and load tests. Everything it returns says so: `emulated` in the info, and text that
starts with a mark. It runs nothing.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import Any

from executors.backends.base import BackendError, BackendInfo, Call, Completion, Load, SelfTest
from executors.backends.payload import Protocol, protocol_of
from executors.backends.profile import Profile, chance_of, parse_profile
from executors.settings import BackendOptions, NodeOptions, read_options
from schemas.errors import UsageError
from schemas.outcomes import ErrorCategory

MARK = "[emulated]"
OUTPUT_TOKENS_DEFAULT = 16
"""What OpenAI's completion API gives when it is not told how much."""
CHARS_PER_TOKEN = 4
"""The usual rule of thumb for English."""
EMBEDDING_SIZE = 8
SELF_TEST_TOKENS = 16


class EmulatedOptions(BackendOptions):
    """Options of backend `emulated`."""

    profile: str | None = None
    """Required: `fixed:MS`, as fixed:50, or the path of a TOML file: its speed."""
    device: str | None = None
    """What the made-up hardware calls itself in results."""


def make(node: NodeOptions) -> Emulated:
    """Return the backend of a node; raise UsageError."""
    options = read_options(EmulatedOptions, node)
    if options.profile is None:
        raise UsageError("backend emulated needs --profile: fixed:MS, as fixed:50, or a TOML file")
    return Emulated(parse_profile(options.profile), options.device or f"emulated {node.pool}")


class Emulated:
    """Waits as long as the profile says, then answers in the payload's protocol."""

    def __init__(self, profile: Profile, device: str) -> None:
        self._profile = profile
        self._at_once = 0
        self.info = BackendInfo("emulated", "latency profile", device, emulated=True)

    async def start(self) -> None:
        """Take the profile's load time."""
        await asyncio.sleep(self._profile.load_s)

    async def self_test(self) -> SelfTest:
        """Tell what the profile says of a small request, without taking that time."""
        return SelfTest(self._profile.run_ms(SELF_TEST_TOKENS, SELF_TEST_TOKENS, 1, 0.5))

    async def probe(self) -> None:
        """Run nothing: it cannot fail."""

    async def infer(self, call: Call) -> Completion:
        """Wait, then make up an answer."""
        protocol = protocol_of(call.payload)
        prompt_tokens = max(1, len(str(call.payload[protocol.value])) // CHARS_PER_TOKEN)
        output_tokens = _output_tokens(protocol, call.payload)
        self._at_once += 1
        try:
            chance = chance_of(call.request_id)
            run_ms = self._profile.run_ms(prompt_tokens, output_tokens, self._at_once, chance)
            await asyncio.sleep(run_ms / 1000)
        finally:
            self._at_once -= 1
        usage = {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": output_tokens,
            "total_tokens": prompt_tokens + output_tokens,
        }
        return _answer(protocol, call, usage)

    async def load(self) -> Load | None:
        """Tell nothing: only its node sends it work."""
        return None

    async def close(self) -> None:
        """Free nothing: there is no device."""


def _output_tokens(protocol: Protocol, payload: dict[str, Any]) -> int:
    if protocol in (Protocol.EMBEDDING, Protocol.TENSORS):
        return 0
    asked = payload.get("max_completion_tokens", payload.get("max_tokens"))
    if asked is None:
        return OUTPUT_TOKENS_DEFAULT
    if not isinstance(asked, int) or asked < 0:
        raise BackendError(ErrorCategory.BAD_REQUEST, "payload.max_tokens: give a whole number")
    return asked


def _answer(protocol: Protocol, call: Call, usage: dict[str, Any]) -> Completion:
    text = f"{MARK} an answer to {call.request_id}"
    identity = {"id": call.request_id, "model": call.model, "created": 0}
    choice: dict[str, Any] = {"index": 0, "finish_reason": "length"}
    if protocol is Protocol.CHAT:
        choice["message"] = {"role": "assistant", "content": text}
        output = {"object": "chat.completion", **identity, "choices": [choice], "usage": usage}
    elif protocol is Protocol.COMPLETION:
        choice["text"] = text
        output = {"object": "text_completion", **identity, "choices": [choice], "usage": usage}
    elif protocol is Protocol.EMBEDDING:
        given = call.payload[protocol.value]
        data = [
            {"object": "embedding", "index": index, "embedding": _vector(str(one))}
            for index, one in enumerate(given if isinstance(given, list) else [given])
        ]
        output = {"object": "list", "model": call.model, "data": data, "usage": usage}
    else:
        tensor = {"name": "emulated", "shape": [1], "datatype": "BYTES", "data": [text]}
        output = {"id": call.request_id, "model_name": call.model, "outputs": [tensor]}
        return Completion(output)
    return Completion(output, usage)


def _vector(text: str) -> list[float]:
    """Return numbers that are the same for the same text, and mean nothing."""
    return [zlib.crc32(b"%d%s" % (i, text.encode())) / 2**32 for i in range(EMBEDDING_SIZE)]
