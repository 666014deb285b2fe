"""Remove what a feed no longer needs: ``spark-submit jobs/maintain.py FEED``."""

from tidemark.job import main
from tidemark.maintenance import maintain_feed

if __name__ == "__main__":
    raise SystemExit(main("maintain", maintain_feed, least=0, most=0))
