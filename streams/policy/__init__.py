"""The policy: which pool and node a request goes to, and why.

Pure: values in, a decision out. It knows no I/O, no clock, no randomness and no logger, so the
router, `overspill decide`, the simulator and a replay run this same object.
"""

from __future__ import annotations

from streams.policy.decision import Decision
from streams.policy.policies import DEFAULT_POLICY, POLICIES, policy
from streams.policy.rules import Policy
from streams.policy.view import View

__all__ = ["DEFAULT_POLICY", "POLICIES", "Decision", "Policy", "View", "policy"]
