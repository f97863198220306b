"""The backend in docs/extending.md runs as it stands there, with its test as it stands there."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from executors.backends.registry import BACKENDS
from tests.unit.backend_contract import BackendContract

PAGE = (Path(__file__).parents[2] / "docs" / "extending.md").read_text(encoding="utf-8")
CODE, LINE, TEST = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
LINES_MAX = 40
(KIND, MODULE), *_ = re.findall(r'"(\w+)": "([\w.]+)"', LINE)

exec(compile(TEST, "docs/extending.md", "exec"), globals())  # noqa: S102  the class that is collected


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType(MODULE)
    exec(compile(CODE, "docs/extending.md", "exec"), vars(module))  # noqa: S102  as it stands
    monkeypatch.setitem(sys.modules, MODULE, module)
    monkeypatch.setitem(BACKENDS, KIND, MODULE)


def test_a_backend_is_one_short_file_and_one_line() -> None:
    written = [line for line in CODE.splitlines() if line.strip()]
    assert len(written) <= LINES_MAX
    assert LINE.count("\n") == 1
    assert issubclass(globals()["TestShout"], BackendContract)
