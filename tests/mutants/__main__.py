"""Break one rule after another and see its test turn red: `make mutants`.

It ends with 0 only if every test is green before and every mutant is caught. ONLY=TEXT takes those
whose rule, row or file has it; OVERSPILL_TEST_BOOTSTRAP takes a broker that runs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from deploy.local.kafka import start_broker
from runtime.ports import free_port
from tests.mutants import MUTANTS
from tests.mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]
COPIED = (
    "schemas", "runtime", "streams", "executors", "deploy", "lab", "tests", "docs", "pyproject.toml",
)  # fmt: skip
RED = 1
"""pytest's exit code for tests that failed; others say that it could not run them."""
LOG, LOG_CHARS = "pytest.log", 5_000
WITHIN_S = 300
"""A mutant may hang what it breaks: that is red too."""


def main() -> int:
    """Run all, print a line each and the table; return the exit code."""
    only = os.environ.get("ONLY", "")
    chosen = [m for m in MUTANTS if any(only in text for text in (m.breaks, m.row, m.file))]
    with tempfile.TemporaryDirectory() as folder, _broker(Path(folder)) as bootstrap:
        tree = Path(folder) / "tree"
        _copy(tree)
        tests = sorted({mutant.test for mutant in chosen})
        print(f"{len(chosen)} mutants; their tests without any of them:", flush=True)
        if _run(tree, bootstrap, tests) != 0:
            print((tree.parent / LOG).read_text()[-LOG_CHARS:])
            print("not green: nothing could be shown")
            return 1
        caught = {mutant: _is_caught(mutant, tree, bootstrap) for mutant in chosen}
    print("\n| rule that is broken | row | caught by |\n| --- | --- | --- |")
    for mutant, is_caught in caught.items():
        print(f"| {mutant.breaks} | {mutant.row} | {_short(mutant) if is_caught else 'NOBODY'} |")
    print(f"\n{sum(caught.values())} of {len(caught)} caught")
    return 0 if all(caught.values()) else 1


def _is_caught(mutant: Mutant, tree: Path, bootstrap: str) -> bool:
    whole = (tree / mutant.file).read_text()
    mutant.apply(tree)
    began_s = time.monotonic()
    try:
        code = _run(tree, bootstrap, [mutant.test])
    finally:
        (tree / mutant.file).write_text(whole)
    verdict = "caught" if code == RED else f"NOT CAUGHT (exit code {code})"
    print(f"{verdict} in {time.monotonic() - began_s:.0f} s: {mutant.breaks}", flush=True)
    return code == RED


def _run(tree: Path, bootstrap: str, tests: Sequence[str]) -> int:
    """Return pytest's exit code; a run that does not end is red."""
    path = os.pathsep.join(filter(None, (str(tree), os.environ.get("PYTHONPATH"))))
    # Before anything that is installed: children of a test run the mutant too.
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "PYTHONDONTWRITEBYTECODE": "1",
        "OVERSPILL_TEST_BOOTSTRAP": bootstrap,
    }
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    with (tree.parent / LOG).open("ab") as log:
        try:
            done = subprocess.run(
                command, cwd=tree, env=environment, stdout=log, stderr=subprocess.STDOUT,
                check=False, timeout=WITHIN_S * (max(1, len(tests))),
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return RED
    return done.returncode


def _copy(tree: Path) -> None:
    tree.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tree / name)


def _short(mutant: Mutant) -> str:
    return mutant.test.removeprefix("tests/").replace(".py::test_", ": ")


@contextmanager
def _broker(folder: Path) -> Iterator[str]:
    shared = os.environ.get("OVERSPILL_TEST_BOOTSTRAP")
    if shared:
        yield shared
        return
    with start_broker(port=free_port(), data_dir=folder / "kafka", progress=print) as broker:
        yield broker.bootstrap_servers


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit(__doc__)  # it takes no arguments: all is chosen in the environment
    sys.exit(main())
