"""The board for a terminal: what control's page shows, as tables. Pure; draws one document."""

from __future__ import annotations

import time
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from deploy.cli.called import as_called
from deploy.cli.tables import table

STYLES = {"bad": "bold red", "warn": "bold yellow", "note": "bold blue", "good": "bold green"}
WORDS = {"bad": "ACT", "warn": "LOOK", "note": "NOTE", "good": "GOOD"}
NODES_SHOWN = 20
MINUTES_FROM_S, HOURS_FROM_S = 120, 7200


def top_screen(board: dict[str, Any]) -> RenderableType:
    """Return the board for a terminal."""
    clock = time.strftime("%H:%M:%S", time.localtime(board["at_ms"] / 1000))
    parts: list[RenderableType] = [Text(f"Overspill, as of {clock}", style="bold"), Text()]
    parts += [_condition(one, board["at_ms"]) for one in board["conditions"]]
    if board["pools"]:
        parts += [Text(), _in_short(board), Text(), _pools(board), Text(), _decisions(board)]
        parts += [Text(), _nodes(board)]
    for line in _faults(board):
        parts.append(line)
    return Group(*parts)


def _condition(one: dict[str, Any], at_ms: int) -> Text:
    text = Text.assemble(
        (f"{WORDS[one['level']]:<5}", STYLES[one["level"]]),
        (_plain(one["title"]), "bold"),
        (f" {_lasting(one, at_ms)}", "dim"),
    )
    text.append(f"\n     {_plain(one['meaning'])}")
    if one["remedy"]:
        text.append("\n     What to do: ", style="dim")
        for part, words in enumerate(as_called(_plain(one["remedy"])).split("`")):
            text.append(words, style="bold" if part % 2 else "dim")  # commands between backticks
    return text


def _lasting(one: dict[str, Any], at_ms: int) -> str:
    """Return since when a condition has lasted, as the page says it.

    "For 65 s" behind "4 records were no request" would say something else.
    """
    seconds = max(0, round((at_ms - one["since_ms"]) / 1000))
    if seconds < MINUTES_FROM_S:
        lasted = f"{seconds} s"
    elif seconds < HOURS_FROM_S:
        lasted = f"{seconds / 60:.0f} min"
    else:
        lasted = f"{seconds / 3600:.1f} h"
    since = time.strftime("%H:%M:%S", time.localtime(one["since_ms"] / 1000))
    return f"since {since}, {lasted} ago{' or longer' if one['maybe_longer'] else ''}"


def _in_short(board: dict[str, Any]) -> Text:
    slo, cost = board["slo"], board["cost"]
    met = "no request had an objective"
    if slo["attained"] is not None:
        met = f"{slo['attained']:.2%} (burns {slo['burn']:.1f} x the budget)"
    saved = "not known" if cost["saved"] is None else f"{cost['saved']:.1%}"
    return Text(
        f"arriving {_sum(board, 'arrival_rate')}/s, finishing {_sum(board, 'finish_rate')}/s, "
        f"undecided {_number(board['undecided'])}; objectives met {met}; cost "
        f"{cost['lately'] / board['window_s']:.2f} gpu slots' worth, saved against gpu only {saved}"
    )


def _pools(board: dict[str, Any]) -> RenderableType:
    numbers = (
        "queue",
        "threshold",
        "unfinished",
        "free slots",
        "nodes",
        "oldest s",
        "drain s",
        "in/s",
        "out/s",
    )
    pools = table(("pool",), numbers)
    for pool in board["pools"]:
        pools.add_row(
            pool["name"] + (" (paused)" if pool["paused"] else "" if pool["nodes"] else " (down)"),
            _number(pool["queue_depth"]),
            _number(board["threshold"]) if pool["name"] == "gpu" else "",
            _number(pool["unfinished"]),
            f"{_number(pool['free_slots'])} of {_number(pool['slots'])}",
            _nodes_alive(pool),
            _number(pool["oldest_age_s"]),
            pool["no_drain"] or _number(pool["drain_s"]),
            _number(pool["arrival_rate"]),
            _number(pool["finish_rate"]),
        )
    return pools


def _nodes_alive(pool: dict[str, Any]) -> str:
    alive, known = pool["nodes"], pool["nodes_known"]
    return f"{_number(alive)} of {_number(known)} known" if alive < known else _number(alive)


def _decisions(board: dict[str, Any]) -> RenderableType:
    decisions = table(("went to", "reason", "in words"), ("last 10 min", "in all"))
    for one in board["decisions"]:
        words = (one["pool"], one["reason"], one["words"])
        decisions.add_row(*words, _number(one["lately"]), _number(one["total"]))
    return decisions


def _nodes(board: dict[str, Any]) -> RenderableType:
    nodes = table(
        ("node", "pool", "state"), ("busy", "unfinished", "mean ms", "p99 ms", "slowness")
    )
    for node in board["nodes"][:NODES_SHOWN]:
        nodes.add_row(
            _plain(node["id"]),
            node["pool"],
            Text(node["state"], style="" if node["live"] else "bold red"),
            f"{_number(node['busy'])} of {_number(node['slots'])}",
            _number(node["unfinished"]),
            _number(node["mean_ms"]),
            _number(node["p99_ms"]),
            _number(node["slowness"]),
        )
    return nodes


def _faults(board: dict[str, Any]) -> list[Text]:
    lines = []
    for what, name in (("dead letters", "dead_letters"), ("errors", "errors")):
        if board[name]:
            listed = ", ".join(f"{one['category']} {_number(one['total'])}" for one in board[name])
            lines.append(Text(f"\n{what}: {listed}"))
    return lines


def _sum(board: dict[str, Any], key: str) -> str:
    known = [pool[key] for pool in board["pools"] if pool[key] is not None]
    return _number(sum(known) if known else None)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def _plain(text: str) -> str:
    """Return text that moves no cursor and changes no colour, whoever wrote it."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)
