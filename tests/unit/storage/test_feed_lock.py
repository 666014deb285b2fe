"""One process holds the feed lock: the next waits for it, and gets it also from one that died."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from tidemark.errors import ConflictError
from tidemark.settings import Settings
from tidemark.storage import feed_lock as lock_module
from tidemark.storage.feed_lock import feed_lock

_HOLDS = """
import sys, time
from pathlib import Path
from tidemark.logs import log_context
from tidemark.settings import Settings
from tidemark.storage.feed_lock import feed_lock
with log_context(feed="shop", hour="2026-11-20T07"), feed_lock(Settings(home=Path(sys.argv[1])), "shop", sys.argv[2] or None):
    print("held", flush=True)
    time.sleep(60)
"""
SOON = timedelta(seconds=0.5)


def holder(home: Path, hour: str = "") -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", _HOLDS, str(home), hour], stdout=subprocess.PIPE, text=True)
    assert process.stdout and process.stdout.readline() == "held\n"
    return process


def test_a_feed_lock_is_waited_for_and_ends_with_its_process(tmp_path: Path) -> None:
    settings, other = Settings(home=tmp_path), holder(tmp_path)
    try:
        named = rf"process {other.pid} on \S+ with hour 2026-11-20T07, since 20\S+ \S+ UTC holds the feed lock"
        with pytest.raises(ConflictError, match=named), feed_lock(settings, "shop", timeout=SOON):
            pass
        lock = Path(settings.lake_root) / "_locks/shop"
        for unwritten in ("", '{"pid"', "[]"):
            lock.write_text(unwritten)
            with (
                pytest.raises(ConflictError, match="another run holds the feed lock"),
                feed_lock(settings, "shop", timeout=SOON),
            ):
                pass
        os.kill(other.pid, signal.SIGKILL)
        begun = time.monotonic()
        with feed_lock(settings, "shop", timeout=timedelta(seconds=20)) as held:
            held.check()
        assert time.monotonic() - begun < 10
    finally:
        other.kill()
        other.wait()


def test_feeds_and_hours_have_locks_of_their_own(tmp_path: Path) -> None:
    settings, other = Settings(home=tmp_path), holder(tmp_path, "2026-11-20T00")
    try:
        for mine in (("shop", None), ("shop", "2026-11-20T01"), ("payroll", "2026-11-20T00")):
            with feed_lock(settings, *mine, timeout=SOON):
                pass
        with pytest.raises(ConflictError), feed_lock(settings, "shop", "2026-11-20T00", timeout=SOON):
            pass
    finally:
        other.kill()
        other.wait()


def test_who_waits_is_told_once_for_whom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, dict[str, str]]] = []
    monkeypatch.setattr(lock_module, "_WORTH_A_LINE", 0.0)
    monkeypatch.setattr(lock_module, "log", SimpleNamespace(info=lambda event, **more: told.append((event, more))))
    other = holder(tmp_path)
    try:
        with pytest.raises(ConflictError), feed_lock(Settings(home=tmp_path), "shop", timeout=2 * SOON):
            pass
    finally:
        other.kill()
        other.wait()
    ((event, more),) = told
    assert event == "waits for the feed lock" and more["lock"] == "shop"
    assert more["holder"].startswith(f"process {other.pid} on ")
