"""A feed's state is replaced by whoever began from it, and by nobody else."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import boto3
import pytest
from moto import mock_aws

from tidemark.errors import ConflictError, StateError, StoredFormatError, TerminalError, TransientError
from tidemark.hours import Hour
from tidemark.ledger import state_store
from tidemark.ledger.feed_state import FeedState
from tidemark.ledger.manifest import Manifest
from tidemark.ledger.state_store import check_state, load_state, save_state
from tidemark.settings import Settings
from tidemark.storage.local_files import LocalFiles
from tidemark.storage.s3 import s3_client

HOUR = Hour("2026-11-20T07")
MANIFEST = Manifest(feed="shop", hour=HOUR, version=1, objects=[], created_at=datetime.now(UTC))


@pytest.fixture(params=["files", "s3"])
def settings(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    if request.param == "files":
        yield Settings(home=tmp_path)
        return
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "any")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "any")
    with mock_aws():
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket="lakes")
        s3_client.cache_clear()
        yield Settings(home=tmp_path, lake="s3://lakes/lake")
    s3_client.cache_clear()


def test_a_feed_begins_without_a_state(settings: Settings) -> None:
    assert load_state(settings, "shop") == FeedState(feed="shop")
    check_state(settings, FeedState(feed="shop"))


def test_who_began_from_another_state_is_refused(settings: Settings) -> None:
    empty = load_state(settings, "shop")
    first = save_state(settings, empty.beginning(MANIFEST))
    assert load_state(settings, "shop") == first and load_state(settings, "other").revision == 0
    second = save_state(settings, first.beginning(MANIFEST))
    assert (first.attempt.sequence, second.attempt.sequence) == (1, 2)
    for stale in (empty, first):
        with pytest.raises(ConflictError, match="another run has gone on with the feed"):
            save_state(settings, stale.beginning(MANIFEST))
        with pytest.raises(ConflictError):
            check_state(settings, stale)
        assert load_state(settings, "shop") == second
    check_state(settings, second)


def test_of_several_at_once_one_goes_on(settings: Settings) -> None:
    state = save_state(settings, load_state(settings, "shop").beginning(MANIFEST))

    def tries(_: int) -> bool:
        try:
            save_state(settings, state.beginning(MANIFEST))
        except ConflictError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(tries, range(8))) == 1
    assert load_state(settings, "shop").revision == 2


def test_who_was_paused_while_old_revisions_were_removed_is_refused(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number after its own is free again: what it writes there is no newest revision."""
    monkeypatch.setattr(state_store, "_KEPT", 2)
    paused = state = save_state(settings, load_state(settings, "shop"))
    for _ in range(4):
        state = save_state(settings, state)
    for _ in range(2):
        with pytest.raises(ConflictError):
            save_state(settings, paused.beginning(MANIFEST))
        assert load_state(settings, "shop") == state
    assert len(state_store._revisions(settings, "shop")) <= 4
    assert save_state(settings, state).revision == 6


def test_without_the_right_to_delete_the_state_is_saved_and_the_old_ones_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(self: LocalFiles, location: str) -> None:
        raise TerminalError("may not be removed", object=location)

    monkeypatch.setattr(state_store, "_KEPT", 2)
    monkeypatch.setattr(LocalFiles, "remove", refuse)
    settings = Settings(home=tmp_path)
    state = load_state(settings, "shop")
    for revision in (1, 2, 3, 4):
        state = save_state(settings, state)
        assert load_state(settings, "shop") == state and state.revision == revision
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2 and "may not be removed" in told[0], "one line a save"


@pytest.mark.parametrize("arrives", [True, False])
def test_a_write_whose_answer_is_lost_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arrives: bool
) -> None:
    settings, write_new = Settings(home=tmp_path), LocalFiles.write_new

    def lost(self: LocalFiles, location: str, text: str) -> bool:
        if arrives:
            write_new(self, location, text)
        raise TransientError("no answer")

    with monkeypatch.context() as patch:
        patch.setattr(LocalFiles, "write_new", lost)
        if arrives:
            assert save_state(settings, load_state(settings, "shop")).revision == 1
        else:
            with pytest.raises(TransientError):
                save_state(settings, load_state(settings, "shop"))
    assert load_state(settings, "shop").revision == int(arrives)


def test_a_write_that_is_tried_again_after_it_was_done_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, write_new = Settings(home=tmp_path), LocalFiles.write_new

    def twice(self: LocalFiles, location: str, text: str) -> bool:
        write_new(self, location, text)
        return write_new(self, location, text)

    monkeypatch.setattr(LocalFiles, "write_new", twice)
    assert save_state(settings, load_state(settings, "shop")).revision == 1


def _of_a_newer_release(text: str) -> str:
    return json.dumps(json.loads(text) | {"format": 99})


@pytest.mark.parametrize(
    ("damaged", "error"),
    [
        (lambda text: text[: len(text) // 2], StateError),
        (lambda text: "", StateError),
        (lambda text: "[]", StateError),
        (_of_a_newer_release, StoredFormatError),
    ],
)
def test_a_damaged_state_is_refused(tmp_path: Path, damaged: Callable[[str], str], error: type[Exception]) -> None:
    settings = Settings(home=tmp_path)
    save_state(settings, load_state(settings, "shop"))
    path = Path(settings.lake_root, "_state/shop/00000001.json")
    path.write_text(damaged(path.read_text()))
    with pytest.raises(error):
        load_state(settings, "shop")
