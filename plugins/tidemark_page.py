"""The Tidemark page in Airflow: all feeds, a feed, an hour, the quarantine, a table. Routes, and who may see what.

It only reads, and shows a feed only to users who may see its DAG; its buttons start runs through Airflow's own API, with the
rights that the user has there. What it shows is made in :mod:`tidemark.page`; values that
came from messages are escaped by the templates. Every view is JSON with ``?format=json``. All of Airflow's processes
import this module, so the views, which import Spark's modules, are imported when one is asked for.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from fastapi import FastAPI, HTTPException, Query, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from jinja2 import Environment, FileSystemLoader
from starlette.exceptions import HTTPException as AnyHTTPException
from tidemark_runs import newest_runs, run_state

from tidemark.crash import report_crash
from tidemark.errors import ConfigError, TidemarkError
from tidemark.hours import Hour
from tidemark.settings import Settings

if TYPE_CHECKING:
    from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
    from pydantic import BaseModel

    from tidemark.feeds.model import Feed

PREFIX = "/tidemark"

app = FastAPI(title="Tidemark", docs_url=None, redoc_url=None, openapi_url=None)
_pages = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "tidemark_templates"),
    autoescape=True,
    trim_blocks=True,
    lstrip_blocks=True,
)
_script = base64.b64encode(hashlib.sha256(_pages.get_template("page.js").render().encode()).digest()).decode()
#: Should a value slip through unescaped, a script in it would still not run: only the page's own one does.
_POLICY = (
    f"default-src 'none'; script-src 'sha256-{_script}'; connect-src 'self'; style-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'self'; frame-ancestors 'self'"
)


@app.get("/")
def overview(request: Request, user: GetUserDep) -> Response:
    """All feeds that the user may see: how they are, and why; first those that need a person."""
    from tidemark.page.overview import known_feeds, show_overview

    settings = Settings()
    feeds, broken = known_feeds(settings.path(settings.feeds))
    seen = [feed for feed in feeds if _may_see(f"ingest_{feed.feed}", user)]
    view = show_overview(settings, seen, broken, datetime.now(UTC))
    return _answer(request, "overview", view)


@app.get("/{name}/")
def one_feed(name: str, request: Request, user: GetUserDep) -> Response:
    """One feed: how it is, its hours, what waits, its quarantine by reason, its tables."""
    from tidemark.page.feed_view import KINDS, show_feed

    settings, feed, now = Settings(), _feed(name, user), datetime.now(UTC)
    runs, problem = newest_runs(name, Hour.of(now.replace(minute=0, second=0, microsecond=0)))
    view = show_feed(settings, feed, runs, now)
    return _answer(request, "feed", view, kinds=KINDS, runs_problem=problem)


@app.get("/{name}/hours/{hour}/")
def one_hour(name: str, hour: str, request: Request, user: GetUserDep) -> Response:
    """One hour: from what landed to what became of it."""
    from tidemark.page.hour_view import show_hour

    feed, wanted = _feed(name, user), Hour.parse(hour)
    runs, problem = newest_runs(name, wanted, hours=1)
    return _answer(request, "hour", show_hour(Settings(), feed, wanted, runs.get(wanted)), runs_problem=problem)


@app.get("/{name}/quarantine/")
def quarantine(name: str, request: Request, user: GetUserDep, hour: str | None = None) -> Response:
    """What a feed has in quarantine, of one hour or of all."""
    from tidemark.page.quarantine_view import show_quarantine

    feed = _feed(name, user)
    return _answer(request, "quarantine", show_quarantine(Settings(), feed, Hour.parse(hour) if hour else None))


@app.get("/{name}/tables/{table}/")
def one_table(
    name: str,
    table: str,
    request: Request,
    user: GetUserDep,
    key: Annotated[list[str] | None, Query()] = None,
    run: str | None = None,
) -> Response:
    """A published table: its size, its changes, its columns, its checks, its cuts; where a row comes from, as a run of the
    feed's explain DAG has found it out."""
    from tidemark.page.row_view import show_row
    from tidemark.page.table_view import show_table

    settings, feed, dag = Settings(), _feed(name, user), f"explain_{name}"
    view = show_table(settings, feed, table, key or ())
    if run is not None:
        if not _may_see(dag, user):
            raise HTTPException(404, f"There is no DAG {dag}, or you may not see it.")
        view.row = show_row(settings, feed, table, key or (), run, run_state(dag, run))
    return _answer(request, "table", view)


@app.exception_handler(TidemarkError)
def say_problem(request: Request, error: TidemarkError) -> Response:
    """What is wrong in a sentence. 404: there is no such thing; 503: what the page reads cannot be read."""
    missing = isinstance(error, ConfigError) and bool(request.path_params)
    title = "There is no such page" if missing else "This cannot be read at the moment"
    return _problem(request, 404 if missing else 503, title, str(error).replace("\n", " "))


@app.exception_handler(AnyHTTPException)
def say_refusal(request: Request, error: AnyHTTPException) -> Response:
    """The same, of what was asked wrongly, or by nobody who may."""
    title = "Log in to Airflow first" if error.status_code == 401 else "There is no such page"
    return _problem(request, error.status_code, title, str(error.detail), error.headers)


@app.exception_handler(Exception)
def say_crash(request: Request, error: Exception) -> Response:
    """The same, of an error that nobody foresaw, which is logged without values of rows."""
    return _problem(request, 500, "The page failed", f"{report_crash(error)} Airflow's API server has it in its log.")


def _may_see(dag: str, user: BaseUser) -> bool:
    return bool(get_auth_manager().is_authorized_dag(method="GET", details=DagDetails(id=dag), user=user))


def _feed(name: str, user: BaseUser) -> Feed:
    from tidemark.page.overview import known_feeds

    settings = Settings()
    feeds, _ = known_feeds(settings.path(settings.feeds))
    feed = next((feed for feed in feeds if feed.feed == name), None)
    if feed is None or not _may_see(f"ingest_{name}", user):
        raise HTTPException(404, "There is no such feed, or you may not see its DAG.")
    return feed


def _answer(request: Request, kind: str, view: BaseModel, **more: Any) -> Response:
    """A view as a page, or as JSON."""
    if _wants_json(request):
        return JSONResponse(view.model_dump(mode="json"))
    from tidemark.page.sorting import Sorting

    link = str(request.url.include_query_params(format="json")).partition("?")[2]
    more["sorting"] = Sorting(request.query_params)
    return HTMLResponse(_render(request, kind, view=view, json_link=f"?{link}", **more), headers=_headers())


def _problem(
    request: Request, status: int, title: str, sentence: str, headers: Mapping[str, str] | None = None
) -> Response:
    if _wants_json(request):
        return JSONResponse({"error": sentence}, status, headers)
    page = _render(request, "problem", title=title, sentence=sentence)
    return HTMLResponse(page, status, {**(headers or {}), **_headers()})


def _render(request: Request, kind: str, **values: Any) -> str:
    from tidemark.page.texts import printable

    base = str(request.scope.get("root_path") or PREFIX)
    values |= {"base": base, "airflow": base.removesuffix(PREFIX), "now": datetime.now(UTC), "printable": printable}
    return _pages.get_template(f"{kind}.html").render(**values)


def _wants_json(request: Request) -> bool:
    return request.query_params.get("format") == "json"


def _headers() -> dict[str, str]:
    return {"Content-Security-Policy": _POLICY, "X-Content-Type-Options": "nosniff"}
