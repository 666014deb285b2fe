"""Validate the audit branches and make them the tables: ``spark-submit jobs/publish.py FEED HOUR``."""

from tidemark.orchestration.job_exit import main
from tidemark.pipeline.hour import publish_hour

if __name__ == "__main__":
    raise SystemExit(main("publish", publish_hour))
