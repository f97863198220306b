from __future__ import annotations

import pytest

from schemas.pools import DEFAULT_POOLS
from schemas.topics import TopicNames, catalogue


@pytest.mark.parametrize(("replicas", "needed"), [(1, "1"), (2, "1"), (3, "2"), (5, "2")])
def test_what_is_acknowledged_stands_on_two_brokers_where_one_of_them_may_be_away(
    replicas: int, needed: str
) -> None:
    for topic in catalogue(TopicNames(), DEFAULT_POOLS):
        assert topic.config(replicas)["min.insync.replicas"] == needed
