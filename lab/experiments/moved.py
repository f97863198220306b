"""The source article's first claim: 30 % of the work, all batch, moved off the gpu."""

from __future__ import annotations

from lab.experiments.setting import Setting
from lab.simulator.fleet import Fleet
from lab.tables import Table
from schemas.features import Features
from schemas.outcomes import Reason
from schemas.pools import CPU, GPU
from schemas.request import Priority
from streams.policy import Policy, policy
from streams.policy.offers import Choice, Offers

MOVED = 0.3
RATIOS, SLOWDOWNS = (5, 10, 20, 50), (5, 10, 15, 20)
_HASHES = 2**32


def batch_moved(at: Setting) -> Table:
    """Move 30 % of all work, batch, to the cpu: what of it is saved, by price and slowdown."""
    share = MOVED / sum(
        one.features.priority is Priority.BATCH for one in at.requests()
    ) * len(at.plain)  # fmt: skip

    def choose(features: Features, offers: Offers, _: int) -> Choice:
        moves = features.priority is Priority.BATCH and features.key_hash < share * _HASHES
        asked = offers.named(CPU if moves else GPU)
        return asked or offers.open[0], Reason.BASELINE, None

    mover, gpu_only = Policy("30 % moved", choose), policy("gpu-only")
    requests = at.requests()
    rows: list[tuple[str, ...]] = []
    for slowdown in SLOWDOWNS:
        cells = [f"x {slowdown}"]
        for ratio in RATIOS:
            fleet = _priced(at.fleet, slowdown, ratio)
            before = at.run(requests, gpu_only, fleet).metered_cost
            saved = 1 - at.run(requests, mover, fleet).metered_cost / before
            cells.append(f"{saved:.1%} ({MOVED * (1 - slowdown / ratio):.1%})")
        rows.append(tuple(cells))
    return Table(
        "30 % of the work moved",
        "Moving 30 % of the work, all batch, saves 20 to 40 % of the cost. Measured metered saving "
        "by slowdown and price ratio, in brackets 30 % x (1 - slowdown / ratio).",
        ("slowdown", *(f"price 1/{ratio}" for ratio in RATIOS)),
        rows,
    )


def _priced(fleet: Fleet, slowdown: float, ratio: float) -> Fleet:
    """Return gpus and plenty of cpus that are so slow and so cheap."""
    gpu = next(one for one in fleet.pools if one.name == GPU)
    speed = gpu.profile
    slow = speed.model_copy(
        update={
            "prefill_tokens_per_s": (speed.prefill_tokens_per_s or 1) / slowdown,
            "decode_tokens_per_s": (speed.decode_tokens_per_s or 1) / slowdown,
        }
    )
    cpu = next(one for one in fleet.pools if one.name == CPU)
    cheap = cpu.model_copy(
        update={
            "profile": slow, "nodes": 8, "slots": 64,
            "cost_coefficient": 1 / ratio, "price_per_hour": None,
        }
    )  # fmt: skip
    plain = gpu.model_copy(update={"cost_coefficient": 1.0, "price_per_hour": None})
    return Fleet(pools=(plain, cheap), delays=fleet.delays)
