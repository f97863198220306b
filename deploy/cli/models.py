"""`overspill models`: the registry of what is known of models, and changes of it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deploy.cli.document import print_document
from deploy.cli.flags import as_json, client_flags, order_flags
from deploy.cli.help import example

if TYPE_CHECKING:
    from runtime.settings import Settings
    from schemas.control import ModelRecord, NodeState
    from streams.registry import Registry

_file = click.argument("file", type=click.Path(path_type=Path, dir_okay=False))


_if_revision = click.option(
    "--if-revision",
    "seen",
    type=click.IntRange(0),
    help="Refuse unless the registry has this revision, as `list` or `check` showed it.",
)


@click.group()
def models() -> None:
    """Show or change the model registry: sizes, pins, precisions, operators, tokenizers."""


@models.command("list", epilog=example("overspill models list", "overspill models list --json"))
@as_json
@client_flags
def list_(settings: Settings, *, as_json: bool) -> None:
    """Show what is registered, what live nodes serve, and the registry's revision."""
    import asyncio

    from deploy.cli.models_shown import registry_json, registry_view, served_by

    registry, nodes = asyncio.run(_registered_and_served(settings))
    served = served_by(nodes)
    if as_json:
        print_document(registry_json(registry, served))
        return
    from deploy.cli.tables import console

    console().print(registry_view(registry, served))


@models.command(
    epilog=example(
        "overspill models check models.toml", "overspill models set models.toml --if-revision 7"
    )
)
@_file
@click.option(
    "--allow-unroutable", is_flag=True, help="End with 0 even if work would become unroutable."
)
@as_json
@client_flags
def check(settings: Settings, file: Path, *, allow_unroutable: bool, as_json: bool) -> int:
    """Say what `models set FILE` would do, and change nothing.

    Shows which unfinished requests and bound conversations would move to another pool or become
    unroutable, and why. Ends with 1 if something would become unroutable, with 2 if FILE has
    faults.
    """
    import asyncio

    from deploy.cli.console import Progress
    from deploy.cli.models_shown import dry_run_json, dry_run_view
    from deploy.models.change import Change
    from deploy.models.dry_run import dry_run
    from runtime.connection import connection_of

    put = _models_of(settings, file)
    with Progress() as say:
        if sys.stderr.isatty():
            say("Reading what is unfinished")
        found = asyncio.run(dry_run(settings, connection_of(settings), Change(put)))
    if as_json:
        print_document(dry_run_json(found))
    else:
        from deploy.cli.tables import console

        console().print(dry_run_view(found))
    return int(any(effect.after is None for effect in found.effects) and not allow_unroutable)


@models.command(
    "set", epilog=example('overspill models set models.toml --why "int4 runs on the npu now"')
)
@_file
@order_flags(reason_needed=False)
@_if_revision
@as_json
@client_flags
def set_(
    settings: Settings, file: Path, who: str | None, why: str, seen: int | None, *, as_json: bool
) -> None:
    """Put the models of FILE (TOML or JSON) into the registry, in place of those of their names.

    All of it or nothing: one fault, and nothing is changed. Running routers obey within a second;
    what is queued at nodes already runs where it is (`models check` shows it).
    """
    _change(settings, _models_of(settings, file), (), (who, why), seen, as_json=as_json)


@models.command(epilog=example("overspill models remove llama-13b phi-3"))
@click.argument("names", nargs=-1, required=True)
@order_flags(reason_needed=False)
@_if_revision
@as_json
@client_flags
def remove(
    settings: Settings,
    names: tuple[str, ...],
    who: str | None,
    why: str,
    seen: int | None,
    *,
    as_json: bool,
) -> None:
    """Remove models from the registry: of what it does not know, any pool may run anything."""
    _change(settings, (), names, (who, why), seen, as_json=as_json)


def _change(
    settings: Settings,
    put: tuple[ModelRecord, ...],
    drop: tuple[str, ...],
    signed: tuple[str | None, str],
    seen: int | None,
    *,
    as_json: bool,
) -> None:
    import asyncio

    from deploy.cli.author import author
    from deploy.models.change import Author, Change, refuse_unseen, write_change
    from runtime.connection import connection_of
    from schemas.errors import UsageError

    by = Author(*author(*signed))

    async def write() -> tuple[Registry, Registry]:
        before = await _registry(settings)
        refuse_unseen(before, seen)
        if unknown := [name for name in drop if name not in before.models]:
            raise UsageError(f"not registered: {', '.join(unknown)}; `overspill models list` shows")
        after = await write_change(
            connection_of(settings),
            settings.topics,
            Change(put, drop),
            by,
            seen=before.revision,
        )
        return before, after

    before, after = asyncio.run(write())
    changed = after.revision != before.revision
    if as_json:
        print_document({"revision": after.revision, "changed": changed})
    elif changed:
        click.echo(f"the registry has revision {after.revision} now")
    else:
        click.echo(f"nothing to change: revision {after.revision} says all of this already")


def _models_of(settings: Settings, file: Path) -> tuple[ModelRecord, ...]:
    """Return the models of a file; end with 2 and a line for each fault if it has any."""
    from deploy.models.faults import faults_of
    from deploy.models.file import read_file

    parsed = read_file(file)
    faults = [*parsed.faults, *(f for m in parsed.models for f in faults_of(m, settings.pools))]
    if not faults:
        return parsed.models
    for fault in faults[:-1]:
        click.echo(f"error: {' '.join(fault.split())}", err=True)
    from schemas.errors import UsageError

    raise UsageError(f"{faults[-1]}")


async def _registry(settings: Settings) -> Registry:
    from runtime.connection import connection_of
    from runtime.kafka.offsets import OffsetReader
    from streams.registry import read_registry

    connection = connection_of(settings)
    async with OffsetReader(connection) as offsets:
        return await read_registry(connection, offsets, settings.topics)


async def _registered_and_served(settings: Settings) -> tuple[Registry, tuple[NodeState, ...]]:
    """Return the registry, and the nodes if control has published lately."""
    import asyncio

    from deploy.orders import read_known
    from runtime.connection import connection_of
    from streams.router.outlook import BLIND_AFTER_S

    registry, known = await asyncio.gather(
        _registry(settings), read_known(connection_of(settings), settings.topics)
    )
    if known.snapshot is None or known.age_s is None or known.age_s >= BLIND_AFTER_S:
        return registry, ()
    return registry, known.snapshot.nodes
