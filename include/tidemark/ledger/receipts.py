"""Receipts: the account of one feed-hour, and its sum.

A receipt answers for each record that landed: ``landed + split = applied + duplicate + superseded + control + held +
quarantined``, where ``split`` is the changes beyond the first in records that hold several. Changes that an earlier
hour held and this one released are counted apart. Receipts are only ever appended; the newest of a feed-hour counts.
"""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from tidemark.errors import AccountError
from tidemark.hours import Hour
from tidemark.lake.stored_formats import StoredDocument
from tidemark.values.columns import Reading


class Counts(BaseModel):
    """What became of changes: of those that landed in the hour, and of those that an earlier hour held until now."""

    applied: int = Field(0, description="Changes that the tables rest on.")
    duplicate: int = Field(0, description="The same change delivered again.")
    superseded: int = Field(0, description="Changes that are older than what the table held, and could not alter it.")
    quarantined: int = Field(0, description="Changes that wait in quarantine.")
    released_applied: int = Field(0, description="Of released changes, those that the tables rest on.")
    released_duplicate: int = Field(0, description="Of released changes, those that were delivered again.")
    released_superseded: int = Field(0, description="Of released changes, those that could not alter the table.")
    released_quarantined: int = Field(0, description="Of released changes, those that wait in quarantine.")

    def plus(self, other: Counts) -> Counts:
        """The sum, count by count."""
        return Counts(**{name: getattr(self, name) + getattr(other, name) for name in Counts.model_fields})

    def less(self, other: Counts) -> Counts:
        """The difference, count by count."""
        return Counts(**{name: getattr(self, name) - getattr(other, name) for name in Counts.model_fields})


class Reload(BaseModel):
    """A reload of one of the source's tables, which an operator has named."""

    hour: Hour = Field(description="The hour that was named.")
    began: Hour = Field(
        description="The hour in which the first row of its load landed: the one named, or a later one."
    )
    position: str = Field(
        description="Just behind all that was sent before the load: what stands before it is gone. Empty: nothing was."
    )
    begins_again: bool = Field(
        False, description="Whether the source's positions begin again with the load: they count from its place on."
    )
    highest_before: str | None = Field(
        None, description="Of one that begins again: the highest position that landed in the hours before it began."
    )
    begins: dict[str, int] = Field(
        {},
        description="Of one that begins again: by `topic:partition`, the first offset of its load in the hour in which it "
        "began, where messages show which rows a load has read.",
    )


class CopiesProgress(BaseModel):
    """What later hours need to know of the rows of a table without a key. Where both are empty, its rows tell all."""

    owed: int = Field(0, description="Copies that were taken away and are not there.")
    rewritten: list[str] = Field(
        [], description="Columns that messages write in several ways: their texts were rewritten to tell rows apart."
    )


class TableProgress(BaseModel):
    """What later hours need to know of a table's publications: of one, or of all so far."""

    highest: str | None = Field(
        None, description="The highest sort key applied: changes below it that come later are late."
    )
    truncated: str | None = Field(None, description="The position of the newest truncate; reloads are not among them.")
    arrived: datetime | None = Field(None, description="When the newest transaction committed that changed a key.")
    arrived_loose: datetime | None = Field(None, description="The same, of transactions that nothing waits for.")
    arrived_in: str | None = Field(
        None, description="The name of the last transaction that changed a key, where the source gives it."
    )
    last_key_change: str | None = Field(None, description="The position of the newest change of a key.")
    loaded: str | None = Field(None, description="The position of the newest row that a full load has read.")
    loaded_in: Hour | None = Field(None, description="The hour in which that row landed.")
    partial: bool = Field(False, description="Whether changes of it lacked columns.")
    entangled: bool = Field(
        False,
        description="Whether rows of it rest on other keys, or met at one key: only the log tells what a late change alters.",
    )
    learned: str | None = Field(
        None,
        description="The highest sort key before the newest column came, of a table whose rows may lack columns: only the "
        "log tells what changes below it alter.",
    )
    copies: CopiesProgress | None = Field(
        None, description="Of a table without a key; null where it has never been counted with the change log."
    )
    refolded_by: int = Field(
        0,
        description="The publication that withdrew changes, or gave published ones another place, and folded all rows again; "
        "tombstones and truncates of before do not count. 0: none did.",
    )
    column_renames: list[str] = Field([], description="Columns renamed and dropped.")
    renamed_by: int = Field(0, description="The publication that renamed or dropped columns last; 0: none did.")
    renamed_hour: Hour | None = Field(None, description="The latest hour whose publication renamed or dropped columns.")
    first_hour: Hour | None = Field(None, description="The oldest hour whose publication names the table.")
    readings: dict[str, Reading] = Field({}, description="How columns were read, where that was new.")
    sources: list[str] = Field([], description="The source's tables that were published under its name.")

    def of_rows(self) -> TableProgress:
        """What of this holds for the rows of a source's table under whatever name they are published."""
        renames = {"column_renames", "renamed_by", "renamed_hour"}
        stored = renames | {"copies", "refolded_by", "first_hour", "readings", "sources"}
        return TableProgress.model_validate(self.model_dump(exclude=stored))

    def plus(self, later: TableProgress) -> TableProgress:
        """This, and what a later publication did."""
        truncates = [later.truncated] if later.refolded_by > self.refolded_by else [self.truncated, later.truncated]
        load = max(self, later, key=lambda one: (one.loaded or "", one.loaded_in or ""))
        return TableProgress(
            highest=max(filter(None, (self.highest, later.highest)), default=None),
            truncated=max(filter(None, truncates), default=None),
            arrived=max(filter(None, (self.arrived, later.arrived)), default=None),
            arrived_loose=max(filter(None, (self.arrived_loose, later.arrived_loose)), default=None),
            arrived_in=later.arrived_in or self.arrived_in,
            last_key_change=max(filter(None, (self.last_key_change, later.last_key_change)), default=None),
            loaded=load.loaded,
            loaded_in=load.loaded_in,
            partial=self.partial or later.partial,
            entangled=self.entangled or later.entangled,
            learned=max(filter(None, (self.learned, later.learned)), default=None),
            copies=later.copies or self.copies,
            refolded_by=max(self.refolded_by, later.refolded_by),
            column_renames=sorted({*self.column_renames, *later.column_renames}),
            renamed_by=max(self.renamed_by, later.renamed_by),
            renamed_hour=max(filter(None, (self.renamed_hour, later.renamed_hour)), default=None),
            first_hour=min(filter(None, (self.first_hour, later.first_hour)), default=None),
            readings=self.readings | later.readings,
            sources=sorted({*self.sources, *later.sources}),
        )


class CheckResult(BaseModel):
    """What a check found in the rows that an hour wrote, in all of its publications."""

    check: str = Field(description="The check in words, the column first.")
    consequence: str = Field(description="stop, quarantine or warn.")
    rows: int = Field(description="Rows that were looked at.")
    failed: int | None = Field(
        description="Rows of these that fail it. Of a check with the consequence quarantine they hold values from before: "
        "what the hour sent is in quarantine. null: pandera says only whether any does."
    )
    keys: list[str] = Field([], description="The keys of the first that fail, as JSON; at most three.")


class TableReceipt(BaseModel):
    """One table's part of an hour."""

    table: str = Field(description="The published schema.table.")
    counts: Counts = Field(Counts(), description="What became of its changes, in all publications of the hour.")
    staged_in: int = Field(0, description="The publication that wrote the rows below; 0: none did.")
    rows_written: int = Field(0, description="Rows that this publication wrote.")
    rows_deleted: int = Field(0, description="Rows that this publication deleted.")
    rows: int | None = Field(None, description="Rows that the table then has; null: the publication did not write it.")
    waiting: int = Field(0, description="Of its changes in quarantine, those of which a value fails a check.")
    warnings: list[str] = Field(
        [], description="Checks with the consequence warn that fail, and what else a person should know of the table."
    )
    checks: list[CheckResult] = Field([], description="Checks of columns, in the feed file's order.")
    progress: TableProgress = Field(
        TableProgress(), description="No part of the account: what this publication adds to the feed's state."
    )


class FeedProgress(BaseModel):
    """What later hours need to know of a publication, beside its tables."""

    edges: list[str] = Field(
        [], description="The hour's transaction markers that other hours need, where markers tie rows together."
    )
    waiting_since: int = Field(
        0, description="The publication from which on rows of `waiting` count; 0: nothing waits."
    )
    reloads: dict[str, list[Reload]] = Field(
        {}, description="By the source's table: all reloads that have begun, of whatever hour, after this publication."
    )
    places_until: str = Field(
        "",
        description="A text behind the positions that rows of the hour can change, because they place others; empty: none "
        "does.",
    )
    statements: bool = Field(True, description="Whether entries of the hour state something about tables.")
    stopped_hours: list[Hour] = Field(
        [],
        description="Other hours of which changes wait with those of stopped tables, for they were held until this hour.",
    )


class Recalled(BaseModel):
    """How the quarantined entries that a replay takes up again were accounted for so far."""

    landed: int = Field(0, description="Entries that are the first of their record.")
    split: int = Field(0, description="Entries beyond the first of their record.")
    bad: int = Field(0, description="Records that could not be decoded.")
    refused: int = Field(0, description="Changes kept back before they reached a table.")
    held: int = Field(
        0,
        description="Changes that were held when their hour was published, and quarantined by the publication that released "
        "them.",
    )
    alongside: int = Field(0, description="Changes of `tables` that were not refused themselves.")
    tables: dict[str, int] = Field({}, description="By published table, changes that its `quarantined` counts.")
    checked: dict[str, int] = Field({}, description="By published table, changes that its `waiting` counts.")


class Receipt(StoredDocument):
    """The account of one feed-hour."""

    model_config = ConfigDict(extra="ignore")

    feed: str = Field(description="The feed's name.")
    hour: Hour = Field(description="The hour that is accounted for.")
    sequence: int = Field(
        description="The number of the publication among all of the feed's, whichever hours they are of."
    )
    manifest_version: int = Field(description="The version of the hour's export that the publication is of.")
    objects: int = Field(description="How many objects landed for the hour, with all versions of its export.")
    bytes: int = Field(description="How many bytes these have, as they lie.")
    landed: int = Field(description="Records in the hour's objects.")
    split: int = Field(description="Changes beyond the first in records that hold several.")
    control: int = Field(
        description="Entries that are no change of a row: markers, heartbeats, statements; and changes of transactions that "
        "were rolled back."
    )
    bad: int = Field(description="Records that could not be decoded.")
    refused: int = Field(0, description="Changes kept back before they reached a table: in quarantine.")
    kept_whole: int = Field(
        0, description="Transactions that this publication put in quarantine whole, for a change of each is refused."
    )
    alongside: int = Field(
        0,
        description="Changes in the tables' `quarantined` that are not refused themselves: they wait with their transaction, "
        "or their table is stopped.",
    )
    taken_up: int = Field(
        0,
        description="Changes that other publications put in quarantine, and that this one took out again with their "
        "transaction, of which more has come (good copies of what was refused), or which proves not to be theirs.",
    )
    given_up: int = Field(0, description="Overdue transactions whose changes this publication gave up to quarantine.")
    rollbacks: int = Field(0, description="Transactions that their source rolled back: their changes count as control.")
    redelivered: int = Field(
        0,
        description="Changes that this publication left out, or took back, because another delivery of their transaction "
        "counts.",
    )
    newest: datetime | None = Field(None, description="The newest source time in the hour, heartbeats included.")
    held: int = Field(description="Changes whose transaction is not complete, or whose metadata have not come.")
    held_transactions: int = Field(0, description="Transactions that stay open after this publication.")
    held_since: Hour | None = Field(
        None, description="The oldest hour of which a transaction that stays open has a change; null where none does."
    )
    waiting_entries: int = Field(
        0, description="Entries, of whatever hour, that wait after this publication for what describes them."
    )
    cut_by: int = Field(0, description="The publication that made the hour's cut; 0 until the hour is published.")
    amended: list[Hour] = Field([], description="Hours whose cuts this publication made again (`cuts: amend`).")
    recalls: int = Field(
        0, description="What this hour's publications up to this number kept in quarantine has been replayed."
    )
    reloads: list[str] = Field(
        [], description="The source's tables that an operator had reloaded from this hour on; `*`: all of the feed's."
    )
    tables: list[TableReceipt] = Field([], description="The part of each table, of all publications of the hour.")
    published_at: datetime | None = Field(None, description="When the hour was published; null until then.")
    notes: list[str] = Field([], description="What a person should know of the hour.")
    stopped: dict[str, str] = Field(
        {}, description="Tables that this publication left as they were, for they cannot go on, and why."
    )
    progress: FeedProgress = Field(
        FeedProgress(), description="No part of the account: what this publication adds to the feed's state."
    )

    @property
    def counts(self) -> Counts:
        """The sum over the tables."""
        total = Counts()
        for table in self.tables:
            total = total.plus(table.counts)
        return total

    @property
    def quarantined(self) -> int:
        """Undecodable records, and changes that did not pass."""
        return self.bad + self.refused + self.counts.quarantined

    def follow(self, before: Receipt) -> Receipt:
        """This receipt, which is of what is new in the hour, plus what an earlier publication of the hour accounted for."""
        old = {table.table: table for table in before.tables}
        new = {table.table for table in self.tables}
        merged = [
            table.model_copy(
                update={
                    "counts": table.counts.plus(old[table.table].counts),
                    "waiting": table.waiting + old[table.table].waiting,
                }
            )
            if table.table in old
            else table
            for table in self.tables
        ]
        # the state knows already what that publication did to them
        nothing = {"progress": TableProgress(), "rows": None}
        others = [t.model_copy(update=nothing) for name, t in old.items() if name not in new]
        sums = {
            name: getattr(self, name) + getattr(before, name)
            for name in ("landed", "split", "control", "bad", "held", "refused", "alongside", "rollbacks")
        }
        newest = max(filter(None, (self.newest, before.newest)), default=None)
        sums["recalls"] = max(self.recalls, before.recalls)
        return self.model_copy(update={**sums, "newest": newest, "tables": merged + others})

    def without(self, recalled: Recalled) -> Receipt:
        """This receipt without the entries that a replay takes up again."""
        tables = [
            table.model_copy(
                update={
                    "counts": table.counts.less(Counts(quarantined=recalled.tables.get(table.table, 0))),
                    "waiting": table.waiting - recalled.checked.get(table.table, 0),
                }
            )
            for table in self.tables
        ]
        left = {
            name: getattr(self, name) - getattr(recalled, name)
            for name in ("landed", "split", "bad", "refused", "alongside", "held")
        }
        return self.model_copy(update={**left, "tables": tables})

    def balance(self) -> None:
        """AccountError unless the sum holds."""
        c = self.counts
        accounted = c.applied + c.duplicate + c.superseded + self.control + self.held + self.quarantined
        if self.landed + self.split != accounted:
            raise AccountError(
                f"landed {self.landed} + split {self.split} is not applied {c.applied} + duplicate {c.duplicate} + "
                f"superseded {c.superseded} + control {self.control} + held {self.held} + quarantined "
                f"{self.quarantined} = {accounted}",
                fix="nothing was published; keep the hour's logs and landing objects and report this as a defect",
                feed=self.feed,
                hour=self.hour,
            )
