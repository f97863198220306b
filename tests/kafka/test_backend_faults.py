"""A server that fails in every way: one terminal record a request, and no slot is lost."""

from __future__ import annotations

from collections import Counter

import orjson
import pytest

from executors import retry
from executors.backends.registry import make_backend
from executors.settings import NodeOptions
from schemas.outcomes import Disposition, ErrorCategory
from tests.conftest import RunningKafka
from tests.kafka.pool_place import PoolPlace, running
from tests.unit.fault_server import FAULTS, GOOD, fault_server
from tests.waiting import in_time, until

pytestmark = pytest.mark.kafka

SLOTS = 4
AFTER = 3 * SLOTS


async def test_each_fault_of_a_server_ends_in_one_terminal_record_and_frees_its_slot(
    kafka: RunningKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "RETRY_WITHIN_MS", 0.0)  # else it tries for 10 s
    place = PoolPlace(kafka.bootstrap_servers)
    await place.create()
    async with fault_server() as server:
        options = {"url": server.url, "run_within_s": in_time(3)}
        node = place.node(
            make_backend(NodeOptions(pool="gpu", backend="openai", slots=SLOTS, options=options)),
            slots=SLOTS,
        )
        async with running(node):
            for number, fault in enumerate(FAULTS):
                # The last attempt: what would be handed to another node ends here.
                await place.route(
                    range(number, number + 1), model=fault, attempt=retry.ATTEMPTS_MAX
                )
            after = range(len(FAULTS), len(FAULTS) + AFTER)
            await place.route(after, model=GOOD)
            await until(lambda: place.all_ended(len(FAULTS) + AFTER), within_s=in_time(40))
            await until(lambda: node.report().busy == 0)
            await until(lambda: server.open == 0)
    ended = [orjson.loads(one.value or b"") for one in await place.read(place.names.results)]
    assert set(Counter(one["id"] for one in ended).values()) == {1}
    errors = {one["model_name"]: one["error"] for one in ended if one["status"] == "error"}
    assert errors.keys() == FAULTS.keys()
    for fault, category in FAULTS.items():
        if category.disposition is Disposition.FINAL:
            assert errors[fault]["category"] == category.value
        else:
            assert errors[fault]["category"] == ErrorCategory.ATTEMPTS_EXHAUSTED.value
            assert category.value in errors[fault]["message"]
    assert sum(one["status"] == "ok" for one in ended) == AFTER
