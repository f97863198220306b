"""Who says so and why: as the flags say, else whoever runs the command, always printable."""

from __future__ import annotations

import re

import pytest

from deploy.cli import author as by
from deploy.cli.author import author
from schemas.errors import UsageError
from schemas.orders import WHO_CHARS_MAX


def test_it_is_who_runs_the_command_unless_the_flag_says_otherwise() -> None:
    assert author("ana", " new disk ") == ("ana", "new disk")
    assert re.fullmatch(r".+@.+", author(None, "")[0])


def test_a_user_without_a_name_is_told_by_his_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 1000")

    monkeypatch.setattr(by.getpass, "getuser", nameless)
    assert re.fullmatch(r"\d+@.+", author(None, "")[0])


@pytest.mark.parametrize(
    ("who", "why", "flag"),
    [("x" * (WHO_CHARS_MAX + 1), "", "--who"), ("ana", "a\nb", "--why"), ("a\x1b[1m", "", "--who")],
)
def test_what_would_not_fit_on_a_line_is_refused_by_its_flag(who: str, why: str, flag: str) -> None:
    with pytest.raises(UsageError, match=flag):
        author(who, why)
