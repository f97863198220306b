"""Puts the chunks of a streamed OpenAI answer together into the body of an answer in one piece.

Pure. Engines can be stopped only while they stream, so calls stream even though results do not.
"""

from __future__ import annotations

from typing import Any

Chunk = dict[str, Any]


def join_completion(chunks: list[Chunk]) -> dict[str, Any]:
    """Return the text completion that the chunks make."""
    choices: dict[int, dict[str, Any]] = {}
    for piece in _pieces(chunks):
        choice = choices.setdefault(
            piece["index"],
            {"index": piece["index"], "text": "", "logprobs": None, "finish_reason": None},
        )
        choice["text"] += piece.get("text") or ""
        _add_end(choice, piece)
    return _body(chunks, choices, "text_completion")


def join_chat(chunks: list[Chunk]) -> dict[str, Any]:
    """Return the chat completion that the chunks make."""
    choices: dict[int, dict[str, Any]] = {}
    for piece in _pieces(chunks):
        choice = choices.setdefault(
            piece["index"],
            {
                "index": piece["index"],
                "message": {"role": "assistant", "content": None},
                "finish_reason": None,
            },
        )
        message = choice["message"]
        for field, value in piece["delta"].items():
            if field == "tool_calls":
                _add_tool_calls(message.setdefault(field, []), value)
            elif field == "role":
                message[field] = value
            elif value is not None:
                message[field] = (message.get(field) or "") + value
        _add_end(choice, piece)
    return _body(chunks, choices, "chat.completion")


def _pieces(chunks: list[Chunk]) -> list[dict[str, Any]]:
    return [piece for chunk in chunks for piece in chunk.get("choices", ())]


def _add_end(choice: dict[str, Any], piece: dict[str, Any]) -> None:
    choice["finish_reason"] = piece.get("finish_reason") or choice["finish_reason"]
    if piece.get("logprobs"):
        known = choice.get("logprobs") or {}
        choice["logprobs"] = {
            name: (known.get(name) or []) + (values or [])
            for name, values in piece["logprobs"].items()
        }


def _add_tool_calls(known: list[dict[str, Any]], deltas: list[dict[str, Any]]) -> None:
    for delta in deltas:
        while len(known) <= delta["index"]:
            known.append({"type": "function", "function": {"name": "", "arguments": ""}})
        call = known[delta["index"]]
        call.update({name: delta[name] for name in ("id", "type") if name in delta})
        for name, text in delta.get("function", {}).items():
            call["function"][name] += text or ""


def _body(chunks: list[Chunk], choices: dict[int, dict[str, Any]], kind: str) -> dict[str, Any]:
    shared = {
        name: value
        for chunk in chunks
        for name, value in chunk.items()
        if name not in ("choices", "usage", "object", "timings")
    }
    ordered = [choices[index] for index in sorted(choices)]
    usage = _usage([chunk["usage"] for chunk in chunks if chunk.get("usage")])
    return {"object": kind, **shared, "choices": ordered, "usage": usage}


def _usage(parts: list[dict[str, Any]]) -> dict[str, int]:
    # Several choices come with a part each; all of them have read the same prompt.
    prompt = max((part["prompt_tokens"] for part in parts), default=0)
    completion = sum(part.get("completion_tokens", 0) for part in parts)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
