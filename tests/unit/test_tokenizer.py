"""A tokenizer is told by how it cuts one text."""

from __future__ import annotations

import pytest

from executors.backends.tokenizer import digest_of


def test_other_tokens_or_another_order_make_another_digest() -> None:
    known = digest_of({"tokens": [1, 2, 3]})
    assert known == digest_of({"count": 3, "tokens": [1, 2, 3]})
    assert known not in (digest_of({"tokens": [1, 2, 4]}), digest_of({"tokens": [1, 3, 2]}), None)


@pytest.mark.parametrize("answer", [{}, [], None, {"tokens": []}, {"tokens": ["a"]}, {"tokens": 5}])
def test_what_holds_no_tokens_has_no_digest(answer: object) -> None:
    assert digest_of(answer) is None
