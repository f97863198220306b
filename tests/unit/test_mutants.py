"""Mutants stay applicable: the rule each breaks is where it says, and its test exists."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.mutants import MUTANTS
from tests.mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.breaks)
def test_the_rule_is_where_the_mutant_breaks_it_and_the_result_is_python(mutant: Mutant) -> None:
    text = (ROOT / mutant.file).read_text()
    assert text.count(mutant.old) == 1
    ast.parse(text.replace(mutant.old, mutant.new))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.breaks)
def test_the_test_that_must_turn_red_exists(mutant: Mutant) -> None:
    file, _, name = mutant.test.partition("::")
    functions = {
        node.name
        for node in ast.parse((ROOT / file).read_text()).body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    assert any(function.startswith("test_") for function in functions)
    assert not name or name in functions


def test_no_rule_is_broken_twice_in_the_same_way() -> None:
    assert len({(mutant.file, mutant.old, mutant.new) for mutant in MUTANTS}) == len(MUTANTS)
