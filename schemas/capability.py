"""What a node has proven of one model on its device: a record of its report.

Stated by the node's own self-test, never by an installed package or a device's name.
"""

from __future__ import annotations

from pydantic import Field

from schemas.message import Message


class Capability(Message):
    """One model on one device, as the self-test found it."""

    device: str
    model: str
    shapes: dict[str, tuple[int, ...]] = Field(default_factory=dict)
    """By input tensor; -1 where any size will do; models of text have none."""
    context_tokens: int | None = None
    """Prompt and answer of one request; None where nothing limits or tells it."""
    precision: str | None = None
    """Of the weights as they run, as fp16 or q8_0."""
    lora: bool = False
    max_concurrency: int
    golden_error: float | None = None
    """How far the answer to the golden input was off, 0 being the same; None: it has none."""
    tokenizer_digest: str | None = None
    validated_at_ms: int
