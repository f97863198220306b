"""The policies by name."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from types import MappingProxyType

from schemas.errors import UsageError
from streams.policy import threshold
from streams.policy.baselines import gpu_only, round_robin
from streams.policy.overflow import overflow
from streams.policy.predictive import PATIENCE_S, Predictive
from streams.policy.rules import Policy

DEFAULT_POLICY = "overflow"
PREDICTIVE = "predictive"


def _predictive(name: str, patience_s: float) -> Policy:
    chosen = Predictive(patience_s)
    return Policy(name, chosen.choose, pick=chosen.pick, yields=chosen.yields)


POLICIES: Mapping[str, Policy] = MappingProxyType(
    {
        policy.name: policy
        for policy in (
            Policy(DEFAULT_POLICY, overflow),
            Policy("gpu-only", gpu_only),
            Policy("round-robin", round_robin),
            Policy("static-threshold", overflow, threshold.START),
            _predictive(PREDICTIVE, PATIENCE_S),
        )
    }
)


def policy(name: str) -> Policy:
    """Return the policy of that name; raise UsageError with the known ones.

    `predictive/600` is `predictive` with a patience of 600 s: what a decision depends on is in the
    name that it records.
    """
    if name.startswith(f"{PREDICTIVE}/"):
        return _predictive(name, _patience_s(name))
    if name not in POLICIES:
        raise UsageError(f"no policy is named {name!r}; choose one of {', '.join(POLICIES)}")
    return POLICIES[name]


def _patience_s(name: str) -> float:
    _, _, said = name.partition("/")
    try:
        patience_s = float(said)
    except ValueError:
        patience_s = -1.0
    if not 0 <= patience_s < inf:
        raise UsageError(f"{name!r}: give a patience in seconds, as {PREDICTIVE}/600")
    return patience_s
