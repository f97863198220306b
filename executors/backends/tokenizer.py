"""Tells tokenizers apart by what they do: how they cut one text into tokens.

Pure. A digest of a file would differ between the formats of one tokenizer.
"""

from __future__ import annotations

import hashlib
from typing import Any

from schemas.document import to_json

_TEXT = (
    "The quick brown fox\n  jumps over 1,234.5 lazy dogs!\n\n"
    "def f(x_1):\n\treturn {'a': x_1 != 0}\nna\u00efve caf\u00e9 \u65e5\u672c\u8a9e "
    "\u0442\u0435\u0441\u0442 \U0001f642 https://example.org/?q=1 <|im_start|>user"
)
"""Words, numbers, code, several scripts, what templates use: where vocabularies differ."""
QUESTION = {
    "content": _TEXT, "add_special": False,  # llama.cpp
    "prompt": _TEXT, "add_special_tokens": False,  # vLLM
}  # fmt: skip
"""What `/tokenize` of llama.cpp and of vLLM is asked: each reads its own fields."""


def digest_of(answer: Any) -> str | None:
    """Return a digest of the tokens that an answer to the question holds; None if it has none."""
    tokens = answer.get("tokens") if isinstance(answer, dict) else None
    if not isinstance(tokens, list) or not tokens or not all(type(one) is int for one in tokens):
        return None
    return f"sha256:{hashlib.sha256(to_json(tokens)).hexdigest()}"
