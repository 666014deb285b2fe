"""How Debezium's connectors differ: the fields of ``source`` that name a table and a position in the source's order.

Fields by the connectors' SourceInfo classes. A position is text of fixed width, so that text order is the source's
order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.formats.contract import zero_padded


@dataclass(frozen=True, kw_only=True)
class Connector:
    """What is particular to one connector: how its ``source`` is read."""

    fields: str
    """The fields of ``source`` that are read, as a DDL list."""
    namespace: str
    """The field that stands before the table's name."""
    position: Callable[[Column], Column]
    """Of ``source``, a change's place in the source's order; null where a field is missing or malformed."""
    own: Callable[[Column], Column]
    """Of ``source``, the part of that place which is the change's own, not its transaction's."""
    no_position: str
    """The problem of an event without a position."""
    together: Callable[[Column], Column]
    """Of ``source``, the same text for all changes of a transaction, whether the connector sends transaction metadata or
    not; null where nothing tells but the time."""
    gaps: tuple[str, ...] = ()
    """What its messages do not show, for a person (docs/formats/debezium.md)."""
    counts_anew: bool = False
    """Whether a transaction's events are counted anew when the connector starts again in it (transactionStartedEvent of
    TransactionMonitor, before 3.6.1; https://github.com/debezium/dbz/issues/633)."""
    commit: Callable[[Column], Column] | None = None
    """Of ``source``, a transaction's place, where the source promises no order of the places of its changes; null, or None:
    it does."""
    one_place: Callable[[Column], Column] = lambda source: F.lit(False)
    """Of ``source``, whether all changes of a transaction have one place, so that their numbers alone tell them apart."""
    whole_before: bool = False
    """Whether images before hold every value: PostgreSQL writes its old tuples with the texts of TOAST in them
    (toast_flatten_tuple in ExtractReplicaIdentity)."""
    null_if_unchanged: bool = False
    """Whether both images of an update have null for a large column that it does not touch."""
    times: str = "adaptive"
    """Its own default of ``time.precision.mode``."""
    digits: int = 9
    """How many digits its database has behind the second at most."""
    unwritten: Mapping[str, int]
    """How many digits its database has behind the second, and behind the point of ``money``, where the type does not say it.
    A type that is not here must say it."""

    def numbered(self, source: Column, number: Column, keyed: Column) -> Column:
        """The position of a change whose ``number`` in its transaction is known: its own, where that is in order, or where
        it tells a change without a key (``keyed``) that comes again; null where it has none."""
        own = self.position(source)
        if self.commit is None:
            return own
        wanted = own.isNotNull() & (keyed | self.one_place(source))
        return F.coalesce(F.when(wanted, _joined(self.commit(source), _digits(number))), own)


#: What ``source.snapshot`` says of a row that an incremental snapshot read.
INCREMENTAL = "incremental"
#: What it says of a row that a snapshot read: a first or second one, an ad-hoc one, or an incremental one.
IN_SNAPSHOT = ("true", "first", "first_in_data_collection", "last_in_data_collection", "last", INCREMENTAL)


def _in_turn(number: Column, snapshot: Column) -> Column:
    """A place in the database's log; of a row of an incremental snapshot, the one right before, where no event can be.

    Such rows have the place of the event that the connector was at when the window of their chunk closed. With
    ``read.only`` that is the event which closes it, and which comes behind them (processMessage, then changeRecord, in
    https://github.com/debezium/debezium). An event that came before them is in what they read, so it may stand behind.
    """
    return F.when((snapshot == INCREMENTAL) & (number > 0), number - 1).otherwise(number)


def _digits(number: Column, width: int = 20) -> Column:
    """A number's text, padded; null for anything but digits that fit. Only what is no bigint is searched for digits."""
    text = number.cast("string")
    small = F.when((text >= "0") & (F.octet_length(text) <= width), text.try_cast("bigint").cast("string"))
    return zero_padded(F.coalesce(small, F.when(text.rlike(rf"^\d{{1,{width}}}\z"), text)), width)


def _padded(number: Column) -> Column:
    """A bigint's text, padded as :func:`_digits` does; null for a negative one."""
    return F.when(number >= 0, zero_padded(number.cast("string"), 20))


def _joined(*parts: Column) -> Column:
    """The parts with dots between them; null when one is missing."""
    return F.concat(parts[0], *(F.concat(F.lit("."), part) for part in parts[1:]))


def _postgresql(source: Column) -> Column:
    """``<LSN of the last commit before this one>.<own LSN>``: commit order.

    A snapshot, and the connector's first transaction after it, know of no commit before them: their own LSN stands in
    for it, which is above all that was sent before. An event of that transaction has its own LSN three times: it may
    have been written before the snapshot was taken, see :mod:`tidemark.formats.debezium.placing`. Rows of an
    incremental snapshot have no LSN of their own but in ``sequence``. Where a commit or a heartbeat closed their window
    (processTransactionCommittedEvent and processHeartbeat of PostgresReadOnlyIncrementalSnapshotChangeEventSource), it is
    the commit's: they stand before all of the next transaction, which can have lower LSNs.
    """
    sequence, snapshot = source["sequence"], source["snapshot"]
    commit = F.when(sequence.startswith('["'), F.substring_index(F.substring(sequence, 3, 24), '"', 1))
    in_sequence = F.coalesce(F.regexp_extract(sequence, r',\s*"(\d+)"', 1), F.lit("0"))
    number = _in_turn(F.coalesce(source["lsn"], in_sequence.try_cast("bigint")), snapshot)
    own = _padded(F.when((snapshot == INCREMENTAL) & (in_sequence == commit), F.lit(0)).otherwise(number))
    first = sequence.startswith("[null") & ~F.coalesce(snapshot.isin(*IN_SNAPSHOT), F.lit(False))
    before = F.when(commit.isNotNull(), _digits(commit)).otherwise(own)
    return F.concat(_joined(before, own), F.when(first, F.concat(F.lit("."), own)).otherwise(""))


def _mysql(source: Column) -> Column:
    """``<number of the binlog file>.<position in it>.<row of the event>``. An event takes more than one byte."""
    file = F.regexp_extract(source["file"], r"\.(\d+)\z", 1)
    row = F.coalesce(source["row"].cast("string"), F.lit("0"))
    pos = _in_turn(source["pos"], source["snapshot"])
    return _joined(_digits(file, 12), _digits(pos), _digits(row, 10))


def _lsn(text: Column, width: int, lacking: str = "0") -> Column:
    """Groups of hexadecimal digits between colons; where there is none, ``lacking`` in the place of each digit."""
    return F.when(text.rlike(rf"^[0-9A-Fa-f:]{{1,{width}}}\z"), zero_padded(F.lower(text), width)).when(
        text.isNull(), F.lit(lacking * width)
    )


def _change_lsn(source: Column, width: int) -> Column:
    """What a snapshot read has none: it stands behind the commit that it names, the last one of the database then, whose
    changes it has read. What comes after it is of later commits (getMaxLsn and incrementLsn in
    https://github.com/debezium/debezium)."""
    return _lsn(source["change_lsn"], width, lacking="f")


def _has_lsn(source: Column) -> Column:
    return F.coalesce(source["commit_lsn"], source["change_lsn"]).isNotNull()


def _sqlserver(source: Column) -> Column:
    """``<commit LSN>.<change LSN>.<event in the change>``. The change LSN (``__$seqval``) is for no order, says Microsoft,
    but ``__$command_id``, by which the connector reads, and which it does not send."""
    serial = _digits(F.coalesce(source["event_serial_no"].cast("string"), F.lit("0")), 10)
    return F.when(_has_lsn(source), _joined(_lsn(source["commit_lsn"], 22), _change_lsn(source, 22), serial))


def _db2(source: Column) -> Column:
    """``<commit LSN>.<change LSN>``."""
    return F.when(_has_lsn(source), _joined(_lsn(source["commit_lsn"], 48), _change_lsn(source, 48)))


def _commit_lsn(source: Column) -> Column:
    return _lsn(source["commit_lsn"], 22)


def _oracle(source: Column) -> Column:
    """``<SCN of the commit>.<own SCN>.<redo record>.<its part>``. Snapshot rows have no commit: they stand at their SCN.
    XStream sends no redo record but a position of its own.

    One redo record can write many rows (an array's insert or delete). LogMiner does not number all of them by ``ssn``, of
    which newer connectors send a zero: those have the change's number in its transaction, ``txSeq`` (dispatchEvent of both
    LogMiner sources in https://github.com/debezium/debezium).
    """
    commit = F.coalesce(source["commit_scn"], source["scn"])
    record = F.lower(F.trim(F.coalesce(source["rs_id"], F.lit(""))))
    part = F.coalesce(source["txSeq"], source["ssn"], F.lit(0)).cast("string")
    redo = F.when(record.rlike(r"^[0-9a-fx.]{0,32}\z"), zero_padded(record, 32))
    of_xstream = F.lower(source["lcr_position"])
    redo = F.when(of_xstream.rlike(r"^[0-9a-f]{1,128}\z"), zero_padded(of_xstream, 128)).otherwise(redo)
    return _joined(_digits(commit), _digits(source["scn"]), redo, _digits(part))


def has_no_number(position: Column) -> Column:
    """Whether nothing but its redo record tells a change of Oracle's from others: LogMiner's, without ``txSeq`` and
    ``ssn``."""
    of_record = F.length(position) == 2 * (20 + 1) + 32 + 1 + 20
    return of_record & position.endswith("." + "0" * 20)


def _of_replicator(source: Column) -> Column:
    """OpenLogReplicator sends the SCN of the commit with each change, and neither redo record nor position (onMutationEvent
    of OpenLogReplicatorStreamingChangeEventSource)."""
    return source["rs_id"].isNull() & source["lcr_position"].isNull()


def _commit_scn(source: Column) -> Column:
    """A transaction's place, where that is all that its changes have."""
    commit = F.coalesce(source["commit_scn"], source["scn"])
    return F.when(_of_replicator(source), _joined(_digits(commit), _digits(source["scn"])))


_NO_LSN = "source has neither commit_lsn nor change_lsn, or one that is no LSN"


def _given(name: str) -> Callable[[Column], Column]:
    return lambda source: source[name].cast("string")


def _nothing(source: Column) -> Column:
    return F.lit(None).cast("string")


_DEFERRED = (
    "a key that the database checks only when a transaction ends (DEFERRABLE INITIALLY DEFERRED): where a row is inserted "
    "under a key that is still taken, and the old row deleted after that, no message says which of them goes, and the key is "
    "gone: declare such keys immediate"
)
_PARTS = (
    "that a snapshot read a part of its table (`snapshot.select.statement.overrides`): its last row says that the table was "
    "read to its end, and rows that are not in the snapshot go: read such tables whole, or with an ad-hoc snapshot"
)
_GENERATED = (
    "the values of generated columns, which pgoutput sends from PostgreSQL 18 on, where the publication says so: snapshots "
    "have them, and with a row's next change they are null: leave them out with `column.exclude.list`"
)
_PARTS_WITHOUT_KEY = (
    "that a snapshot read a part of a table without a key (`snapshot.select.statement.overrides`, or an ad-hoc one with "
    "`additional-conditions`): it counts as one of all of the table, and rows that are not in it go: read such tables whole"
)
_CASCADES = (
    "rows that MySQL before 9.6 deletes or alters by a foreign key (ON DELETE CASCADE, SET NULL) are not in the binlog, and "
    "stay in their tables as they were: have the application delete them, or use 9.6"
)
_ONE_SCN = (
    "two changes of one row in one SCN look like one where the connector sends neither rs_id (LogMiner) nor lcr_position "
    "(XStream): look into a message, and use a release that sends one of them. OpenLogReplicator sends neither, and with all "
    "changes of a transaction the SCN of its commit: have the connector send transaction metadata, which number them, and "
    "name their topic as `transactions`"
)
_COMMIT_BEFORE = (
    "the order of changes, where the connector is older than 2.5: its commit_scn is that of the commit before, until a "
    "transaction's last change, so that updates may count as older than they are and be lost: use 2.5 or a later release"
)
_COMPRESSED = (
    "transactions that MySQL writes compressed (`binlog_transaction_compression`, off by default; any session may set it): "
    "their changes all have one place in the binlog, so that of two changes of a row either may count: leave it off"
)
_PARTIAL_JSON = (
    "updates of rows with documents of JSON, where MySQL writes only the changed parts of these "
    "(`binlog_row_value_options=PARTIAL_JSON`, off by default; any session may set it): the connector cannot read them and "
    "leaves them out: leave it off"
)
_LARGE_IN_ORACLE = (
    "values of Oracle's CLOB, NCLOB, BLOB and XMLTYPE, where the connector has `lob.enabled=false`, its default: snapshots "
    "have them, an insert has null, and an update that writes one is not sent at all: set `lob.enabled=true`, or leave such "
    "columns out with `column.exclude.list`"
)
_NO_ORDER = (
    "the order of two changes of one row in one transaction, as bulk updates of keys make them: change_lsn is none that SQL "
    "Server promises. Have the connector send transaction metadata, which number them, and name their topic as `transactions`"
)
_LARGE_IN_SQL_SERVER = (
    "that an update makes a `text`, `ntext` or `image` null: its images are those of an update that leaves the column as it "
    "was, and the old value stays: use `varchar(max)`, `nvarchar(max)`, `varbinary(max)`. Of these the same holds in tables "
    "of more than 8 captured columns where the connector is 3.6.0 or 3.6.1: use another release"
)

COUNTED_ANEW = (
    "that a connector before 3.6.1 starts again in the middle of a transaction: it counts its events anew, and END those "
    "alone, so that a part of the transaction may be published where the rest lands in another hour: use 3.6.1"
)

#: By the name of the option ``connector``.
CONNECTORS = {
    "postgresql": Connector(
        fields="txId: bigint, sequence: string, lsn: bigint", namespace="schema", position=_postgresql, own=_given("lsn"),
        no_position="source.sequence is not two LSNs", together=_given("txId"), gaps=(_DEFERRED, _PARTS, _GENERATED),
        whole_before=True, counts_anew=True, digits=6,  # a timestamp(9) that it is told to make has six
        unwritten={"time": 6, "timestamp": 6, "money": 2},
    ),
    "mysql": Connector(
        fields="txId: string, db: string, file: string, pos: bigint, row: bigint", namespace="db",
        position=_mysql, own=_mysql, no_position="source has no file and pos: its place in the order is unknown",
        together=_nothing, gaps=(_CASCADES, _COMPRESSED, _PARTIAL_JSON, _PARTS_WITHOUT_KEY),
        counts_anew=True, times="adaptive_time_microseconds", digits=6,  # the connector refuses `adaptive`
        unwritten={"time": 0, "timestamp": 0},
    ),
    "sqlserver": Connector(
        fields="db: string, txId: string, commit_lsn: string, change_lsn: string, event_serial_no: bigint",
        namespace="schema", position=_sqlserver, own=_sqlserver, no_position=_NO_LSN, together=_given("commit_lsn"),
        gaps=(_NO_ORDER, _LARGE_IN_SQL_SERVER, _PARTS_WITHOUT_KEY), commit=_commit_lsn, null_if_unchanged=True,
        unwritten={"time": 7, "timestamp": 7, "money": 4},
    ),
    "oracle": Connector(
        fields="txId: string, scn: string, commit_scn: string, rs_id: string, ssn: bigint, txSeq: bigint, "
        "lcr_position: string",
        namespace="schema", position=_oracle, own=_oracle, commit=_commit_scn, one_place=_of_replicator,
        no_position="source has no scn: its place in the order is unknown", together=_given("txId"),
        gaps=(_DEFERRED, _ONE_SCN, _COMMIT_BEFORE, _LARGE_IN_ORACLE, _PARTS_WITHOUT_KEY),
        unwritten={"time": 6, "timestamp": 6},
    ),
    "db2": Connector(
        fields="txId: string, commit_lsn: string, change_lsn: string", namespace="schema", position=_db2, own=_db2,
        no_position=_NO_LSN, together=_given("commit_lsn"), gaps=(_PARTS_WITHOUT_KEY,),
        unwritten={"time": 0, "timestamp": 6},
    ),
}  # fmt: skip
