"""A tab of a real Chromium, driven by Playwright, that keeps what it complains about and what it asks other hosts for."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Page, async_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: a machine without a desktop, and nothing that phones home
_OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update")
_PATIENCE = 60_000


def binary() -> str | None:
    """A browser on this machine."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@asynccontextmanager
async def tab() -> AsyncIterator[tuple[Page, list[str]]]:
    """A page, and the list of its complaints."""
    complaints: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=binary(), args=_OPTIONS)
        page = await browser.new_page()
        page.set_default_timeout(_PATIENCE)
        page.on("console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda asked: None if asked.url.startswith(("http://127.0.0.1", "data:")) else complaints.append(asked.url))
        yield page, complaints
        await browser.close()


#: Texts that stand out from their background by less than 4.5 to 1 (WCAG 2.2, 1.4.3).
FAINT = r"""() => {
  const parts = c => c.match(/[\d.]+/g).slice(0, 3).map(Number);
  const light = c => parts(c).map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const clear = c => c === 'transparent' || c.endsWith(', 0)');
  const behind = e => {
    for (; e; e = e.parentElement) { const c = getComputedStyle(e).backgroundColor; if (!clear(c)) return c; }
    return 'rgb(255, 255, 255)';
  };
  return [...document.querySelectorAll('body *')].filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())).filter(e => {
    const [a, b] = [light(getComputedStyle(e).color), light(behind(e))].sort((x, y) => y - x);
    return (a + .05) / (b + .05) < 4.5;
  }).map(e => `${e.tagName} ${e.className} ${e.textContent.slice(0, 30)}`);
}"""
