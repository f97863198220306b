"""Backends by name."""

from __future__ import annotations

from executors.backends.base import Backend
from executors.backends.emulated import Emulated
from executors.backends.llama import Llama
from executors.backends.paced import Paced
from executors.backends.profile import parse_profile
from executors.settings import NodeOptions
from schemas.errors import UsageError


def make_backend(options: NodeOptions) -> Backend:
    """Return the backend that the options name, not started; raise UsageError."""
    makers = {"emulated": _emulated, "llama": _llama}
    maker = makers.get(options.backend)
    if maker is None:
        available = ", ".join(sorted(makers))
        raise UsageError(f"no backend {options.backend!r} here; available are: {available}")
    return maker(options)


def _device(options: NodeOptions) -> str:
    return options.device or f"emulated {options.pool}"


def _emulated(options: NodeOptions) -> Backend:
    if options.profile is None:
        raise UsageError("backend emulated needs --profile: fixed:MS, as fixed:50, or a TOML file")
    return Emulated(parse_profile(options.profile), _device(options))


def _llama(options: NodeOptions) -> Backend:
    if options.model_name is None or options.model_path is None:
        raise UsageError("backend llama needs a model: give its name and its GGUF file")
    engine = Llama(
        options.model_name,
        options.model_path,
        aliases=options.model_aliases,
        slots=options.slots,
        context_tokens=options.context_tokens,
        threads=options.threads,
    )
    if options.profile is None:
        return engine
    return Paced(engine, parse_profile(options.profile), _device(options))
