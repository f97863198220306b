"""The work of `overspill demo`: a stack of its own around the demo, and what is shown of it."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from deploy.cli.console import Progress
from deploy.cli.demo_live import live_viewer
from deploy.cli.demo_screen import last_screen
from deploy.cli.document import print_document
from deploy.cli.entry import INTERRUPTED
from deploy.cli.interrupts import asked_to_stop, stoppable
from deploy.local.demo.account import document
from deploy.local.demo.run import Demo, Outcome
from deploy.local.fleet import SMALL
from deploy.local.folders import Folders
from deploy.local.kafka import start_broker
from deploy.local.stack import Stack, run_stack
from runtime.ports import free_port
from runtime.settings import Settings
from schemas.errors import OverspillError


class DemoFailed(OverspillError):
    """The demo's own judge found requests without exactly one end."""


def run_demo(
    settings: Settings, *, kafka_port: int | None, data_dir: Path | None, fresh: bool, as_json: bool
) -> int:
    """Run the demo and return the exit code; raise DemoFailed if it was not exactly once."""
    outcome: Outcome | None = None
    with stoppable(), _folder(data_dir) as folder:
        folders = Folders.of(folder)
        with (
            Progress() as say,
            start_broker(
                port=kafka_port or free_port(), data_dir=folders.kafka, fresh=fresh, progress=say
            ) as broker,
        ):
            stack = Stack(settings, SMALL, broker, folders, say)
            outcome = asyncio.run(_run(stack, say))
            say("Stopping everything")
        if outcome is not None:
            _show(outcome, as_json=as_json)
    return INTERRUPTED if outcome is None else 0


def _show(outcome: Outcome, *, as_json: bool) -> None:
    account, verdict, thresholds, took_s = outcome
    if as_json:
        print_document(document(account, verdict, thresholds, took_s))
    else:
        last_screen(outcome)
    if not verdict.exactly_once:
        raise DemoFailed(
            "not every request ended exactly once: please report it with logs and data"
        )


async def _run(stack: Stack, say: Progress) -> Outcome | None:
    async def work() -> Outcome:
        say.settle()
        with live_viewer() as viewer:
            return await Demo(stack.settings, viewer).run()

    return await run_stack(stack, work, asked_to_stop())


@contextmanager
def _folder(data_dir: Path | None) -> Iterator[Path]:
    """Yield the folder given, else a temporary one, which is kept when something goes wrong."""
    if data_dir is not None:
        yield data_dir
        return
    temporary = Path(tempfile.mkdtemp(prefix="overspill-demo-"))
    try:
        yield temporary
    except Exception:
        click.echo(f"Logs and data are kept in {temporary}.", err=True)
        raise
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    shutil.rmtree(temporary, ignore_errors=True)
