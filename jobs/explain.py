"""Explain a row for the page in Airflow: ``spark-submit jobs/explain.py FEED TABLE KEY ANSWER``, the key's values as JSON."""

import argparse
import json

from tidemark.operations.explained_rows import explain_for_page
from tidemark.orchestration.job_exit import Exit, run_job


def main() -> Exit:
    """Take the row from the command line, and say in an exit code what came of it."""
    parser = argparse.ArgumentParser(description="Explain a row, through spark-submit.")
    for name in ("feed", "table", "key", "answer"):
        parser.add_argument(name, metavar=name.upper())
    given = parser.parse_args()

    def work() -> None:
        explain_for_page(given.feed, given.table, json.loads(given.key), given.answer)

    return run_job("explain", work, feed=given.feed)


if __name__ == "__main__":
    raise SystemExit(main())
