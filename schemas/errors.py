"""The error tree: what went wrong and what to do next.

OverspillError
├── UsageError                 exit 2  a flag, file or setting is wrong
├── BrokerUnreachable          exit 3  no broker answers
│   └── BrokerRefuses          exit 3  one answers, and refuses who we are or what we ask
├── BackendUnavailable         exit 4  an engine, device or model cannot be had
├── TopicMismatch              exit 1  a topic is missing or is not as declared
├── OffsetsLost                exit 1  a committed offset is gone and nothing tells where to go on
├── FormatError                exit 1  bytes of ours that do not decode
├── Unwritable                 exit 1  a value that JSON cannot say
├── LocalKafkaError            exit 1  the embedded broker cannot run
├── RecordRejected                     a record that ends as a dead letter, with its category
├── Fenced                             another owner has this partition
└── OutcomeUnknown                     a transaction whose end nobody confirmed

Every message says in one line what happened and what to do. No traceback, credential or URL with
one ever goes into a message that travels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from schemas.outcomes import DeadLetterCategory


class OverspillError(Exception):
    """Base of every error of ours; `exit_code` is what a command ends with.

    Attributes:
        what: what happened.
        cure: what to do, the end of the message; empty where `what` has both.
    """

    exit_code = 1

    def __init__(self, what: str = "", cure: str = "") -> None:
        super().__init__(f"{what}: {cure}" if cure else what)
        self.what = what
        self.cure = cure


class UsageError(OverspillError):
    """A flag, a file or a setting is wrong."""

    exit_code = 2


class BrokerUnreachable(OverspillError):
    """No broker answers at the bootstrap address."""

    exit_code = 3


class BrokerRefuses(BrokerUnreachable):
    """A broker refuses who we are or what we ask; roles wait for the day on which it does not."""


class BackendUnavailable(OverspillError):
    """An engine, a device or a model cannot be had."""

    exit_code = 4


class TopicMismatch(OverspillError):
    """A topic is missing, or differs from its declaration."""


class OffsetsLost(OverspillError):
    """A committed offset is gone and no record tells where to go on."""


class FormatError(OverspillError):
    """Bytes of one of our own formats do not decode."""


class LocalKafkaError(OverspillError):
    """The embedded broker cannot be fetched, formatted, started or kept running."""


class Unwritable(OverspillError):
    """JSON cannot say what a document holds: NaN, infinity, half a surrogate pair, an object."""


class Fenced(OverspillError):
    """Another process owns this transactional id, hence this partition."""


class OutcomeUnknown(OverspillError):
    """A transaction ended without an answer: it may or may not have been committed."""


class RecordRejected(OverspillError):
    """A record that ends as a dead letter.

    Attributes:
        category: which of the closed set of reasons.
        message: one line without any byte of a credential, at most 300 characters.
    """

    def __init__(self, category: DeadLetterCategory, message: str) -> None:
        super().__init__(message)
        self.category = category
        self.message = message[:300]
