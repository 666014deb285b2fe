"""The publication history of a feed: its receipts, oldest first, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from itertools import accumulate

from pyiceberg.expressions import EqualTo

from tidemark.hours import Hour
from tidemark.lake.catalog import read_rows
from tidemark.lake.stored_formats import parse_document
from tidemark.ledger.receipts import Receipt, Reload
from tidemark.schema.columns import Reading
from tidemark.settings import Settings


@dataclass(frozen=True)
class Cut:
    """What the cut of an hour shows."""

    hour: str
    made_by: int
    """The publication that made it; 0: there is none."""

    def shows(self, receipt: Receipt) -> bool:
        """Whether it shows a publication's changes."""
        return receipt.sequence <= self.made_by and receipt.hour <= self.hour


@dataclass(frozen=True)
class PublicationHistory:
    """What a feed has published so far, oldest first. ``reloads_made``: the reloads of the publication in the making; None:
    those of the last one."""

    receipts: list[Receipt] = field(default_factory=list)
    reloads_made: Mapping[str, Sequence[Reload]] | None = None

    def making(self, reloads: Mapping[str, Sequence[Reload]]) -> PublicationHistory:
        """The same, for a publication in the making after which these are the reloads that have begun."""
        return replace(self, reloads_made=reloads)

    @cached_property
    def reloads(self) -> Mapping[str, Sequence[Reload]]:
        """By the source's table: the reloads that have begun, of those the hours that were published (and the one in the
        making) know."""
        if self.reloads_made is not None:
            return self.reloads_made
        last, hours = self.receipts[-1].reloaded if self.receipts else {}, set(self.hours)
        known = {source: [reload for reload in found if reload.began in hours] for source, found in last.items()}
        return {source: found for source, found in known.items() if found}

    def reloaded(self, sources: Iterable[str]) -> str | None:
        """The place of the newest reload of a table, before which nothing of it counts; None: there is none."""
        places = [reload.position for source in sources for reload in self.reloads.get(source, [])]
        return max(filter(None, places), default=None)

    @property
    def named_reloads(self) -> dict[str, list[str]]:
        """Hours from which on an operator had tables reloaded, and these."""
        newest = {receipt.hour: receipt.reloads for receipt in self.receipts}
        return {hour: tables for hour, tables in newest.items() if tables}

    @property
    def last_sequence(self) -> int:
        """0 before the first publication."""
        return self.receipts[-1].sequence if self.receipts else 0

    @property
    def rows_written(self) -> int:
        """Rows written to all tables so far; no table can hold more."""
        return sum(table.rows_written for receipt in self.receipts for table in receipt.tables)

    @property
    def recalls(self) -> dict[str, int]:
        """Hours that were replayed → the sequence number up to which their quarantined entries were recalled."""
        return {receipt.hour: receipt.recalls for receipt in self.receipts if receipt.recalls}

    @property
    def hours(self) -> list[Hour]:
        """Hours with a receipt."""
        return sorted({receipt.hour for receipt in self.receipts})

    @property
    def tables(self) -> set[str]:
        """The tables that any publication names."""
        return {table.table for receipt in self.receipts for table in receipt.tables}

    @property
    def waiting(self) -> Receipt | None:
        """The last receipt, where entries wait after it for what describes them."""
        return self.receipts[-1] if self.receipts and self.receipts[-1].waiting_entries else None

    def of_hour(self, hour: str) -> Receipt | None:
        """The newest receipt of an hour."""
        return next((receipt for receipt in reversed(self.receipts) if receipt.hour == hour), None)

    def cut(self, hour: str) -> Cut:
        """What an hour's cut shows."""
        newest = self.of_hour(hour)
        return Cut(hour, self._amended.get(hour, newest.cut_by) if newest else 0)

    def in_cut(self, hour: str) -> PublicationHistory:
        """The publications whose changes an hour's cut shows."""
        cut = self.cut(hour)
        return PublicationHistory([receipt for receipt in self.receipts if cut.shows(receipt)])

    def after_cut(self, hour: str, table: str | None = None) -> list[Hour]:
        """The hours up to this one that have brought changes, of a table or any, since the hour's cut was made."""
        made_by = self.cut(hour).made_by
        later = [r for r in self._late if r.sequence > made_by and r.hour <= hour] if made_by else []
        return sorted(
            {r.hour for r in later if any(t.staged_in == r.sequence for t in r.tables if table in (None, t.table))}
        )

    @cached_property
    def _amended(self) -> dict[str, int]:
        """Hours whose cuts were made again, and the publication that did so last."""
        return {hour: receipt.sequence for receipt in self.receipts for hour in receipt.amended}

    @cached_property
    def _late(self) -> list[Receipt]:
        """Receipts of hours that were published after a later hour, or again."""
        newest = list(accumulate((receipt.hour for receipt in self.receipts), max))
        return [r for r, before in zip(self.receipts[1:], newest, strict=False) if r.hour <= before]

    def table(self, name: str) -> tuple[str | None, str | None]:
        """(highest sort key applied, position of the newest truncate) of a table; None, None before its first publication."""
        parts = [t for receipt in self.receipts for t in receipt.tables if t.table == name]
        highest = max((t.highest for t in parts if t.highest), default=None)
        truncated = max((t.truncated for t in parts if t.truncated), default=None)
        return highest, truncated

    def refolded_by(self, name: str) -> int:
        """The newest publication that folded all rows of a table again without changes that it withdrew; 0: none did."""
        return max((t.refolded_by for receipt in self.receipts for t in receipt.tables if t.table == name), default=0)

    def newest_arrival(self, name: str) -> datetime | None:
        """When the newest transaction committed that changed a key of a table and has no name at its source."""
        return max((t.arrived for r in self.receipts for t in r.tables if t.table == name and t.arrived), default=None)

    def column_renames(self, name: str) -> set[str]:
        """What was renamed and dropped in a table so far; ids of :class:`tidemark.tables.table_history.ColumnRename`."""
        return {id_ for receipt in self.receipts for t in receipt.tables if t.table == name for id_ in t.column_renames}

    def readings(self, name: str) -> dict[str, Reading]:
        """How the columns of a table were read last, as far as it was noted."""
        found: dict[str, Reading] = {}
        for receipt in self.receipts:
            for t in receipt.tables:
                # A later receipt of the hour repeats what an earlier one of it says.
                if t.table == name and t.staged_in == receipt.sequence:
                    found |= t.readings
        return found

    @cached_property
    def edges(self) -> dict[str, list[str]]:
        """Hours with :attr:`tidemark.ledger.receipts.Receipt.edges`, and these."""
        found: dict[str, list[str]] = {}
        for receipt in self.receipts:
            if receipt.edges:
                found.setdefault(receipt.hour, []).extend(receipt.edges)
        return found

    def sources(self, name: str) -> set[str]:
        """The source's tables that were published under a name so far."""
        return {source for receipt in self.receipts for t in receipt.tables if t.table == name for source in t.sources}

    @property
    def highest(self) -> str | None:
        """The highest sort key applied in any table."""
        return max((t.highest for r in self.receipts for t in r.tables if t.highest), default=None)


def load_history(settings: Settings, feed: str) -> PublicationHistory:
    """The feed's receipts, by sequence."""
    rows = read_rows(settings, "tidemark", "receipts", where=EqualTo(term="feed", value=feed))
    receipts = [parse_document(Receipt, row["receipt"]) for row in rows]
    return PublicationHistory(sorted(receipts, key=lambda receipt: receipt.sequence))
