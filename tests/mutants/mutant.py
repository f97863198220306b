"""What a mutant is: one rule, broken by one replacement in one file."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Mutant(NamedTuple):
    """A small patch that stays applicable as long as the rule it breaks is written as it is.

    Attributes:
        breaks: the rule, as said to people.
        row: of the fault matrix (docs/reliability.md) that meets it.
        file: of the product.
        old: text that stands in the file once.
        new: what it becomes.
        test: pytest's name of the narrowest test that must turn red.
    """

    breaks: str
    row: str
    file: str
    old: str
    new: str
    test: str

    def apply(self, tree: Path) -> None:
        """Break the rule in a copy of the project; raise ValueError if the text is not there."""
        path = tree / self.file
        text = path.read_text()
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} has {text.count(self.old)} times: {self.old!r}")
        path.write_text(text.replace(self.old, self.new))
