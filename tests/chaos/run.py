"""One run of one fault by one seed: start, load, hurt, wait until it is at rest, judge."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tests.chaos.faults import Fault
from tests.chaos.found import write_down
from tests.chaos.history import HistoryFile, read_history
from tests.chaos.load import Load
from tests.chaos.oracle import Judgement, judge
from tests.chaos.stack import PARTITIONS, Kill, Stack
from tests.kafka.system import System


class Report(NamedTuple):
    """What a run showed.

    Attributes:
        history: the file that it can be judged from again.
        stall_s: the longest that a partition of `results` stood still under load.
    """

    fault: str
    seed: int
    judgement: Judgement
    kills: tuple[Kill, ...]
    stall_s: float
    history: Path


async def run(fault: Fault, seed: int, *, bootstrap: str, folder: Path, per_s: float) -> Report:
    """Make a fault under load and judge what came of it; a seed makes the same run again."""
    system = System(bootstrap, folder)
    name = f"{fault.name.replace(' ', '-')}-{seed}"
    history = HistoryFile(folder / f"{name}.jsonl", fault=fault.name, seed=seed, per_s=per_s)
    stack = Stack(system, history, seed)
    load = Load(system, history, seed, per_s)
    try:
        await system.create(PARTITIONS)
        for role in fault.standing:
            stack.start(role)
        await stack.until_ready(*fault.standing)
        async with load.running():
            await fault.inflict(stack)
        history.note("rest", at_rest=await stack.comes_to_rest())
        await write_down(system, history)
    finally:
        history.close()
        for role in system.running:
            role.kill()
    judgement = judge(read_history(history.path))
    return Report(fault.name, seed, judgement, tuple(stack.kills), load.stall_s, history.path)
