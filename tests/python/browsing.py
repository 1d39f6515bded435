"""Pages in Chromium, for tests, and checks of them for all people who use them.

The checks cover what axe-core found on the pages, without the program. If
LLAMAHERD_TEST_AXE is the path of its axe.min.js, it checks the page, too.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from pathlib import Path
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
        assert [complaint for complaint in complaints if complaint not in expected] == []
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


_AXE = "LLAMAHERD_TEST_AXE"
_LEAST_CONTRAST = 4.5  # WCAG 2.2, 1.4.3
_SCRIPT = """least => {
  const found = [];
  const isSeen = (each) => each.checkVisibility({ visibilityProperty: true });
  const about = (each) => each.outerHTML.slice(0, 120);
  const focusable = "a[href], button, input, select, textarea, summary, [tabindex]";
  const landmarks = "main, header, nav, footer, aside, form[aria-label], noscript";
  const numbers = (color) => color.match(/[\\d.]+/g).map(Number);
  const light = (color) => {
    const [r, g, b] = numbers(color).map((each) => each / 255)
      .map((each) => (each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = (each) => {
    for (let at = each; at; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if ((numbers(color)[3] ?? 1) > 0) return color;
    }
    return "rgb(255, 255, 255)";
  };
  for (const each of document.body.querySelectorAll("*")) {
    if (!isSeen(each) || each.closest("svg svg")) continue;
    const style = getComputedStyle(each);
    const scrolls = /auto|scroll/.test(style.overflowX + style.overflowY)
      && (each.scrollWidth > each.clientWidth || each.scrollHeight > each.clientHeight);
    if (scrolls && !each.matches(focusable) && !each.querySelector(focusable)) {
      found.push(`no key scrolls ${about(each)}`);
    }
    if (each.matches("[role=img]") && !each.getAttribute("aria-label")) {
      found.push(`no name: ${about(each)}`);
    }
    if (each.matches("input, select, textarea") && !each.labels?.length
        && !each.getAttribute("aria-label")) found.push(`no label: ${about(each)}`);
    const isText = (one) => one.nodeType === 3 && one.data.trim();
    const hasText = [...each.childNodes].some(isText);
    if (!hasText || each.closest("option")) continue;
    if (!each.closest(landmarks) && !each.closest("[role=alert], [role=status]")) {
      found.push(`in no landmark: ${about(each)}`);
    }
    if (each.matches(":disabled") || each.closest(":disabled")) continue;
    const [dark, bright] = [light(style.color), light(paper(each))].sort((a, b) => a - b);
    const contrast = (bright + 0.05) / (dark + 0.05);
    if (contrast < least) found.push(`contrast ${contrast.toFixed(2)}: ${about(each)}`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((each) => each.id);
  if (new Set(ids).size < ids.length) found.push("an id occurs twice");
  return found;
}"""


def check_accessible(page: Page) -> None:
    """Fail if somebody cannot use or read a part of the page as it is now."""
    assert page.evaluate(_SCRIPT, _LEAST_CONTRAST) == []
    axe = os.environ.get(_AXE)
    if axe:
        page.evaluate(Path(axe).read_text(encoding="utf-8"))
        results = page.evaluate("axe.run(document, { resultTypes: ['violations'] })")
        assert [violation["help"] for violation in results["violations"]] == []
