"""`overspill decide`: what the policy would do, asked line by line on stdin."""

from __future__ import annotations

import sys

import click

from deploy.cli.help import example

_QUESTION = (
    """echo '{"request": {"id": "a", "model_name": "m", "payload": {}}, "now": 0, """
    """"snapshot": {"threshold": 10, "down": ["gpu"]}}' | overspill decide"""
)


@click.command(epilog=example(_QUESTION, "overspill decide --policy gpu-only < questions.jsonl"))
@click.option(
    "--policy",
    "policy_name",
    default="overflow",
    show_default=True,
    metavar="NAME",
    help="overflow, gpu-only, round-robin, static-threshold or predictive.",
)
@click.pass_context
def decide(context: click.Context, policy_name: str) -> None:
    """Say where requests would go, and why: JSON lines in, JSON lines out.

    \b
    In:  {"request": {...}, "now": EPOCH_MS, "snapshot": {"threshold": 10,
          "nodes": [{"id", "pool", "compute_type", "slots", "unfinished",
                     "avg_latency_ms", "cost_coefficient"}],
          "queue_depth": {"gpu": 3}, "down": []}}
    Out: {"pool", "node", "reason", "excluded": {...}, "threshold"}

    A node may give "available_slots" and "models", the snapshot "models" of the registry;
    docs/policy.md tells more. A line that cannot be read gives {"error": {"category", "message"}}
    in its place; the rest go on, and the command ends with 1.
    """  # noqa: D301  \b is click's mark for lines that are not to be wrapped
    from deploy.cli.what_if import answer_line
    from schemas.document import to_json
    from schemas.errors import RecordRejected
    from streams.policy import policy

    chosen = policy(policy_name)
    exit_code = 0
    for line in sys.stdin.buffer:
        try:
            answer = answer_line(line, chosen)
        except RecordRejected as error:
            exit_code = error.exit_code
            answer = {"error": {"category": error.category, "message": error.message}}
        click.echo(to_json(answer))
    context.exit(exit_code)
