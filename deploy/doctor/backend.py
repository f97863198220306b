"""The backend of a node that is to run here: is it there, and does it tell the truth?"""

from __future__ import annotations

from collections.abc import Iterator

from deploy.doctor.finding import Finding, bad, well
from executors.backends.base import SelfTest
from executors.backends.registry import make_backend
from executors.settings import NodeOptions
from schemas.errors import BackendUnavailable, UsageError


async def look_at_backend(options: NodeOptions) -> tuple[Finding, ...]:
    """Start the backend, put its golden questions to it, close it; return what was found."""
    about = f"backend {options.backend}"
    try:
        backend = make_backend(options)
    except UsageError as error:
        return (bad(about, str(error), "correct the flag or setting", error.exit_code),)
    try:
        await backend.start()
        tested = await backend.self_test()
    except BackendUnavailable as error:
        cure = "see docs/backends.md; a node of it would be refused in the same way"
        return (bad(about, str(error), cure, error.exit_code),)
    finally:
        await backend.close()
    info = backend.info
    emulated = ", emulated" if info.emulated else ""
    there = well(about, f"{info.engine} on {info.device}{emulated}, alive")
    return (there, *_proven(about, tested))


def _proven(about: str, tested: SelfTest) -> Iterator[Finding]:
    for proof in tested.proven:
        facts = [f"{proof.max_concurrency} at once"]
        if proof.context_tokens is not None:
            facts.append(f"{proof.context_tokens} tokens of context")
        if proof.precision is not None:
            facts.append(proof.precision)
        if proof.lora:
            facts.append("LoRA")
        if proof.tokenizer_digest is not None:
            facts.append(f"tokenizer {proof.tokenizer_digest}")
        if proof.golden_error is None:
            shown = "answers; whether it is right only golden inputs would tell"
        else:
            shown = f"gives its golden answers (error {proof.golden_error:.2g})"
        yield well(about, f"{proof.model} {shown}: {', '.join(facts)}")
