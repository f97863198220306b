"""`overspill executor`: one node of a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from deploy.cli.flags import role_flags
from deploy.cli.help import example
from executors.backends.registry import BACKENDS

if TYPE_CHECKING:
    from runtime.settings import Settings


@click.command(
    epilog=example(
        "overspill executor --pool cpu --backend llama --slots 2",
        "overspill executor --pool gpu --backend emulated --slots 8 --profile fixed:50",
        "overspill executor --pool gpu --backend openai --slots 64 --url http://127.0.0.1:8000/v1",
    )
)
@click.option("--pool", required=True, help="The pool that this node belongs to, as `gpu`.")
@click.option(
    "--backend",
    type=click.Choice(sorted(BACKENDS)),
    default="llama",
    show_default=True,
    help="What runs the requests.",
)
@click.option(
    "--slots",
    type=click.IntRange(1, 1000),
    default=4,
    show_default=True,
    help="How many requests run at the same time.",
)
@click.option(
    "--profile",
    metavar="fixed:MS|FILE.toml",
    help="Speed of made-up hardware; results then say `emulated`.",
)
@click.option(
    "--url",
    help="Of the server, for backends that are one; its other options are settings, as "
    "`--set backends.openai.priority_order=lower_first`.",
)
@click.option("--node-id", help="Name of this node; default: host and process id.")
@role_flags
def executor(
    settings: Settings,
    pool: str,
    backend: str,
    slots: int,
    profile: str | None,
    url: str | None,
    node_id: str | None,
) -> None:
    """Run a node of a pool: it runs requests and writes their results.

    SIGTERM ends it in order: what has begun is finished, within 10 s.
    """
    from importlib.metadata import version

    from pydantic import ValidationError

    from deploy.local.fleet import SMALL_MODEL
    from deploy.local.tiny_model import ADAPTERS, CONTEXT, MODEL_NAME, MODEL_PATH
    from executors.node import run_node
    from executors.settings import NodeOptions
    from runtime.connection import connection_of
    from runtime.metrics import Metrics
    from runtime.process import run_loop
    from schemas.errors import UsageError

    named = {} if node_id is None else {"node_id": node_id}
    told = {**settings.backends.get(backend, {})}
    told |= {name: flag for name, flag in (("profile", profile), ("url", url)) if flag is not None}
    if backend == "llama" and "model_path" not in told:
        told = {
            "model_name": MODEL_NAME,
            "model_path": MODEL_PATH,
            "model_aliases": (SMALL_MODEL,),
            "adapters": ADAPTERS,
            "context_tokens": CONTEXT,
            **told,
        }
    try:
        options = NodeOptions(pool=pool, backend=backend, slots=slots, options=told, **named)
    except ValidationError as error:
        first = error.errors()[0]
        raise UsageError(f"{first['loc'][0]}: {first['msg']}") from None
    metrics = Metrics("executor", version("overspill"))
    run_loop(lambda: run_node(settings, connection_of(settings), options, metrics))
