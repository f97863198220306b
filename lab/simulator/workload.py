"""The workload rule: what no trace tells of a request, drawn from a seed.

Pure. Priority, objective, model and LoRA are draws, the same number for each request, so that the
first part of a trace gets the same ones as in the whole. Conversations are read from block hashes
where the trace has them. docs/lab.md publishes the rule.
"""

from __future__ import annotations

import math
import random
import zlib
from collections.abc import Sequence
from statistics import NormalDist

from executors.backends.profile import chance_of
from lab.simulator.traces import Arrival
from schemas.control import ModelRecord
from schemas.errors import UsageError
from schemas.features import Features, objective_ms
from schemas.request import EXPIRES_AFTER_MS_DEFAULT, Priority
from schemas.value import Value

LARGE, SMALL = "large-13b", "small-0.8b"
_WEIGHTS = {LARGE: 13_000_000_000, SMALL: 800_000_000}
MODELS = {name: ModelRecord(name=name, parameters=count) for name, count in _WEIGHTS.items()}
SMALL_SHARE = 0.2
SMALL_WORK = 1 / 16
"""A token of the small model costs as much less as it has fewer weights. Profiles give the speed of
the large one, so a request for the small one counts with a sixteenth of its tokens."""
LORA_SHARE = 0.1
REALTIME_SHARE, NORMAL_SHARE = 0.2, 0.3
"""The rest is batch."""
PATIENT_SHARE = 0.5
"""Of batch: has no objective at all."""

PREFILL_TOKENS_PER_S, DECODE_TOKENS_PER_S = 5000, 50
"""Of the reference GPU: objectives are multiples of the time it takes when it is idle, as how long
one is ready to wait depends on how much one has asked for."""
GFLOPS_A_TOKEN = 2e-9
"""For each weight: a multiplication and an addition."""
WRITTEN = PREFILL_TOKENS_PER_S / DECODE_TOKENS_PER_S
"""A written token keeps a device busy for as long as so many read ones, so it counts as so many in
the estimated work: an estimate that is worth anything goes with the time."""
ESTIMATE_ERROR = 0.0
"""Callers know what they ask for; docs/policy.md tells what a worse estimate costs."""
_REALTIME, _NORMAL, _BATCH = Priority.REALTIME, Priority.NORMAL, Priority.BATCH
OBJECTIVES = {_REALTIME: (500.0, 2.0), _NORMAL: (2_000.0, 6.0), _BATCH: (10_000.0, 30.0)}
"""By priority: so many ms, and so many times the reference time."""


class Asked(Value, frozen=True):
    """One request as the simulator sees it.

    Attributes:
        prompt_tokens, output_tokens: what a profile is asked for: those of the large model.
        slo_ms: its objective; None without.
        deadline_ms: until when nodes are to have run it.
        chance: of its run time's jitter, the same on every node.
    """

    number: int
    at_ms: float
    prompt_tokens: int
    output_tokens: int
    features: Features
    slo_ms: float | None
    deadline_ms: float
    chance: float


_Draws = tuple[float, float, float, float]
"""The numbers that decide of what kind a request is: priority, size, adapter, patience."""


def workload(
    arrivals: Sequence[Arrival],
    seed: int,
    speed: float = 1.0,
    estimate_error: float = ESTIMATE_ERROR,
) -> list[Asked]:
    """Return the requests of a trace, `speed` times as fast; raise UsageError.

    The same seed gives the same. `estimate_error` is the standard deviation of the logarithm of
    what estimated work is off by.
    """
    if not (math.isfinite(speed) and speed > 0 and math.isfinite(arrivals[-1].at_ms / speed)):
        raise UsageError(f"a speed of {speed} makes no time; give a number above 0")
    draw = random.Random(seed)  # noqa: S311  seeded on purpose, nothing is secret
    told = conversations(arrivals)
    kinds: dict[str, _Draws] = {}
    asked = []
    for number, (arrival, conversation) in enumerate(zip(arrivals, told, strict=True)):
        drawn = draw.random(), draw.random(), draw.random(), draw.random()
        if conversation is not None:  # all of its turns are of one kind, that of the first
            drawn = kinds.setdefault(conversation, drawn)
        name = f"{seed}-{number}"
        off = error_of(f"estimate-{name}", estimate_error) if estimate_error else 1.0
        asked.append(_asked(number, arrival, arrival.at_ms / speed, conversation, name, drawn, off))
    return asked


def error_of(name: str, spread: float) -> float:
    """Return by what factor an estimate is off: log-normal, its logarithm spread by so much."""
    # Of two hashes, so that it belongs to the request as its jitter does.
    share = (zlib.crc32(name.encode()) + 1) / (2**32 + 1)
    return math.exp(spread * NormalDist().inv_cdf(share))


def conversations(arrivals: Sequence[Arrival]) -> list[str | None]:
    """Return which conversation each request is a turn of; None where there are no hashes.

    A turn repeats the prompt of the turn before it, and a block's hash stands for all before it
    too. So turns share their second block; the first is that of a system prompt, which is shared
    by all.
    """
    begun: dict[int, str] = {}
    told: list[str | None] = []
    for number, arrival in enumerate(arrivals):
        blocks = arrival.blocks
        if not blocks:
            told.append(None)
            continue
        own = f"c{number}"
        told.append(begun.setdefault(blocks[1], own) if len(blocks) > 1 else own)
    return told


def asked(
    number: int,
    at_ms: float,
    tokens: tuple[int, int],
    features: Features,
    chance: float = 0.5,
) -> Asked:
    """Return a request with these features, whose objective is counted as nodes count it."""
    slo_ms = objective_ms(features.slo_ms, features.priority)
    deadline_ms = float(features.expires_at_ms) if slo_ms is None else at_ms + slo_ms
    return Asked(number, at_ms, *tokens, features, slo_ms, deadline_ms, chance)


def _asked(
    number: int,
    arrival: Arrival,
    at_ms: float,
    conversation: str | None,
    name: str,
    drawn: _Draws,
    off: float,
) -> Asked:
    by_priority, by_size, by_adapter, by_patience = drawn
    model = SMALL if by_size < SMALL_SHARE else LARGE
    prompt, output = arrival.prompt_tokens, arrival.output_tokens
    gflops = off * GFLOPS_A_TOKEN * _WEIGHTS[model] * (prompt + output * WRITTEN)
    if model == SMALL:
        prompt, output = round(prompt * SMALL_WORK), round(output * SMALL_WORK)
    if not prompt and not output:
        prompt = 1  # what took no time would have no price, and no bound could be solved for it
    priority = _BATCH
    if by_priority < REALTIME_SHARE + NORMAL_SHARE:
        priority = _REALTIME if by_priority < REALTIME_SHARE else _NORMAL
    slo_ms: float | None = None
    if priority is not _BATCH or by_patience >= PATIENT_SHARE:
        base_ms, times = OBJECTIVES[priority]
        reference_ms = 1000 * (prompt / PREFILL_TOKENS_PER_S + output / DECODE_TOKENS_PER_S)
        slo_ms = base_ms + times * reference_ms
    features = Features(
        model,
        priority,
        slo_ms,
        lora=by_adapter < LORA_SHARE,
        gflops=gflops,
        expires_at_ms=int(at_ms) + EXPIRES_AFTER_MS_DEFAULT,
        conversation=conversation,
        key_hash=zlib.crc32((conversation or name).encode()),
    )
    return asked(number, at_ms, (prompt, output), features, chance_of(name))
