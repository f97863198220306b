"""Which conversations a change of the registry may touch, as `decisions` tell them."""

from __future__ import annotations

from typing import Any

import pytest

from deploy.models import pending
from deploy.models.pending import read_conversations
from schemas.decisions import DecisionsRecord
from tests.fleet import NOW_MS, request
from tests.unit.test_replay import record


async def test_a_conversation_of_which_only_the_binding_is_stated_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decided = record(1, [request(conversation="talks")])._replace(bound=[("pauses", "cpu", "c-1")])

    async def recent(*_: Any) -> list[DecisionsRecord]:
        return [decided]

    monkeypatch.setattr(pending, "read_recent", recent)
    (found,) = await read_conversations({}, "decisions", 1, NOW_MS)
    assert (found.features.conversation, found.pool) == ("talks", "gpu")
