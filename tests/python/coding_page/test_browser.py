"""The coding page in Chromium: keys, mouse, passages, two coders, hostile texts."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import llamaherd as lh
import pytest
from browsing import check_accessible, connect, disconnect, seen, visited
from coding_pages import TOPICS
from llamaherd.cli.main import main

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser

pytestmark = pytest.mark.slow(
    reason="starts Chromium, because only a browser can run a page"
)

HOSTILE = (
    '<img src=x onerror="document.title=1"><script>document.title=2</script>'
    "</textarea>&lt;b&gt;\u202e\u2028 \U0001f469\u200d\U0001f467 e\u0301 \0\r\n end"
)
ACTORS = lh.Codebook("Who acts?", {"actor": "A person.", "claim": ""}, type="spans")
# Visible texts, with the names and states that screen readers get.
PHONE = {"viewport": {"width": 375, "height": 700}, "color_scheme": "dark"}


def test_keys_code_and_undo(browser: Browser, served: Callable[..., Any]) -> None:
    with served() as at, visited(browser, at.page.links["anna"]) as page:
        seen(page, "0 of 6 coded")
        order = at.desk.texts_of("anna")
        assert page.locator("#text").inner_text() == at.desk.sheet.texts[order[0]]
        page.keyboard.press("2")
        seen(page, "1 of 6 coded")
        page.keyboard.press("n")
        page.keyboard.type("u 1")  # typed into a note: no commands
        page.keyboard.press("Escape")
        page.keyboard.press("3")
        seen(page, "2 of 6 coded")
        page.keyboard.press("s")
        seen(page, "2 of 6 coded, 1 skipped")
        assert at.desk.values("anna")[order[0]] == "Money"
        act = at.desk.act("anna", order[1])
        assert (act.value, act.entry.act.note) == ("War", "u 1")
        assert 0 < act.entry.act.seconds < 600
        for left in ("2 of 6 coded", "1 of 6 coded"):
            page.keyboard.press("u")
            seen(page, left)
        assert at.desk.values("anna")[order[1]] is None
        assert page.locator("#text").inner_text() == at.desk.sheet.texts[order[1]]


def test_a_stale_tab_replaces_and_undoes_nothing(
    browser: Browser, served: Callable[..., Any]
) -> None:
    with served() as at:
        link = at.page.links["anna"]
        status = "the server responded with a status of 409 (Conflict)"
        errors = [f"Failed to load resource: {status}"]
        with visited(browser, link, errors) as one, visited(browser, link, errors) as two:
            seen(one, "0 of 6 coded")
            seen(two, "0 of 6 coded")
            one.keyboard.press("2")
            seen(one, "1 of 6 coded")
            two.keyboard.press("3")  # of the text that the first tab coded
            problem = two.locator("#problem")
            problem.get_by_text("This was not saved: you coded in another tab").wait_for()
            seen(two, "1 of 6 coded")
            first = at.desk.texts_of("anna")[0]
            assert at.desk.values("anna")[first] == "Money"
            assert two.locator("#text").inner_text() == at.desk.sheet.texts[first]
            two.keyboard.press("3")  # after a look at the code
            seen(two, "1 of 6 coded")
            problem.wait_for(state="hidden")
            one.keyboard.press("u")  # would undo the code of the second tab
            one.locator("#problem").get_by_text("This was not saved").wait_for()
            assert at.desk.values("anna")[first] == "War"


def test_passages_are_lost_only_on_demand_and_messages_are_of_the_text(
    browser: Browser, served: Callable[..., Any]
) -> None:
    with (
        served({"text": ["One.", "Two.", "Three."]}, ACTORS, "anna") as at,
        visited(browser, at.page.url) as page,
    ):
        texts = [at.desk.sheet.texts[i] for i in at.desk.texts_of("anna")]
        text, message = page.locator("#text"), page.locator("#message")
        seen(page, texts[0])
        page.keyboard.press("ArrowRight")
        page.keyboard.press("1")
        for key in ("f", "u"):
            with page.expect_event("dialog", predicate=lambda event: not event.dismiss()):
                page.keyboard.press(key)
            assert page.locator("#spans li").count() == 1
        page.keyboard.press("Enter")
        seen(page, "Saved: 1 passage")
        page.keyboard.press("s")
        seen(page, texts[2])
        page.keyboard.press("b")
        seen(page, "You skipped this text.")
        page.keyboard.press("f")
        seen(page, texts[2])
        assert message.inner_text() == ""
        page.locator("#note").fill("mine")
        with page.expect_event("dialog", predicate=lambda event: not event.accept()):
            page.get_by_role("button", name="Back").click()
        seen(page, texts[1])
        assert page.locator("#note").input_value() == ""
        assert text.inner_text() == texts[1]


@pytest.mark.long(reason="starts Chromium, because only a browser can run a page")
def test_two_browsers_at_once_and_agreement(
    browser: Browser, served: Callable[..., Any]
) -> None:
    with (
        served() as at,
        visited(browser, at.url) as anna,
        visited(browser, at.page.links["ben"], **PHONE) as ben,
        visited(browser, at.page.owner_link) as owner,
    ):
        anna.get_by_role("button", name="anna").click()
        for n in range(6):
            seen(anna, f"{n} of 6 coded")
            anna.get_by_role("button", name="Sports Matches.").click()
            seen(ben, f"{n} of 6 coded")
            ben.keyboard.press("1" if at.desk.texts_of("ben")[n] != 3 else "3")
        anna.get_by_role("heading", name="All texts are coded").wait_for()
        ben.get_by_role("heading", name="All texts are coded").wait_for()
        assert at.desk.values("anna") == ["Sports"] * 6
        assert at.desk.values("ben").count("War") == 1
        owner.reload()
        row = owner.get_by_role("row", name="all coders percent agreement 0.833 6")
        row.wait_for()
        owner.get_by_role("heading", name="Disagreements (1)").wait_for()
        with owner.expect_download() as saved:
            owner.get_by_role("button", name="Download the codes").click()
        assert saved.value.suggested_filename == "codes.csv"
        # On a phone, the page fits without horizontal scrolling.
        assert ben.evaluate("document.documentElement.scrollWidth") == 375


@pytest.mark.long(reason="starts Chromium, because only a browser can run a page")
def test_several_labels_and_numbers(
    browser: Browser, served: Callable[..., Any], tmp_path: Any
) -> None:
    several = lh.Codebook("Which?", {"a": "", "b": "", "c": ""}, type="multiple")
    with (
        served(codebook=several, coders="anna") as at,
        visited(browser, at.url) as page,
    ):
        seen(page, "0 of 6 coded")
        page.keyboard.press("3")
        page.keyboard.press("1")
        page.keyboard.press("2")
        page.keyboard.press("2")
        pressed = page.get_by_role("button", pressed=True)
        assert pressed.count() == 2
        page.keyboard.press("Enter")
        seen(page, "1 of 6 coded")
        page.keyboard.press("Enter")
        seen(page, "2 of 6 coded")
        order = at.desk.texts_of("anna")
        codes = at.desk.values("anna")
        assert [codes[order[0]], codes[order[1]]] == [["a", "c"], []]
    numbers = lh.Codebook("How angry?", lh.number_scale(0, 100, names=["calm", "wild"]))
    (tmp_path / "codes.sqlite").unlink()
    with (
        served(codebook=numbers, coders="anna") as at,
        visited(browser, at.url) as page,
    ):
        seen(page, "0 of 6 coded")
        page.keyboard.type("250")
        page.keyboard.press("Enter")
        seen(page, "The number must be on the scale from 0 to 100.")
        page.get_by_label("Number").fill("25")
        page.keyboard.press("Enter")
        seen(page, "1 of 6 coded")
        assert at.desk.values("anna")[at.desk.texts_of("anna")[0]] == "25"


@pytest.mark.long(reason="starts Chromium, because only a browser can run a page")
def test_passages_by_keys_and_mouse(browser: Browser, served: Callable[..., Any]) -> None:
    text = "\U0001f600 Ann met Bob, who said:\r\nit rained."
    with (
        served({"text": [text]}, ACTORS, "anna") as at,
        visited(browser, at.url) as page,
    ):
        seen(page, "0 of 1 coded")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("1")
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Shift+ArrowRight")
        page.keyboard.press("Shift+ArrowRight")
        page.keyboard.press(",")
        page.keyboard.press("2")
        # With the mouse: a double click selects a word.
        page.locator("#text").evaluate(
            """box => {
                const nodes = document.createTreeWalker(box, NodeFilter.SHOW_TEXT);
                let node;
                while ((node = nodes.nextNode()) && !node.data.includes("rained"));
                const at = node.data.indexOf("rained");
                getSelection().setBaseAndExtent(node, at, node, at + 7);
            }"""
        )
        page.get_by_role("button", name="claim").last.click()
        assert page.locator("#spans li").count() == 3
        page.get_by_role("button", name="Remove claim: Ann met").click()
        page.keyboard.press("Enter")
        seen(page, "1 of 1 coded")
        quotes = {
            span["label"]: text[span["start"] : span["end"]]
            for span in at.desk.values("anna")[0]
        }
        assert quotes == {"actor": "Ann", "claim": "rained."}
        first = {"start": 2, "end": 5, "label": "actor"}
        assert at.desk.values("anna")[0][0] == first


@pytest.mark.long(reason="starts Chromium, because only a browser can run a page")
def test_hostile_texts_are_shown_as_they_are(
    browser: Browser, served: Callable[..., Any]
) -> None:
    data = {"id": [HOSTILE], "text": [HOSTILE]}
    book = lh.Codebook(HOSTILE.replace("\0", ""), {"<b>a</b>": "<i>b</i>", "c": ""})
    with (
        served(data, book, "<u>anna</u>") as at,
        visited(browser, at.url) as page,
        visited(browser, at.page.owner_link) as owner,
    ):
        seen(page, "0 of 1 coded")
        assert page.locator("#text").evaluate("box => box.textContent") == HOSTILE
        page.get_by_label("Note").fill(HOSTILE.replace("\0", ""))
        page.get_by_role("button", name="<b>a</b>").click()
        seen(page, "1 of 1 coded")
        owner.reload()
        owner.get_by_text("<u>anna</u>").first.wait_for()
        for tab in (page, owner):
            assert tab.locator("img, body script, b, i, u").count() == 0
            assert tab.title().startswith("Coding")


@pytest.mark.more(
    reason="starts Chromium, because only a browser can run a page", cases=1
)
@pytest.mark.parametrize("kind", ["label", "fields"])
def test_hostile_labels_are_shown_and_stored_as_they_are(
    browser: Browser, served: Callable[..., Any], kind: str
) -> None:
    names = [
        "<img src=x onerror=alert(1)>",
        "L" * 3000,
        "\u0645\u0631\u062d\u0628\u0627",
        "\U0001f469\u200d\U0001f467 \u202e evil",
    ]
    field = {"title": names[0], "enum": names}
    schema = {"type": "object", "properties": {names[0]: field}, "required": [names[0]]}
    book = lh.Codebook("Which?", names)
    if kind == "fields":
        book = lh.Codebook("Which?", schema=schema, type="fields")
    phone = {"viewport": {"width": 375, "height": 700}}
    with (
        served({"text": ["x " * 50] * 4}, book, "anna") as at,
        visited(browser, at.url, **phone) as page,
        visited(browser, at.page.owner_link, **phone) as owner,
    ):
        page.on("dialog", lambda _: pytest.fail("a script of a label ran"))
        for n in range(4):
            seen(page, f"{n} of 4 coded")
            page.keyboard.press(str(n + 1))
            if kind == "fields":
                page.keyboard.press("Enter")
        page.get_by_role("heading", name="All texts are coded").wait_for()
        order = at.desk.texts_of("anna")
        stored = [at.desk.values("anna")[i] for i in order]
        codes = [code if kind == "label" else code[names[0]] for code in stored]
        assert codes == names
        owner.reload()
        owner.get_by_text("4 of 4", exact=True).wait_for()
        for tab in (page, owner):
            assert tab.locator("img").count() == 0
            assert tab.evaluate("document.documentElement.scrollWidth") == 375


def test_a_code_that_was_not_saved_is_not_lost(
    browser: Browser, served: Callable[..., Any]
) -> None:
    with served(coders="anna") as at, visited(browser, at.url) as page:
        seen(page, "0 of 6 coded")
        page.get_by_label("Note").fill("mine")
        page.get_by_label("Note").press("Escape")
        disconnect(page)
        page.keyboard.press("1")
        page.get_by_role("alert").get_by_text("The server does not answer.").wait_for()
        connect(page)
        assert page.get_by_label("Note").input_value() == "mine"
        page.keyboard.press("1")
        seen(page, "1 of 6 coded")


def test_roles_and_keyboard_only(browser: Browser, served: Callable[..., Any]) -> None:
    with served(coders="anna") as at, visited(browser, at.url) as page:
        seen(page, "0 of 6 coded")
        assert page.evaluate("document.activeElement.id") == "text"
        assert page.get_by_role("group", name="Text 1 of 6").count() == 1
        assert page.get_by_role("progressbar", name="Coded texts").count() == 1
        assert page.get_by_role("status").count() == 1
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")  # the second label
        seen(page, "1 of 6 coded")
        assert at.desk.values("anna")[at.desk.texts_of("anna")[0]] == "Money"
        page.get_by_text("Keys", exact=True).click()
        page.get_by_label("Single keys work").uncheck()
        page.locator("#text").focus()
        page.keyboard.press("1")
        page.get_by_role("button", name="Skip").click()
        seen(page, "1 of 6 coded, 1 skipped")


@pytest.mark.long(reason="starts Chromium, because only a browser can run a page")
def test_a_screen_reader_says_each_action_and_the_next_text(
    browser: Browser, served: Callable[..., Any]
) -> None:
    """Orca says nothing when the content of the focused text changes, or repeats."""
    with served(coders="anna") as at, visited(browser, at.url) as page:
        texts = [at.desk.sheet.texts[i] for i in at.desk.texts_of("anna")]
        status = page.get_by_role("status")
        expected = f"Text 1 of 6. {texts[0]}"
        for key, start in (
            ("2", "Saved: Money. Text 2 of 6."),
            ("2", "Saved: Money. Text 3 of 6."),
            ("s", "Skipped. Text 4 of 6."),
            ("b", "Text 3 of 6. You skipped this text."),
            ("b", "Text 2 of 6. Your code: Money."),
            ("u", "Undone. Text 3 of 6."),
        ):
            status.get_by_text(expected, exact=True).wait_for(state="attached")
            page.keyboard.press(key)
            place = int(start.partition("Text ")[2][0])
            expected = f"{start} {texts[place - 1]}"
        status.get_by_text(expected, exact=True).wait_for(state="attached")


def test_a_screen_reader_says_equal_messages_again(
    browser: Browser, served: Callable[..., Any]
) -> None:
    watch = """() => {
      window.said = [];
      const note = (name) => window.said.push(name);
      const problem = document.querySelector("#problem");
      new MutationObserver(() => { if (!problem.hidden) note("problem"); })
        .observe(problem, { attributeFilter: ["hidden"] });
      const spoken = document.querySelector("#spoken");
      let last = spoken.textContent;
      new MutationObserver(() => {
        if (spoken.textContent !== last) note(spoken.textContent.trim());
        last = spoken.textContent;
      }).observe(spoken, { childList: true });
    }"""
    book = lh.Codebook("Who?", ["a", "b"], type="spans")
    with (
        served(codebook=book, coders="anna") as at,
        visited(browser, at.url) as page,
    ):
        seen(page, "0 of 6 coded")
        page.evaluate(watch)
        page.keyboard.press("1")
        page.keyboard.press("1")
        disconnect(page)
        for _ in range(2):
            page.keyboard.press("Enter")
            page.get_by_role("alert").get_by_text("does not answer").wait_for()
        select = "Select words of the text first."
        page.wait_for_function("said.length === 4")
        assert page.evaluate("said") == [select, select, "problem", "problem"]


@pytest.mark.more(
    reason="starts Chromium, because only a browser can run a page", cases=2
)
@pytest.mark.parametrize("kind", ["label", "multiple", "scale", "spans"])
@pytest.mark.parametrize("options", [PHONE, {"color_scheme": "light"}])
def test_everybody_can_use_and_read_the_pages(
    browser: Browser, served: Callable[..., Any], kind: str, options: dict[str, Any]
) -> None:
    books = {
        "label": {"a": "An a.", "b": ""},
        "multiple": ["a", "b"],
        "scale": lh.number_scale(0, 100, names=["low", "high"]),
        "spans": ["a", "b"],
    }
    book = lh.Codebook("Which?", books[kind], type=kind)
    with (
        served({"text": ["A b c."] * 2}, book) as at,
        visited(browser, at.url, **options) as page,
        visited(browser, at.page.owner_link, **options) as owner,
    ):
        page.get_by_role("button", name="anna").wait_for()
        check_accessible(page)
        page.get_by_role("button", name="anna").click()
        seen(page, "0 of 2 coded")
        page.get_by_text("Keys", exact=True).click()
        page.locator("#text").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("1")
        page.keyboard.press("ArrowRight")
        check_accessible(page)
        owner.get_by_role("heading", name="Progress").wait_for()
        check_accessible(owner)
        owner.emulate_media(media="print")
        assert owner.get_by_role("row", name="ben").is_visible()
        assert not owner.get_by_text("End", exact=True).is_visible()


@pytest.mark.long(reason="starts Chromium, because only a browser can run a page")
def test_two_browsers_go_on_after_the_server_was_killed(
    browser: Browser, tmp_path: Path
) -> None:
    """After SIGKILL and the same command, no code is lost and no page is reloaded."""
    sheet, book = tmp_path / "texts.csv", tmp_path / "book.yaml"
    sheet.write_text("id,text\n" + "".join(f"{i},Text {i}.\n" for i in range(6)))
    lh.write_codebook(TOPICS, book)
    refused = "Failed to load resource: net::ERR_CONNECTION_REFUSED"
    command = ["--codebook", str(book), "--coders", "anna,ben", "--no-browser"]
    with running(sheet, *command, "--port", "0") as (process, links):
        port = str(urlsplit(links["anna"]).port)
        with (
            visited(browser, links["anna"], [refused]) as anna,
            visited(browser, links["ben"], [refused]) as ben,
        ):
            for page, key in ((anna, "1"), (ben, "2")):
                seen(page, "0 of 6 coded")
                page.keyboard.press(key)
                seen(page, "1 of 6 coded")
            process.kill()
            process.wait()
            for page, key in ((anna, "3"), (ben, "3")):
                page.keyboard.press(key)
                page.get_by_role("alert").get_by_text("does not answer").wait_for()
                seen(page, "1 of 6 coded")
            with running(sheet, *command, "--port", port) as (_, again):
                assert again == links
                for page in (anna, ben):
                    for n in range(2, 7):
                        page.keyboard.press("3")
                        if n < 6:
                            seen(page, f"{n} of 6 coded")
                    page.get_by_role("heading", name="All texts are coded").wait_for()
    out = tmp_path / "coded.csv"
    assert main(["code", str(sheet), *command, "--export", str(out)]) == 0
    rows = [row.split(",") for row in out.read_text("utf-8-sig").splitlines()[1:]]
    assert sorted(row[2] for row in rows) == ['"Sports"'] + ['"War"'] * 5
    assert sorted(row[3] for row in rows) == ['"Money"'] + ['"War"'] * 5


@contextmanager
def running(
    sheet: Path, *options: str
) -> Iterator[tuple[subprocess.Popen[str], dict[str, str]]]:
    """Yield a process of `llamaherd code` and its links by name; then kill it."""
    program = [sys.executable, "-m", "llamaherd.cli", "code", str(sheet), *options]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline().rsplit(maxsplit=1) for _ in range(3)]
        yield process, {name.strip(): link for name, link in lines}
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("size", [(390, 844), (1200, 800)])
def test_with_many_labels_the_text_and_undo_stay_in_sight_and_typing_finds_a_label(
    browser: Browser, served: Callable[..., Any], size: tuple[int, int]
) -> None:
    labels = {f"Topic {i}": f"\u00c9tude {i}." for i in range(200)}
    data = {"text": [f"{i}: {'Many words. ' * 200}" for i in range(3)]}
    screen = {"viewport": dict(zip(("width", "height"), size, strict=True))}
    with (
        served(data, lh.Codebook("Which?", labels)) as at,
        visited(browser, at.page.links["anna"], **screen) as page,
    ):
        seen(page, "0 of 3 coded")
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
        last = page.locator("#labels li").last
        last.scroll_into_view_if_needed()
        for id_ in ("text", "undo", "skip"):
            box = page.locator(f"#{id_}").bounding_box()
            assert box is not None
            assert box["y"] < size[1] - 40
            assert box["y"] + box["height"] > 40
        height = page.evaluate("document.documentElement.scrollHeight")
        assert height < 1.5 * size[1]
        first, second = at.desk.texts_of("anna")[:2]
        page.keyboard.press("/")
        page.keyboard.type("etude 17")
        assert page.locator("#labels li:visible").count() == 12  # 17, 117, 170 to 179
        page.keyboard.press("Enter")
        seen(page, "1 of 3 coded")
        assert at.desk.values("anna")[first] == "Topic 17"
        assert page.locator("#labels li:visible").count() == 200
        page.keyboard.press("/")
        page.keyboard.type("no such label")
        page.keyboard.press("Enter")
        seen(page, "No label has these words.")
        page.keyboard.press("Escape")
        page.keyboard.press("2")
        seen(page, "2 of 3 coded")
        assert at.desk.values("anna")[second] == "Topic 1"
        page.locator("#undo").click()
        seen(page, "1 of 3 coded")
        check_accessible(page)


def test_words_stay_selected_while_a_label_is_found(
    browser: Browser, served: Callable[..., Any]
) -> None:
    book = lh.Codebook("Who?", {f"Actor {i}": "" for i in range(20)}, type="spans")
    with (
        served({"text": ["Ann met Bob."]}, book) as at,
        visited(browser, at.page.links["anna"]) as page,
    ):
        seen(page, "0 of 1 coded")
        page.locator("#text").dblclick(position={"x": 20, "y": 25})  # selects a word
        page.locator("#find").click()
        page.keyboard.type("actor 13")
        page.keyboard.press("Enter")
        page.locator("#spans").get_by_text("Ann").wait_for()
        page.keyboard.press("Enter")
        seen(page, "1 of 1 coded")
        (span,) = at.desk.values("anna")[0]
        assert span == {"label": "Actor 13", "start": 0, "end": 3}
