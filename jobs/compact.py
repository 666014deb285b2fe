"""Assemble an hour's transactions and fold them into the audit branches: ``spark-submit jobs/compact.py FEED HOUR``."""

from tidemark.job import main
from tidemark.run import compact_hour

if __name__ == "__main__":
    raise SystemExit(main("compact", compact_hour))
