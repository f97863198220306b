"""Rule 2: which pools, and which of their nodes, can take a request; the filter of every policy.

A pool is *excluded* where the request or the registry forbids it, or all its live nodes do. It is
*set aside* where it could take the request, but not now.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from schemas.control import ModelRecord, TypeSupport
from schemas.features import Features
from schemas.headers import FOR_GOOD, Exclusion
from schemas.outcomes import Mode
from schemas.pools import ComputeType
from streams.policy.offers import UNKNOWN_WHEN, Offer, Offers
from streams.policy.pool import PoolView
from streams.policy.view import View

SMALL_MODEL_PARAMETERS = 1_000_000_000
OFFERS_KEPT_MAX = 1024
"""Models whose offers are kept: names are the callers', memory is ours. When there are more, all
are forgotten: else invented names would keep real ones out until the fleet changes."""

_NO_SUPPORT = TypeSupport()
_BLIND = Mode.BLIND  # looked up for every request


def offers_for(features: Features, view: View, now_ms: int) -> Offers:
    """Return what every pool offers this request."""
    if view.mode is _BLIND:
        return _by_registry(features, view)
    # Most requests ask for nothing but a model: their answer is kept until the fleet changes.
    asks_more = features.pinned or features.operators or features.precision or features.capabilities
    offers = None if asks_more else view.offers_by_model.get(features.model)
    if offers is None:
        offers = _by_model(features, view)
        if not asks_more:
            if len(view.offers_by_model) >= OFFERS_KEPT_MAX:
                view.offers_by_model.clear()
            view.offers_by_model[features.model] = offers
    return _after_refusals(offers, features, now_ms) if features.excluded else offers


def _by_registry(features: Features, view: View) -> Offers:
    """Compare the request with compute types only: nothing is known of nodes."""
    model = view.models.get(features.model)
    by_pool: dict[str, Offer | str] = {}
    for name, pool in view.pools.items():
        objection = next(_objections(features, model, pool.compute_type), None)
        by_pool[name] = objection or Offer(pool, [])
    return Offers.of(by_pool, small=_is_small(model))


def _by_model(features: Features, view: View) -> Offers:
    """Compare the request with compute types and nodes, as if no node had refused it."""
    offers = _by_registry(features, view)
    by_pool = {
        name: offer if isinstance(offer, str) else _offer(offer.pool, features.model, (), {})
        for name, offer in offers.by_pool.items()
    }
    return Offers.of(by_pool, small=offers.small)


def _after_refusals(offers: Offers, features: Features, now_ms: int) -> Offers:
    """Compare again, now without the nodes that refused the request, where there are any."""
    refused, lapses = _refusals(features.excluded, now_ms)
    by_pool = {
        name: offer
        if isinstance(offer, str) or (refused | lapses.keys()).isdisjoint(offer.pool.live)
        else _offer(offer.pool, features.model, refused, lapses)
        for name, offer in offers.by_pool.items()
    }
    return Offers.of(by_pool, small=offers.small)


def _refusals(excluded: tuple[Exclusion, ...], now_ms: int) -> tuple[set[str], dict[str, int]]:
    """Return the nodes that refused for good, and until when (epoch ms) others still refuse."""
    refused = set()
    lapses: dict[str, int] = {}
    for node, until_ms in excluded:
        if until_ms == FOR_GOOD:
            refused.add(node)
        elif until_ms > now_ms:
            lapses[node] = max(until_ms, lapses.get(node, until_ms))
    return refused, lapses


def _offer(
    pool: PoolView, model: str, refused: Collection[str], lapses: Mapping[str, int]
) -> Offer | str:
    """Return what the pool's nodes offer, or why the pool is excluded."""
    able = [node for node in pool.live.values() if node.serves(model) and node.id not in refused]
    if pool.live and not able:
        return _nobody(pool, model)
    takers = [node for node in able if node.takes_work]
    only_draining = bool(able) and all(node.draining for node in able)
    if pool.down or only_draining:
        return Offer(pool, takers, UNKNOWN_WHEN)
    willing = [node for node in takers if node.id not in lapses]
    if takers and not willing:
        first = min(takers, key=lambda node: (lapses[node.id], node.rank))
        return Offer(pool, [first], lapses[first.id])
    return Offer(pool, willing)


def _nobody(pool: PoolView, model: str) -> str:
    """Return why none of the pool's live nodes will take the request, now or later."""
    lacking = sum(not node.serves(model) for node in pool.live.values())
    if not lacking:
        return "every live node refused the request"
    if lacking == len(pool.live):
        return f"no live node has model {model}"
    return f"{lacking} of {len(pool.live)} live nodes lack model {model}, the others refused it"


def _is_small(model: ModelRecord | None) -> bool:
    return (
        model is not None
        and model.parameters is not None
        and model.parameters < SMALL_MODEL_PARAMETERS
    )


def _objections(
    features: Features, model: ModelRecord | None, compute_type: ComputeType
) -> Iterator[str]:
    """Yield why this compute type may not run the request; nothing if it may.

    A model that the registry does not know may run anywhere.
    """
    if features.pinned and compute_type not in features.pinned:
        yield f"the request is pinned to {_listed(features.pinned)}"
    if model is not None:
        if model.pinned is not None and compute_type not in model.pinned:
            yield f"model {model.name} is pinned to {_listed(model.pinned)}"
        yield from _unmet(features, model, compute_type)


def _unmet(features: Features, model: ModelRecord, compute_type: ComputeType) -> Iterator[str]:
    """Yield what the model or the request needs and the compute type does not have.

    Operators run only where they are listed, since a missing kernel fails every time. Of precisions
    and features, no list means that no restriction is known.
    """
    kind = compute_type.value
    support = model.types.get(compute_type, _NO_SUPPORT)
    for operator in (*model.operators, *features.operators):
        if operator not in (support.operators or ()):
            yield f"operator {operator} is not validated on {kind}"
    for precision in (model.precision, features.precision):
        if precision is not None and _lacks(support.precisions, precision):
            yield f"precision {precision} is not run on {kind}"
    for feature in features.capabilities:
        if _lacks(support.features, feature):
            yield f"feature {feature} is not offered on {kind}"
    if len({model.tokenizer_digest, support.tokenizer_digest} - {None}) > 1:
        yield f"the tokenizer on {kind} differs from the model's"


def _lacks(known: tuple[str, ...] | None, wanted: str) -> bool:
    return known is not None and wanted not in known


def _listed(compute_types: Collection[ComputeType]) -> str:
    return ", ".join(compute_type.value for compute_type in compute_types) or "nothing"
