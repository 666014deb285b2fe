"""Replay what hours have in quarantine: ``spark-submit jobs/replay.py FEED [FIRST_HOUR [LAST_HOUR]]``."""

from tidemark.orchestration.job_exit import main
from tidemark.pipeline.hour import replay_hours

if __name__ == "__main__":
    raise SystemExit(main("replay", replay_hours, least=0, most=2))
