"""What every backend promises, as a suite that each inherits: one class says how it is made.

A subclass names the kind, what it is told (`options`), what it is told when its engine is not to be
had (`lacking`), and payloads; nothing in here knows an engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

from executors.backends.base import Backend, BackendError, Call, Completion
from executors.backends.payload import Protocol, protocol_of
from executors.backends.registry import make_backend
from executors.settings import NodeOptions
from schemas.document import to_json
from schemas.errors import BackendUnavailable
from schemas.outcomes import ErrorCategory
from tests import magika
from tests.waiting import in_time, until

Payload = Mapping[str, Any]

SLOTS = 2
TENSORS = {"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1.0]}]}


def call(payload: Payload, model: str, adapter: str | None = None) -> Call:
    """Return a request."""
    return Call("r1", model, adapter, dict(payload))


async def refusal(backend: Backend, one: Call) -> ErrorCategory:
    """Return why a backend refuses a request."""
    with pytest.raises(BackendError) as caught:
        await backend.infer(one)
    return caught.value.category


def node_of(kind: str, options: dict[str, Any]) -> NodeOptions:
    """Return a node with that backend."""
    return NodeOptions(pool="gpu", backend=kind, slots=SLOTS, options=options)


async def asked_what_was_read_at_start(kind: str, told: dict[str, Any], folder: Path) -> None:
    """Prove and probe a backend whose golden file is gone since it was made."""
    file = folder / "golden.json"
    file.write_bytes(magika.GOLDEN.read_bytes())
    golden = {magika.NAME: str(file)} if isinstance(told["golden"], dict) else str(file)
    made = make_backend(node_of(kind, {**told, "golden": golden}))
    file.unlink()
    await made.start()
    await made.probe()
    (proven,) = (await made.self_test()).proven
    assert proven.golden_error is not None
    await made.close()


class BackendContract:
    """The promises; see the module.

    Attributes:
        kind: name in the registry.
        model: that it serves.
        answered: payloads that it answers, the first of them fast.
        malformed: payloads of its protocols that no engine could read.
        foreign: payloads of protocols that it does not speak.
        makes_it_up: it runs nothing, so it serves any model and adapter and proves nothing.
    """

    kind: ClassVar[str]
    model: ClassVar[str]
    answered: ClassVar[tuple[Payload, ...]]
    malformed: ClassVar[tuple[Payload, ...]]
    foreign: ClassVar[tuple[Payload, ...]] = ()
    makes_it_up: ClassVar[bool] = False

    @pytest.fixture
    def options(self) -> dict[str, Any]:
        """Return what it is told."""
        raise NotImplementedError

    @pytest.fixture
    def lacking(self) -> dict[str, Any] | None:
        """Return what it is told when its engine, device or model is not to be had."""
        raise NotImplementedError

    @pytest.fixture
    async def backend(self, options: dict[str, Any]) -> AsyncIterator[Backend]:
        """Return it, started."""
        made = make_backend(node_of(self.kind, options))
        await made.start()
        yield made
        await made.close()

    async def test_once_started_it_says_what_it_is(self, backend: Backend) -> None:
        info = backend.info
        assert info.kind == self.kind
        assert info.engine
        assert info.device
        assert info.emulated is self.makes_it_up
        assert self.makes_it_up or self.model in info.models

    async def test_its_self_test_tells_its_time_and_what_it_proved_again_and_again(
        self, backend: Backend
    ) -> None:
        for _ in range(2):
            tested = await backend.self_test()
            assert tested.took_ms >= 0
            assert self.makes_it_up is not bool(tested.proven)
            for capability in tested.proven:
                assert capability.model in backend.info.models
                assert capability.max_concurrency >= 1
                assert capability.validated_at_ms > 0

    async def test_it_can_be_probed_again_and_again(self, backend: Backend) -> None:
        for _ in range(2):
            await backend.probe()

    async def test_payloads_are_answered_in_their_own_protocol_and_in_json(
        self, backend: Backend
    ) -> None:
        for payload in self.answered:
            completion = await backend.infer(call(payload, self.model))
            to_json(completion.output)
            shown_in_protocol(payload, completion)

    async def test_more_at_once_than_slots_are_all_answered(self, backend: Backend) -> None:
        one = call(self.answered[0], self.model)
        answers = await asyncio.gather(*(backend.infer(one) for _ in range(4 * SLOTS)))
        assert all(answer.output for answer in answers)

    async def test_what_cannot_be_read_is_a_bad_request(self, backend: Backend) -> None:
        for payload in ({"text": "hi"}, *self.malformed, *self.foreign):
            category = await refusal(backend, call(payload, self.model))
            assert category is ErrorCategory.BAD_REQUEST, payload

    async def test_no_other_model_is_served_in_silence(self, backend: Backend) -> None:
        other = call(self.answered[0], "another-model")
        if self.makes_it_up:
            assert (await backend.infer(other)).output
        else:
            assert await refusal(backend, other) is ErrorCategory.MODEL_NOT_FOUND

    async def test_an_adapter_that_is_not_there_is_never_left_out_in_silence(
        self, backend: Backend
    ) -> None:
        other = call(self.answered[0], self.model, adapter="no-such-adapter")
        if self.makes_it_up:
            assert (await backend.infer(other)).output
        else:
            assert await refusal(backend, other) is ErrorCategory.ADAPTER_NOT_FOUND

    async def test_calls_that_are_cancelled_free_what_they_held(self, backend: Backend) -> None:
        one = call(self.answered[0], self.model)
        for _ in range(2 * SLOTS):
            running = asyncio.ensure_future(backend.infer(one))
            await asyncio.sleep(0)
            at_once = running.done()
            running.cancel()
            await asyncio.wait({running}, timeout=in_time(10))
            assert at_once or running.cancelled()
        many = asyncio.gather(*(backend.infer(one) for _ in range(SLOTS)))
        assert len(await asyncio.wait_for(many, in_time(10))) == SLOTS

    async def test_an_idle_engine_that_tells_its_load_is_idle(self, backend: Backend) -> None:
        await backend.infer(call(self.answered[0], self.model))

        async def idle() -> bool:
            load = await backend.load()
            return load is None or not (load.running or load.waiting)

        await until(idle)

    async def test_what_is_not_to_be_had_is_said_and_it_can_be_closed_all_the_same(
        self, lacking: dict[str, Any] | None
    ) -> None:
        if lacking is None:
            pytest.skip("it needs nothing")
        made = make_backend(node_of(self.kind, lacking))
        with pytest.raises(BackendUnavailable):
            await made.start()
        await made.close()

    async def test_it_can_be_closed_before_it_was_started(self, options: dict[str, Any]) -> None:
        await make_backend(node_of(self.kind, options)).close()


def shown_in_protocol(payload: Payload, completion: Completion) -> None:
    """Fail unless the answer is the response body of the payload's protocol."""
    output, usage = completion.output, completion.usage
    protocol = protocol_of(dict(payload))
    if protocol is Protocol.TENSORS:
        for tensor in output["outputs"]:
            assert tensor["name"]
            assert tensor["datatype"]
            assert tensor["data"]
        return
    if protocol is Protocol.EMBEDDING:
        assert usage is not None
        assert usage["prompt_tokens"] >= 1
        assert output["object"] == "list"
        assert [one["index"] for one in output["data"]] == list(range(len(payload["input"])))
        assert all(one["embedding"] for one in output["data"])
        return
    (choice,) = output["choices"]
    asked = payload.get("max_tokens")
    if asked is not None:
        assert choice["finish_reason"] == "length"
        assert usage is not None
        assert usage["prompt_tokens"] >= 1
        assert usage["completion_tokens"] == asked
        assert usage["total_tokens"] == usage["prompt_tokens"] + asked
    if protocol is Protocol.CHAT:
        assert output["object"] == "chat.completion"
        assert choice["message"]["role"] == "assistant"
        assert choice["message"]["content"]
    else:
        assert output["object"] == "text_completion"
        assert choice["text"]
