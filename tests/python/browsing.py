"""Pages in Chromium, for tests."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from waiting import HANGS_S

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from playwright.sync_api import Browser, Page


@contextmanager
def visited(
    browser: Browser, link: str, expected: Collection[str] = (), **options: Any
) -> Iterator[Page]:
    """Open a page in a new browser; fail if scripts or the policy report errors."""
    context = browser.new_context(**options)
    context.set_default_timeout(HANGS_S * 1000)
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text))
    page.goto(link)
    try:
        yield page
        assert [each for each in complaints if each not in expected] == []
    finally:
        context.close()


def seen(page: Page, text: str, *, exact: bool = True) -> None:
    """Wait until the page shows a text, not only to screen readers."""
    page.get_by_text(text, exact=exact).and_(page.locator(":not(.spoken)")).wait_for()


def disconnect(page: Page) -> None:
    """Let all requests of a page fail, as without a network.

    A request that starts soon after `Page.route` may pass by the new route.
    """
    page.evaluate(
        """() => {
          window.connected = window.fetch;
          window.fetch = () => Promise.reject(new TypeError("no network"));
        }"""
    )


def connect(page: Page) -> None:
    """Let requests of a page pass again."""
    page.evaluate("() => { window.fetch = window.connected; }")
