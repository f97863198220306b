"""`overspill doctor`: what keeps it from working, and what to do about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from deploy.cli.backend_options import SLOTS, node_options
from deploy.cli.called import as_called
from deploy.cli.document import print_document
from deploy.cli.flags import as_json, client_flags
from deploy.cli.help import example
from executors.backends.registry import BACKENDS

if TYPE_CHECKING:
    from deploy.doctor.finding import Finding
    from runtime.settings import Settings

_MARKS = {"well": "ok  ", "odd": "odd ", "bad": "BAD "}


@click.command(
    epilog=example(
        "overspill doctor",
        "overspill doctor --role executor --pool cpu",
        "overspill doctor --backend openai --url http://127.0.0.1:8000/v1",
    )
)
@click.option(
    "--role",
    type=click.Choice(["router", "control", "executor"]),
    help="Whose rights on the brokers to look at, for the user of these settings.",
)
@click.option(
    "--backend", type=click.Choice(sorted(BACKENDS)), help="Try this backend here, as a node would."
)
@click.option("--pool", help="Of the node; default: for rights all pools, for a backend the first.")
@click.option("--url", help="Of the backend's server, if it is one.")
@click.option("--profile", metavar="fixed:MS|FILE.toml", help="Of made-up hardware.")
@as_json
@client_flags
def doctor(
    settings: Settings,
    role: str | None,
    backend: str | None,
    pool: str | None,
    url: str | None,
    profile: str | None,
    *,
    as_json: bool,
) -> int:
    """Look at brokers, topics, rights, clocks, fleet, disk and ports, and at a backend if named.

    It changes nothing, and says of each finding what to do. It ends with 0 if nothing is bad, with
    3 if no broker answers, else with 4 if the backend is not to be had or answers nonsense, with 2
    if a flag or setting is wrong, else with 1.
    """
    import asyncio

    from deploy.cli.console import Progress
    from deploy.doctor.finding import exit_code_of
    from deploy.doctor.visit import visit

    if backend is None and not (url is profile is None and (pool is None or role == "executor")):
        raise click.UsageError(
            "--pool, --url and --profile say how to try a backend: name it with --backend"
        )
    pools = settings.pools if pool is None else (settings.pool(pool),)
    named = None
    if backend is not None:
        named = node_options(
            settings,
            pool=pools[0].name,
            backend=backend,
            slots=SLOTS,
            node_id=None,
            url=url,
            profile=profile,
        )

    async def all_findings(say: Progress) -> list[Finding]:
        found = []
        async for finding in visit(settings, role, pools, named, say):
            found.append(finding)
            if not as_json:
                _show(finding)
        return found

    with Progress() as say:
        findings = asyncio.run(all_findings(say))
    if as_json:
        print_document({"findings": [finding._asdict() for finding in findings]})
    return exit_code_of(findings)


def _show(finding: Finding) -> None:
    click.echo(f"{_MARKS[finding.grade.value]} {finding.about}: {finding.what}")
    if finding.cure:
        click.echo(as_called(f"       -> {finding.cure}"))
