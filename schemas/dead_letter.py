"""What a dead letter says beside the record: why it was rejected, and when first.

Router and executor write dead letters alike; what else they carry is theirs.
"""

from __future__ import annotations

from schemas.errors import RecordRejected
from schemas.headers import ERROR_CATEGORY, ERROR_FIRST_SEEN, ERROR_MESSAGE


def rejection_headers(rejection: RecordRejected, now_ms: float) -> list[tuple[str, bytes | None]]:
    """Return the headers that say why; `now_ms` is epoch ms."""
    # A message may quote what the record holds: no text may make the dead letter itself fail.
    return [
        (ERROR_CATEGORY, rejection.category.value.encode()),
        (ERROR_MESSAGE, rejection.message.encode("utf-8", "replace")),
        (ERROR_FIRST_SEEN, b"%d" % now_ms),
    ]
