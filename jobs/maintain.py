"""Remove what a feed no longer needs: ``spark-submit jobs/maintain.py FEED``."""

from tidemark.operations.maintenance import maintain_feed
from tidemark.orchestration.job_exit import main

if __name__ == "__main__":
    raise SystemExit(main("maintain", maintain_feed, least=0, most=0))
