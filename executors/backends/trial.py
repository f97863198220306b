"""Tries a device in a process of its own: one that breaks, prints, hangs or aborts harms no node.

`tried` runs a function of ours there, by its name; this module is also what that process runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any

import orjson

from runtime.extras import install_command
from schemas.document import to_json
from schemas.errors import BackendUnavailable

TRIAL_WITHIN_S = 900.0
"""NPUs compile a model for minutes, and 100 GB come from a disk in some ten; longer is a hang."""
SAID_CHARS = 200
"""Of what an engine printed last before it died, in the reason."""


async def tried(
    function: str,
    told: Mapping[str, Any],
    what: str,
    complaint: Callable[[str], str] = lambda _: "",
) -> dict[str, Any]:
    """Return what a function returns in a process of its own; raise BackendUnavailable.

    Args:
        function: `module:name`; takes a dict of JSON and returns one.
        told: its argument.
        what: is tried, for the reason.
        complaint: finds in what was printed why the engine refused; empty if it does not say.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, function,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        out, printed = await asyncio.wait_for(process.communicate(to_json(told)), TRIAL_WITHIN_S)
    except asyncio.TimeoutError:
        raise BackendUnavailable(
            f"the trial of {what} hung: no answer within {TRIAL_WITHIN_S:g} s"
        ) from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    text = printed.decode(errors="replace")
    try:
        answer: dict[str, Any] = orjson.loads(out)
    except orjson.JSONDecodeError:
        last = " ".join(text.split())[-SAID_CHARS:]
        raise BackendUnavailable(
            f"the trial of {what} died ({_ending(process.returncode or 0)}): {last}"
        ) from None
    if "refused" in answer:
        said = complaint(text)[:SAID_CHARS]
        raise BackendUnavailable(f"{answer['refused']} ({said})" if said else answer["refused"])
    return answer


def _ending(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def main(function: str) -> None:
    """Run the function that is named on what stands in the standard input."""
    answers = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # engines print where they please
    module, name = function.split(":")
    try:
        answer = getattr(importlib.import_module(module), name)(
            orjson.loads(sys.stdin.buffer.read())
        )
    except BackendUnavailable as error:
        answer = {"refused": str(error)}
    except ImportError as error:
        answer = {
            "refused": f"{error.name} is not installed: install this backend's extra, as "
            + install_command("onnx")
        }
    os.write(answers, to_json(answer))


if __name__ == "__main__":
    main(sys.argv[1])
