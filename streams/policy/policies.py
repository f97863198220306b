"""The policies by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from schemas.errors import UsageError
from streams.policy import threshold
from streams.policy.baselines import gpu_only, round_robin
from streams.policy.overflow import overflow
from streams.policy.rules import Policy

DEFAULT_POLICY = "overflow"

POLICIES: Mapping[str, Policy] = MappingProxyType(
    {
        policy.name: policy
        for policy in (
            Policy(DEFAULT_POLICY, overflow),
            Policy("gpu-only", gpu_only),
            Policy("round-robin", round_robin),
            Policy("static-threshold", overflow, threshold.START),
        )
    }
)


def policy(name: str) -> Policy:
    """Return the policy of that name; raise UsageError with the known ones."""
    if name not in POLICIES:
        raise UsageError(f"no policy is named {name!r}; choose one of {', '.join(POLICIES)}")
    return POLICIES[name]
