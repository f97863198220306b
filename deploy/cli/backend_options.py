"""What a node's backend is told: the settings of its kind, and the tiny model for want of another.

Imports what makes the options only when called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from executors.settings import NodeOptions
    from runtime.settings import Settings

SLOTS = 4
"""Of a node that is not told."""


def node_options(
    settings: Settings, *, pool: str, backend: str, slots: int, node_id: str | None, **flags: Any
) -> NodeOptions:
    """Return the options of one node; flags that are None were not given. Raise UsageError."""
    from pydantic import ValidationError

    from deploy.local.fleet import SMALL_MODEL
    from deploy.local.tiny_model import ADAPTERS, CONTEXT, MODEL_NAME, MODEL_PATH
    from executors.settings import NodeOptions
    from schemas.errors import UsageError

    told = {**settings.backends.get(backend, {})}
    told |= {name: value for name, value in flags.items() if value is not None}
    if backend == "llama" and "model_path" not in told:
        told = {
            "model_name": MODEL_NAME,
            "model_path": MODEL_PATH,
            "model_aliases": (SMALL_MODEL,),
            "adapters": ADAPTERS,
            "context_tokens": CONTEXT,
            **told,
        }
    named = {} if node_id is None else {"node_id": node_id}
    try:
        return NodeOptions(pool=pool, backend=backend, slots=slots, options=told, **named)
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"{first['loc'][0]}: {first['msg']}") from None
