"""Runs the clients that docs/clients.md shows, as they stand there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from deploy.local.kafka.jars import kafka_folder
from tests.waiting import in_time

PAGE = Path(__file__).parents[2] / "docs" / "clients.md"
WITHIN_S = 60.0


def run_clients(places: Mapping[str, Mapping[str, str]], folder: Path) -> None:
    """Run the clients of docs/clients.md: Python's, and those whose tools this machine has.

    `places` says for each, by environment variables, where Kafka is and who the client is.
    """
    said = client("python", places, sys.executable, "-c", shown("python"))
    assert re.match(r"ok by (gpu|cpu|npu) at a cost of ", said)
    if shutil.which("javac"):
        (folder / "Example.java").write_text(shown("java"), encoding="utf-8")
        jars = f"{kafka_folder(print) / 'jars'}/*"
        said = client("java", places, "java", "-cp", jars, f"{folder / 'Example.java'}")
        assert re.match(r'overspill.results: {.*"status":"ok"', said)
    if shutil.which("kcat"):
        said = client("kcat", places, "sh", "-c", shown("sh"))
        assert '"status":"ok"' in said


def shown(language: str) -> str:
    """Return the one program in this language that docs/clients.md shows."""
    text = PAGE.read_text(encoding="utf-8")
    (code,) = re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)
    return str(code)


def settings(library: str, ours: Mapping[str, str]) -> str:
    """Return the file that the page shows for a library, with ours in place of its values."""
    files = re.findall(r"```properties\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (file,) = (str(one) for one in files if library in one)
    for shown_value, value in ours.items():
        assert shown_value in file
        file = file.replace(shown_value, value)
    return file


def client(name: str, places: Mapping[str, Mapping[str, str]], *command: str) -> str:
    """Run a client and return what it printed."""
    done = subprocess.run(
        command,
        env={**os.environ, **places[name]},
        capture_output=True,
        text=True,
        check=False,
        timeout=in_time(WITHIN_S),
    )
    assert done.returncode == 0, f"{name}: {done.stderr}"
    return done.stdout
