"""Rules broken one at a time: what each guards must turn red, or nothing guards it."""

from __future__ import annotations

from tests.mutants import engines, hand_over, routing, running
from tests.mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *hand_over.MUTANTS,
    *routing.MUTANTS,
    *running.MUTANTS,
    *engines.MUTANTS,
)
