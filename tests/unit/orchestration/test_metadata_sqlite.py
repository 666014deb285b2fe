"""Two writers of one SQLite database in write-ahead mode, one of which reads before it writes."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, text

from tidemark.orchestration.metadata_sqlite import CONNECT_ARGS


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "airflow.db"
    with sqlite3.connect(path) as made:
        made.execute("PRAGMA journal_mode=WAL")
        made.execute("CREATE TABLE runs (id INTEGER)")
    return path


@pytest.fixture
def engine(database: Path) -> Iterator[Engine]:
    made = create_engine(f"sqlite:///{database}", connect_args=CONNECT_ARGS)
    yield made
    made.dispose()


def test_a_savepoint_that_reads_first_can_write_though_another_writes_meanwhile(database: Path, engine: Engine) -> None:
    other = sqlite3.connect(database, timeout=30, check_same_thread=False)

    def write() -> None:
        other.execute("INSERT INTO runs VALUES (2)")
        other.commit()

    writes = threading.Thread(target=write)
    with engine.connect() as connection:
        with connection.begin_nested():
            assert connection.scalar(text("SELECT count(*) FROM runs")) == 0
            writes.start()
            writes.join(0.5)  # without the wait it has written by now, and what follows is refused
            connection.execute(text("INSERT INTO runs VALUES (1)"))
        assert writes.is_alive()
        connection.commit()
    writes.join(30)
    assert other.execute("SELECT id FROM runs ORDER BY rowid").fetchall() == [(1,), (2,)]
    other.close()


def test_a_savepoint_can_be_taken_back_alone(database: Path, engine: Engine) -> None:
    with engine.connect() as connection:
        connection.execute(text("INSERT INTO runs VALUES (1)"))
        nested = connection.begin_nested()
        connection.execute(text("INSERT INTO runs VALUES (2)"))
        nested.rollback()
        connection.commit()
        assert connection.scalars(text("SELECT id FROM runs")).all() == [1]


def test_reading_alone_takes_no_turn(database: Path, engine: Engine) -> None:
    with engine.connect() as reader, sqlite3.connect(database, timeout=1) as writer:
        assert reader.scalar(text("SELECT count(*) FROM runs")) == 0
        writer.execute("INSERT INTO runs VALUES (1)")
