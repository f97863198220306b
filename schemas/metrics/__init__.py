"""Every metric that any process exports, declared once, a file a role.

Each says its name, kind, unit, labels, what it means and what to do about it. Label values come
from closed sets only. Dashboards, alerts and docs/metrics.md are generated from or tested against
these lists; `runtime.metrics` makes collectors of them.
"""

from __future__ import annotations

from schemas.metrics import control, executor, process, router
from schemas.metrics.declaration import Metric

BY_ROLE: dict[str, tuple[Metric, ...]] = {
    "every process": process.ALL,
    "router": router.ALL,
    "control": control.ALL,
    "executor": executor.ALL,
}
