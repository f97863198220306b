"""Latency profiles: what is accepted, and how long a request takes by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from executors.backends.profile import Profile, chance_of, parse_profile
from schemas.errors import UsageError

MIDDLE = 0.5


def test_a_fixed_profile_takes_its_time_whatever_the_size() -> None:
    profile = parse_profile("fixed:50")
    assert profile.run_ms(1, 1, 1, MIDDLE) == profile.run_ms(900, 900, 1, MIDDLE) == 50


def test_speeds_make_the_time_of_prompt_and_answer() -> None:
    profile = Profile(prefill_tokens_per_s=1000, decode_tokens_per_s=100)
    assert profile.run_ms(500, 20, 1, MIDDLE) == pytest.approx(500 + 200)


@pytest.mark.parametrize(("at_once", "slowdown"), [(1, 1.0), (2, 1.5), (3, 2.0), (9, 2.0)])
def test_the_batch_curve_is_linear_between_its_points_and_flat_beyond(
    at_once: int, slowdown: float
) -> None:
    profile = Profile(fixed_ms=100, batch_curve=((1, 1.0), (3, 2.0)))
    assert profile.run_ms(0, 0, at_once, MIDDLE) == pytest.approx(100 * slowdown)


def test_jitter_stays_within_its_share_and_repeats_for_the_same_request() -> None:
    profile = Profile(fixed_ms=100, jitter=0.2)
    times = {name: profile.run_ms(0, 0, 1, chance_of(name)) for name in map(str, range(500))}
    assert 80 <= min(times.values()) < 85
    assert 115 < max(times.values()) <= 120
    assert times["7"] == profile.run_ms(0, 0, 1, chance_of("7"))


def test_a_file_has_all_of_it(tmp_path: Path) -> None:
    file = tmp_path / "gpu.toml"
    file.write_text(
        "prefill_tokens_per_s = 8000\ndecode_tokens_per_s = 90.5\n"
        "batch_curve = [[1, 1.0], [8, 1.6]]\njitter = 0.1\nload_s = 2\n"
    )
    assert parse_profile(str(file)) == Profile(
        prefill_tokens_per_s=8000,
        decode_tokens_per_s=90.5,
        batch_curve=((1, 1.0), (8, 1.6)),
        jitter=0.1,
        load_s=2,
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("fixed:fast", "fixed_ms"),
        ("fixed:-1", "fixed_ms"),
        ("fixed:", "fixed_ms"),
        ("nowhere.toml", "fixed:50"),
    ],
)
def test_a_bad_profile_says_what_is_wrong(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_profile(text)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("", "prefill_tokens_per_s and"),
        ("fixed_ms = 1\ndecode_tokens_per_s = 1", "prefill_tokens_per_s and"),
        ("prefill_tokens_per_s = 1", "prefill_tokens_per_s and"),
        ("fixed_ms = 1\nspeed = 2", "speed"),
        ("fixed_ms = 1\njitter = 1.5", "jitter"),
        ("fixed_ms = 1\nbatch_curve = [[8, 1.0], [1, 1.0]]", "rising"),
        ("fixed_ms = 1\nbatch_curve = []", "rising"),
        ("= nonsense", "not TOML"),
    ],
)
def test_a_bad_file_says_what_is_wrong(tmp_path: Path, body: str, says: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(body)
    with pytest.raises(UsageError, match=says):
        parse_profile(str(file))
