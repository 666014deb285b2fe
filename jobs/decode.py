"""Decode a landed hour into the change log: ``spark-submit jobs/decode.py FEED HOUR``."""

from tidemark.orchestration.job_exit import main
from tidemark.pipeline.hour import decode_hour

if __name__ == "__main__":
    raise SystemExit(main("decode", decode_hour))
