"""Decode a landed hour into the change log: ``spark-submit jobs/decode.py FEED HOUR``."""

from tidemark.run import decode_hour

from tidemark.job import main

if __name__ == "__main__":
    raise SystemExit(main("decode", decode_hour))
