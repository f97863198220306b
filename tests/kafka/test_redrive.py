"""Dead letters are sent in again, each once, and then count no more."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from deploy import redrive as redriving
from deploy.client.judge import judge
from deploy.redrive import Chosen, Redrive, Redriven
from runtime.kafka.transactions import FencedProducer
from schemas import headers as h
from schemas.errors import OverspillError
from tests.conftest import RunningKafka
from tests.kafka.route_place import RoutePlace
from tests.waiting import until

pytestmark = pytest.mark.kafka


def request(prompt: str) -> bytes:
    return orjson.dumps({"id": "same", "model_name": "m", "payload": {"prompt": prompt}})


async def redrive(place: RoutePlace, chosen: Chosen, *, dry_run: bool = False) -> Redriven:
    work = Redrive(place.connection, place.names)
    return await work.run(chosen, dry_run=dry_run, progress=lambda _: None)


async def all_consumed(place: RoutePlace, count: int) -> bool:
    return await place.consumed() == count


async def test_each_letter_is_sent_in_again_once_and_its_new_end_counts(
    kafka: RunningKafka,
) -> None:
    place = RoutePlace(kafka.bootstrap_servers)
    await place.create()
    every = Chosen()
    async with place.router():
        sent = [request("first"), request("other"), b"{"]
        await place.request(sent, partition=1, headers=[("trace", b"\x00")])
        await until(lambda: all_consumed(place, 3))

        found = await redrive(place, every, dry_run=True)
        assert found.sent == {"conflict": 1, "not-json": 1}
        assert len(await place.read(place.names.retry)) == 0

        assert (await redrive(place, Chosen(frozenset({"conflict"})))).sent == {"conflict": 1}
        await until(lambda: all_consumed(place, 4))
        again = await redrive(place, every)
        assert (again.sent, again.before) == ({"not-json": 1}, 1)
        await until(lambda: all_consumed(place, 5))
        assert (await redrive(place, Chosen(frozenset({"not-json"}), limit=1))).sent.total() == 1
        await until(lambda: all_consumed(place, 6))

    routed = {r.value: dict(r.headers) for r in await place.read(*place.pool_topics)}
    assert set(routed) == {request("first"), request("other")}
    assert routed[request("other")][h.ORIGIN] == f"{place.names.requests}/1/1".encode()
    assert routed[request("other")][h.REDRIVE] == b"1"
    assert routed[request("other")]["trace"] == b"\x00"

    # The broken record has died three times; only its last death counts, and knows its number.
    verdict = await judge(place.connection, place.names)
    assert [end.category for end in verdict.ends] == ["not-json"]
    assert (verdict.repeated, verdict.strange) == ((), ())
    letters = [dict(r.headers) for r in await place.read(place.names.dead_letter)]
    numbers = [letter.get(h.REDRIVE) for letter in letters if h.ERROR_CATEGORY in letter]
    assert sorted(number or b"0" for number in numbers) == [b"0", b"0", b"1", b"2"]


async def test_of_two_letters_of_the_same_bytes_one_runs_and_the_other_is_its_repeat(
    kafka: RunningKafka,
) -> None:
    place = RoutePlace(kafka.bootstrap_servers)
    await place.create()
    async with place.router():
        sent = [request("first"), request("other"), request("other")]
        await place.request(sent, partition=1)
        await until(lambda: all_consumed(place, 3))
        assert (await redrive(place, Chosen())).sent == {"conflict": 2}
        await until(lambda: all_consumed(place, 5))

    assert [r.value for r in await place.read(*place.pool_topics)] == sent[:2]
    # No node runs here, so the two that were routed have no end; the third has one: a repeat.
    verdict = await judge(place.connection, place.names)
    assert [origin.offset for origin in verdict.missing] == [0, 1]
    assert (verdict.repeated, verdict.strange) == ((), ())


async def test_a_redrive_that_is_put_out_by_another_has_sent_what_it_said_and_a_new_one_goes_on(
    kafka: RunningKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redriving, "AT_ONCE", 1)
    place = RoutePlace(kafka.bootstrap_servers)
    await place.create()
    async with place.router():
        await place.request([b"{1", b"{2", b"{3"], partition=2)
        await until(lambda: all_consumed(place, 3))

    begin = FencedProducer.commit
    commits = 0

    async def overtaken(self: FencedProducer, *transaction: Any) -> None:
        nonlocal commits
        commits += 1
        if commits == 2:
            other = FencedProducer(place.connection, f"{place.settings.prefix}redrive")
            await other.open()
            await other.close()
        await begin(self, *transaction)

    monkeypatch.setattr(FencedProducer, "commit", overtaken)
    with pytest.raises(OverspillError, match="another redrive"):
        await redrive(place, Chosen())
    assert [r.value for r in await place.read(place.names.retry)] == [b"{1"]

    again = await redrive(place, Chosen(limit=1))
    assert (again.sent.total(), again.before) == (1, 1)
    rest = await redrive(place, Chosen())
    assert (rest.sent.total(), rest.before) == (1, 2)
    assert [r.value for r in await place.read(place.names.retry)] == [b"{1", b"{2", b"{3"]
