"""The Tidemark page in Airflow: of each feed the receipts of its hours, what is held, and what is in quarantine.

It only reads, and shows a feed only to users who may see its DAG. Values that came from messages are escaped by the template.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import FastAPI, HTTPException
from fastapi.responses import HTMLResponse
from jinja2 import Environment, FileSystemLoader

from tidemark.orchestration.dag_support import sound_feeds
from tidemark.settings import Settings

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser

    from tidemark.feeds.model import Feed

PREFIX = "/tidemark"
#: How many hours (three days), and how many rows of the quarantine, a page shows at most.
_HOURS, _KEPT_BACK = 72, 100

app = FastAPI(title="Tidemark", docs_url=None, redoc_url=None, openapi_url=None)
_pages = Environment(
    loader=FileSystemLoader(Path(__file__).parent), autoescape=True, trim_blocks=True, lstrip_blocks=True
)


@app.get("/")
def overview(user: GetUserDep) -> HTMLResponse:
    """All feeds that the user may see: how they are, and why; first those that need a person."""
    from tidemark.operations.feed_health import examine_feeds

    settings = Settings()
    owners = {feed.feed: feed.owner for feed in _visible(settings, user)}
    found = sorted(examine_feeds(settings, list(owners)), key=lambda one: not one.needs_person)
    return _page("overview", feeds=[(one, owners[one.feed]) for one in found])


@app.get("/{name}/")
def one_feed(name: str, user: GetUserDep) -> HTMLResponse:
    """One feed: how it is, its newest hours, its held transactions, its quarantine."""
    from tidemark.operations.feed_health import examine_feeds
    from tidemark.operations.reports import (
        held_listing,
        newest_receipts,
        quarantine_listing,
        receipts_by_table_listing,
        receipts_listing,
    )

    settings = Settings()
    feed = next((feed for feed in _visible(settings, user) if feed.feed == name), None)
    if feed is None:
        raise HTTPException(404, "There is no such feed, or you may not see its DAG.")
    receipts = newest_receipts(settings, name)[: -_HOURS - 1 : -1]
    listings = [
        receipts_listing(receipts),
        receipts_by_table_listing(receipts[:1]),
        held_listing(settings, name),
        quarantine_listing(settings, name, None, _KEPT_BACK),
    ]
    (health,) = examine_feeds(settings, [name])
    return _page("feed", feed=feed, health=health, listings=listings, shown=_HOURS, kept_back=_KEPT_BACK)


def _visible(settings: Settings, user: BaseUser) -> list[Feed]:
    manager = get_auth_manager()
    return [
        feed
        for feed in sound_feeds(settings.path(settings.feeds))
        if manager.is_authorized_dag(method="GET", details=DagDetails(id=f"ingest_{feed.feed}"), user=user)
    ]


def _page(kind: str, **values: object) -> HTMLResponse:
    page = _pages.get_template("tidemark_page.html").render(kind=kind, prefix=PREFIX, **values)
    # Should a value slip through unescaped, a script in it would still not run.
    policy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'self'"
    return HTMLResponse(page, headers={"Content-Security-Policy": policy})
