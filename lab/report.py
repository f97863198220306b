"""Everything the lab finds, in one run: acceptance table, fleets, experiments, plots, one page.

Writes `cells.jsonl` as it goes and reads it at the start, so that a run that was stopped goes on.
"""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import orjson

from lab import plots
from lab.economics import (
    POLICIES,
    Cell,
    Possible,
    cell_of,
    document_of,
    second_half,
    table_of,
)
from lab.experiments import ALL
from lab.experiments.setting import Setting, Table
from lab.fleet_bound import least_fleet_cost
from lab.fleet_search import Found, smallest_fleet
from lab.simulator.fleet import Fleet
from lab.simulator.measures import Measures, Percentiles, Thresholds
from lab.simulator.run import simulate
from lab.simulator.traces import Arrival
from lab.simulator.workload import workload
from streams.policy import policy

SLICE = 2500
"""Requests that experiments run on: some minutes of a trace."""
SEARCHED = (*POLICIES, "predictive/60")
"""Who owns all slots gains nothing by an hour's patience."""
_STYLE = (
    "body{font:15px/1.5 system-ui;max-width:70rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;margin:1rem 0}td,th{border:1px solid #ccc;padding:.2rem .6rem;"
    "text-align:left}img{max-width:100%}"
)


class Place(NamedTuple):
    """A fleet by name, and how many times as fast traces come to it."""

    name: str
    fleet: Fleet
    speed: float


class Least(NamedTuple):
    """What no fleet undercuts whoever routes: in whole nodes, and in parts of slots."""

    nodes: float
    slots: float


class Findings(NamedTuple):
    """What a run found."""

    cells: list[Cell]
    fleets: dict[str, dict[str, Found | None]]
    least: dict[str, Least]
    experiments: list[Table]
    images: dict[str, bytes]


def find(
    traces: Mapping[str, Sequence[Arrival]],
    places: Sequence[Place],
    seeds: Sequence[int],
    minutes: float,
    folder: Path,
    say: Callable[[str], None],
) -> Findings:
    """Run all of it, on so many minutes of each trace's second half; write it into the folder."""
    traces = {name: second_half(arrivals, minutes) for name, arrivals in traces.items()}
    folder.mkdir(parents=True, exist_ok=True)
    kept = folder / "cells.jsonl"
    cells = _read(kept)
    known = {(cell.trace, cell.fleet, cell.seed) for cell in cells}
    for seed in seeds:
        for trace, arrivals in traces.items():
            for place in places:
                if (trace, place.name, seed) in known:
                    continue
                where = place.name, place.fleet
                cells.append(cell_of(trace, arrivals, where, seed, place.speed, say))
                with kept.open("ab") as file:
                    file.write(orjson.dumps(document_of(cells[-1])) + b"\n")
    home, seed = places[0].fleet, seeds[0]
    fleets = {
        trace: {
            name: smallest_fleet(home, workload(arrivals, seed), policy(name), say=say)
            for name in SEARCHED
        }
        for trace, arrivals in traces.items()
    }
    least = {
        trace: Least(*(
            least_fleet_cost(home, workload(arrivals, seed), whole_nodes=whole)
            for whole in (True, False)
        ))
        for trace, arrivals in traces.items()
    }  # fmt: skip
    plain, *others = (arrivals[:SLICE] for arrivals in traces.values())
    at = Setting(plain, others[-1] if others else plain, home, seed, say)
    experiments = [run(at) for run in ALL]
    findings = Findings(cells, fleets, least, experiments, _images(at, cells))
    _write(findings, folder)
    return findings


def fleets_table(
    fleets: Mapping[str, Mapping[str, Found | None]], least: Mapping[str, Least]
) -> Table:
    """Return the smallest fleets as a table."""
    rows = []
    for trace, by_policy in fleets.items():
        gpu_only = by_policy["gpu-only"]
        for name, found in by_policy.items():
            if found is None:
                rows.append((trace, name, "none found", "", "", ""))
                continue
            nodes = ", ".join(f"{count} {pool}" for pool, count in found.nodes.items() if count)
            of_gpu_only = f"{found.cost_per_s / gpu_only.cost_per_s:.0%}" if gpu_only else ""
            rows.append((trace, name, nodes, f"{found.cost_per_s:.1f}", of_gpu_only,
                         f"{found.attainment:.2%}"))  # fmt: skip
        for what, cost in zip(("whole nodes", "parts of slots"), least[trace], strict=True):
            share = f"{cost / gpu_only.cost_per_s:.0%}" if gpu_only else ""
            rows.append((trace, f"nobody below, in {what}", "", f"{cost:.1f}", share, ""))
    return Table(
        "The smallest fleet for 99 % of objectives",
        "All slots are paid for, busy or not, in gpu slots; nothing of it is in metered cost. What "
        "is left at the end keeps no pool busy for more than a tenth of the trace, or two minutes. "
        "Below the bounds, which know all requests beforehand, no policy can do.",
        ("trace", "policy", "nodes", "cost", "of gpu-only's", "met"),
        rows,
    )


def in_markdown(table: Table) -> str:
    """Return a table with its claim above it."""
    lines = [f"### {table.name}", "", table.claim, "", f"| {' | '.join(table.columns)} |"]
    lines.append("|" + "---|" * len(table.columns))
    lines += [f"| {' | '.join(row)} |" for row in table.rows]
    return "\n".join(lines) + "\n"


def _images(at: Setting, cells: Sequence[Cell]) -> dict[str, bytes]:
    requests = at.requests()
    courses = {name: simulate(at.fleet, requests, policy(name)) for name in POLICIES}
    busy = simulate(at.fleet, at.requests(2.0), policy("overflow"))
    return {
        "savings": plots.savings(cells),
        "frontier": plots.frontier(plots.frontier_of(cells)),
        "latencies": plots.latencies(courses),
        "threshold": plots.threshold(busy),
    }


def _write(findings: Findings, folder: Path) -> None:
    tables = [fleets_table(findings.fleets, findings.least), *findings.experiments]
    for name, image in findings.images.items():
        (folder / f"{name}.png").write_bytes(image)
    text = table_of(findings.cells) + "\n" + "\n".join(map(in_markdown, tables))
    (folder / "tables.md").write_text(text, encoding="utf-8")
    (folder / "report.html").write_text(_page(findings, tables), encoding="utf-8")


def _page(findings: Findings, tables: Sequence[Table]) -> str:
    """Return one page that needs no other file."""
    head, _, *lines = table_of(findings.cells).strip().splitlines()
    cut = [[cell.strip() for cell in line.strip("|").split("|")] for line in (head, *lines)]
    accepted = Table(
        "What routing saves",
        "Metered cost, of what all-GPU costs; mean and standard deviation over seeds, on the half "
        "of each trace that nothing was tuned on.",
        tuple(cut[0]),
        [tuple(row) for row in cut[1:]],
    )
    parts = [_section(accepted)]
    parts += [_image(name, findings.images[name]) for name in ("savings", "frontier")]
    parts += [_section(tables[0])]
    parts += [_image(name, findings.images[name]) for name in ("latencies", "threshold")]
    parts += [_section(table) for table in tables[1:]]
    return (
        f"<!doctype html><meta charset=utf-8><title>Overspill: what routing saves</title>"
        f"<style>{_STYLE}</style><h1>Overspill: what routing saves</h1>{''.join(parts)}"
    )


def _section(table: Table) -> str:
    cells = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in table.rows
    )
    head = "".join(f"<th>{html.escape(column)}</th>" for column in table.columns)
    return (
        f"<h2>{html.escape(table.name)}</h2><p>{html.escape(table.claim)}</p>"
        f"<table><tr>{head}</tr>{cells}</table>"
    )


def _image(name: str, image: bytes) -> str:
    return f'<img alt="{name}" src="data:image/png;base64,{base64.b64encode(image).decode()}">'


def _read(file: Path) -> list[Cell]:
    if not file.exists():
        return []
    return [_cell(orjson.loads(line)) for line in file.read_bytes().splitlines()]


def _cell(said: dict[str, object]) -> Cell:
    """Return the cell that a line tells, as far as tables and plots need it."""
    return Cell(
        str(said["trace"]), str(said["fleet"]), int(str(said["seed"])),
        Possible(**said["possible"]), float(str(said["bound"])), bool(said["gpus_limited"]),  # type: ignore[arg-type]
        {
            name: Measures(
                one["metered_cost"], one["slo_attainment"],
                {kind: Percentiles(**known) for kind, known in one["latency_ms"].items()},
                one["overflow_share"], Thresholds(0, 0, 0), one["unserved"],
            )
            for name, one in said["policies"].items()  # type: ignore[attr-defined]
        },
    )  # fmt: skip
