"""The whole round: this machine, the brokers, the fleet, and a backend if one is named."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable

from deploy.doctor.backend import look_at_backend
from deploy.doctor.cluster import listen, look_at_brokers
from deploy.doctor.finding import Finding, Grade
from deploy.doctor.fleet import judge_clocks, judge_fleet
from deploy.doctor.host import look_at_host
from deploy.doctor.variables import judge_variables
from deploy.local.folders import Folders
from executors.settings import NodeOptions
from runtime.settings import Settings
from schemas.pools import Pool


async def visit(
    settings: Settings,
    role: str | None,
    pools: tuple[Pool, ...],
    backend: NodeOptions | None,
    progress: Callable[[str], None],
) -> AsyncIterator[Finding]:
    """Yield all findings; what stands on something that is bad is not looked at.

    Args:
        settings: of all processes.
        role: whose rights to look at, if at all.
        pools: that an executor works for.
        backend: to try, if any.
        progress: told of what may take long.
    """
    for finding in look_at_host(settings.web, Folders.of(None).root):
        yield finding
    for finding in judge_variables(os.environ):
        yield finding
    reachable = True
    progress("asking the brokers")
    async for finding in look_at_brokers(settings, role, pools):
        yield finding
        reachable = reachable and (finding.grade is not Grade.BAD or finding.about == "rights")
    if reachable:
        progress("listening to control")
        snapshot, ages_s = await listen(settings)
        for finding in (*judge_fleet(snapshot, time.time() * 1000), *judge_clocks(ages_s)):
            yield finding
    if backend is not None:
        progress(f"trying backend {backend.backend}: a server that starts is given a minute")
        for finding in await look_at_backend(backend):
            yield finding
