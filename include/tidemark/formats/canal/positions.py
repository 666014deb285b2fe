"""Where a Canal message stands in the source's order, and which rows without a key are the same ones delivered again.

Canal reads the binlog in its order and sends batch after batch: ``ts`` is the millisecond in which it wrote the message,
``id`` the number of the batch (it starts again when Canal does, and then ``ts`` is later), and the messages of a batch
follow each other in their partition. So ``ts``, ``id`` and the offset are the order of the binlog. ``es`` is not: it is
the time at which the *statement* began, and a long one is written to the binlog behind shorter ones that began later.

What comes twice comes again with all that followed it. A batch that Canal could not hand over it reads again, with the
batches behind it, under other ``ts`` and ``id``; Kafka's client sends a piece of a batch again, and no piece behind it
before (one request in flight); a mirror goes on from where it was. So what comes again counts behind what it was, and in
a table with a key the same rows stand at its end. No place is counted for that: one that is counted within an hour's
export is another where the hour begins elsewhere.
(MQMessageUtils.messageConverter, CanalMQStarter.worker, CanalKafkaProducer.send and MemoryMetaManager in
https://github.com/alibaba/canal)
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from tidemark.formats.contract import zero_padded
from tidemark.formats.ddl.named_tables import of_each_table

#: Containers whose records have no offsets: the place in the object has to do.
WITHOUT_OFFSETS = frozenset({"lines", "pubsub", "raw"})
#: How much of a position is ``ts`` and ``id``.
MOMENT = 19 + 1 + 19
_BATCH = ("topic", "ts", "batch", "spread")
# An offset's block: what is sorted together, so that an hour of one partition is no single task's work.
_BLOCK = 2**16
# An ordinal holds a message's place and the row's in it: so many messages, and rows of a message.
_MESSAGES, _ROWS = 10**12, 10**6


def with_positions(messages: DataFrame, container: str) -> DataFrame:
    """Adds ``place``, of the message in its batch and moment, and for its rows without a key ``keyless_place`` and
    ``keyless_ordinal`` (null: they are told apart by their place).

    Needs ``topic``, ``partition``, ``offset``, ``object``, ``record``; ``ts`` and ``batch`` as digits, where ``placed``
    says that they are; ``content``, a hash of the message; ``empties``, whether it empties tables; and ``concerned``.
    Gives what :func:`of_each_table` does.
    """
    return of_each_table(_in_objects(messages)) if container in WITHOUT_OFFSETS else _in_partitions(messages)


def row_position(place: Column, entry: Column) -> Column:
    """The position of a row of a message: text that sorts."""
    return F.concat_ws(
        ".", zero_padded("ts", 19), zero_padded("batch", 19), place, zero_padded(entry.cast("string"), 9)
    )


def _in_partitions(messages: DataFrame) -> DataFrame:
    """By offsets; what has the same one is told apart by its content.

    Rows without a key have no end that stays the same: those of a batch are counted, in their run, the piece of the
    partition in which no other batch lies between them. What is delivered again under other offsets is a run of its own,
    counted the same, and :mod:`tidemark.fold.keyless` counts a row once for each run. They stand behind the statement
    of the run that emptied their table, if there is one. Where nothing of the hour comes before a run (or before its
    block of offsets), it may have begun in the hour before: its rows then count on behind all that are counted.
    """
    line = F.coalesce("offset", "record")
    source = F.when(F.col("offset").isNull(), F.col("object"))
    block = ("topic", "partition", "source", "block")
    in_order = Window.partitionBy(*block).orderBy("line", "object", "record")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = in_order.rowsBetween(Window.unboundedPreceding, -1)
    of_table = Window.partitionBy(*block, "source_table").orderBy("line", "object", "record")
    # A record that is no message parts no batch; what has a time and no batch does.
    batch = F.when(F.col("placed") & ((F.col("ts") != "0") | (F.col("batch") != "0")), F.struct("ts", "batch"))
    begins = F.col("own").isNotNull() & ~F.col("own").eqNullSafe(F.col("last"))
    runs: DataFrame = (
        messages.withColumns({"source": source, "block": F.floor(line / _BLOCK), "line": line, "own": batch})
        .withColumn("last", F.last("own", ignorenulls=True).over(before))
        .withColumn("run", F.when(begins, F.struct("line", F.col("last").isNotNull().alias("whole"))))
        .withColumn("run", F.last("run", ignorenulls=True).over(so_far))
        .transform(of_each_table)
        .withColumn("emptied", F.last(F.when(F.col("empties"), F.col("line")), ignorenulls=True).over(of_table))
    )
    counted = F.when(F.col("run.whole"), F.col("line") - F.col("run.line"))
    uncounted = _MESSAGES + F.pmod("line", F.lit(_MESSAGES))
    numbered = F.col("own").isNotNull() & (F.col("batch") != "0")
    since = F.coalesce(F.when(F.col("emptied") >= F.col("run.line"), _number(F.col("emptied")) + 1), F.lit(0))
    place = F.concat_ws(".", _counted(_number(F.col("line"))), _hash("content"))
    return runs.withColumns(
        {
            "place": place,
            "keyless_place": F.when(numbered, F.concat_ws(".", _counted(since), F.lit("0" * 16))).otherwise(place),
            "keyless_ordinal": F.when(numbered, F.coalesce(counted, uncounted) * _ROWS + 1),
        }
    ).drop("source", "block", "line", "own", "last", "run", "emptied")


def _in_objects(messages: DataFrame) -> DataFrame:
    """By the objects' names and the records in them, as far as they go.

    Messages of one batch and moment are numbered in the order of their arrival in the hour. Equal ones are several where
    they stand in one object with nothing but their batch between them; elsewhere they are one, delivered again.
    """
    # What is in no batch is spread: otherwise one task would get all of it.
    nowhere = ~F.col("placed") | (F.col("ts") == "0")
    together = messages.withColumn("spread", F.when(nowhere, F.col("content"))).repartition(*_BATCH)
    arrived = Window.partitionBy(*_BATCH).orderBy("object", "record")
    follows = (F.col("object") == F.lag("object").over(arrived)) & (
        F.col("record") - F.lag("record").over(arrived) == 1
    )
    run = F.count_if(~F.coalesce("follows", F.lit(False))).over(arrived)
    equal = Window.partitionBy(*_BATCH, "run", "content").orderBy("object", "record")
    same = Window.partitionBy(*_BATCH, "content", "copy")
    in_order = Window.partitionBy(*_BATCH).orderBy("first")
    # twice the number: behind each there is room for the rows without a key that a statement did not take
    emptied = F.last(F.when(F.col("empties"), F.col("number") * 2 + 1), ignorenulls=True).over(in_order)
    numbered: DataFrame = (
        together.withColumn("follows", follows)
        .withColumn("run", run)
        .withColumn("copy", F.row_number().over(equal))
        .withColumn("first", F.min(F.struct("object", "record")).over(same))
        .withColumn("number", F.dense_rank().over(in_order))
        .withColumn("emptied", emptied)
    )
    return numbered.withColumns(
        {
            "place": F.concat_ws(".", _counted(F.col("number") * 2), _hash("content")),
            "keyless_place": F.concat_ws(".", _counted(F.coalesce("emptied", F.lit(0))), _hash("content", "copy")),
            "keyless_ordinal": F.lit(None).cast("bigint"),
        }
    ).drop("spread", "follows", "run", "copy", "first", "number", "emptied")


def _counted(number: Column) -> Column:
    return zero_padded(number.cast("string"), 20)


def _number(offset: Column) -> Column:
    """An offset to which one may be added."""
    return offset.cast("decimal(20,0)")


def _hash(*columns: str) -> Column:
    return F.lpad(F.hex(F.xxhash64(*columns)), 16, "0")
