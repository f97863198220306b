"""Latency profiles: how long made-up hardware takes for a request.

Pure but for reading the file. Chance is an argument, so the same request takes the same time again.
"""

from __future__ import annotations

import sys
import zlib
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from schemas.errors import UsageError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # type: ignore[import-not-found]  # only there on 3.10

FIXED = "fixed:"

_Positive = Annotated[float, Field(gt=0)]


class Profile(BaseModel):
    """How a device behaves; either `fixed_ms`, or both speeds."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    fixed_ms: Annotated[float, Field(ge=0)] | None = None
    """Time of a request whatever its size."""
    prefill_tokens_per_s: _Positive | None = None
    decode_tokens_per_s: _Positive | None = None
    batch_curve: tuple[tuple[Annotated[int, Field(ge=1)], _Positive], ...] = ((1, 1.0),)
    """Requests at once, and how many times longer each then takes; linear between, flat beyond."""
    jitter: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share by which a request may take more or less."""
    load_s: Annotated[float, Field(ge=0)] = 0.0
    """Time to load the model at start."""

    def run_ms(self, prompt_tokens: int, output_tokens: int, at_once: int, chance: float) -> float:
        """Return how long a request takes, ms.

        Args:
            prompt_tokens, output_tokens: its size.
            at_once: requests on the device with it.
            chance: in [0, 1); 0.5 is the middle of the jitter.
        """
        if self.fixed_ms is not None:
            base = self.fixed_ms
        else:
            prefill, decode = self.prefill_tokens_per_s, self.decode_tokens_per_s
            base = 1000 * (prompt_tokens / (prefill or 1) + output_tokens / (decode or 1))
        return base * self._slowdown(at_once) * (1 + self.jitter * (2 * chance - 1))

    def _slowdown(self, at_once: int) -> float:
        lower_n, lower = self.batch_curve[0]
        for upper_n, upper in self.batch_curve:
            if at_once <= upper_n:
                share = 0.0 if upper_n == lower_n else (at_once - lower_n) / (upper_n - lower_n)
                return lower + max(0.0, share) * (upper - lower)
            lower_n, lower = upper_n, upper
        return lower


def parse_profile(text: str) -> Profile:
    """Return the profile that `fixed:MS` or the path of a TOML file names; raise UsageError."""
    if text.startswith(FIXED):
        document: dict[str, object] = {"fixed_ms": text[len(FIXED) :]}
    else:
        document = _read(Path(text))
    return profile_of(document, f"profile {text}")


def profile_of(document: object, name: str) -> Profile:
    """Return the profile that a document states; raise UsageError, which begins with the name."""
    try:
        profile = Profile.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"])
        raise UsageError(f"{name}: {where}: {first['msg']}") from None
    speeds = (profile.prefill_tokens_per_s, profile.decode_tokens_per_s)
    if (profile.fixed_ms is None) == (None in speeds) or (
        profile.fixed_ms is not None and speeds != (None, None)
    ):
        raise UsageError(f"{name}: give fixed_ms, or prefill_tokens_per_s and decode_tokens_per_s")
    if not profile.batch_curve or list(profile.batch_curve) != sorted(profile.batch_curve):
        raise UsageError(f"{name}: batch_curve needs points in rising order")
    return profile


def chance_of(request_id: str) -> float:
    """Return a number in [0, 1) that is the same for the same request."""
    return zlib.crc32(request_id.encode()) / 2**32


def _read(path: Path) -> dict[str, object]:
    try:
        document: dict[str, object] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError:
        raise UsageError(
            f"no profile {path}: name a TOML file, or write fixed:MS, as fixed:50"
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"profile {path} is not TOML: {error}") from None
    return document
