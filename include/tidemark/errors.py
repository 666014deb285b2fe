"""What can go wrong, as a small tree. Whether a retry can help lives in the type.

Every message is for a person: it names the feed, hour, table and object where known, says what is wrong and what to do.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class TidemarkError(Exception):
    """Root of all errors this library raises on purpose.

    ``problem`` says what is wrong, ``fix`` what to do; the rest says where.
    """

    def __init__(
        self,
        problem: str,
        *,
        fix: str | None = None,
        feed: str | None = None,
        hour: str | None = None,
        table: str | None = None,
        object: str | None = None,
    ) -> None:
        self.problem, self.fix = problem, fix
        self.feed, self.hour, self.table, self.object = feed, hour, table, object
        super().__init__(problem)

    def __str__(self) -> str:
        places = (("feed", self.feed), ("hour", self.hour), ("table", self.table), ("object", self.object))
        where = ", ".join(f"{name} {value}" for name, value in places if value)
        text = f"{where}: {self.problem}" if where else self.problem
        return f"{text}\n  To fix: {self.fix}" if self.fix else text


class TerminalError(TidemarkError):
    """Trying again changes nothing: someone has to fix something first."""


class TransientError(TidemarkError):
    """Trying again later can help: storage or catalog did not answer, or another writer was faster."""


class ConfigError(TerminalError):
    """A feed file, a setting or an argument is wrong."""


class ExportError(TerminalError):
    """An export is not what the feed says: truncated, changed under its manifest, missing, of another feed."""


class NotReadyError(TransientError):
    """The export of the hour is not complete yet."""


class QuarantineLimitError(TerminalError):
    """More records of an hour are bad than the feed allows: the hour stops before publishing."""


class SchemaError(TerminalError):
    """A schema change that cannot be made without losing values."""


class CheckError(TerminalError):
    """A check with consequence ``stop`` failed: readers stay on the last good hour."""


class AccountError(TerminalError):
    """A receipt does not balance: a record is unaccounted for."""


class StoredFormatError(TerminalError):
    """The lake, a table or a document has a stored format that this release does not work on."""


class StateError(TerminalError):
    """The state of a feed, or what it speaks of, is missing or damaged."""


class ConflictError(TransientError):
    """Another writer holds or changed what this one was about to publish."""


@contextmanager
def placed(*, feed: str, hour: str, table: str) -> Iterator[None]:
    """Errors from inside say where they are, as far as they do not know it themselves."""
    try:
        yield
    except TidemarkError as error:
        error.feed, error.hour, error.table = error.feed or feed, error.hour or hour, error.table or table
        raise
