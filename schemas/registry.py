"""What the topic `models` holds beside the models: one record of the registry as a whole.

A change of the registry is one transaction: the models it touches, then the head with the next
revision. So the revision grows with every change, also with one that only removes.
"""

from __future__ import annotations

from schemas.message import Message
from schemas.orders import Who, Why

HEAD_KEY = b""
"""No model can have this name."""


class RegistryHead(Message):
    """The last change of the registry: who made it, why and when."""

    version: int = 1
    revision: int
    """Grows by one with every change."""
    who: Who
    why: Why = ""
    at_ms: int
