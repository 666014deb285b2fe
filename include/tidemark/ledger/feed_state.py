"""The state of a feed: one small document with all that an hour reads of the past, and the publication in the making.

It is what the feed's receipts add up to: :meth:`FeedState.after` takes it from one publication to the next, so that it
can always be made again from them. Every attempt to make a publication takes a number of its own, and all that it
writes (rows of system tables, audit branches) carries that number; the state says which numbers count. What an attempt
writes that was cut off, or overtaken while it was paused, counts for nobody, whenever it comes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

from pydantic import BaseModel, Field, model_validator

from tidemark.hours import Hour
from tidemark.identifiers import publication_name
from tidemark.lake.stored_formats import StoredDocument
from tidemark.ledger.manifest import Manifest
from tidemark.ledger.receipts import Receipt, Reload, TableProgress

V = TypeVar("V")

#: Of how many hours, the newest, the state says how much landed.
_RECENT = 48

#: Rows that a feed's tables have in all, below which they count as small.
_FEW_ROWS = 200_000


class HourRange(BaseModel):
    """Hours one after the other, each first published by the publication that follows that of the hour before."""

    first: Hour = Field(description="The oldest of them.")
    last: Hour = Field(description="The newest of them.")
    sequence: int = Field(description="The publication that first published the first of them.")
    version: int = Field(description="The version of their exports that was published then.")


class Republication(BaseModel):
    """A publication of an hour that was published before."""

    sequence: int = Field(description="The publication's number.")
    version: int = Field(description="The version of the hour's export that it published.")


class NextPublication(BaseModel):
    """The publication in the making."""

    sequence: int = Field(description="The number that the attempt has taken: no other attempt ever has the same.")
    hour: Hour = Field(description="The hour that it is of.")
    manifest_version: int = Field(description="The version of the hour's export that it is of.")
    receipt: Receipt | None = Field(None, description="Its receipt; null until all of its tables are staged.")
    folded_by: str = Field(
        "", description="A hash of the feed file, and of the modules of checks that it names, that it was folded by."
    )
    staged: list[str] = Field([], description="The tables that have an audit branch.")
    retired: dict[str, list[str]] = Field(
        {}, description="By table, columns that hold nothing any more once it is published."
    )
    validated: bool = Field(
        False, description="Whether its checks let it pass: from here on it is only ever finished, never made again."
    )

    def of(self, manifest: Manifest) -> bool:
        """Whether it is of this version of this hour's export."""
        return (self.hour, self.manifest_version) == (manifest.hour, manifest.version)


class FeedState(StoredDocument):
    """What a feed has published so far. A stage reads it once, and replaces it at each step of a publication by
    :func:`tidemark.ledger.state_store.save_state`."""

    feed: str = Field(description="The feed's name.")
    revision: int = Field(0, description="How often the document was replaced.")
    writer: str = Field("", description="The process that wrote this revision.")
    token: str = Field("", description="By which it knows its own write again, should the answer to it be lost.")
    taken: int = Field(0, description="The highest number that an attempt has taken.")
    next: NextPublication | None = Field(None, description="The publication in the making; null: there is none.")
    unrecorded: Receipt | None = Field(
        None, description="The receipt of the last publication, until the table of receipts has it."
    )
    last_sequence: int = Field(0, description="The last publication; 0: there was none.")
    last_hour: Hour | None = Field(None, description="Its hour.")
    unpublished: list[int] = Field([], description="Numbers below it that were taken and never published.")
    hours: list[HourRange] = Field([], description="Published hours, oldest first.")
    again: dict[str, list[Republication]] = Field({}, description="Hours that were published again.")
    amended: dict[str, int] = Field({}, description="Hours whose cut was made again, and the publication that did so.")
    recalls: dict[str, int] = Field(
        {}, description="Replayed hours, and the publication up to which their quarantine was taken up again."
    )
    named_reloads: dict[str, list[str]] = Field(
        {}, description="Hours from which on an operator had tables reloaded, and these."
    )
    reloads: dict[str, list[Reload]] = Field({}, description="By the source's table: the reloads that have begun.")
    reload_changes: dict[str, dict[str, int]] = Field(
        {},
        description="By the source's table and the hour in which a reload of it began: the publication that brought, "
        "moved or took back that reload last.",
    )
    edges: dict[str, list[str]] = Field({}, description="Hours' transaction markers that other hours need.")
    stopped: dict[str, dict[str, str]] = Field(
        {}, description="Hours that left tables as they were, or of which changes wait with theirs; and why."
    )
    with_bad: list[Hour] = Field([], description="Hours with records that cannot be decoded.")
    with_statements: list[Hour] = Field([], description="Hours with entries that state something about tables.")
    recent: dict[str, int] = Field({}, description="The newest hours and how many records landed in each.")
    in_quarantine: dict[str, int] | None = Field(
        {},
        description="Hours with anything in quarantine, and how much; null where only the quarantine tells, because a "
        "publication put something there that an earlier hour had held, or took something out.",
    )
    held_transactions: int = Field(0, description="Transactions that the last publication left open.")
    held_since: Hour | None = Field(None, description="The oldest hour of which they have a change, where it is noted.")
    waiting_entries: int = Field(0, description="Entries that wait for what describes them.")
    waiting_since: int = Field(0, description="The publication from which on rows of `waiting` count.")
    places_until: str = Field("", description="A text behind the positions that rows which place others can change.")
    ever_held: bool = Field(False, description="Whether any publication left a transaction open.")
    ever_waited: bool = Field(False, description="Whether any publication left entries waiting.")
    gave_up: bool = Field(False, description="Whether any transaction was ever given up to quarantine.")
    kept_whole: bool = Field(False, description="Whether any ever went to quarantine whole.")
    took_up: bool = Field(
        False, description="Whether any publication ever took changes of another one out of quarantine again."
    )
    redelivered: bool = Field(False, description="Whether any delivery of a transaction was ever left out.")
    rolled_back: bool = Field(False, description="Whether the source ever rolled a transaction back.")
    rows: dict[str, int] = Field({}, description="By table, how many rows it had when it was last written.")
    tables: dict[str, TableProgress] = Field({}, description="Every table that a publication names.")
    names: dict[str, str] = Field({}, description="By the source's table, the name that it was published under last.")

    @model_validator(mode="after")
    def _count_unnoted_hours(self) -> Self:
        """A state of before statements were noted: any of its hours may have some, as receipts count that do not say."""
        if "with_statements" not in self.model_fields_set:
            self.with_statements = self.published_hours()
        return self

    @classmethod
    def of(cls, feed: str, receipts: Iterable[Receipt], unpublished: Sequence[int] | None = None) -> FeedState:
        """What receipts, by sequence, add up to. ``unpublished``: the numbers that were never published, where the receipts
        are not all there are."""
        state = cls(feed=feed)
        for receipt in receipts:
            state._apply(receipt)
        if unpublished is not None:
            state.unpublished = [number for number in unpublished if number < state.last_sequence]
        return state

    def after(self, receipt: Receipt) -> FeedState:
        """The state once a publication is done."""
        state = self.model_copy(deep=True)
        state._apply(receipt)
        state.next = None
        return state

    def beginning(self, manifest: Manifest) -> FeedState:
        """The state with an attempt begun, under a number of its own."""
        number = max(self.taken, self.last_sequence) + 1
        begun = NextPublication(sequence=number, hour=manifest.hour, manifest_version=manifest.version)
        return self.model_copy(update={"taken": number, "next": begun})

    def making(self, reloads: Mapping[str, Sequence[Reload]]) -> FeedState:
        """The same, for a publication in the making after which these are the reloads that have begun."""
        return self.model_copy(update={"reloads": {source: list(found) for source, found in reloads.items()}})

    def _apply(self, receipt: Receipt) -> None:
        hour, sequence = receipt.hour, receipt.sequence
        self.unpublished += range(self.last_sequence + 1, sequence)
        self.taken = max(self.taken, sequence)
        self._add_hour(receipt)
        self.last_sequence, self.last_hour = sequence, hour
        self.amended |= dict.fromkeys(receipt.amended, sequence)
        _set(self.recalls, hour, receipt.recalls)
        _set(self.named_reloads, hour, receipt.reloads)
        _set(self.stopped, hour, receipt.stopped)
        for other in receipt.progress.stopped_hours:
            self.stopped[other] = self.stopped.get(other, {}) | receipt.stopped
        if edges := receipt.progress.edges:
            self.edges[hour] = [*self.edges.get(hour, []), *edges]
        self.with_bad = sorted({*self.with_bad, hour} if receipt.bad else {*self.with_bad} - {hour})
        if receipt.progress.statements:
            self.with_statements = sorted({*self.with_statements, hour})
        begun = {
            source: [reload for reload in found if self.has(reload.began)]
            for source, found in receipt.progress.reloads.items()
        }
        begun = {source: found for source, found in begun.items() if found}
        self._note_reload_changes(begun, sequence)
        self.reloads = begun
        self._note_recent(receipt)
        self.held_transactions, self.held_since = receipt.held_transactions, receipt.held_since
        self.waiting_entries, self.waiting_since = receipt.waiting_entries, receipt.progress.waiting_since
        self.places_until = max(self.places_until, receipt.progress.places_until)
        self.ever_held |= receipt.held_transactions > 0
        self.ever_waited |= receipt.waiting_entries > 0
        self.gave_up |= receipt.given_up > 0
        self.kept_whole |= receipt.kept_whole > 0
        self.took_up |= receipt.taken_up > 0
        self.redelivered |= receipt.redelivered > 0
        self.rolled_back |= receipt.rollbacks > 0
        for table in receipt.tables:
            added: dict[str, Any] = {"first_hour": hour}
            if table.progress.column_renames:
                added |= {"renamed_by": sequence, "renamed_hour": hour}
            progress = table.progress.model_copy(update=added)
            self.tables[table.table] = self.table(table.table).plus(progress)
            self.names |= dict.fromkeys(progress.sources, table.table)
            if table.rows is not None:
                self.rows[table.table] = table.rows

    def _note_reload_changes(self, now: Mapping[str, Sequence[Reload]], sequence: int) -> None:
        for source in {*self.reloads, *now}:
            before, after = _places(self.reloads.get(source, ())), _places(now.get(source, ()))
            changed = [began for began in {*before, *after} if before.get(began) != after.get(began)]
            if changed:
                self.reload_changes.setdefault(source, {}).update(dict.fromkeys(changed, sequence))

    def _note_recent(self, receipt: Receipt) -> None:
        """What a glance at the feed needs."""
        newest = sorted((self.recent | {receipt.hour: receipt.landed}).items())
        self.recent = dict(newest[-_RECENT:])
        if receipt.counts.released_quarantined or receipt.given_up or receipt.taken_up:
            self.in_quarantine = None
        if self.in_quarantine is not None:
            _set(self.in_quarantine, receipt.hour, receipt.quarantined)

    def _add_hour(self, receipt: Receipt) -> None:
        hour, sequence, version = receipt.hour, receipt.sequence, receipt.manifest_version
        at = bisect_right(self.hours, hour, key=lambda known: known.first)
        before = self.hours[at - 1] if at else None
        if before is not None and hour <= before.last:
            self.again.setdefault(hour, []).append(Republication(sequence=sequence, version=version))
        elif before is not None and before.version == version and _follow(before, hour, sequence):
            before.last = hour
        else:
            self.hours.insert(at, HourRange(first=hour, last=hour, sequence=sequence, version=version))

    def counts(self, sequence: int) -> bool:
        """Whether a number is that of a publication that is done."""
        return sequence <= self.last_sequence and sequence not in self.unpublished

    def has(self, hour: str) -> bool:
        """Whether an hour is published."""
        return self._range(hour) is not None

    def version_of(self, hour: str) -> int:
        """The version of an hour's export that was published last; 0: none was."""
        again, found = self.again.get(hour), self._range(hour)
        return again[-1].version if again else found.version if found is not None else 0

    def is_done(self, manifest: Manifest) -> bool:
        """Whether this version of the hour's export, or a newer one, is published."""
        return self.version_of(manifest.hour) >= manifest.version

    @property
    def has_small_tables(self) -> bool:
        """Whether planning and code generation cost more than to read all of the feed's tables."""
        return sum(self.rows.values()) < _FEW_ROWS

    def is_small(self, manifest: Manifest) -> bool:
        """Whether it is a small hour of small tables."""
        return manifest.small and self.has_small_tables

    def cut_by(self, hour: str) -> int:
        """The publication that made an hour's cut; 0: there is none."""
        return self.amended.get(hour) or self.first_published(hour)

    def first_published(self, hour: str) -> int:
        """The publication that first published an hour; 0: none has."""
        found = self._range(hour)
        return found.sequence + hours_from(found.first, hour) if found is not None else 0

    def published_hours(self) -> list[Hour]:
        """All published hours, in order."""
        return [one.first.plus(n) for one in self.hours for n in range(hours_from(one.first, one.last) + 1)]

    def _range(self, hour: str) -> HourRange | None:
        at = bisect_right(self.hours, hour, key=lambda known: known.first)
        found = self.hours[at - 1] if at else None
        return found if found is not None and hour <= found.last else None

    @property
    def newest_hour(self) -> Hour | None:
        """The latest published hour."""
        return self.hours[-1].last if self.hours else None

    def spans(self) -> list[HourRange]:
        """:attr:`hours` in as few ranges as their versions allow; their ``sequence`` says nothing."""
        found: list[HourRange] = []
        for one in self.hours:
            last = found[-1] if found else None
            if last is not None and last.version == one.version and hours_from(last.last, one.first) == 1:
                found[-1] = last.model_copy(update={"last": one.last})
            else:
                found.append(one)
        return found

    @property
    def stopped_tables(self) -> dict[str, str]:
        """The tables that the last publication left as they were, and why."""
        return self.stopped.get(self.last_hour or "", {})

    def table(self, name: str) -> TableProgress:
        """What is published of a table; nothing of one that no publication names."""
        return self.tables.get(name) or TableProgress()

    @property
    def highest(self) -> str | None:
        """The highest sort key applied in any table."""
        return max((table.highest for table in self.tables.values() if table.highest), default=None)

    def reloaded(self, sources: Iterable[str]) -> str | None:
        """The place of the newest reload of a table, before which nothing of it counts; None: there is none."""
        places = [reload.position for source in sources for reload in self.reloads.get(source, [])]
        return max(filter(None, places), default=None)

    @property
    def began_again(self) -> Hour | None:
        """The newest hour in which positions of a table began again; None: they never did."""
        hours = [one.began for found in self.reloads.values() for one in found if one.begins_again]
        return max(hours, default=None)

    @property
    def attempt(self) -> NextPublication:
        """The publication in the making, which there is."""
        assert self.next is not None, "an attempt has begun"
        return self.next

    @property
    def publication(self) -> str:
        """Its name, which its audit branches carry."""
        return publication_name(self.feed, self.attempt.hour, self.attempt.sequence)


def _places(reloads: Iterable[Reload]) -> dict[str, list[Reload]]:
    """By the hour in which they began: reloads, without the hours that were named, which alter nothing."""
    found: dict[str, list[Reload]] = {}
    for one in reloads:
        found.setdefault(one.began, []).append(one.model_copy(update={"hour": one.began}))
    return found


def hours_from(first: Hour, hour: str) -> int:
    """How many hours an hour is later than another."""
    return int((Hour.parse(hour).start - first.start).total_seconds() // 3600)


def _follow(before: HourRange, hour: Hour, sequence: int) -> bool:
    count = hours_from(before.first, before.last) + 1
    return before.last.plus(1) == hour and before.sequence + count == sequence


def _set(values: dict[str, V], hour: Hour, value: V) -> None:
    """Set an hour's value, or remove it where it is empty."""
    if value:
        values[hour] = value
    else:
        values.pop(hour, None)
