"""What tests against the real broker share."""

from __future__ import annotations

import pytest

from runtime.kafka import transactions


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a commit take its time: on a machine that is busy over a second is no doubt.

    Tests of that doubt set the bound themselves; processes that a test starts have the product's.
    """
    monkeypatch.setattr(transactions, "SLOW_COMMIT_S", transactions.COMMIT_DEADLINE_S)
