"""`overspill submit`: requests from a file, from standard input or from flags."""

from __future__ import annotations

from typing import IO, TYPE_CHECKING, Any

import click

from deploy.cli.flags import as_json, client_flags
from deploy.cli.help import example

if TYPE_CHECKING:
    from runtime.settings import Settings


@click.command(
    epilog=example(
        'overspill submit --model tiny-docs --prompt "The with statement" --wait',
        "overspill submit requests.jsonl",
        "generate-requests | overspill submit - --wait --json",
    )
)
@click.argument("file", type=click.File("rb"), required=False)
@click.option("--model", "model_name", help="Name of the model.")
@click.option("--prompt", help="Text to complete; `payload` of the request otherwise.")
@click.option("--payload", metavar="JSON", help="The whole payload, instead of --prompt.")
@click.option(
    "--max-tokens", type=click.IntRange(1), default=16, show_default=True, help="With --prompt."
)
@click.option("--priority", type=click.Choice(["realtime", "normal", "batch"]), help="Urgency.")
@click.option("--latency-slo-ms", type=click.FloatRange(0, min_open=True), help="Objective in ms.")
@click.option("--has-lora", is_flag=True, help="A LoRA adapter is involved.")
@click.option("--adapter", help="Name of the LoRA adapter.")
@click.option("--expires-after-ms", type=click.FloatRange(0, min_open=True), help="Default: 24 h.")
@click.option("--conversation-id", help="Keeps a conversation on one node.")
@click.option("--tenant", help="Who pays.")
@click.option("--id", "request_id", help="Default: a new one.")
@click.option("--wait", is_flag=True, help="Wait for each result and print it.")
@click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(0, min_open=True),
    default=60.0,
    show_default=True,
    help="Seconds to wait for the results after the last request.",
)
@as_json
@client_flags
def submit(
    settings: Settings,
    file: IO[bytes] | None,
    *,
    wait: bool,
    timeout_s: float,
    as_json: bool,
    **flags: Any,
) -> int:
    """Send requests: JSON lines from FILE (- for standard input), or one made of flags.

    A line that is no valid request is not sent and named on standard error; the others are. Ends
    with 0 if every request was sent and, with --wait, has the status `ok`.
    """
    import asyncio

    from deploy.cli.submitting import Submission, lines_of, one_of_flags

    if (file is None) == (flags["model_name"] is None):
        raise click.UsageError("give either a FILE of JSON lines (- for standard input) or --model")
    requests = lines_of(file) if file is not None else one_of_flags(**flags)
    submission = Submission(settings, as_json=as_json)
    return asyncio.run(submission.run(requests, timeout_s if wait else None))
