"""Every format reads back what was written; old and new readers and writers get along."""

from __future__ import annotations

import base64
import random
import zlib

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import headers as h
from schemas.control import LagSample, ModelRecord, NodeReport, Snapshot
from schemas.decisions import (
    DecisionRow,
    DecisionsRecord,
    ViewInputs,
    decode_decisions,
    encode_decisions,
)
from schemas.errors import FormatError
from schemas.features import Features
from schemas.headers import (
    REFUSALS_MAX,
    Exclusion,
    Origin,
    Passage,
    Refusal,
    decode_passage,
    encode_passage,
)
from schemas.message import Message, decode, encode
from schemas.metadata import (
    FRONTIER_SPAN_MAX,
    IN_FLIGHT_MAX,
    METADATA_BYTES_MAX,
    FinishedCounts,
    RouterCounts,
    decode_finished,
    decode_router,
    encode_finished,
    encode_router,
    is_foreign,
    router_metadata_bytes,
)
from schemas.pools import DEFAULT_POOLS, GPU_TP, ComputeType, Pool
from schemas.registry import pack, unpack
from schemas.request import Priority
from schemas.result import Result
from schemas.topics import PRODUCTION_PARTITIONS, pool_topics
from schemas.work import MFLOP_WRAP

counts = st.integers(0, 2**40 - 1)
work = st.integers(0, MFLOP_WRAP - 1)
offsets = st.integers(0, 2**62)
names = st.text(st.characters(codec="ascii", exclude_characters="\x00"), min_size=1, max_size=20)
router_counts = st.builds(
    RouterCounts,
    st.dictionaries(names, st.lists(counts, max_size=8).map(tuple), max_size=4),
    counts, counts, counts, counts, counts,
    st.dictionaries(names, st.lists(work, max_size=8).map(tuple), max_size=4),
)  # fmt: skip
exclusions = st.lists(st.builds(Exclusion, names, st.integers(-1, 2**45)), max_size=3).map(tuple)
features = st.builds(
    Features,
    model=names,
    priority=st.sampled_from(Priority),
    slo_ms=st.none() | st.floats(0.1, 1e6),
    lora=st.booleans(),
    gflops=st.none() | st.floats(0, 1e6),
    expires_at_ms=st.integers(0, 2**45),
    attempt=st.integers(1, 4),
    adapter=st.none() | names,
    conversation=st.none() | names,
    key_hash=st.integers(0, 2**32 - 1),
    excluded=exclusions,
    pinned=st.lists(st.sampled_from(ComputeType), unique=True).map(tuple),
    operators=st.lists(names, max_size=3).map(tuple),
    precision=st.none() | names,
    capabilities=st.lists(names, max_size=3).map(tuple),
)


@given(router_counts)
def test_router_metadata_reads_back(written: RouterCounts) -> None:
    assert decode_router(encode_router(written)) == written


@given(counts, counts, counts, work, st.integers(0, IN_FLIGHT_MAX), st.integers(0, 2**32), offsets)
def test_executor_metadata_reads_back(
    finished: int, dead: int, expired: int, work: int, size: int, seed: int, base: int
) -> None:
    below = random.Random(seed).sample(range(16_000), size)
    frontier = base + 16_001
    unfinished = tuple(sorted(base + offset for offset in below))
    written = FinishedCounts(finished, frontier, unfinished, dead, expired, work)
    assert decode_finished(encode_finished(written)) == written
    assert written.committed == (unfinished[0] if unfinished else frontier)


@given(st.integers(0, 2**32))
def test_a_full_partition_of_work_in_flight_fits_the_brokers_limit(seed: int) -> None:
    base = 2**50
    below = random.Random(seed).sample(range(FRONTIER_SPAN_MAX), IN_FLIGHT_MAX)
    unfinished = tuple(sorted(base + offset for offset in below))
    full = FinishedCounts(
        2**39, base + FRONTIER_SPAN_MAX, unfinished, dead=2**39, expired=2**39, work=2**64 - 1
    )
    assert len(encode_finished(full)) <= METADATA_BYTES_MAX


WITH_TP = (
    *DEFAULT_POOLS,
    Pool(name=GPU_TP, compute_type=ComputeType.GPU, cost_coefficient=4, express=True),
)


@pytest.mark.parametrize(
    ("pools", "partitions"), [(WITH_TP, PRODUCTION_PARTITIONS), (DEFAULT_POOLS, 64)]
)
def test_the_largest_counts_of_a_production_layout_fit_the_brokers_limit(
    pools: tuple[Pool, ...], partitions: int
) -> None:
    full = RouterCounts(
        dict.fromkeys(pool_topics(pools), (2**40 - 1,) * partitions),
        *(2**48 - 1,) * 5,
        work={pool.name: (MFLOP_WRAP - 1,) * partitions for pool in pools},
    )
    needed = router_metadata_bytes(pools, partitions)
    assert len(encode_router(full)) == needed <= METADATA_BYTES_MAX


OLD_ROUTER = "0RaPNaCHCz000000{{R30096100005000000096100000000000000000000"
OLD_NODE = "0So~GC<6)u1^"


def test_what_the_release_before_wrote_is_read_with_work_0() -> None:
    assert decode_router(OLD_ROUTER) == RouterCounts({"gpu": (3, 1)}, consumed=5, dead=1)
    assert decode_finished(OLD_NODE) == FinishedCounts(12, 40, (30, 33, 39), dead=1, expired=2)
    assert not any(map(is_foreign, (OLD_ROUTER, OLD_NODE, encode_router(RouterCounts({})))))
    assert all(map(is_foreign, ("", ".", ". no", "kcat was here")))


def test_a_count_of_work_beyond_its_eight_bytes_begins_again_at_0() -> None:
    written = RouterCounts({}, work={"gpu": (MFLOP_WRAP + 7,)})
    assert decode_router(encode_router(written)).work == {"gpu": (7,)}
    assert decode_finished(encode_finished(FinishedCounts(1, 1, work=MFLOP_WRAP + 7))).work == 7


@given(router_counts, st.data())
def test_metadata_cut_short_is_a_format_error_not_a_wrong_count(
    written: RouterCounts, data: st.DataObject
) -> None:
    raw = base64.b64decode(encode_router(written)[1:])
    cut = data.draw(st.integers(0, len(raw) - 1))
    with pytest.raises(FormatError):
        decode_router("." + base64.b64encode(raw[:cut]).decode())


@given(st.binary(max_size=200))
def test_foreign_metadata_is_a_format_error(raw: bytes) -> None:
    newer = b"\x07" + raw
    texts = (
        raw.decode("latin-1"),
        "." + raw.decode("latin-1"),
        base64.b85encode(newer).decode(),
        "." + base64.b64encode(newer).decode(),
    )
    for text in texts:
        for read in (decode_router, decode_finished):
            try:
                read(text)
            except FormatError:
                continue
            assert (
                base64.b64decode(text[1:])[0] == 2
                if text[0] == "."
                else (base64.b85decode(text)[0] in {1, 2})
            )


@given(
    names, st.integers(0, 99), offsets, st.integers(1, 4), exclusions, st.none() | st.binary(),
    st.lists(st.builds(Refusal, names, names), max_size=REFUSALS_MAX).map(tuple),
    st.lists(st.tuples(names, st.floats(0, 1e9)), max_size=4).map(tuple),
)  # fmt: skip
def test_a_passage_reads_back(
    identity: str, partition: int, offset: int, attempt: int, excluded: tuple[Exclusion, ...],
    decision: bytes | None, refusals: tuple[Refusal, ...], spent: tuple[tuple[str, float], ...],
) -> None:  # fmt: skip
    origin = Origin("a/b", partition, offset)
    written = Passage(identity, origin, 5, attempt, excluded, 0, decision, refusals, spent)
    theirs, ours = h.split_headers([("mine", None), *encode_passage(written)])
    assert theirs == [("mine", None)]
    assert decode_passage(ours) == written


def test_a_newer_header_set_is_refused_with_what_to_do() -> None:
    _, ours = h.split_headers(encode_passage(Passage("a", Origin("t", 0, 0), 0)))
    with pytest.raises(FormatError, match="upgrade"):
        decode_passage(ours | {h.VERSION: b"99"})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, b"9" * 22) for name in (h.ATTEMPT, h.ARRIVED_AT, h.REDRIVE)),
        (h.ATTEMPT, b"0"),
        (h.REDRIVE, b"-1"),
        (h.ORIGIN, b"t/-5/7"),
        (h.ORIGIN, b"t/0/" + b"9" * 22),
        (h.EXCLUDED, b'[["gpu-1", 1e300]]'),
        (h.EXCLUDED, orjson.dumps([["n", -1]] * 10_000)),
    ],
)
def test_headers_that_nobody_could_pass_on_are_a_format_error(name: str, value: bytes) -> None:
    _, ours = h.split_headers(encode_passage(Passage("a", Origin("t", 0, 0), 0)))
    with pytest.raises(FormatError):
        decode_passage(ours | {name: value})


@given(features)
def test_features_read_back_from_their_row(written: Features) -> None:
    assert msgspec.json.decode(msgspec.json.encode(written), type=Features) == written


@given(features)
def test_a_row_with_more_than_we_know_is_read(written: Features) -> None:
    row = msgspec.json.decode(msgspec.json.encode(written))
    assert msgspec.convert([*row, "from the future"], Features) == written


@given(st.lists(st.builds(
    DecisionRow, st.integers(0, 1), offsets, names, st.integers(0, 2**63),
    st.integers(1, 4), st.integers(0, 3), names, st.none() | names, st.booleans(),
    st.none() | names, st.integers(-1, 99), st.none() | features, names,
    st.none() | st.tuples(names, names),
), max_size=5).map(tuple), st.none() | router_counts)  # fmt: skip
def test_a_decisions_record_reads_back(
    rows: tuple[DecisionRow, ...], after: RouterCounts | None
) -> None:
    digest, registered = pack({"m": ModelRecord(name="m", parameters=5)})
    view = ViewInputs(
        (3, 7), 12.5, (("gpu", 1, 4),), b'{"a":1}', 6, (("gpu", 32), ("cpu", 4)), DEFAULT_POOLS,
        digest, registered,
    )  # fmt: skip
    written = DecisionsRecord(
        "r",
        1,
        2,
        (3, -1),
        (4, -1),
        (after, None),
        "overflow",
        "normal",
        10,
        99,
        view,
        rows,
        (("c", "gpu", "gpu-1"),),
    )
    assert decode_decisions(encode_decisions(written)) == written


def test_a_decisions_record_of_the_release_before_is_read() -> None:
    view = ViewInputs(None, 0.0, models=6, widths=(("gpu", 32),))
    written = DecisionsRecord(
        "r", 1, 2, (3, -1), (4, -1), (None, None), "overflow", "blind", 10, 99, view
    )
    document = orjson.loads(encode_decisions(written))
    del document["widths"], document["models"], document["bound"]
    del document["pools"], document["registry"], document["registered"]
    read = decode_decisions(orjson.dumps(document))
    assert read == written._replace(view=view._replace(models=0, widths=()))


def test_a_packed_registry_reads_back_and_other_bytes_do_not() -> None:
    models = {name: ModelRecord(name=name, parameters=5) for name in ("b", "a")}
    digest, packed = pack(models)
    assert unpack(packed) == (digest, models)
    assert pack({"a": models["a"]})[0] != digest
    for raw in (b"", packed[:-3], zlib.compress(b"{"), zlib.compress(b"[{}]")):
        with pytest.raises(FormatError):
            unpack(raw)


@pytest.mark.parametrize("kind", [NodeReport, LagSample, Snapshot, ModelRecord, Result])
def test_a_reader_ignores_new_fields_and_refuses_a_newer_version(kind: type[Message]) -> None:
    written = encode(_example(kind))
    newer = orjson.loads(written) | {"added_later": {"deep": [1]}}
    assert decode(kind, orjson.dumps(newer)) == _example(kind)
    with pytest.raises(FormatError, match="upgrade"):
        decode(kind, orjson.dumps(newer | {"version": 99}))


@pytest.mark.parametrize("kind", [NodeReport, LagSample, Snapshot, ModelRecord, Result])
@pytest.mark.parametrize("raw", [b"", b"[]", b"null", b"{}", b"\xff", b'{"version":"x"}'])
def test_bytes_that_are_no_message_are_a_format_error(kind: type[Message], raw: bytes) -> None:
    with pytest.raises(FormatError):
        decode(kind, raw)


def _example(kind: type[Message]) -> Message:
    examples: dict[type[Message], dict[str, object]] = {
        NodeReport: {"node": "n", "pool": "gpu", "compute_type": "gpu", "generation": 1,
                     "state": "ready", "slots": 1, "busy": 0, "backend": "emulated",
                     "latency_mean_ms": 1.5, "reported_at_ms": 5},
        LagSample: {"probed_at_ms": 1, "took_ms": 2, "requests_included": [1],
                    "retry_included": [-1],
                    "pools": {"gpu": [{"routed": 2, "finished": 1, "unfinished": 1}]}},
        Snapshot: {"number": 1, "generation": 1, "probed_at_ms": 1, "published_at_ms": 2,
                   "threshold": 10, "pools": {}, "nodes": [], "requests_included": [],
                   "retry_included": []},
        ModelRecord: {"name": "m", "parameters": 5, "types": {"npu": {"precisions": ["int8"]}}},
        Result: {"id": "a", "status": "ok", "timings_ms": {"to_router": 1, "total": 2},
                 "decision": {"reason": "overflow", "threshold": 10, "policy": "overflow"}},
    }  # fmt: skip
    return kind.model_validate(examples[kind])
