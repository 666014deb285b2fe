"""Retries of work that is safe to repeat, after a failure that can pass: a storage or catalog that did not answer.

A source that changed meanwhile is not retried here: only the next run of the hour can take its new content.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from tidemark.errors import ConflictError, TransientError

P = ParamSpec("P")
R = TypeVar("R")


def retry(work: Callable[P, R]) -> Callable[P, R]:
    """The same function, four times at most while it raises a TransientError (but no ConflictError)."""
    return Retrying(
        retry=retry_if_exception(lambda e: isinstance(e, TransientError) and not isinstance(e, ConflictError)),
        stop=stop_after_attempt(4),
        wait=wait_random_exponential(multiplier=0.2, max=10),
        reraise=True,
    ).wraps(work)
