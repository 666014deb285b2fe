"""Log lines: what a run does, on standard error, so that standard output is left to results.

A line is an event and named values: ``folded  feed=shop hour=2026-11-20T07 stage=fold table=shop.orders …``. Feed,
hour, stage and table come from the context that the code around has set. A line names things and counts them. It never
holds a value of a row, a key, a message or a secret: whoever may read logs need not be allowed to read the tables.

A process of Tidemark's own calls :func:`configure`. In a process of somebody else's, as a worker of Airflow is, nothing
is configured: the lines go to the standard library's logger ``tidemark`` as plain text, and from there wherever that
process sends its log. structlog's own configuration is never touched: in a worker it is Airflow's.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TextIO

import structlog
from structlog.typing import EventDict, Processor

if TYPE_CHECKING:
    from tidemark.settings import Settings

_NAME = "tidemark"
#: What every line begins with, as far as it is known.
_FIRST = ("event", "feed", "hour", "stage", "table")
#: The attribute of an exception that holds the context at its place.
_CONTEXT_OF = "_tidemark_log_context"
_context: ContextVar[dict[str, str] | None] = ContextVar("tidemark_log_context", default=None)

# Text without time and level: whoever formats the lines of an unconfigured process adds its own.
# The value of ``exception`` is written below the line.
_plain = structlog.dev.ConsoleRenderer(
    colors=False, sort_keys=False, pad_event_to=0, exception_formatter=structlog.dev.plain_traceback
)
_stamp = structlog.processors.TimeStamper(fmt="%Y-%m-%d %H:%M:%S", utc=True)
_stamp_iso = structlog.processors.TimeStamper(fmt="iso", utc=True, key="time")
_render: list[Processor] = [_plain]

_CONSOLE: list[Processor] = [_stamp, structlog.processors.add_log_level, _plain]
_JSON: list[Processor] = [_stamp_iso, structlog.processors.add_log_level, structlog.processors.JSONRenderer()]


def configure(settings: Settings, *, least: str = "info") -> None:
    """Have this process write its lines to standard error, as the settings say. Again: the newest settings count.

    ``least``: the level that counts where nobody has set one.
    """
    level = settings.log_level if "log_level" in settings.model_fields_set else least
    logger = logging.getLogger(_NAME)
    logger.setLevel(level.upper())
    logger.handlers = [_StandardError()]
    logger.propagate = False
    _render[:] = _JSON if settings.log_format == "json" else _CONSOLE


def get_logger() -> structlog.stdlib.BoundLogger:
    """The library's logger: ``log.info("landed", objects=2)``."""
    processors: list[Processor] = [structlog.stdlib.filter_by_level, _add_context, _printable, _rendered]
    return structlog.stdlib.BoundLogger(logging.getLogger(_NAME), processors, {})


@contextmanager
def log_context(**values: str) -> Iterator[None]:
    """Have every line from inside carry these values. A thread that is started inside does not know them.

    An error from inside carries them too (:func:`context_of`): where it is reported, the context has ended.
    """
    context = current_context() | values
    before = _context.set(context)
    try:
        yield
    except Exception as error:
        error.__dict__.setdefault(_CONTEXT_OF, context)
        raise
    finally:
        _context.reset(before)


def current_context() -> dict[str, str]:
    """What every line from here carries."""
    return dict(_context.get() or {})


def context_of(error: BaseException) -> dict[str, str]:
    """The context at the place where an error came from; {} when there was none."""
    context: dict[str, str] = error.__dict__.get(_CONTEXT_OF, {})
    return context


@contextmanager
def log_stage(stage: str, event: str, **context: str) -> Iterator[dict[str, object]]:
    """The context of a stage, and one line at its end: the event, what the stage put into the dictionary, and how many
    seconds it took. A stage that fails logs no such line: its error says what happened."""
    counts: dict[str, object] = {}
    start = time.monotonic()
    with log_context(**context, stage=stage):
        yield counts
        get_logger().info(event, **counts, seconds=round(time.monotonic() - start, 1))


class _StandardError(logging.StreamHandler[TextIO]):
    """Writes to what ``sys.stderr`` is at the moment: a progress display puts itself in its place."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:  # type: ignore[override]
        return sys.stderr


def _add_context(logger: Any, method: str, event: EventDict) -> EventDict:
    known: EventDict = {**current_context(), **event}
    order = sorted(known, key=lambda name: _FIRST.index(name) if name in _FIRST else len(_FIRST))
    return {name: known[name] for name in order}


def _printable(logger: Any, method: str, event: EventDict) -> EventDict:
    """Names come from feeds and messages: none of them ends a line or moves a terminal's cursor."""
    lines = event.pop("exception", "").split("\n")  # is written below the line, and its own lines are kept
    clean = {name: _one_line(value) if isinstance(value, str) else value for name, value in event.items()}
    return clean | ({"exception": "\n".join(map(_one_line, lines))} if any(lines) else {})


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else "�" for c in text)


def _rendered(logger: Any, method: str, event: EventDict) -> str:
    text: Any = event
    for processor in _render:
        text = processor(logger, method, text)
    return str(text)
