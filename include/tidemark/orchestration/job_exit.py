"""The frame of a Spark job: arguments in, exit code out. Both sides, jobs and operators, take the codes from here."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from enum import IntEnum

from tidemark.crash import can_pass, report_crash
from tidemark.errors import TerminalError, TransientError
from tidemark.hours import Hour
from tidemark.logs import configure, get_logger
from tidemark.settings import Settings, unread_variables

#: The last lines of a failed job's output begin with this; they say why it failed.
FAILED = "tidemark: stage"


class Exit(IntEnum):
    """Exit codes of a job, after BSD's sysexits.h."""

    OK = 0
    TERMINAL = 65  # EX_DATAERR: trying again changes nothing
    CRASHED = 70  # EX_SOFTWARE: an unforeseen error, which the same input gives again
    TRANSIENT = 75  # EX_TEMPFAIL: trying again can help


def main(
    stage: str, work: Callable[..., object], arguments: Sequence[str] | None = None, *, least: int = 1, most: int = 1
) -> Exit:
    """Run ``work(feed, hour)`` with the command line's arguments and return its exit code.

    ``least``, ``most``: how many hours the work takes.
    """
    parser = argparse.ArgumentParser(description=f"{stage} of a feed, through spark-submit.")
    parser.add_argument("feed", metavar="FEED", help="the feed's name, like shop")
    parser.add_argument("hours", metavar="HOUR", nargs="*", help="an hour in UTC, like 2026-11-20T07")
    given = parser.parse_args(arguments)
    if not least <= len(given.hours) <= most:
        parser.error(f"it takes {least} of HOUR" if least == most else f"it takes {least} to {most} of HOUR")
    where = {"hour": given.hours[0]} if given.hours else {}
    return run_job(stage, lambda: work(given.feed, *map(Hour.parse, given.hours)), feed=given.feed, **where)


def run_job(stage: str, work: Callable[[], object], **where: str) -> Exit:
    """Do a job's work; what came of it as an exit code. ``where``: its feed and hour, for an error that nobody foresaw."""
    try:
        configure(Settings())
        if told := unread_variables():
            get_logger().warning(told)
        work()
    except TerminalError as error:
        return _failed(stage, str(error), Exit.TERMINAL)
    except TransientError as error:
        return _failed(stage, str(error), Exit.TRANSIENT)
    except Exception as error:
        why = report_crash(error, **where, stage=stage)
        return _failed(stage, why, Exit.TRANSIENT if can_pass(error) else Exit.CRASHED)
    return Exit.OK


def _failed(stage: str, why: str, code: Exit) -> Exit:
    sys.stderr.write(f"{FAILED} {stage} failed: {why}\n")
    sys.stderr.flush()
    return code
