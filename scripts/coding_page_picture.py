"""Picture of the coding page in docs/coding-page.md: the page of a codebook in a browser.

python scripts/coding_page_picture.py
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from threading import Thread

import llamaherd as lh
from llamaherd.coding_page.desk import Desk
from llamaherd.coding_page.serving import CodingPage
from llamaherd.coding_page.sheet import make_sheet
from playwright.sync_api import sync_playwright

PICTURE = Path(__file__).resolve().parent.parent / "docs/images/coding-page.png"
_TOPICS = lh.Codebook(
    "What is the topic of the headline?",
    {
        "Sports": "Matches, athletes and clubs.",
        "Politics": "Parties, elections and governments.",
        "Economy": "Prices, work and companies.",
        "Other": "",
    },
)
_TEXTS = [
    "Council votes to close two of five swimming pools after budget talks",
    "Striker signs for three more years",
    "Bakers expect dearer flour in autumn",
]


def draw() -> None:
    """Code one text in a browser, and store a picture of the next one."""
    sheet = make_sheet({"text": _TEXTS}, _TOPICS, ["anna"], None)
    with (
        tempfile.TemporaryDirectory() as folder,
        sync_playwright() as playwright,
    ):
        page = CodingPage(Desk(sheet, Path(folder) / "codes.sqlite"))
        thread = Thread(target=page.run)
        thread.start()
        try:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            tab = browser.new_page(viewport={"width": 900, "height": 440})
            tab.goto(page.links["anna"])
            tab.get_by_text("0 of 3 coded").wait_for()
            tab.keyboard.press("1")
            tab.get_by_text("1 of 3 coded").wait_for()
            tab.screenshot(path=PICTURE)
            browser.close()
        finally:
            page.cancel()
            thread.join()


if __name__ == "__main__":
    draw()
