"""Ctrl-C ends what runs until told to stop, at any moment and pressed twice, without a trace."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from deploy.cli.interrupts import run_until_stopped


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_in_the_middle_of_the_work_lets_it_clean_up_and_says_nothing(
    number: signal.Signals, capfd: pytest.CaptureFixture[str]
) -> None:
    steps = []

    async def work() -> None:
        try:
            while True:
                os.kill(os.getpid(), number)  # while this very task runs, again and again
                steps.append("worked on")
                await asyncio.sleep(0)
        finally:
            os.kill(os.getpid(), number)
            await asyncio.sleep(0.01)
            steps.append("cleaned up")

    before = signal.getsignal(number)
    run_until_stopped(work())
    assert (steps[0], steps[-1]) == ("worked on", "cleaned up")
    assert signal.getsignal(number) is before
    assert capfd.readouterr() == ("", "")


def test_work_that_fails_says_so() -> None:
    async def work() -> None:
        raise ValueError("the reason")

    with pytest.raises(ValueError, match="the reason"):
        run_until_stopped(work())
