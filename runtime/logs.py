"""What a process prints: one line a record, whatever text it holds.

Text from requests, engines and brokers comes into messages. It must not forge a line, colour a
terminal or fill a disk: everything but plain ASCII is escaped, and long text is cut.
"""

from __future__ import annotations

import datetime as dt
import json
import logging
import sys
from typing import Any

from runtime.settings import LogSettings

MESSAGE_MAX = 2_000
"""Characters of a message before it is escaped; a line of ours has at most 300."""
EXCEPTION_MAX = 8_000
"""Characters of a traceback, its end: what was raised stands there."""


def about(request_id: str) -> dict[str, str]:
    """Return what makes a log record one about this request: `log.error(..., extra=about(id))`."""
    return {"request_id": request_id}


def cut(text: str, most: int) -> str:
    """Return text that is longer than `most` characters without its rest, which is counted."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text) - most} more)"


class JsonLines(logging.Formatter):
    """One JSON object a record, in ASCII."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        moment = dt.datetime.fromtimestamp(record.created, dt.timezone.utc)
        line: dict[str, Any] = {
            "at": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": cut(record.getMessage(), MESSAGE_MAX),
        }
        if request_id := getattr(record, "request_id", None):
            line["request_id"] = cut(str(request_id), MESSAGE_MAX)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)[-EXCEPTION_MAX:]
        return json.dumps(line)


class TextLines(logging.Formatter):
    """One line a record, for people; the lines of a traceback are indented below it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line or lines."""
        request_id = getattr(record, "request_id", None)
        message = cut(record.getMessage(), MESSAGE_MAX)
        at = self.formatTime(record, "%H:%M:%S")
        named = f" [{cut(str(request_id), MESSAGE_MAX)}]" if request_id else ""
        lines = [_plain(f"{at} {record.levelname[0]} {record.name}: {message}{named}")]
        if record.exc_info:
            told = self.formatException(record.exc_info)[-EXCEPTION_MAX:]
            lines += [f"    {_plain(line)}" for line in told.split("\n")]
        return "\n".join(lines)


def start_logging(settings: LogSettings) -> None:
    """Send log records to standard error in the chosen format."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if settings.format == "json" else TextLines())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(settings.level)
    # The client library logs each rebalance several times, and each try to reach a broker that is
    # away (57 lines a second at ERROR); what matters of it we say ourselves, once.
    debugging = root.level <= logging.DEBUG
    logging.getLogger("aiokafka").setLevel(logging.DEBUG if debugging else logging.CRITICAL)


def _plain(text: str) -> str:
    return text.encode("unicode_escape").decode("ascii")
