"""Everything the lab finds, in one run: acceptance tables, experiments, plots, one page.

Writes `cells.jsonl` as it goes and reads it at the start, so that a run that was stopped goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import orjson

from lab.experiments import ALL
from lab.experiments.setting import Setting
from lab.report import plots
from lab.report.page import page
from lab.savings.acceptance import acceptance
from lab.savings.economics import POLICIES, Cell, cell_from, cell_of, document_of, second_half
from lab.simulator.fleet import Fleet
from lab.simulator.run import simulate
from lab.simulator.traces import Arrival
from lab.tables import Table, in_markdown
from schemas.document import to_json
from streams.policy import policy

SLICE = 2500
"""Requests that experiments run on: some minutes of a trace."""


class Place(NamedTuple):
    """A fleet by name, and how many times as fast traces come to it."""

    name: str
    fleet: Fleet
    speed: float


class Findings(NamedTuple):
    """What a run found."""

    accepted: list[Table]
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
    known = _read(kept)
    cells = []
    for seed in seeds:
        for trace, arrivals in traces.items():
            for place in places:
                asked = trace, len(arrivals), place.name, place.speed, seed
                cell = known.get(asked)
                if cell is None:
                    where = place.name, place.fleet
                    cell = cell_of(trace, arrivals, where, seed, place.speed, say)
                    with kept.open("ab") as file:
                        file.write(to_json({"of": asked, **document_of(cell)}) + b"\n")
                cells.append(cell)
    home, seed = places[0].fleet, seeds[0]
    plain, *others = (arrivals[:SLICE] for arrivals in traces.values())
    at = Setting(plain, others[-1] if others else plain, home, seed, say)
    experiments = [run(at) for run in ALL]
    findings = Findings(acceptance(cells), experiments, _images(at, cells))
    _write(findings, folder)
    return findings


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
    for name, image in findings.images.items():
        (folder / f"{name}.png").write_bytes(image)
    tables = "\n".join(map(in_markdown, (*findings.accepted, *findings.experiments)))
    (folder / "tables.md").write_text(tables, encoding="utf-8")
    html = page(findings.accepted, findings.experiments, findings.images)
    (folder / "report.html").write_text(html, encoding="utf-8")


def _read(file: Path) -> dict[tuple[object, ...], Cell]:
    """Return the cells of an earlier run by what they are of; drop lines that are none.

    A run that was killed leaves half a line, an earlier version lines that say less.
    """
    cells, whole = {}, []
    lines = file.read_bytes().splitlines() if file.exists() else []
    for line in lines:
        try:
            one = orjson.loads(line)
            cells[tuple(one["of"])] = cell_from(one)
        except (orjson.JSONDecodeError, KeyError, TypeError):
            continue
        whole.append(line + b"\n")
    if len(whole) < len(lines):
        file.write_bytes(b"".join(whole))
    return cells
