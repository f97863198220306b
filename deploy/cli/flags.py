"""The flags that commands share, declared once, and the settings that they make.

Imports the settings only when a command runs: help needs none of it.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from runtime.settings import Settings

Command = Callable[..., Any]
Flag = Callable[[Command], Command]

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

_BROKER_FLAGS = (
    click.option(
        "--bootstrap-servers",
        metavar="HOST:PORT,...",
        help="The Kafka brokers; default: 127.0.0.1:9092.",
    ),
)

_SETTINGS_FLAGS = (
    click.option(
        "--config",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Settings file; default: overspill.toml here, if there is one.",
    ),
    click.option(
        "--set",
        "assignments",
        multiple=True,
        metavar="NAME=VALUE",
        help="Any setting, as `--set policy.name=gpu-only`; may be repeated.",
    ),
    click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        help="Of the log on standard error; default: text.",
    ),
)

_ROLE_FLAGS = (
    click.option(
        "--web-port",
        type=click.IntRange(0, 65535),
        help="Port for /metrics, /livez and /readyz on loopback; default: a free one, logged.",
    ),
)

_EMBEDDED_FLAGS = (
    click.option(
        "--kafka-port",
        type=click.IntRange(1, 65535),
        help="Port of the broker; default: 9092 if free, else a free one, which is printed.",
    ),
    click.option(
        "--data-dir",
        type=click.Path(path_type=Path, file_okay=False),
        help="Folder for everything kept: the broker's data is in `kafka` in it, logs in `logs`.",
    ),
    click.option(
        "--fresh", is_flag=True, help="Begin with no data; that of before is kept aside once."
    ),
)


def client_flags(command: Command) -> Command:
    """Add the flags of a command that speaks to the brokers and ends by itself.

    It is called with `settings`. Libraries are kept quiet: what goes wrong is told once, by us.
    """
    return _with_settings(command, (*_BROKER_FLAGS, *_SETTINGS_FLAGS), quiet=True)


def role_flags(command: Command) -> Command:
    """Add the flags of a long-running role, which logs and serves its metrics."""
    return _with_settings(command, (*_BROKER_FLAGS, *_SETTINGS_FLAGS, *_ROLE_FLAGS), quiet=False)


def stack_flags(command: Command) -> Command:
    """Add the flags of a command that runs everything, its own broker included."""
    return _with_settings(command, (*_EMBEDDED_FLAGS, *_SETTINGS_FLAGS), quiet=True)


def order_flags(*, reason_needed: bool) -> Flag:
    """Return what adds --why and --who: of a command that orders or changes something."""
    reason = "The reason, one line: shown to everybody who asks."
    why = (
        click.option("--why", metavar="TEXT", required=True, help=reason)
        if reason_needed
        else click.option("--why", metavar="TEXT", default="", help=reason)
    )
    who = click.option("--who", metavar="TEXT", help="Who says so; default: user@host.")
    return lambda command: _decorated(command, (why, who))


def broker_flags(command: Command) -> Command:
    """Add --kafka-port, --data-dir and --fresh: for a command that runs the broker alone."""
    return _decorated(command, _EMBEDDED_FLAGS)


def _with_settings(command: Command, flags: tuple[Flag, ...], *, quiet: bool) -> Command:
    @functools.wraps(command)
    def with_settings(
        *arguments: Any,
        config: Path | None,
        bootstrap_servers: str | None = None,
        assignments: tuple[str, ...],
        log_format: str | None,
        web_port: int | None = None,
        **others: Any,
    ) -> Any:
        named = {
            "kafka.bootstrap_servers": bootstrap_servers,
            "log.format": log_format,
            "web.port": web_port,
        }
        settings = _settings(config, assignments, named)
        _start_logging(settings, quiet=quiet)
        return command(*arguments, settings=settings, **others)

    return _decorated(with_settings, flags)


def _decorated(command: Command, flags: tuple[Flag, ...]) -> Command:
    # Decorators apply from the last to the first, and help lists them in the order given here.
    return functools.reduce(lambda made, flag: flag(made), reversed(flags), command)


def _settings(config: Path | None, assignments: tuple[str, ...], named: dict[str, Any]) -> Settings:
    from runtime.settings import load_settings, parse_flag

    flags = dict(parse_flag(text) for text in assignments)
    flags.update({name: value for name, value in named.items() if value is not None})
    return load_settings(config, flags)


def _start_logging(settings: Settings, *, quiet: bool) -> None:
    if quiet:
        logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
        return
    from runtime.logs import start_logging

    start_logging(settings.log)
