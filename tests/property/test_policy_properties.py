"""What holds for every fleet, every request and every policy."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from schemas.control import ModelRecord, NodeState, PartitionState, PoolState, Snapshot, TypeSupport
from schemas.features import Features
from schemas.headers import FOR_GOOD, Exclusion
from schemas.outcomes import Mode, Reason
from schemas.pools import ComputeType
from schemas.request import Priority
from schemas.value import replace
from streams.policy import POLICIES, View, threshold
from tests.fleet import NOW_MS, POOLS_WITH_TP

PARTITIONS = 4
POOL_NAMES = tuple(pool.name for pool in POOLS_WITH_TP)
NODE_NAMES = tuple(f"{pool}-{number}" for pool in POOL_NAMES for number in range(2))
MODELS = ("known", "unknown", "listed")
CONVERSATIONS = ("c", "d")

types = st.lists(st.sampled_from(ComputeType), max_size=3, unique=True).map(tuple)
policies = st.sampled_from(sorted(POLICIES))
ages_ms = st.floats(0, 2000)


def world_of(seed: int) -> dict[str, Any]:
    """Return what a router knows: drawn by a seed, since Hypothesis takes 30 ms for such a tree."""
    draw = random.Random(seed)
    return {
        "snapshot": _snapshot(draw),
        "own": {
            (draw.choice(POOL_NAMES), draw.randrange(PARTITIONS)): draw.randrange(30)
            for _ in range(draw.randrange(6))
        },
        "models": {"known": _model(draw)} if draw.random() < 0.7 else {},
        "bindings": {
            conversation: (name.rpartition("-")[0], name)
            for conversation, name in zip(CONVERSATIONS, draw.choices(NODE_NAMES, k=2), strict=True)
        },
        "mode": draw.choice([Mode.NORMAL, Mode.NORMAL, Mode.STALE, Mode.BLIND]),
        "age_ms": draw.choice([0.0, draw.uniform(0, 2000)]),
    }


def _snapshot(draw: random.Random) -> Snapshot:
    nodes = []
    for pool in POOL_NAMES:
        first, last = draw.randint(0, PARTITIONS), PARTITIONS - draw.randint(0, 1)
        for number, owned in enumerate((range(first), range(first, last))):
            nodes.append(_node(draw, f"{pool}-{number}", tuple(owned)))
    draw.shuffle(nodes)
    return Snapshot(
        number=1,
        generation=1,
        probed_at_ms=NOW_MS,
        published_at_ms=NOW_MS,
        threshold=draw.randint(threshold.FLOOR, 20),
        pools={
            pool: PoolState(
                paused=draw.random() < 0.15,
                routed_total=0,
                finished_total=0,
                partitions=tuple(
                    PartitionState(
                        unfinished=draw.randrange(30), finish_rate=draw.choice([0.0, 3.3, 112.0])
                    )
                    for _ in range(PARTITIONS)
                ),
            )
            for pool in POOL_NAMES
        },
        nodes=tuple(nodes),
        requests_included=(),
        retry_included=(),
    )


def _node(draw: random.Random, name: str, partitions: tuple[int, ...]) -> NodeState:
    return NodeState(
        id=name,
        pool=name.rpartition("-")[0],
        live=draw.random() < 0.8,
        draining=draw.random() < 0.2,
        slots=draw.randint(0, 8),
        busy=draw.randint(0, 8),
        partitions=partitions,
        blocked=partitions[:1] if draw.random() < 0.15 else (),
        models=draw.choice([(), ("known",), ("listed", "known")]),
        latency_ms=draw.choice([0.0, 50.0, 199.9, 800.0]),
    )


def _model(draw: random.Random) -> ModelRecord:
    return ModelRecord(
        name="known",
        parameters=draw.choice([None, 10**8, 10**10]),
        precision=draw.choice([None, "int4"]),
        operators=draw.choice([(), (), ("warp",)]),
        tokenizer_digest=draw.choice([None, "a"]),
        pinned=draw.choice([None, None, (), tuple(draw.sample(list(ComputeType), 2))]),
        types={
            compute_type: TypeSupport(
                precisions=draw.choice([None, (), ("int4",)]),
                operators=draw.choice([None, ("warp", "weft")]),
                features=draw.choice([None, ("chat",)]),
                tokenizer_digest=draw.choice([None, "a", "b"]),
            )
            for compute_type in ComputeType
            if draw.random() < 0.7
        },
    )


worlds = st.integers(0, 2**32).map(world_of)
requests = st.builds(
    Features,
    model=st.sampled_from(MODELS),
    priority=st.sampled_from(Priority),
    slo_ms=st.sampled_from([None, 10.0, 50.0, 199.9, 800.0, 5000.0]),
    lora=st.booleans(),
    gflops=st.none(),
    expires_at_ms=st.sampled_from([NOW_MS, NOW_MS + 1]) | st.just(NOW_MS + 10**6),
    conversation=st.sampled_from([None, *CONVERSATIONS]),
    key_hash=st.integers(0, 2**32 - 1),
    excluded=st.lists(
        st.builds(
            Exclusion,
            st.sampled_from(NODE_NAMES),
            st.sampled_from([FOR_GOOD, NOW_MS, NOW_MS + 5, NOW_MS + 9]),
        ),
        max_size=4,
    ).map(tuple),
    pinned=st.just(()) | types,
    operators=st.sampled_from([(), ("weft",)]),
    precision=st.sampled_from([None, "fp16"]),
    capabilities=st.sampled_from([(), ("chat",), ("vision",)]),
)


def view_of(world: dict[str, Any], *, load: bool = True) -> View:
    view = View(POOLS_WITH_TP, "router-1", dict.fromkeys(POOL_NAMES, PARTITIONS))
    view.mode = world["mode"]
    view.bindings = world["bindings"]
    view.load_models(world["models"])
    if load:
        view.load(world["snapshot"], world["own"])
        view.advance(world["age_ms"])
    return view


def state(view: View) -> Any:
    """Return all that the rules read of the fleet, exactly."""
    return [
        (
            pool.unfinished,
            pool.queue_depth,
            pool.free_nodes,
            pool.down,
            [
                (n.id, n.unfinished, n.free_slots, n.order, n.partitions, n.busy_rate, n.passed)
                for n in pool.live.values()
            ],
        )
        for pool in view.pools.values()
    ]


def later(world: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """Return a world some reports later: little that lasts is another, as it is with snapshots."""
    before: Snapshot = world["snapshot"]
    nodes = [_later(node, draw) for node in before.nodes]
    if draw.random() < 0.2:
        draw.shuffle(nodes)
    now = _snapshot(draw).model_copy(update={"nodes": tuple(nodes)})
    pools = {
        name: now.pools[name].model_copy(
            update={"paused": pool.paused if draw.random() < 0.8 else not pool.paused}
        )
        for name, pool in before.pools.items()
    }
    return world | {"snapshot": now.model_copy(update={"pools": pools})}


def _later(node: NodeState, draw: random.Random) -> NodeState:
    if draw.random() < 0.3:
        return node
    update = {
        "busy": draw.randint(0, 8),
        "latency_ms": draw.choice([node.latency_ms, 20.0, 90.0, 700.0]),
        "queued": (draw.randint(0, 3), draw.randint(0, 3), draw.randint(0, 3)),
        "slowness": draw.choice([1.0, 1.5]),
    }
    if draw.random() < 0.1:
        other = _node(draw, node.id, draw.choice([node.partitions, node.partitions[:1], (0, 3)]))
        return other.model_copy(update=update)
    return node.model_copy(update=update)


@given(worlds, requests, policies, st.integers(0, 2**32))
def test_a_view_that_was_loaded_before_is_and_decides_as_a_new_one(
    world: dict[str, Any], features: Features, name: str, seed: int
) -> None:
    draw, kept = random.Random(seed), view_of(world)
    for _ in range(5):
        POLICIES[name].decide(features, kept, NOW_MS)
        world = later(world, draw)
        kept.load(world["snapshot"], world["own"])
        kept.advance(world["age_ms"])
        new = view_of(world)
        assert state(kept) == state(new)
        assert POLICIES[name].decide(features, kept, NOW_MS) == POLICIES[name].decide(
            features, new, NOW_MS
        )


@given(worlds, requests, policies)
def test_the_same_values_give_the_same_decision_and_deciding_changes_nothing(
    world: dict[str, Any], features: Features, name: str
) -> None:
    view, same = view_of(world), view_of(world)
    decision = POLICIES[name].decide(features, view, NOW_MS)
    assert state(view) == state(same)
    assert POLICIES[name].decide(features, view, NOW_MS) == decision
    assert POLICIES[name].decide(features, same, NOW_MS) == decision


@given(worlds, requests, policies)
def test_rules_1_to_5_hold_for_every_policy(
    world: dict[str, Any], features: Features, name: str
) -> None:
    view = view_of(world)
    decision = POLICIES[name].decide(features, view, NOW_MS)
    urgent = features.priority is Priority.REALTIME or (features.slo_ms or 50.0) < 50.0
    pool = decision.pool
    assert (decision.reason is Reason.EXPIRED) == (features.expires_at_ms <= NOW_MS)
    assert (pool is None) == (decision.reason in {Reason.EXPIRED, Reason.UNROUTABLE})
    assert pool not in decision.excluded
    if pool is None:
        return
    compute_type = view.pool(pool).compute_type
    assert not features.pinned or compute_type in features.pinned
    if urgent:
        assert compute_type is ComputeType.GPU
        assert "gpu" not in decision.excluded
    if pool == "gpu-tp":
        assert decision.reason in {Reason.TENSOR_PARALLEL, Reason.STICKY}
    assert decision.express == (urgent and view.pool(pool).express)
    assert 0 <= decision.partition < PARTITIONS
    if decision.node is not None:
        assert world["mode"] is not Mode.BLIND
        node = view.pool(pool).live[decision.node]
        assert node.takes_work
        assert node.serves(features.model)
        assert decision.partition in node.partitions
        assert Exclusion(node.id, FOR_GOOD) not in features.excluded
    if view.pool(pool).down and world["mode"] is not Mode.BLIND:
        # Nobody waits for a pool that is down while another could have the work.
        others = [p for n, p in view.pools.items() if n not in decision.excluded and n != "gpu-tp"]
        assert (
            urgent
            or name == "gpu-only"
            or features.excluded
            or all(
                p.down
                or not any(n.takes_work and n.serves(features.model) for n in p.live.values())
                for p in others
            )
        )


@given(worlds, requests)
def test_a_request_is_unroutable_only_where_every_pool_it_may_use_is_excluded(
    world: dict[str, Any], features: Features
) -> None:
    decision = POLICIES["overflow"].decide(features, view_of(world), NOW_MS)
    if decision.reason is Reason.UNROUTABLE:
        urgent = features.priority is Priority.REALTIME or (features.slo_ms or 50.0) < 50.0
        assert {"gpu"} if urgent else {"gpu", "cpu", "npu"} <= decision.excluded.keys()


@given(worlds, requests)
def test_transient_refusals_make_nothing_unroutable(
    world: dict[str, Any], features: Features
) -> None:
    everywhere = tuple(Exclusion(name, NOW_MS + 5) for name in NODE_NAMES)
    plain = replace(features, excluded=())
    view = view_of(world)
    willing = POLICIES["overflow"].decide(plain, view, NOW_MS)
    refused = POLICIES["overflow"].decide(replace(plain, excluded=everywhere), view, NOW_MS)
    assert (refused.pool is None) == (willing.pool is None)
    assert refused.excluded == willing.excluded


@given(worlds, st.lists(st.tuples(requests, policies), max_size=12), ages_ms)
def test_a_view_kept_up_to_date_equals_one_that_is_rebuilt(
    world: dict[str, Any], batch: list[tuple[Features, str]], later_ms: float
) -> None:
    kept = view_of(world)
    own = dict(world["own"])
    for features, name in batch:
        decision = POLICIES[name].decide(features, kept, NOW_MS)
        kept.add(decision)
        if decision.pool is not None:
            lane = (decision.pool, decision.partition)
            own[lane] = own.get(lane, 0) + 1
    within_batch = state(kept)
    for pool in kept.pools.values():
        recounted = _queue_depth(world["snapshot"], pool.name, pool.unfinished)
        assert all((1024 * count).is_integer() for count in pool.unfinished)  # sums are exact
        # With age, busy slots may have finished more than the usual rate says, never less.
        assert pool.queue_depth <= recounted
        assert pool.queue_depth == recounted or world["age_ms"] > 0

    replayed = view_of(world)
    for features, name in batch:
        replayed.add(POLICIES[name].decide(features, replayed, NOW_MS))
    assert state(replayed) == within_batch

    kept.advance(later_ms)
    assert state(view_of({**world, "own": own, "age_ms": later_ms})) == state(kept)


def _queue_depth(snapshot: Snapshot, pool: str, unfinished: list[float]) -> float:
    """Recount a pool's queue depth from the words of its definition."""
    live = [node for node in snapshot.nodes if node.pool == pool and node.live]
    owned = {partition for node in live for partition in node.partitions}
    waiting = [
        max(0.0, sum(unfinished[partition] for partition in node.partitions) - node.slots)
        for node in live
    ]
    return sum(waiting) + sum(
        count for partition, count in enumerate(unfinished) if partition not in owned
    )


@given(worlds, requests, st.integers(1, 40))
def test_more_unfinished_never_makes_a_node_more_attractive(
    world: dict[str, Any], features: Features, more: int
) -> None:
    plain = replace(features, conversation=None, slo_ms=10.0)  # stays in one pool: the gpu's
    view = view_of(world)
    before = POLICIES["overflow"].decide(plain, view, NOW_MS)
    for node in view.pool("gpu").live.values():
        if node.id == before.node or not node.partitions:
            continue
        loaded = view_of(world)
        for _ in range(more):
            loaded.pool("gpu").add(node.partitions[0])
        after = POLICIES["overflow"].decide(plain, loaded, NOW_MS)
        assert (after.node, after.partition) == (before.node, before.partition)


@given(
    st.integers(threshold.FLOOR, threshold.CEILING),
    st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100) | st.just(0.0)), max_size=50),
)
def test_the_threshold_stays_within_its_bounds_and_moves_one_at_a_time(
    start: int, depths: list[tuple[float, float]]
) -> None:
    level = start
    for gpu_depth, cpu_depth in depths:
        following = threshold.step(level, gpu_depth=gpu_depth, cpu_depth=cpu_depth)
        assert threshold.FLOOR <= following <= threshold.CEILING
        assert abs(following - level) <= 1
        level = following


@given(worlds, requests)
def test_blind_nothing_but_the_registry_counts(world: dict[str, Any], features: Features) -> None:
    blind = {**world, "mode": Mode.BLIND}
    known = POLICIES["overflow"].decide(features, view_of(blind), NOW_MS)
    unknown = POLICIES["overflow"].decide(features, view_of(blind, load=False), NOW_MS)
    assert replace(known, threshold=10, released="") == replace(unknown, released="")
