"""How a canary is marked: a request of the control plane's own that tells whether all works.

Its tenant says it, so that metrics and costs leave it out. Whoever claims that tenant escapes them
too, and is seen: more canaries run than control has sent.
"""

from __future__ import annotations

TENANT = "overspill-canary"
ID = "canary:"
"""What the ids of canaries begin with."""
EXPIRES_AFTER_MS = 60_000
"""From then on it is lost: whatever comes later is a result `expired`, which is an end as well."""
