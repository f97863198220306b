"""The `stable` controller: a threshold that settles, beside the article's rule in `threshold`.

The threshold acts in one place only: where the gpu queue is about as long as the threshold. Far
beyond it overflow has no room left, far below it nothing overflows, and moving it there changes
nothing but where it stands when it is needed again. So it is moved while it acts, held while it
does not, and brought back to its start once it has not been needed for a while:

- earlier: the gpu queue is longer than 5, the cpu has none, and the queue is no longer than twice
  the threshold;
- later: the cpu queue is longer than 10 and than the gpu's, and the gpu queue is at least half the
  threshold (the article moves here while the gpu queue is shorter than 3: that is, mostly where
  moving changes nothing, and with small models, of which the cpu queues as many as the threshold
  allows, where it makes its own reason grow);
- home: the gpu queue has been shorter than a quarter of the threshold for 15 s.

Both depths are smoothed over 3 s: it takes a trend to begin a move. A move goes on until its depth
is a good way back (hysteresis), and no longer than the depth of this moment asks for it: what was
smoothed would have it go on too long. A step is a record, or an eighth of the threshold if that is
more.

Stated, and held by tests:
- settling: whatever it was before, 90 s after the depths have come to rest the threshold has too,
  and on the way it turned at most once;
- flaps: two moves in opposite directions are at least 15 s apart, so it turns at most 4 times a
  minute, whatever the depths do.
"""

from __future__ import annotations

from math import exp

from schemas.control import Heading, Steering
from streams.policy.threshold import CEILING, CPU_LONG, FLOOR, GPU_LONG, START

SMOOTH_S = 3.0
"""Time constant of both depths: three of the article's seconds, so that one burst is no trend."""
REST_S = 15.0
"""Between two moves in opposite directions, and of quiet before going home: five time constants,
after which the depths show what the last move has done."""
STEP_SHARE = 8
"""A step is at most this part of the threshold: from the ceiling to the start in 40 steps."""
DEPTH_MAX = 2.0 * CEILING
"""Depths count up to here: beyond it they say no more, and would only take longer to forget."""

# Edges lie between whole records: a queue that stands exactly there is on one side of it for good.
EARLIER_ABOVE, EARLIER_UNTIL = GPU_LONG + 0.5, GPU_LONG - 0.5
LATER_ABOVE, LATER_UNTIL = CPU_LONG + 0.5, CPU_LONG / 2 + 0.5
CPU_NONE, CPU_SOME = 0.5, 2.5
ACTS_TO, ACTS_FROM, UNUSED_BELOW = 2, 1 / 2, 1 / 4
"""Of the threshold: up to how long a gpu queue it acts, from which on, and where it is unused."""


def step(
    threshold: int,
    steering: Steering | None,
    *,
    elapsed_s: float,
    gpu_depth: float,
    cpu_depth: float,
) -> tuple[int, Steering]:
    """Return the threshold from now on, and what to remember for the next step.

    Args:
        threshold: in force, also if somebody else has set it since the last step.
        steering: as returned by the last step; None at the very first.
        elapsed_s: since the last step.
        gpu_depth, cpu_depth: queue depths now.
    """
    before = steering or Steering(gpu_depth=gpu_depth, cpu_depth=cpu_depth)
    weight = 1 - exp(-elapsed_s / SMOOTH_S)
    gpu = before.gpu_depth + weight * (min(gpu_depth, DEPTH_MAX) - before.gpu_depth)
    cpu = before.cpu_depth + weight * (min(cpu_depth, DEPTH_MAX) - before.cpu_depth)
    unused_s = before.unused_s + elapsed_s if gpu < threshold * UNUSED_BELOW else 0.0
    heading = _heading(threshold, before.heading, gpu, cpu, unused_s)
    if _met(heading, gpu_depth, cpu_depth):
        heading = Heading.HOLD
    after = _moved(threshold, heading)
    turn = after - threshold
    rested_s = before.rested_s + elapsed_s
    if turn * before.last_move < 0 and rested_s < REST_S:
        after = threshold
    if after == threshold:
        last_move = before.last_move
    else:
        last_move, rested_s = (1 if turn > 0 else -1), 0.0
    return after, Steering(
        gpu_depth=gpu,
        cpu_depth=cpu,
        heading=heading,
        unused_s=unused_s,
        last_move=last_move,
        rested_s=min(rested_s, REST_S),
    )


def _heading(threshold: int, last: Heading, gpu: float, cpu: float, unused_s: float) -> Heading:
    going = last is Heading.EARLIER
    long = gpu > (EARLIER_UNTIL if going else EARLIER_ABOVE)
    if long and cpu < (CPU_SOME if going else CPU_NONE) and gpu <= threshold * ACTS_TO:
        return Heading.EARLIER
    behind = cpu > (LATER_UNTIL if last is Heading.LATER else LATER_ABOVE)
    if behind and cpu > gpu >= threshold * ACTS_FROM:
        return Heading.LATER
    return Heading.HOME if unused_s >= REST_S else Heading.HOLD


def _met(heading: Heading, gpu_depth: float, cpu_depth: float) -> bool:
    """Return whether a move has reached what it was for by now, whatever the trend says."""
    return (heading is Heading.EARLIER and gpu_depth <= EARLIER_UNTIL) or (
        heading is Heading.LATER and cpu_depth <= LATER_UNTIL
    )


def _moved(threshold: int, heading: Heading) -> int:
    stride = max(1, threshold // STEP_SHARE)
    if heading is Heading.EARLIER:
        return max(threshold - stride, FLOOR)
    if heading is Heading.LATER:
        return min(threshold + stride, CEILING)
    if heading is Heading.HOME:
        return (
            min(threshold + stride, START) if threshold < START else max(threshold - stride, START)
        )
    return threshold
