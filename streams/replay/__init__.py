"""Replay: decisions made again from what their records say, by the policy object that routes.

Pure but for `source`, which reads records. It knows nothing of routers but what they write.
"""

from __future__ import annotations

from streams.replay.compare import Compared, Comparison
from streams.replay.verify import Mismatch, Verification, Verified
from streams.replay.views import Views

__all__ = ["Compared", "Comparison", "Mismatch", "Verification", "Verified", "Views"]
