"""How a feed is, in one word: from its state, its feed file and the time."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tidemark.errors import StateError
from tidemark.feeds.model import Feed
from tidemark.hours import Hour
from tidemark.ledger.feed_state import FeedState, HourRange, NextPublication
from tidemark.operations import feed_health, held
from tidemark.operations.feed_health import FeedHealth, judge, status_listing
from tidemark.settings import Settings

NEWEST = Hour("2026-11-20T07")
STOPPED = {"shop.orders": (NEWEST, "its key changes")}


def feed(**changes: Any) -> Feed:
    return Feed.model_validate(
        {
            "feed": "shop", "description": "-", "owner": "-", "topics": ["t"], "start": "2026-11-20T00:00:00Z",
            "exports": {"path": "{topic}/{date}/{hour}/*"}, "container": {"type": "kafka_json"},
            "format": {"type": "debezium"}, **changes,
        }
    )  # fmt: skip


def state(**changes: Any) -> FeedState:
    published = [HourRange(first=Hour("2026-11-20T00"), last=NEWEST, sequence=1, version=1)]
    return FeedState(feed="shop", **({"hours": published, "last_hour": NEWEST, "last_sequence": 8} | changes))


def health(of: FeedState, at: str, file: Feed | None = None, *, quarantined: int = 0, **told: Any) -> FeedHealth:
    now, kept = datetime.fromisoformat(f"2026-11-{at}:00+00:00"), {NEWEST: quarantined} if quarantined else {}
    return judge(file or feed(), of, quarantined=kept, now=now, **({"stopped": {}, "overdue": 0, "unread": 0} | told))


@pytest.mark.parametrize(
    ("of", "at", "file", "word", "why"),
    [
        (state(), "20T08:20", feed(), "good", ""),
        (state(), "20T10:00", feed(), "good", ""),
        (state(), "20T10:01", feed(), "late", "its newest hour ended 2 hours ago"),
        (state(next=NextPublication(sequence=9, hour=Hour("2026-11-20T08"), manifest_version=1)), "20T11:30", feed(),
         "late", "its newest hour ended 3 hours ago; hour 2026-11-20T08 was begun"),
        (state(), "29T00:00", feed(schedule=None), "good", ""),
        (state(), "29T00:00", feed(start=None), "good", ""),
        (FeedState(feed="shop"), "20T02:00", feed(), "never ran", "`tidemark run shop --hour …`, or switch its DAG on"),
        (FeedState(feed="shop"), "20T02:01", feed(), "late", "nothing is published, and it begins at 2026-11-20T00"),
    ],
)  # fmt: skip
def test_a_feed_is_in_a_word(of: FeedState, at: str, file: Feed, word: str, why: str) -> None:
    found = health(of, at, file)
    assert (found.health, found.why) == (word, why)
    assert found.needs_person == (word in ("stopped", "late", "waiting"))


def test_the_worst_comes_first_and_the_others_are_said() -> None:
    found = health(state(), "20T12:00", quarantined=3, overdue=2, unread=4, stopped=STOPPED)
    assert found.health == "stopped"
    assert found.why.split("; ") == [
        "shop.orders stays as it was: its key changes", "its newest hour ended 4 hours ago",
        "2 transactions are overdue: `tidemark held shop`",
        "4 changes have waited too long for metadata: `tidemark held shop`",
        "3 in quarantine: `tidemark quarantine list shop`",
    ]  # fmt: skip
    assert (found.behind_hours, found.quarantined) == (4, 3)
    assert health(state(), "20T08:20", quarantined=1).health == "waiting"


@pytest.mark.promise(5)
def test_an_hour_before_the_newest_that_is_missing_is_late() -> None:
    """Of a newest hour alone nobody would see it."""
    first, last = Hour("2026-11-20T00"), Hour("2026-11-20T07")
    holed = [
        HourRange(first=first, last=first.plus(2), sequence=1, version=1),
        HourRange(first=first.plus(5), last=last, sequence=4, version=1),
    ]
    found = health(state(hours=holed), "20T08:20")
    assert (found.health, found.since) == ("late", "2026-11-20T03")
    assert found.why == "hour 2026-11-20T03 and 1 others before the newest are not published"
    found = health(state(), "20T08:20", feed(start="2026-11-19T23:00:00Z"))
    assert (found.health, found.since) == ("late", "2026-11-19T23"), "nor is the first one"
    assert health(state(), "20T08:20", feed(start="2026-11-20T02:00:00Z")).health == "good"
    beside = [holed[0], HourRange(first=first.plus(4), last=last, sequence=4, version=1)]
    assert health(state(hours=beside), "20T05:30").health == "good", "it may still run"


def test_since_when_and_the_last_good_hour_are_said() -> None:
    earlier = Hour("2026-11-20T05")
    left = state(stopped={earlier: {"shop.orders": "-"}, NEWEST: {"shop.orders": "-"}})
    found = health(left, "20T08:20", quarantined=1, stopped={"shop.orders": (earlier, "-")})
    assert (found.since, found.last_good_hour) == (earlier, "2026-11-20T06")
    assert (health(state(), "20T12:00").since, health(state(), "20T12:00").last_good_hour) == ("2026-11-20T08", NEWEST)
    assert health(state(held_since=earlier), "20T08:20", overdue=1).since == earlier
    assert health(state(), "20T08:20").since is None


def test_a_table_is_read_only_where_the_state_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr(feed_health, "list_kept_back", lambda settings, name, columns: read.append(name) or [])
    monkeypatch.setattr(held, "read_rows", lambda settings, *name, where: read.append(name[-1]) or [])
    known = state(in_quarantine={NEWEST: 2}, taken=8, held_transactions=3, held_since=Hour("2026-11-20T01"))
    assert feed_health.hours_with_quarantine(Settings(), known) == {NEWEST: 2}
    assert held.overdue_transactions(Settings(), feed(), known) == 0
    assert read == []
    feed_health.hours_with_quarantine(Settings(), known.model_copy(update={"taken": 9}))
    feed_health.hours_with_quarantine(Settings(), known.model_copy(update={"in_quarantine": None}))
    old = known.model_copy(update={"held_since": Hour("2026-11-18T00")})
    held.overdue_transactions(Settings(), feed(), old)
    held.overdue_transactions(Settings(), feed(), known.model_copy(update={"held_since": None}))
    assert read == ["shop", "shop", "held", "held"]


def test_who_needs_a_person_is_listed_first() -> None:
    of = [("b", "good"), ("a", "never ran"), ("d", "waiting"), ("c", "stopped"), ("e", "late")]
    found = status_listing([FeedHealth(feed=name, health=word) for name, word in of])  # type: ignore[arg-type]
    assert [row[1] for row in found.rows] == ["c", "e", "d", "a", "b"]
    assert found.objects[0] == {
        "health": "stopped", "feed": "c", "newest_hour": None, "hours_behind": None, "held": 0, "quarantined": 0,
        "since": None, "why": "",
    }  # fmt: skip


def test_of_a_feed_that_cannot_be_read_the_way_out_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load_state(settings: Settings, name: str) -> FeedState:
        raise StateError(
            "the feed's state is damaged", fix="`tidemark audit shop --rebuild-state`", feed=name, object="x"
        )

    monkeypatch.setattr(feed_health, "load_state", load_state)
    (found,) = feed_health.examine_loaded(Settings(home=tmp_path), [feed()])
    assert found.health == "stopped"
    assert found.why == "feed shop, object x: the feed's state is damaged: `tidemark audit shop --rebuild-state`"
