"""The page in a real browser, from Airflow's own server: logged in and not, in light and dark, on a phone, in its frame."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.page.written_lake import FORMATS, HEALTH, HOSTILE, WrittenLake
from tests.scheduler.stack import Stack
from tidemark.operations.explained_rows import answer_name, find_explained, save_explained

pytestmark = [pytest.mark.full, pytest.mark.timeout(1200)]
Contexts = Callable[..., BrowserContext]


@pytest.fixture
def ada(contexts: Contexts, stack: Stack, lake: WrittenLake) -> Callable[..., Page]:
    """Opens a window of somebody who may look and change nothing (or another ``user``), logged in as people are."""
    passwords = json.loads((stack.folder / "airflow/simple_auth_manager_passwords.json.generated").read_text())

    def open_page(user: str = "ada", **options: object) -> Page:
        page = contexts(**options).new_page()
        page.goto("/auth/login")
        page.fill("input[name=username]", user)
        page.fill("input[name=password]", passwords[user])
        page.click("button[type=submit]")
        page.wait_for_url(lambda url: "/auth/" not in url)
        return page

    return open_page


def addresses(lake: WrittenLake) -> Iterator[tuple[str, str]]:
    """Every view, of every feed where that differs."""
    yield "overview", "/tidemark/"
    for feed in FORMATS:
        yield feed, f"/tidemark/{feed}/"
    yield "hour", f"/tidemark/shop/hours/{lake.changed}/"
    yield "hour with held", f"/tidemark/inventory/hours/{lake.receipts['inventory'][2].hour}/"
    yield "hour that stopped", f"/tidemark/crm/hours/{lake.newest}/"
    yield "hour without receipt", f"/tidemark/payroll/hours/{lake.newest}/"
    yield "quarantine", "/tidemark/mall/quarantine/"
    yield "quarantine of an hour", f"/tidemark/mall/quarantine/?hour={lake.receipts['mall'][28].hour}"
    yield "quarantine empty", "/tidemark/shop/quarantine/"
    yield "table", "/tidemark/shop/tables/shop.orders/"
    yield "table sorted", "/tidemark/shop/tables/shop.orders/?sort=-hours.applied"
    yield "table that stopped", "/tidemark/crm/tables/crm.people/"
    yield "a row", "/tidemark/payroll/tables/payroll.staff/?key=-4711%20%24(id)"
    yield "a row explained", f"/tidemark/payroll/tables/payroll.staff/?key=2&run={lake.answered}"
    yield "problem", "/tidemark/nothing/"


def test_a_stranger_finds_what_is_wrong_and_why(ada: Callable[..., Page], lake: WrittenLake) -> None:
    page = ada()
    page.goto("/tidemark/")
    lines = page.locator("#feeds tbody tr")
    assert [line.locator("th").inner_text() for line in lines.all()] == list(HEALTH)
    assert [line.locator(".pill").inner_text() for line in lines.all()] == list(HEALTH.values())
    late = lines.filter(has=page.get_by_role("link", name="payroll", exact=True))
    assert "its newest hour ended 6 hours ago" in late.inner_text() or "7 hours ago" in late.inner_text()
    expect(late.locator("[data-name=since] time")).to_have_text(lake.newest.plus(-5))

    # Which hour last changed shop.orders: the feed, the table, and there the hour.
    page.get_by_role("link", name="shop", exact=True).click()
    page.get_by_role("link", name="shop.orders").click()
    page.get_by_role("link", name=lake.changed).first.click()
    receipt = next(one for one in lake.receipts["shop"] if one.hour == lake.changed)
    expect(page.locator("h1")).to_contain_text(f"shop {lake.changed}")
    fates = page.locator("#flow ~ .wide tbody tr")
    expect(fates).to_have_count(6)
    told = {row.locator("th").inner_text(): row.locator("td").first.inner_text() for row in fates.all()}
    counts = receipt.counts
    assert {name: int(text.replace(",", "")) for name, text in told.items()} == {
        "applied": counts.applied, "duplicate": counts.duplicate, "superseded": counts.superseded,
        "control": receipt.control, "held": receipt.held, "quarantined": receipt.quarantined,
    }  # fmt: skip
    assert f"{receipt.landed} landed + 1 split = {counts.applied} applied" in page.locator(".sum").inner_text()

    # Why this row has this value: its table, its key, and the command.
    page.goto("/tidemark/payroll/")
    page.get_by_role("link", name="payroll.staff").click()
    page.get_by_label("id").fill("-4711 $(id)")
    page.get_by_role("button", name="Its command").click()
    expect(page.get_by_label("The command")).to_contain_text(" -- ")
    command = page.get_by_label("The command").inner_text()
    assert shlex.split(command) == ["tidemark", "explain", "payroll.staff", "--", "-4711 $(id)"]

    # What is in quarantine, and how to replay it.
    page.goto("/tidemark/mall/")
    page.get_by_role("link", name="4", exact=True).click()
    expect(page.locator("h1")).to_have_text("In quarantine: 4")
    assert page.get_by_role("link", name="replay_mall").get_attribute("href") == "/dags/replay_mall"
    page.get_by_role("link", name=lake.newest.plus(-1)).first.click()
    page.get_by_role("link", name="See them").click()
    expect(page.locator("#replay ~ p").nth(1)).to_contain_text(f"with {lake.newest.plus(-1)} as its Hour")

    page.goto("/tidemark/inventory/")
    expect(page.locator("#held ~ .wide")).to_contain_text("9:tx-1")
    expect(page.locator("#held ~ .wide")).to_contain_text("its end and 2 of 3 parts")


def test_a_button_starts_a_run_with_the_rights_of_who_clicks(
    ada: Callable[..., Page], stack: Stack, lake: WrittenLake
) -> None:
    hour = lake.newest.plus(-1)
    quarantine, row = f"/tidemark/mall/quarantine/?hour={hour}", "/tidemark/payroll/tables/payroll.staff/"
    page = ada()
    page.goto(quarantine)
    page.get_by_role("button", name=f"Replay hour {hour}").click()
    expect(page.get_by_role("status")).to_have_text("You may not start runs of replay_mall.")
    page.goto(row)
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("status")).to_have_text("")  # the key is missing, and the browser says so
    page.get_by_label("id").fill("2")
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("status")).to_have_text("You may not start runs of explain_payroll.")
    assert [stack.call(f"dags/{dag}/dagRuns")["dag_runs"] for dag in ("replay_mall", "explain_payroll")] == [[], []]

    page = ada("admin")
    page.goto(quarantine)
    page.get_by_role("button", name=f"Replay hour {hour}").click()
    expect(page.get_by_role("status")).to_contain_text("Started: manual__")
    (run,) = stack.call("dags/replay_mall/dagRuns")["dag_runs"]
    assert (run["conf"], run["triggering_user_name"]) == ({"hour": hour}, "admin")
    expect(page.get_by_role("status")).not_to_contain_text("paused")
    stack.call("dags/replay_mall", {"is_paused": True}, method="PATCH")
    page.reload()
    page.get_by_role("button", name=f"Replay hour {hour}").click()
    expect(page.get_by_role("status")).to_contain_text("The DAG is paused: unpause it, and the run begins.")
    page.get_by_role("status").get_by_role("link").click()
    page.wait_for_url("**/dags/replay_mall/runs/manual__*")


def test_a_row_is_explained_on_the_page(ada: Callable[..., Page], stack: Stack, lake: WrittenLake) -> None:
    """No scheduler runs here: the answer is that of :mod:`tests.page.written_lake`, written when the run has begun."""
    page = ada("admin")
    page.goto("/plugin/tidemark")
    frame = page.frame_locator("iframe")
    frame.get_by_role("link", name="payroll", exact=True).click()
    frame.get_by_role("link", name="payroll.staff").click()
    frame.get_by_label("id").fill("2")
    frame.get_by_role("button", name="Explain").click()
    expect(frame.locator("#row")).to_contain_text("It waits for its turn in Airflow")
    (run,) = stack.call("dags/explain_payroll/dagRuns")["dag_runs"]
    assert run["conf"] == {"table": "payroll.staff", "key": ["2"]}
    answer = find_explained(stack.settings, "payroll", lake.answered)
    assert answer is not None
    save_explained(stack.settings, "payroll", answer_name(run["dag_run_id"]), answer)
    expect(frame.locator("#row")).to_contain_text("The row is there. 3 changes spoke of its key")
    cells = {row.locator("th").inner_text(): row for row in frame.locator("#row table").first.locator("tbody tr").all()}
    assert list(cells) == [HOSTILE, "id", "salary"]
    assert "4200" in cells["salary"].inner_text() and lake.newest.plus(-9) in cells["salary"].inner_text()
    fates = frame.locator("#row td[data-name='what became of it']")
    assert fates.all_inner_texts() == ["in quarantine: check failed: salary >= 0", "applied", "applied"]
    expect(frame.get_by_label("id")).to_have_value("2")


def test_a_click_on_a_columns_name_sorts(ada: Callable[..., Page]) -> None:
    page = ada()
    page.goto("/tidemark/")
    names = page.locator("#feeds tbody th")
    head = page.locator("#feeds thead th").filter(has_text="feed")
    head.get_by_role("link").click()
    expect(names).to_have_text(sorted(FORMATS))
    expect(head).to_have_attribute("aria-sort", "ascending")
    head.get_by_role("link").click()
    expect(names).to_have_text(sorted(FORMATS, reverse=True))
    expect(head).to_have_attribute("aria-sort", "descending")
    page.goto("/tidemark/shop/tables/shop.orders/?sort=-hours.applied")
    numbers = [int(one) for one in page.locator("details td:nth-child(2)").all_inner_texts()]
    assert numbers == sorted(numbers, reverse=True) and numbers[0] > 200


def test_times_are_in_the_readers_zone_too(ada: Callable[..., Page], lake: WrittenLake) -> None:
    page = ada(timezone_id="Asia/Kolkata")
    page.goto("/tidemark/payroll/")
    since = page.locator(".why time")
    expect(since).to_have_text(lake.newest.plus(-5))
    local = lake.newest.plus(-5).start.timestamp() + 5.5 * 3600
    clock = f"{int(local % 86400 // 3600):02d}:{int(local % 3600 // 60):02d}"
    assert clock in page.locator(".why .local").inner_text() and "in Asia/" in page.locator(".when").inner_text()
    page = ada(timezone_id="UTC")
    page.goto("/tidemark/payroll/")
    expect(page.locator(".why time")).to_be_visible()
    assert page.locator(".local").count() == 0


def test_what_messages_hold_is_text_in_every_view(ada: Callable[..., Page], lake: WrittenLake) -> None:
    page = ada()
    for name, address in addresses(lake):
        page.goto(address)
        assert page.locator("script").count() == 1 and page.locator("img, iframe, object, embed").count() == 0, name
        assert "49" not in page.title() and page.locator("[onerror], [onclick], [onload]").count() == 0, name
    page.goto("/tidemark/mall/quarantine/")
    assert HOSTILE in page.locator("pre").first.inner_text()
    assert f"unknown op {HOSTILE}" in page.locator("h2").all_inner_texts()
    page.goto("/tidemark/shop/tables/shop.orders/")
    assert HOSTILE in page.locator("#columns ~ .wide").inner_text()
    page.evaluate(
        "document.body.insertAdjacentHTML('beforeend', '<iframe srcdoc=\"<script>parent.ran = 1</script>\"></iframe>')"
    )
    page.evaluate(
        "document.body.append(Object.assign(document.createElement('script'), {textContent: 'window.ran = 2'}))"
    )
    assert page.evaluate("window.ran") is None, "a script that slipped in would not run"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_view_fits_a_screen_and_a_phone(
    ada: Callable[..., Page], lake: WrittenLake, pictures: Path, theme: str
) -> None:
    page = ada(color_scheme=theme, timezone_id="Europe/Berlin")
    for width, height in ((1280, 900), (360, 740)):
        page.set_viewport_size({"width": width, "height": height})
        for name, address in addresses(lake):
            page.goto(address)
            page.screenshot(path=pictures / f"{name}, {theme}, {width}.png", full_page=True)
            wide = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
            assert wide[0] <= wide[1], f"{name} is wider than a screen of {width}"


def test_without_a_login_nothing_is_shown(contexts: Contexts, lake: WrittenLake) -> None:
    page = contexts().new_page()
    for _, address in addresses(lake):
        answer = page.goto(address)
        assert answer is not None and answer.status == 401
        expect(page.locator("h1")).to_have_text("Log in to Airflow first")
        assert not any(feed in page.locator("main").inner_text() for feed in FORMATS)


def test_in_airflows_frame_links_lead_to_airflow(ada: Callable[..., Page], lake: WrittenLake) -> None:
    """The frame may not leave Airflow by itself."""
    page = ada()
    page.goto("/plugin/tidemark")
    frame = page.frame_locator("iframe")
    expect(frame.locator("h1")).to_have_text("All feeds")
    frame.get_by_role("link", name="payroll", exact=True).click()
    frame.get_by_role("link", name="Its DAG in Airflow").click()
    page.wait_for_url("**/dags/ingest_payroll**")
