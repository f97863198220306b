"""A trace as a caller begins it, and a collector of the spans that are told of it."""

from __future__ import annotations

from typing import Any

from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from runtime.tracing import Tracing, make_provider

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SAMPLED = (("traceparent", f"00-{TRACE}-{CALLER}-01".encode()),)
NOT_SAMPLED = (("traceparent", f"00-{TRACE}-{CALLER}-00".encode()),)


class Collected:
    """Spans as a collector would get them."""

    def __init__(self, role: str) -> None:
        self._exporter = InMemorySpanExporter()
        provider = make_provider(role, "1")
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracing = Tracing(provider)

    @property
    def spans(self) -> list[Any]:
        """Return those that have ended, in the order of their ends."""
        return list(self._exporter.get_finished_spans())
