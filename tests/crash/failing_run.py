"""Hours whose writes fail one after the other: ``python -m tests.crash.failing_run FEED FAILURES RESULT HOUR …``.

FAILURES is a JSON list of effects (``at``, and ``when``: before it is done, or after it was and only its answer is
lost); each happens when it is first come to, and a run that raises for it is begun again, all in one Spark session. What
the library tries again by itself goes on to the next failure. RESULT gets the failures that happened.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.crash.effects import effects
from tidemark.errors import TransientError
from tidemark.feeds.loading import find_feed
from tidemark.pipeline.hour import run_hour
from tidemark.settings import Settings


class Injected(TransientError):
    """What the test does to an effect."""


def main(feed: str, failures: Path, result: Path, hours: list[str]) -> None:
    settings = Settings()
    happened: list[dict[str, str]] = []
    current, left = "", {failure["at"]: failure for failure in json.loads(failures.read_text())}

    def around(name: str, do: Callable[[], Any]) -> Any:
        given = left.pop(f"{current} {name}", None)
        if given:
            happened.append(given)
            if given["when"] == "before":
                raise Injected(f"{name} failed")
        done = do()
        if given:
            raise Injected(f"the answer to {name} was lost")
        return done

    with effects(around):
        for hour in hours:
            current, ended = hour, False
            while not ended:
                with suppress(Injected):
                    run_hour(find_feed(feed, settings), hour, settings)
                    ended = True
    result.write_text(json.dumps(happened))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
