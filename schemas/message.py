"""The base of every JSON message of ours, and how one is written and read.

Its numbers are finite by their types, so that writing one looks at none of them.

A message carries `version`; a reader of version N reads N and N-1 and ignores fields that it does
not know, so writers and readers are upgraded in any order.
"""

from __future__ import annotations

from typing import TypeVar

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from schemas.document import dumps
from schemas.errors import FormatError


class Message(BaseModel):
    """A frozen message; unknown fields are ignored."""

    model_config = ConfigDict(
        frozen=True,
        extra="ignore",
        allow_inf_nan=False,
        protected_namespaces=(),
        use_attribute_docstrings=True,
    )


AnyMessage = TypeVar("AnyMessage", bound=Message)


def encode(message: Message) -> bytes:
    """Return the message as JSON; fields that are None stay, so that readers see them.

    Raises:
        Unwritable: it has an object of any form that holds what JSON cannot say.
    """
    return dumps(message.model_dump())


def decode(kind: type[AnyMessage], raw: bytes) -> AnyMessage:
    """Return the message in the bytes; raise FormatError if they are none of that kind."""
    try:
        document = orjson.loads(raw)
        known = kind.model_fields["version"].default if "version" in kind.model_fields else None
        if known is not None and isinstance(document, dict) and document.get("version", 1) > known:
            raise FormatError(
                f"{kind.__name__} has version {document['version']}, this process reads {known}: "
                "upgrade it"
            )
        return kind.model_validate(document)
    except (orjson.JSONDecodeError, ValidationError, TypeError) as error:
        raise FormatError(f"the bytes are no {kind.__name__}") from error
