"""Where every invocation begins and ends: the list of commands, and how a failure is told.

A failure is one line on standard error that says what to do, and an exit code: 1 failed, 2 wrong
usage, 3 broker unreachable, 4 backend unavailable. OVERSPILL_DEBUG=1 adds the traceback.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence

import click

from deploy.cli.called import as_called, called
from deploy.cli.lazy import Entry, LazyGroup
from schemas.errors import OverspillError

COMMANDS = {
    "demo": Entry("deploy.cli.demo:demo", "Start everything, send each kind of request, explain."),
    "up": Entry("deploy.cli.up:up", "Run Kafka, router, control and three pools until Ctrl-C."),
    "submit": Entry("deploy.cli.submit:submit", "Send requests from a file, stdin or flags."),
    "results": Entry("deploy.cli.results:results", "Read results."),
    "cost": Entry("deploy.cli.cost:cost", "Add up what requests have cost."),
    "status": Entry("deploy.cli.status:status", "Show lag, pools, threshold: exact counts."),
    "top": Entry("deploy.cli.top:top", "Show the whole system on one screen, live."),
    "nodes": Entry("deploy.cli.nodes:nodes", "Show the nodes; drain or resume one."),
    "pools": Entry("deploy.cli.pools:pools", "Show the pools; pause or resume one."),
    "threshold": Entry("deploy.cli.threshold:threshold", "Show, freeze, set or release it."),
    "decide": Entry("deploy.cli.decide:decide", "Ask the policy where requests would go."),
    "simulate": Entry("deploy.cli.simulate:simulate", "Compare policies on a request trace."),
    "lab": Entry("deploy.cli.lab:lab", "Prove on traces what routing saves, in a report."),
    "replay": Entry("deploy.cli.replay:replay", "Make decisions again from their records."),
    "router": Entry("deploy.cli.router:router", "Run a router."),
    "control": Entry("deploy.cli.control:control", "Run a control plane worker."),
    "executor": Entry("deploy.cli.executor:executor", "Run a node of a pool."),
    "doctor": Entry("deploy.cli.doctor:doctor", "Find what keeps it from working, and the cure."),
    "kafka": Entry("deploy.cli.kafka:kafka", "Run only the embedded Kafka broker."),
    "topics": Entry("deploy.cli.topics:topics", "Create, grow or check the topics."),
    "models": Entry("deploy.cli.models:models", "Show, check or change the model registry."),
    "offsets": Entry("deploy.cli.offsets:offsets", "Show committed offsets; accept lost ones."),
    "redrive": Entry("deploy.cli.redrive:redrive", "Send dead letters in again."),
    "bench": Entry("deploy.cli.bench:bench", "Measure what it costs and does."),
}

INTERRUPTED = 130
"""What a shell reports of a command that Ctrl-C ended."""


@click.command(
    cls=LazyGroup,
    entries=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
)
@click.version_option(package_name="overspill", prog_name="overspill")
def cli() -> None:
    """Route inference requests across GPU, CPU and NPU executors on Kafka.

    Start with `overspill demo`. Settings come from overspill.toml, then OVERSPILL_* variables, then
    flags.

    Every command ends with 0 if all went well, 1 if something failed, 2 if flags, files or settings
    are wrong, 3 if no broker answers, 4 if an engine, device or model cannot be had.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one invocation and return its exit code."""
    try:
        done = cli.main(args=arguments, prog_name=called(), standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as help_:
        click.echo(help_.format_message())
        return 0
    except (KeyboardInterrupt, click.Abort):
        return INTERRUPTED
    except SystemExit as ended:
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        # The reader of our output has gone (`| head`), which click and rich answer with an exit
        # code of 1: nothing is wrong, and nothing more can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # noqa: BLE001  the last door: a traceback tells users nothing
        return _failed(error)
    return done if isinstance(done, int) else 0


def _failed(error: Exception) -> int:
    """Say what went wrong in one line, and return the exit code."""
    if os.environ.get("OVERSPILL_DEBUG"):
        traceback.print_exception(error)
    if isinstance(error, OverspillError):
        told, code = str(error), error.exit_code
    elif isinstance(error, click.ClickException):
        told, code = error.format_message(), error.exit_code
        if isinstance(error, click.UsageError) and error.ctx is not None:
            told = f"{told} (see `{error.ctx.command_path} --help`)"
    else:
        told, code = f"{type(error).__name__}: {error}; OVERSPILL_DEBUG=1 shows where", 1
    click.echo(as_called(f"error: {' '.join(told.split())}"), err=True)
    return code
