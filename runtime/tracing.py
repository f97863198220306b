"""Spans of what has ended, sent to an OpenTelemetry collector; nothing where none is configured.

Only traces that a caller has begun and wants kept are continued (W3C traceparent, sampled). Knows
how spans are sent; what they tell is said by whoever ends a request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from runtime.extras import install_command
from runtime.settings import TracingSettings
from schemas.errors import UsageError
from schemas.headers import Headers

ATTEMPT = "overspill.attempt"
"""The span of each attempt at a request, told by whoever ends it: a node or a router."""
FLUSH_MS = 1_000
"""For the last spans to be sent when a process stops."""
NS_MAX = 2**63 - 1
"""In the year 2262. A span beyond what its format holds costs the others of its batch as well."""
_TRACE_HEADERS = frozenset(("traceparent", "tracestate"))


class Stretch(NamedTuple):
    """Something that took time; epoch ms."""

    name: str
    begin_ms: float
    end_ms: float


class Story(NamedTuple):
    """A span and the ones below it.

    Attributes:
        headers: the caller's, with the trace that it is part of.
        whole: the span.
        parts: those below, each within it.
        attributes: of the whole.
        failed: why it did not end well; None if it did.
    """

    headers: Headers
    whole: Stretch
    parts: tuple[Stretch, ...]
    attributes: Mapping[str, str | int | float]
    failed: str | None


class Tracing:
    """Sends stories until closed.

    Args:
        provider: OpenTelemetry's; it decides where spans go.
    """

    def __init__(self, provider: Any) -> None:
        # Imported here: only who traces has the extra `tracing`.
        from opentelemetry.trace import Status, StatusCode, set_span_in_context  # noqa: PLC0415
        from opentelemetry.trace.propagation.tracecontext import (  # noqa: PLC0415
            TraceContextTextMapPropagator,
        )

        self._provider = provider
        self._tracer = provider.get_tracer("overspill")
        self._extract: Callable[[Mapping[str, str]], Any] = TraceContextTextMapPropagator().extract
        self._below = set_span_in_context
        self._failed: Callable[[str], Any] = partial(Status, StatusCode.ERROR)

    def tell(self, story: Story) -> None:
        """Send the spans of a story that is part of a caller's trace; else do nothing."""
        carried = dict(_carried(story.headers))
        if "traceparent" not in carried:
            return
        whole = self._start(story.whole, self._extract(carried))
        if whole.is_recording():
            whole.set_attributes(story.attributes)
            if story.failed is not None:
                whole.set_status(self._failed(story.failed))
            below = self._below(whole)
            for part in story.parts:
                self._start(part, below).end(_ns(part.end_ms))
        whole.end(_ns(story.whole.end_ms))

    def close(self) -> None:
        """Send what is left, for a second at most."""
        self._provider.force_flush(FLUSH_MS)
        self._provider.shutdown()

    def _start(self, stretch: Stretch, context: Any) -> Any:
        return self._tracer.start_span(
            stretch.name, context=context, start_time=_ns(stretch.begin_ms)
        )


def open_tracing(settings: TracingSettings, role: str, version: str) -> Tracing | None:
    """Return what sends spans to the collector of the settings; None if there is none.

    Raises:
        UsageError: the extra `tracing` is not installed.
    """
    if settings.endpoint is None:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError:
        raise UsageError(
            f"tracing.endpoint needs OpenTelemetry: {install_command('tracing')}"
        ) from None
    provider = make_provider(role, version)
    # In a thread of its own, with a bounded queue: a collector that is away costs spans, not work.
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(settings.endpoint)))
    return Tracing(provider)


def make_provider(role: str, version: str) -> Any:
    """Return a provider that continues what a caller has sampled, and begins no trace itself."""
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415  as above
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased  # noqa: PLC0415

    named = {"service.name": f"overspill-{role}", "service.version": version}
    return TracerProvider(resource=Resource.create(named), sampler=ParentBased(ALWAYS_OFF))


def _carried(headers: Headers) -> Iterable[tuple[str, str]]:
    for name, value in headers:
        if name in _TRACE_HEADERS and value is not None:
            yield name, value.decode("ascii", "replace")


def _ns(moment_ms: float) -> int:
    return min(max(0, int(moment_ms * 1_000_000)), NS_MAX)  # a caller's clock may say anything
