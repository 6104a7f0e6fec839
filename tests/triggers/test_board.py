"""The board at the wire, over a real store that holds recorded cases: pages, API, who may come in, and a real browser."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer
from playwright.async_api import Page

from functions.chat.redact import MASK, Redactor
from functions.store import Store
from tests.support import browser
from tests.support.reports import NOW, check, finding, later, report
from tests.test_cases import CASES, report_of
from triggers.roles import StoredBoard
from triggers.serve import Role, application

Client = TestClient[Any, Any]


@pytest.fixture
async def stored(kept: Store) -> Store:
    """The audit of the exporter's rollout, with everything that it broke."""
    [case] = [p for p in CASES if p.name.startswith("14")]
    done = await report_of(case)
    await kept.audits.complete(done, done.current)
    return kept


@pytest.fixture
async def client(kept: Store) -> AsyncIterator[Client]:
    async with connected(kept) as client:
        yield client


def connected(store: Store, masks: tuple[str, ...] = (), **more: Any) -> Client:
    role = Role("board", "lab", board=StoredBoard(store, lambda: datetime(2026, 12, 1, tzinfo=NOW.tzinfo), Redactor(masks)), **more)
    return TestClient(TestServer(application(role)))


async def page(client: Client, path: str, status: int = 200, **options: Any) -> str:
    async with client.get(path, **options) as response:
        assert response.status == status
        return await response.text()


async def test_every_page_answers_with_the_strict_policy_and_is_kept_nowhere(stored: Store, client: Client) -> None:
    fingerprint = (await (await client.get("/api/v1/findings?limit=1")).json())["findings"][0]["fingerprint"]
    for path in ("/", "/audits/case", "/findings", f"/findings/{fingerprint}", "/postmortems/case", "/audits/none"):
        async with client.get(path) as response:
            assert response.content_type == "text/html"
            assert "default-src 'none'" in response.headers["Content-Security-Policy"]
            assert "unsafe" not in response.headers["Content-Security-Policy"]
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert response.headers["Cache-Control"] == "no-store"
            assert '<html lang="en">' in await response.text()


async def test_an_empty_store_says_that_nothing_was_judged(client: Client) -> None:
    assert "Nothing has been judged yet" in await page(client, "/")
    assert "No finding fits" in await page(client, "/findings")
    assert await (await client.get("/api/v1/audits")).json() == {"audits": [], "next": None}


async def test_what_is_not_there_is_404_and_leads_on(client: Client) -> None:
    for path in ("/audits/none", "/findings/none", "/postmortems/none"):
        text = await page(client, path, 404)
        assert "No such" in text
        assert 'href="/"' in text
    assert await page(client, "/api/v1/audits/none", 404) == "no such audit"


async def test_findings_are_narrowed_by_severity_check_and_state(stored: Store, client: Client) -> None:
    async def found(query: str) -> list[dict[str, Any]]:
        answer: dict[str, Any] = await (await client.get(f"/api/v1/findings?limit=500&{query}")).json()
        return answer["findings"]  # type: ignore[no-any-return]

    assert {f["severity"] for f in await found("severity=critical")} == {"critical"}
    assert len(await found("check=label-mapping")) == 2
    text = await page(client, "/findings?severity=warning&check=label-mapping")
    assert text.count('<a href="/findings/') == 2
    assert await page(client, "/findings?severity=bogus&check=%3Cx%3E") == await page(client, "/findings")


async def test_resolved_findings_are_shown_where_they_are_asked_for(kept: Store, client: Client) -> None:
    await kept.audits.complete(report("a-1", check("label-mapping", [finding()])), NOW)
    await kept.audits.complete(report("a-2", check("label-mapping"), current=later(60)), later(60))
    assert "No finding fits" in await page(client, "/findings")
    assert "<strong>resolved</strong>" in await page(client, "/findings?state=all")


async def test_lists_are_paged_and_every_entry_comes_once(kept: Store, client: Client) -> None:
    await kept.audits.complete(report("a-1", check("label-mapping", [finding(node=f"n-{n}") for n in range(120)])), NOW)
    seen: list[str] = []
    query, path = "", "/findings"
    while path:
        text = await page(client, f"{path}{query}")
        seen += [part.split('"')[0] for part in text.split('<a href="/findings/')[1:]]
        query = text.split('href="/findings?')[-1].split('"')[0] if ">More</a>" in text else ""
        path, query = ("/findings?", query.replace("&amp;", "&")) if query else ("", "")
    assert len(seen) == len(set(seen)) == 120
    for limit in ("0", "501", "x"):
        assert "limit is a whole number" in await page(client, f"/api/v1/audits?limit={limit}", 400)


async def test_a_stub_is_shown_for_every_audit_and_the_drafted_one_is_named_so(stored: Store, client: Client) -> None:
    assert "<h2>Dimension to add next time</h2>" in await page(client, "/postmortems/case")
    assert "Postmortem stub, made now" in await page(client, "/audits/case")


async def test_with_a_token_tools_send_it_and_browsers_give_it_as_the_password(kept: Store) -> None:
    def basic(password: str) -> dict[str, str]:
        return {"Authorization": f"Basic {b64encode(f'me:{password}'.encode()).decode()}"}

    async with connected(kept, token="s3cret", host="0.0.0.0") as client:
        for path in ("/", "/findings", "/api/v1/audits"):
            await page(client, path, 401)
            await page(client, path, 401, headers={"Authorization": "Bearer s3cre"})
            await page(client, path, 401, headers={"Authorization": "Basic !"})
            await page(client, path, 401, headers=basic("s3cre"))
            await page(client, path, headers={"Authorization": "Bearer s3cret"})
            await page(client, path, headers=basic("s3cret"))
        async with client.get("/") as response:
            assert response.headers.getall("WWW-Authenticate") == ["Bearer", 'Basic realm="Telltale", charset="UTF-8"']
        async with client.get("/api/v1/audits") as response:
            assert response.headers.getall("WWW-Authenticate") == ["Bearer"]


async def test_without_a_token_nothing_is_served_beyond_loopback(kept: Store) -> None:
    async with connected(kept, host="0.0.0.0") as client:
        await page(client, "/", 401)


async def test_what_is_masked_in_chat_is_masked_here(kept: Store) -> None:
    leaky = finding(node="n-secret1", gpu="xoxb-123456789012-abcdef")
    await kept.audits.complete(report("a-1", check("label-mapping", [leaky])), NOW)
    async with connected(kept, (r"n-secret\d",)) as client:
        for path in ("/", "/audits/a-1", "/findings", "/postmortems/a-1", "/api/v1/audits/a-1", "/api/v1/findings"):
            text = await page(client, path)
            assert "xoxb-123456789012" not in text
            assert "n-secret1" not in text
            assert MASK in text or "\\u2039masked" in text


@pytest.mark.skipif(browser.binary() is None, reason="no Chromium on the PATH (`tests/install-parts chromium` installs one)")
async def test_a_person_walks_from_the_board_to_the_postmortem_in_a_real_browser(stored: Store) -> None:
    """At phone and desktop width, light and dark: nothing complains, nothing scrolls sideways, nothing is asked of others."""
    recorded = await stored.audits.get("case")
    assert recorded
    warnings = sum(f["severity"] == "warning" for f in recorded["findings"])
    async with TestServer(application(Role("board", "lab", board=StoredBoard(stored)))) as server, browser.tab() as (page, complaints):
        for width, scheme in ((360, "light"), (1280, "dark")):
            await page.set_viewport_size({"width": width, "height": 900})
            await page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            await page.goto(str(server.make_url("/")))
            assert await page.locator("h1").inner_text() == "✕ FAIL 44 open findings"
            await whole(page, width)
            await page.locator("a[href='/audits/case']").first.click()
            await page.get_by_role("heading", name="rollout complete").wait_for()
            await whole(page, width)
            await page.locator("a[href='/audits/case?severity=warning']").first.click()
            await page.wait_for_url("**/audits/case?severity=warning")
            assert await page.locator("details[id]").count() == warnings
            await page.locator("details[open] a[href^='/findings/']").first.click()
            await page.get_by_text("What it rests on").first.wait_for()
            await whole(page, width)
            await page.locator("a[href^='/audits/case#f-']").first.click()
            await page.locator("a[href='/postmortems/case']").first.click()
            await page.get_by_role("heading", name="Dimension to add next time").wait_for()
            await whole(page, width)
        assert complaints == []


async def whole(page: Page, width: int) -> None:
    """A page that fits, also unfolded, with one first heading, a language, named links, and text that can be read."""
    await page.evaluate("document.querySelectorAll('details').forEach(d => d.dataset.was = d.open)")
    assert await page.evaluate(browser.FAINT) == []
    await page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert await page.evaluate("document.documentElement.scrollWidth") <= width
    await page.evaluate("document.querySelectorAll('details').forEach(d => d.open = d.dataset.was === 'true')")
    assert await page.locator("h1").count() == 1
    assert await page.evaluate("document.documentElement.lang") == "en"
    assert await page.evaluate("[...document.links].filter(a => !a.textContent.trim()).length") == 0
