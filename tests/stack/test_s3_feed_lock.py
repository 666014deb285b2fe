"""On S3 a feed lock is an object: one holder at a time, taken over when nobody renews it, and the old holder notices."""

from __future__ import annotations

import os
import threading
import time
from datetime import timedelta
from pathlib import Path

import pytest

from tidemark.errors import ConflictError
from tidemark.settings import Settings
from tidemark.storage import feed_lock as lock_module
from tidemark.storage.feed_lock import feed_lock
from tidemark.storage.s3 import S3Objects

SOON = timedelta(seconds=1)


@pytest.fixture
def settings(s3_endpoint: str, bucket: str, tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, lake=f"s3://{bucket}/lake", s3_endpoint=s3_endpoint)


def test_of_many_one_holds_the_lock(settings: Settings) -> None:
    inside, most, locks_held = 0, 0, 0

    def work() -> None:
        nonlocal inside, most, locks_held
        for _ in range(3):
            with feed_lock(settings, "shop") as held:
                inside += 1
                most = max(most, inside)
                time.sleep(0.05)
                held.check()
                locks_held += 1
                inside -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert (most, locks_held) == (1, 12)


def test_a_lock_that_is_renewed_is_kept(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_module, "_LEASE", SOON)
    with feed_lock(settings, "shop") as held:
        with (
            pytest.raises(ConflictError, match=rf"process {os.getpid()} on \S+, since 20.+ holds the feed lock"),
            feed_lock(settings, "shop", timeout=3 * SOON),
        ):
            pass
        held.check()
    with feed_lock(settings, "shop", timeout=SOON / 2):
        pass


def test_a_lock_whose_answers_are_lost_is_held_all_the_same(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S3 does what it is asked for and nobody hears of it: boto asks again, and hears that somebody was faster."""
    monkeypatch.setattr(lock_module, "_LEASE", SOON)
    swap, asked = S3Objects.swap, []

    def unheard(self: S3Objects, location: str, text: str, mark: str | None) -> str | None:
        asked.append(swap(self, location, text, mark))
        return swap(self, location, text, mark)

    monkeypatch.setattr(S3Objects, "swap", unheard)
    started = time.monotonic()
    with feed_lock(settings, "shop", timeout=SOON) as held:
        assert time.monotonic() - started < SOON.total_seconds()
        time.sleep(1.5 * SOON.total_seconds())
        held.check()
    assert len(asked) > 3 and all(asked)


def test_who_stood_still_for_too_long_has_lost_it(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with feed_lock(settings, "shop") as first:
        first.check()
        monkeypatch.setattr(lock_module, "_LEASE", SOON)  # too soon for the first holder, who renews by the old one
        with feed_lock(settings, "shop", timeout=5 * SOON) as second:
            second.check()
            with pytest.raises(ConflictError, match="took the feed lock over"):
                first.check()
        with pytest.raises(ConflictError):
            first.check()


def test_all_locks_of_a_holder_that_died_are_free_after_one_lease(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_module, "_GONE", set())
    with feed_lock(settings, "shop"), feed_lock(settings, "shop", "2026-11-20T07"):
        monkeypatch.setattr(lock_module, "_LEASE", 3 * SOON)  # too soon for the holder
        monkeypatch.setattr(lock_module, "_RUN", "another process")
        with feed_lock(settings, "shop"):
            taken = time.monotonic()
            with feed_lock(settings, "shop", "2026-11-20T07"):
                assert time.monotonic() - taken < SOON.total_seconds()
        monkeypatch.setattr(lock_module, "_GONE", set())
