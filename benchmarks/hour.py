"""This project on the benchmark's workload: decode alone, and a whole hour from land to publish."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.floor import to_nothing
from benchmarks.generate import BASE, DATE, MEASURED
from benchmarks.lake import KeptLake
from tidemark.feeds.loading import find_feed
from tidemark.ledger.manifest import all_objects
from tidemark.pipeline.decode import changes
from tidemark.pipeline.hour import decode_stage, fold_stage, publish_stage
from tidemark.pipeline.land import land
from tidemark.settings import Settings

TABLE = "lake.shop.orders"
BASE_HOUR, HOUR = f"{DATE}T{BASE}", f"{DATE}T{MEASURED}"


class Tidemark:
    """The feed ``bench`` in a lake of its own, which :meth:`reset` takes back to the base hour."""

    def __init__(self, spark: SparkSession, settings: Settings) -> None:
        self.spark, self.settings = spark, settings
        self.feed = find_feed("bench", settings)

    def load(self) -> None:
        """Run the base hour, and remember the lake as it is then."""
        for _, work in self.stages(BASE_HOUR):
            work()
        self.base = KeptLake(Path(self.settings.lake_root))

    def reset(self) -> None:
        """The lake as the base hour left it."""
        self.spark.catalog.clearCache()
        self.base.put_back()

    def stages(self, hour: str = HOUR) -> list[tuple[str, Callable[[], object]]]:
        """The hour's stages in order, as :func:`tidemark.pipeline.hour.run_hour` runs them, each to be timed by itself."""
        spark, feed, settings = self.spark, self.feed, self.settings
        return [
            ("land", lambda: land(feed, hour, settings)),
            ("decode", lambda: decode_stage(spark, feed, hour, settings)),
            ("assemble, fold", lambda: fold_stage(spark, feed, hour, settings)),
            ("validate, publish", lambda: publish_stage(spark, feed, hour, settings)),
        ]

    def decode(self) -> None:
        """What decode computes for the measured hour, kept nowhere: like the floor. Needs :meth:`land_only` before."""
        manifest = all_objects(self.settings, self.feed.feed, HOUR)
        paths = [f"{self.settings.landing_root}/{object_.path}" for object_ in manifest.objects]
        plain = all(object_.plain for object_ in manifest.objects)
        to_nothing(changes(self.spark, self.feed, paths, self.settings, plain=plain))

    def land_only(self) -> None:
        """Have the measured hour landed."""
        land(self.feed, HOUR, self.settings)
