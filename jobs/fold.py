"""Assemble an hour's transactions and fold them into the audit branches: ``spark-submit jobs/fold.py FEED HOUR``."""

from tidemark.orchestration.job_exit import main
from tidemark.pipeline.hour import fold_hour

if __name__ == "__main__":
    raise SystemExit(main("fold", fold_hour))
