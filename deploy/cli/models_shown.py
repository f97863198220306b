"""The registry and a dry run, for a terminal and as JSON."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from rich.console import Group, RenderableType
from rich.text import Text

from deploy.cli.ago import ago
from deploy.cli.tables import table
from deploy.models.dry_run import DryRun
from schemas.control import ModelRecord, NodeState
from streams.policy.compatibility import SMALL_MODEL_PARAMETERS
from streams.registry import Registry

ROWS_MAX = 50
"""Of a dry run on a terminal; `--json` has them all."""
UNROUTABLE = "unroutable"


class Served(NamedTuple):
    """What live nodes serve, as control published it last.

    Attributes:
        models, adapters: by name the pools whose nodes list them.
        any: pools with nodes that list no models: they serve any.
    """

    models: dict[str, list[str]]
    adapters: dict[str, list[str]]
    any: list[str]


def served_by(nodes: Iterable[NodeState]) -> Served:
    """Return what these nodes serve, pools in alphabetical order."""
    models, adapters = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    serve_any = set()
    for node in nodes:
        if node.live:
            for name in node.models:
                models[name].add(node.pool)
            for name in node.adapters:
                adapters[name].add(node.pool)
            if not node.models:
                serve_any.add(node.pool)
    return Served(_sorted(models), _sorted(adapters), sorted(serve_any))


def _sorted(pools: Mapping[str, set[str]]) -> dict[str, list[str]]:
    return {name: sorted(pools[name]) for name in sorted(pools)}


def registry_json(registry: Registry, served: Served) -> dict[str, Any]:
    """Return what `models list --json` prints."""
    head = registry.head
    return {
        "revision": registry.revision,
        "changed": None if head is None else head.model_dump(exclude={"version", "revision"}),
        "models": [model.model_dump(mode="json") for _, model in sorted(registry.models.items())],
        "served": served._asdict(),
    }


def registry_view(registry: Registry, served: Served) -> RenderableType:
    """Return what is registered and what is served for a terminal."""
    shown = table(("model",), ("parameters", "revision"))
    for heading in ("small", "precision", "pinned to", "operators", "says of types", "served by"):
        shown.add_column(heading, overflow="fold")
    for name, model in sorted(registry.models.items()):
        shown.add_row(
            name,
            "?" if model.parameters is None else f"{model.parameters:,}",
            str(model.revision),
            _small(model),
            model.precision or "?",
            "-" if model.pinned is None else ", ".join(pin.value for pin in model.pinned),
            ", ".join(model.operators) or "-",
            "; ".join(_support(model)) or "-",
            ", ".join(served.models.get(name, ())) or "-",
        )
    for name in sorted(served.models.keys() - registry.models.keys()):
        shown.add_row(name, "?", "-", *"?????", ", ".join(served.models[name]))
    lines = [f"adapter {name}: {', '.join(pools)}" for name, pools in served.adapters.items()]
    if served.any:
        lines.append(f"any model: {', '.join(served.any)}")
    lines += ["", revision_line(registry)]
    if served.models.keys() - registry.models.keys():
        lines.append("what has no revision is not registered: every pool that serves it may run it")
    return Group(shown, Text(), Text("\n".join(lines)))


def revision_line(registry: Registry) -> str:
    """Return the revision and its author in a line."""
    head = registry.head
    if head is None:
        return "registry revision 0: never changed"
    since_s = max(0.0, time.time() - head.at_ms / 1000)
    why = f" ({head.why})" if head.why else ""
    return f"registry revision {head.revision}, by {head.who}{why}, {ago(since_s)}"


def dry_run_json(found: DryRun) -> dict[str, Any]:
    """Return what `models check --json` prints."""
    return {
        "revision": found.registry.revision,
        "set": [model.name for model in found.change.put],
        "blind": found.blind,
        "requests": _counts(found, "request", found.requests),
        "conversations": _counts(found, "conversation", found.conversations),
        "not_read": found.left_out,
        "effects": [
            {
                "kind": effect.piece.kind,
                "place": effect.piece.place,
                "id": effect.piece.id,
                "model": effect.piece.features.model,
                "queued": effect.piece.pool is not None,
                "before": effect.before,
                "after": effect.after,
                "why": effect.why,
                "excluded": dict(effect.excluded),
            }
            for effect in found.effects
        ],
    }


def dry_run_view(found: DryRun) -> RenderableType:
    """Return a dry run for a terminal: what cannot be routed any more comes first."""
    shown = table(("what", "where", "model", "has it", "would get it", "why"), ())
    ordered = sorted(found.effects, key=lambda effect: effect.after is not None)
    for effect in ordered[:ROWS_MAX]:
        piece = effect.piece
        nowhere = "; ".join(f"{pool}: {why}" for pool, why in effect.excluded.items())
        shown.add_row(
            f"{piece.kind} {piece.id}",
            piece.place,
            piece.features.model,
            effect.before if piece.pool else f"({effect.before})",
            effect.after or UNROUTABLE,
            effect.why if effect.after else nowhere,
        )
    lines = [Text(line) for line in _summary(found)]
    return Group(shown, Text(), *lines) if found.effects else Group(*lines)


def _summary(found: DryRun) -> Iterator[str]:
    changed = ", ".join(model.name for model in found.change.put)
    yield (
        f"revision {found.registry.revision} -> {found.registry.revision + 1}: sets {changed}"
        if changed
        else f"nothing to change: revision {found.registry.revision} says all of this already"
    )
    for kind, seen in (("request", found.requests), ("conversation", found.conversations)):
        yield (
            f"{kind}s: {seen} looked at, {found.touched(kind, unroutable=False)} would move, "
            f"{found.touched(kind, unroutable=True)} would become unroutable"
        )
    if len(found.effects) > ROWS_MAX:
        yield f"the first {ROWS_MAX} of {len(found.effects)} are shown; --json has all"
    if any(e.piece.kind == "request" and e.piece.pool for e in found.effects):
        yield "what is queued runs where it is; it is decided anew only if its node refuses it"
    if found.blind:
        yield "no fresh snapshot from the control plane: only the registry was compared, no nodes"
    if found.left_out:
        places = ", ".join(f"{place} ({over})" for place, over in found.left_out.items())
        yield f"not read, at most so many records: {places}"


def _counts(found: DryRun, kind: str, seen: int) -> dict[str, int]:
    return {
        "seen": seen,
        "move": found.touched(kind, unroutable=False),
        "unroutable": found.touched(kind, unroutable=True),
    }


def _small(model: ModelRecord) -> str:
    if model.parameters is None:
        return "?"
    return "yes" if model.parameters < SMALL_MODEL_PARAMETERS else "no"


def _support(model: ModelRecord) -> Iterator[str]:
    for kind, support in model.types.items():
        said = [
            *(support.precisions or ()),
            *(support.operators or ()),
            *(support.features or ()),
            *(["a tokenizer"] if support.tokenizer_digest else ()),
        ]
        yield f"{kind.value}: {', '.join(said) or 'nothing'}"
