"""A streamed answer, put together, is the answer in one piece."""

from __future__ import annotations

from typing import Any

from executors.backends.chunks import join_chat, join_completion

HEAD = {"id": "c1", "model": "m", "created": 5}


def chat(delta: dict[str, Any], reason: str | None = None, **others: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": reason, **others}
    return {**HEAD, "object": "chat.completion.chunk", "choices": [choice]}


def test_text_is_joined_by_choice_and_usage_summed_over_choices() -> None:
    def chunk(index: int, text: str, reason: str | None = None) -> dict[str, Any]:
        choice = {"index": index, "text": text, "logprobs": None, "finish_reason": reason}
        return {**HEAD, "object": "text_completion", "choices": [choice]}

    usage = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
    joined = join_completion(
        [
            chunk(1, "b"),
            chunk(0, "a"),
            {**chunk(0, "", "stop"), "usage": usage},
            {**chunk(1, "c", "length"), "usage": usage},
        ]
    )
    assert joined == {
        "object": "text_completion",
        **HEAD,
        "choices": [
            {"index": 0, "text": "a", "logprobs": None, "finish_reason": "stop"},
            {"index": 1, "text": "bc", "logprobs": None, "finish_reason": "length"},
        ],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
    }


def test_a_chat_starts_with_a_role_and_ends_with_usage_alone() -> None:
    joined = join_chat(
        [
            chat({"role": "assistant", "content": None}),
            chat({"content": "he"}),
            chat({"content": "llo"}),
            chat({}, "stop"),
            {**HEAD, "choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 2}},
        ]
    )
    message = {"role": "assistant", "content": "hello"}
    assert joined["choices"] == [{"index": 0, "message": message, "finish_reason": "stop"}]
    assert joined["usage"]["total_tokens"] == 3


def test_tool_calls_and_probabilities_are_joined_too() -> None:
    def tool(**function: str) -> dict[str, Any]:
        return {"tool_calls": [{"index": 0, "function": function}]}

    first = tool(name="sum", arguments="")
    first["tool_calls"][0] |= {"id": "t1", "type": "function"}
    joined = join_chat(
        [
            chat(first, logprobs={"content": [{"token": "a"}]}),
            chat(tool(arguments='{"x":')),
            chat(tool(arguments="1}"), "tool_calls", logprobs={"content": [{"token": "b"}]}),
        ]
    )
    (choice,) = joined["choices"]
    assert choice["message"]["tool_calls"] == [
        {"id": "t1", "type": "function", "function": {"name": "sum", "arguments": '{"x":1}'}}
    ]
    assert choice["message"]["content"] is None
    assert choice["logprobs"] == {"content": [{"token": "a"}, {"token": "b"}]}
