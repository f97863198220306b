"""A point in time as a flag takes it."""

from __future__ import annotations

from datetime import datetime, timezone

import click


class Moment(click.ParamType):
    """An RFC 3339 time, given to the command as epoch ms."""

    name = "TIME"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return epoch ms; fail with an example of what is meant."""
        try:
            moment = datetime.fromisoformat(value.replace("Z", "+00:00"))
        except ValueError:
            self.fail("give it as 2026-11-29T12:00:00Z", param, ctx)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=timezone.utc)
        return int(moment.timestamp() * 1000)
