"""What the `alerts` of a feed file may hold."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from tidemark.errors import ConfigError
from tidemark.feeds.loading import check_feeds, load_feed

SMTP = "airflow.providers.smtp.notifications.smtp.SmtpNotifier"
FEED = """\
feed: shop
description: The shop's tables
owner: shop team
start: 2026-11-20T00:00:00Z
topics: [srv.shop.orders]
exports: {path: '{topic}/dt={date}/hr={hour}/*'}
container: {type: kafka_json}
format: {type: debezium}
"""
ALERTS = f"""\
alerts:
  late_after: 3h
  tell:
    - notifier: {SMTP}
      events: [late, failed]
      arguments: {{to: data@example.com, subject: '{{{{ tidemark.subject }}}}', smtp_conn_id: mail}}
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "shop.yaml"
    path.write_text(text, "utf-8")
    return path


def test_alerts_say_when_an_hour_is_late_and_whom_to_tell_of_what(tmp_path: Path) -> None:
    alerts = load_feed(write(tmp_path, FEED + ALERTS), deep=False).alerts
    assert alerts.late_after == timedelta(hours=3)
    assert [alerts.tells(event) for event in ("late", "failed", "quarantined")] == [True, True, False]
    assert alerts.tell[0].arguments["subject"] == "{{ tidemark.subject }}"
    assert check_feeds(tmp_path, tmp_path) == []


def test_nobody_is_told_where_a_file_does_not_say_so(tmp_path: Path) -> None:
    alerts = load_feed(write(tmp_path, FEED), deep=False).alerts
    assert alerts.late_after is None and alerts.tell == []


def test_the_example_of_the_documents_is_right(tmp_path: Path) -> None:
    page = (Path(__file__).parent.parent.parent.parent / "docs/operations.md").read_text("utf-8")
    (example,) = re.findall(r"```yaml\n(alerts:.*?)```", page, re.DOTALL)
    assert check_feeds(write(tmp_path, FEED + example), tmp_path) == []


@pytest.mark.parametrize(
    ("right", "wrong", "problem"),
    [
        (SMTP, "SmtpNotifier", r"tell\[0\].notifier: holds 'SmtpNotifier'"),
        (SMTP, "airflow/providers:Smtp", r"tell\[0\].notifier: holds"),
        ("late_after: 3h", "late_after: 0h", "late_after: holds '0h'\n  Expected: longer than nothing"),
        ("late_after: 3h", "late_after: soon", "late_after: holds 'soon'"),
        ("late_after: 3h", "late_afer: 3h", "late_afer: is not a key that is known here"),
        ("  late_after: 3h\n", "", r"tell\[0\].events: holds late, but nothing says when"),
        ("[late, failed]", "[failed]", "late_after: is told to nobody"),
        ("[late, failed]", "[late, faild]", r"events\[1\]: holds 'faild'"),
        ("[late, failed]", "[]", "events: holds"),
        ("tidemark.subject", "tidemark.sbject", "arguments.subject: holds tidemark.sbject"),
        ("to: data@", "smtp_password: data@", "arguments.smtp_password: looks like a secret"),
        ("start: 2026-11-20T00:00:00Z\n", "", "late_after: is never reached"),
        ("start:", "schedule: null\nstart:", "late_after: is never reached"),
    ],
)
def test_what_is_wrong_with_alerts_is_a_mistake_with_its_place(
    tmp_path: Path, right: str, wrong: str, problem: str
) -> None:
    text = FEED + ALERTS
    assert right in text
    with pytest.raises(ConfigError, match=problem):
        load_feed(write(tmp_path, text.replace(right, wrong)), deep=False)


@pytest.mark.parametrize(
    ("named", "problem"),
    [
        ("airflow.providers.smtp.notifications.slack.SlackNotifier", "names the module airflow.providers.smtp.notif"),
        ("nowhere.at.all.Notifier", "names the module nowhere.at.all, which is not there"),
        (SMTP.replace("Smtp", "Smpt"), "names SmptNotifier, which is not in"),
        ("own_notifier.Own", None),
        ("own_notifier.Other", "names Other, which is not in"),
        ("own_try.Any", None),
    ],
)
def test_a_notifier_that_is_not_there_is_a_mistake_and_none_is_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str, problem: str | None
) -> None:
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "own_notifier.py").write_text("class Own: ...\n1 / 0\n")
    (plugins / "own_try.py").write_text("try:\n    Any = 1 / 0\nfinally: ...\n")
    monkeypatch.setenv("AIRFLOW__CORE__PLUGINS_FOLDER", str(plugins))
    found = check_feeds(write(tmp_path, (FEED + ALERTS).replace(SMTP, named)), tmp_path)
    assert [(mistake.path, mistake.line) for mistake in found] == [("alerts.tell[0].notifier", 12)] * bool(problem)
    assert not problem or problem in found[0].problem
