"""The AsyncAPI document says what the code does, and its examples are messages."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import orjson
import pytest

from deploy.asyncapi import asyncapi
from deploy.generate import VERSION
from schemas.examples import LETTER_HEADERS, REQUESTS, RESULT, Example
from schemas.message import decode
from schemas.outcomes import DeadLetterCategory
from schemas.parsing import parse_request
from schemas.request import Request
from schemas.result import Result
from schemas.topics import TopicNames

DOCUMENT = asyncapi(VERSION)


def referred(node: Any) -> list[str]:
    """Return every reference in a document."""
    if isinstance(node, dict):
        here = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return here + [ref for value in node.values() for ref in referred(value)]
    return [ref for value in node for ref in referred(value)] if isinstance(node, list) else []


def test_it_is_of_the_release_that_is_installed() -> None:
    assert DOCUMENT["info"]["version"] == version("overspill")


def test_every_reference_leads_somewhere() -> None:
    references = referred(DOCUMENT)
    assert len(references) > 20
    for reference in references:
        node: Any = DOCUMENT
        for step in reference.removeprefix("#/").split("/"):
            node = node[step]


def test_callers_find_the_topics_they_need_as_they_are_declared() -> None:
    names = TopicNames()
    addresses = [channel["address"] for channel in DOCUMENT["channels"].values()]
    assert addresses == [names.requests, names.results, names.dead_letter]


@pytest.mark.parametrize("example", REQUESTS, ids=lambda example: example.name)
def test_an_example_of_a_request_is_one(example: Example) -> None:
    assert parse_request(orjson.dumps(example.payload)).id == example.payload["id"]
    assert example.payload.keys() <= set(Request.__struct_fields__)


def test_the_example_of_a_result_is_one_with_all_of_its_fields() -> None:
    result = decode(Result, orjson.dumps(RESULT.payload))
    assert result.id in {example.payload["id"] for example in REQUESTS}
    assert RESULT.payload.keys() == Result.model_fields.keys()


def test_a_dead_letter_names_one_of_the_categories() -> None:
    assert DeadLetterCategory(LETTER_HEADERS["overspill-error-category"])
    message = DOCUMENT["components"]["messages"]["deadLetter"]
    listed = message["headers"]["properties"]["overspill-error-category"]["enum"]
    assert listed == [category.value for category in DeadLetterCategory]
