"""JSON documents whose form is not ours: what they may hold, and the one way to write them.

JSON knows no NaN and no infinity. Its writers put null in their place without a word, which a
reader takes for an answer. What has a form cannot hold them (`schemas.message`, `Meta` of a
request's fields); everything else is looked through here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from math import isfinite
from typing import Annotated, Any

import orjson
from pydantic import AfterValidator

from schemas.errors import Unwritable

_HARMLESS = frozenset((str, int, bool, type(None)))


def checked(document: Any) -> Any:
    """Return the document; raise Unwritable, with the place, if a number in it is not finite."""
    try:
        finite = _is_finite(document)
    except RecursionError as error:
        raise Unwritable("the document is nested too deep to be written as JSON") from error
    if not finite:
        place, number = next(_not_finite(document))
        raise Unwritable(f"{place.lstrip('.') or 'the value'} is {number}, which JSON cannot say")
    return document


JsonObject = Annotated[dict[str, Any], AfterValidator(checked)]
"""An object of any form in a message."""


def to_json(document: Any) -> bytes:
    """Return the document as JSON; raise Unwritable if JSON cannot say what it holds."""
    return dumps(checked(document))


def dumps(document: Any) -> bytes:
    """Return what holds only finite numbers as JSON; raise Unwritable for what JSON cannot say."""
    try:
        return orjson.dumps(document, option=orjson.OPT_NON_STR_KEYS)  # noqa: TID251  the one place
    except TypeError as error:
        raise Unwritable(f"the document cannot be written as JSON: {error}") from error


def _is_finite(value: Any) -> bool:
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, dict):
        return _are_finite(value) and _are_finite(value.values())
    if isinstance(value, (list, tuple)):
        if value and type(value[0]) is float:
            try:
                # A hundred thousand numbers in C: what is not finite stays so in a sum.
                if isfinite(sum(value)):
                    return True
            except (TypeError, OverflowError):
                pass
        return _are_finite(value)
    if is_dataclass(value):
        return _are_finite(getattr(value, field.name) for field in fields(value))
    return True


def _are_finite(values: Iterable[Any]) -> bool:
    for one in values:  # noqa: SIM110  a generator takes twice as long
        # Most are texts and whole numbers: to call for each takes longer than to write them.
        if type(one) not in _HARMLESS and not _is_finite(one):
            return False
    return True


def _not_finite(value: Any, place: str = "") -> Iterator[tuple[str, float]]:
    if isinstance(value, float) and not isfinite(value):
        yield place, value
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from _not_finite(key, f"{place}.{key}")
            yield from _not_finite(one, f"{place}.{key}")
    elif isinstance(value, (list, tuple)):
        for index, one in enumerate(value):
            yield from _not_finite(one, f"{place}[{index}]")
    elif is_dataclass(value):
        for field in fields(value):
            yield from _not_finite(getattr(value, field.name), f"{place}.{field.name}")
