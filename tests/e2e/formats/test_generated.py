"""Generated hours through all stages: every cut is the truth. One hour of each format, and three of those feeds that
have no end-to-end tests of their own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.e2e.generated import HOURS, findings, generated, run_all
from tidemark.formats import FORMATS
from tidemark.ledger.change_log import changes_table
from tidemark.ledger.publication_history import load_history
from tidemark.ledger.receipts import Receipt
from tidemark.operations.audit import audit
from tidemark.settings import Settings
from tidemark_samples import load_sample

SIZES = {
    "canal": {"events": 70, "seed": 6, "poison": 2},
    "dataworks": {"events": 70, "seed": 5, "poison": 2},
    "qlik": {"events": 120, "seed": 4, "poison": 3},
}


@pytest.mark.promise(1, 2, 4)
@pytest.mark.parametrize(
    "format_",
    # In the first tier an hour of Debezium's is held against the oracle (tests/convergence), and one of each format publishes
    # every type it documents (test_declared_types).
    [pytest.param(name, marks=() if name == "ibm" else pytest.mark.full) for name in FORMATS],
)
def test_an_hour_of_each_format_is_the_truth(
    spark: SparkSession, settings: Settings, tmp_path: Path, format_: str
) -> None:
    schema = f"generated_{format_}_one"
    feed = generated(load_sample(format_), tmp_path, schema, events=60, seed=6, poison=1)
    run_all(feed, settings, HOURS[:1])
    (receipt,) = load_history(settings, schema).receipts
    receipt.balance()
    assert receipt.counts.applied > 0
    assert findings(tmp_path, HOURS[0], settings, schema=schema) == {}


@dataclass(frozen=True)
class Ran:
    """A generator's hours, run one after the other."""

    format: str
    out: Path
    feed: str
    receipts: dict[str, Receipt]


@pytest.fixture(scope="module", params=SIZES)
def ran(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession, settings: Settings
) -> Ran:
    out, schema = tmp_path_factory.mktemp(request.param), f"generated_{request.param}"
    feed = generated(load_sample(request.param), out, schema, **SIZES[request.param])
    run_all(feed, settings)
    receipts = {receipt.hour: receipt for receipt in load_history(settings, schema).receipts}
    return Ran(request.param, out, schema, receipts)


@pytest.mark.full
@pytest.mark.promise(2, 3)
@pytest.mark.parametrize("hour", HOURS)
def test_every_cut_is_the_truth(ran: Ran, settings: Settings, hour: str) -> None:
    assert findings(ran.out, hour, settings, schema=ran.feed) == {}


@pytest.mark.full
@pytest.mark.promise(1)
def test_every_record_is_accounted_for(ran: Ran) -> None:
    for hour, receipt in ran.receipts.items():
        counts = receipt.counts
        parts = counts.applied + counts.duplicate + counts.superseded + receipt.control + receipt.held
        assert receipt.landed + receipt.split == parts + receipt.quarantined, hour
    assert sum(receipt.quarantined for receipt in ran.receipts.values()) == SIZES[ran.format]["poison"]
    assert sum(receipt.counts.duplicate for receipt in ran.receipts.values()) > 0, "messages came again"


@pytest.mark.full
def test_what_waits_and_what_was_taken_back(ran: Ran, spark: SparkSession) -> None:
    """Canal's stream names no transactions. Of Qlik's, the last one of each hour ends in the next; of DataWorks's, one
    never ends, one goes on behind the last hour, and one is taken back."""
    held = {"canal": [0, 0, 0], "dataworks": [1, 2, 2], "qlik": [1, 1, 1]}[ran.format]
    assert [ran.receipts[hour].held_transactions for hour in HOURS] == held
    log = spark.table(changes_table(ran.feed))
    taken_back = {"canal": 0, "dataworks": 1, "qlik": 0}[ran.format]
    assert log.where(F.col("tx_rollback")).count() == taken_back


@pytest.mark.full
@pytest.mark.promise(1, 2)
@pytest.mark.parametrize("format_", FORMATS)
def test_the_order_of_hours_does_not_matter(
    spark: SparkSession, settings: Settings, tmp_path: Path, format_: str
) -> None:
    """Nor does an audit find what is not there: partial rows, key changes, truncates, renames, tables without a key,
    poison, transactions across hours, and rows that wait for the metadata of another hour."""
    schema, more = f"generated_{format_}_any", {"container": "raw"} if format_ == "ibm" else {}
    feed = generated(load_sample(format_), tmp_path, schema, events=50, seed=8, poison=2, **more)
    run_all(feed, settings, [HOURS[2], HOURS[0], HOURS[1]])
    assert findings(tmp_path, HOURS[2], settings, schema=schema, now=True) == {}
    assert [str(difference) for difference in audit(feed, settings).findings] == []
