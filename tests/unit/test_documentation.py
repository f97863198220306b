"""Docs lead where they say, and name commands, flags and metrics that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from deploy.cli.entry import cli
from schemas.metrics import BY_ROLE

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
METRICS = {metric.name for declared in BY_ROLE.values() for metric in declared}
SUFFIXES = ("_bucket", "_count", "_sum")

FENCE = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
COMMAND = re.compile(r"(?<!-n )(?<![\w./-])overspill((?: [a-z][a-z-]*)+)(.*)")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def code(page: Path) -> Iterator[str]:
    """Yield each line of code that a page shows."""
    text = page.read_text(encoding="utf-8")
    for block in FENCE.finditer(text):
        yield from block.group().replace("\\\n", " ").splitlines()[1:-1]
    for found in INLINE.finditer(FENCE.sub("", text)):
        yield " ".join(found.group(1).split())


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_to_files_and_headings_that_are_there(page: Path) -> None:
    for link in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_that_pages_show_exist_with_their_flags(page: Path) -> None:
    for line in code(page):
        for found in COMMAND.finditer(line):
            words, rest = found.group(1).split(), found.group(2)
            command, path = _resolved(words)
            assert path, f"no command: {line}"
            known = {
                flag for param in command.params for flag in (*param.opts, *param.secondary_opts)
            }
            flags = re.findall(r"(?<![\w-])(--[a-z][a-z-]*)", re.split(r"[|;#&]", rest)[0])
            assert set(flags) <= known | {"--help"}, f"{path}: {line}"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_metrics_that_pages_name_are_declared(page: Path) -> None:
    named = set(re.findall(r"overspill_[a-z_]+[a-z]", page.read_text(encoding="utf-8")))
    assert {metric for metric in named if not _is_declared(metric)} == set()


def _is_declared(metric: str) -> bool:
    return metric in METRICS or any(
        metric.removesuffix(suffix) in METRICS for suffix in SUFFIXES if metric.endswith(suffix)
    )


def _resolved(words: list[str]) -> tuple[click.Command, str]:
    """Return the command that words lead to, and its path; no path if not even the first is one."""
    command: click.Command = cli
    path = ""
    context = click.Context(cli)
    for word in words:
        if not isinstance(command, click.Group):
            break
        below = command.get_command(context, word)
        if below is None:
            break
        command, path = below, f"{path} {word}"
    return command, path.strip()


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_each_table_has_its_heading_and_all_its_rows(page: Path) -> None:
    lines = FENCE.sub("", page.read_text(encoding="utf-8")).splitlines()
    for before, line, after in zip(["", *lines[:-1]], lines, [*lines[1:], ""], strict=True):
        if line.startswith("|") and not before.startswith("|"):
            assert re.fullmatch(r"[|: -]+", after), f"rows without a heading: {line}"
