"""The frame of a Spark job: arguments in, exit code out. What an exit code means is agreed here with Airflow's side."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Sequence
from enum import IntEnum

from tidemark.errors import TerminalError, TransientError
from tidemark.hours import format_hour, parse_hour
from tidemark.logs import configure
from tidemark.settings import Settings

#: Begins the line of a job's output from which on it says why it failed.
FAILED = "tidemark: stage"


class Exit(IntEnum):
    """Exit codes of a job, after BSD's sysexits.h."""

    OK = 0
    TERMINAL = 65  # EX_DATAERR: trying again changes nothing
    CRASHED = 70  # EX_SOFTWARE: not foreseen
    TRANSIENT = 75  # EX_TEMPFAIL: trying again can help


def main(
    stage: str, work: Callable[..., object], arguments: Sequence[str] | None = None, *, least: int = 1, most: int = 1
) -> Exit:
    """Run ``work(feed, hour)`` with the command line's arguments and say how it went. ``least``, ``most``: how many
    hours the work takes."""
    parser = argparse.ArgumentParser(description=f"{stage} of a feed, through spark-submit.")
    parser.add_argument("feed", metavar="FEED", help="the feed's name, like shop")
    parser.add_argument("hours", metavar="HOUR", nargs="*", help="an hour in UTC, like 2026-11-20T07")
    given = parser.parse_args(arguments)
    if not least <= len(given.hours) <= most:
        parser.error(f"it takes {least} of HOUR" if least == most else f"it takes {least} to {most} of HOUR")
    try:
        configure(Settings())
        work(given.feed, *(format_hour(parse_hour(hour)) for hour in given.hours))
    except TerminalError as error:
        return _failed(stage, str(error), Exit.TERMINAL)
    except TransientError as error:
        return _failed(stage, str(error), Exit.TRANSIENT)
    except Exception as error:
        traceback.print_exc()
        return _failed(stage, f"{type(error).__name__}: {error}", Exit.CRASHED)
    return Exit.OK


def _failed(stage: str, why: str, code: Exit) -> Exit:
    sys.stderr.write(f"{FAILED} {stage} failed: {why}\n")
    sys.stderr.flush()
    return code
