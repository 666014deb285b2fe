"""Assemble an hour's transactions and fold them into the audit branches: ``spark-submit jobs/compact.py FEED HOUR``."""

from tidemark.orchestration.job_exit import main
from tidemark.pipeline.hour import compact_hour

if __name__ == "__main__":
    raise SystemExit(main("compact", compact_hour))
