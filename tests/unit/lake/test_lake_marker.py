"""A lake and its catalog know each other: one without the other, or with another's, is refused before anything is made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql import SparkSession

from tests.convergence import debezium
from tests.convergence.wire import Format
from tidemark.errors import ConfigError
from tidemark.feeds.model import Feed
from tidemark.lake.catalog import LAKE_ID, lake_of_catalog
from tidemark.lake.lake_marker import check_lake, open_lake, read_marker, write_marker
from tidemark.lake.session import tell_catalog
from tidemark.operations.audit import audit
from tidemark.operations.doctor import examine
from tidemark.operations.maintenance import maintain
from tidemark.operations.read_table import read_snapshot
from tidemark.operations.reports import newest_receipts
from tidemark.settings import Settings
from tidemark.storage.local_files import LocalFiles


@pytest.fixture
def mine(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, lake="lake")


def id_of(mine: Settings) -> str:
    marker = read_marker(mine)
    assert marker is not None
    return marker.id


def told(mine: Settings, lake: str) -> None:
    """Have the catalog belong to a lake, as the first hour does."""
    file = Path(mine.catalog.removeprefix("jdbc:sqlite:"))
    file.parent.mkdir(parents=True, exist_ok=True)
    SqlCatalog("lake", uri=f"sqlite:///{file}").create_namespace("tidemark", {LAKE_ID: lake})


def used(mine: Settings) -> Settings:
    """The same, of a lake that has had its first hour."""
    open_lake(mine)
    marker = read_marker(mine)
    assert marker is not None
    told(mine, marker.id)
    write_marker(mine, marker.model_copy(update={"in_catalog": True}))
    check_lake(mine)
    return mine


def feed(mine: Settings) -> Feed:
    return Feed.model_validate(Format("debezium", debezium, "kafka_json").feed("shop", str(mine.home)))


USES: list[Callable[[Settings], object]] = [
    check_lake, open_lake, newest_receipts, lambda mine: read_snapshot(mine, "shop.orders"),
    lambda mine: audit(feed(mine), mine), lambda mine: maintain(feed(mine), mine),
]  # fmt: skip


@pytest.mark.parametrize("use", USES)
def test_a_catalog_that_was_moved_away_is_no_new_one(mine: Settings, use: Callable[[Settings], object]) -> None:
    catalog = Path(used(mine).catalog.removeprefix("jdbc:sqlite:"))
    catalog.rename(catalog.with_suffix(".moved"))
    with pytest.raises(ConfigError, match=r"catalog.db does not know this lake") as raised:
        use(mine)
    assert raised.value.fix and raised.value.fix.startswith("set TIDEMARK_CATALOG_URI to the catalog that the lake")
    assert not catalog.exists()
    catalog.with_suffix(".moved").rename(catalog)
    check_lake(mine)


def test_a_lake_that_was_moved_away_is_no_new_one(mine: Settings, tmp_path: Path) -> None:
    mistyped = Settings(home=tmp_path, catalog_uri=used(mine).catalog, lake="lke")
    for use in (check_lake, open_lake, newest_receipts):
        with pytest.raises(ConfigError, match="belongs to another lake") as raised:
            use(mistyped)
    assert raised.value.fix and f"the lake whose _lake.json has the id {id_of(mine)}" in raised.value.fix
    assert not (tmp_path / "lke").exists()


def test_a_catalog_of_another_lake_is_refused(mine: Settings, tmp_path: Path) -> None:
    mixed = Settings(home=tmp_path, lake="lake", catalog_uri=used(Settings(home=tmp_path, lake="other")).catalog)
    for prepare in (open_lake, used):  # a new lake, and one that has been used
        prepare(mine)
        with pytest.raises(ConfigError, match="belongs to another lake"):
            open_lake(mixed)


def test_a_first_hour_that_died_before_the_lake_knew_goes_on(mine: Settings) -> None:
    open_lake(mine)
    told(mine, id_of(mine))
    open_lake(mine)


def test_the_catalog_is_told_once_and_again_with_the_same_id(
    spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        open_lake(settings)
        tell_catalog(spark, settings)
        marker = read_marker(settings)
        assert marker is not None and marker.in_catalog and lake_of_catalog(settings) == marker.id
        write_marker(settings, marker.model_copy(update={"in_catalog": False}))  # it died before it noted that
    tell_catalog(spark, settings)
    monkeypatch.setattr("tidemark.lake.session.create_namespace", None)
    tell_catalog(spark, settings)


def test_the_doctor_says_whether_they_belong_together(mine: Settings) -> None:
    def found() -> tuple[bool, str]:
        return next((one.good, one.found) for one in examine(mine) if one.what == "stored format")

    catalog = Path(used(mine).catalog.removeprefix("jdbc:sqlite:"))
    assert found()[0]
    catalog.unlink()
    good, text = found()
    assert not good and "does not know this lake" in text


def test_a_storage_without_conditional_writes_is_refused(mine: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says that it has written, and has written over what was there."""

    def write_anyway(self: LocalFiles, location: str, text: str) -> bool:
        self.write_text(location, text)
        return True

    monkeypatch.setattr(LocalFiles, "write_new", write_anyway)
    for _ in range(2):
        with pytest.raises(ConfigError, match="writes over an object that is there"):
            open_lake(mine)
        assert read_marker(mine) is None
    (finding,) = [one for one in examine(mine) if one.what == "lake"]
    assert not finding.good and "conditional writes" in finding.found
