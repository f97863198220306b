"""`overspill executor`: one node of a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from deploy.cli.backend_options import SLOTS, node_options
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
        "overspill executor --pool gpu --backend oip --url http://127.0.0.1:8000 \\",
        "    --set 'backends.oip.models=[\"resnet\"]'",
        "overspill executor --pool npu --backend onnx --set backends.onnx.model_name=magika \\",
        "    --set backends.onnx.model_path=m.onnx --set backends.onnx.golden=golden.json",
    )
)
@click.option("--pool", required=True, help="The pool that this node belongs to, as `gpu`.")
@click.option(
    "--backend",
    type=click.Choice(sorted(BACKENDS)),
    default="llama",
    show_default=True,
    help="What runs the requests; docs/backends.md has the options of each.",
)
@click.option(
    "--slots",
    type=click.IntRange(1, 1000),
    default=SLOTS,
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

    from executors.node import run_node
    from runtime.connection import connection_of
    from runtime.metrics import Metrics
    from runtime.process import run_loop

    options = node_options(
        settings,
        pool=pool,
        backend=backend,
        slots=slots,
        node_id=node_id,
        profile=profile,
        url=url,
    )
    metrics = Metrics("executor", version("overspill"))
    run_loop(lambda: run_node(settings, connection_of(settings), options, metrics))
