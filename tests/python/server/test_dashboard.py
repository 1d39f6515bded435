"""The dashboard of the server: its data, access to the data, and its content."""

from __future__ import annotations

import re
import socket
from itertools import count
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import openai
import pytest
import tiny_models
from batch_requests import begun, entry, jsonl, sdk_of
from browsing import check_accessible, visited
from fake_context import answer
from llamaherd.engine.core.outcome import Counts
from llamaherd.engine.loop.slot_times import SlotTime, SlotTimes
from llamaherd.server.batches.service import expected_s
from llamaherd.server.batches.store import BatchStore
from llamaherd.server.models.spec import ModelSpec
from llamaherd.server.pages import DATA, STATIC_FILES
from served import NAME, served, served_models
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from fake_context import FakeContext
    from playwright.sync_api import Browser
    from served import Client

REFUSED = "Failed to load resource: the server responded with a status of"
pytestmark = pytest.mark.slow(
    reason="starts Chromium, because only a browser can run a page"
)


def test_data_are_of_this_moment(fake: FakeContext, client: Client) -> None:
    before = client.ask("GET", DATA)[1]
    client.post("/generate", {"prompt": "a", "max_tokens": 3})
    status, figures, headers = client.ask("GET", DATA)
    assert (status, headers["cache-control"]) == (200, "no-store")
    assert figures["models"] == [NAME]
    assert figures["load"]["n_slots"] == fake.n_slots
    assert figures["counts"]["n_generated"] - before["counts"]["n_generated"] == 3
    assert figures["memory"]["process"] > 1 << 20
    assert figures["uptime_s"] > before["uptime_s"]


def test_pages_are_open_and_data_need_the_key(fake: FakeContext) -> None:
    with served(fake, api_key="secret") as client:
        for path in STATIC_FILES:
            with socket.create_connection(("127.0.0.1", client.port)) as connection:
                head = (
                    f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
                )
                connection.sendall(head.encode())
                text = connection.makefile("rb").read().decode().lower()
            assert text.startswith("http/1.1 200"), path
            assert "content-security-policy: default-src 'none'" in text
            assert NAME not in text.split("\r\n\r\n", 1)[1]
            assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
            assert not re.search(r"<script[^>]*>[^<]|<style|\son\w+=|innerhtml", text)
        assert client.ask("GET", DATA)[0] == 401
        key = {"Authorization": "Bearer secret"}
        assert client.ask("GET", DATA, headers=key)[0] == 200
        other = {**key, "Origin": "http://evil.example"}
        assert client.ask("GET", DATA, headers=other)[0] == 403
        assert client.ask("GET", "/", headers={"Host": "evil.example"})[0] == 403
        assert client.ask("POST", "/", {}, key)[0] == 405


def test_looks_do_not_fill_the_log(client: Client, caplog: Any) -> None:
    caplog.set_level("INFO")
    client.ask("GET", DATA)
    client.ask("GET", "/health")
    wait_until(lambda: bool(caplog.records))  # written after the answer was sent
    assert [record.getMessage().split()[1] for record in caplog.records] == ["/health"]


def test_the_engine_counts_for_the_page_only_while_somebody_looks(
    chat_model: lh.Model,
) -> None:
    with lh.Context(chat_model, n_ctx=256, n_seq_max=2) as ctx:
        lh.generate_parallel(ctx, ["One."], max_tokens=4)
        assert ctx.loop.watched_counts() == Counts()  # the first request for the data
        out = lh.generate_parallel(ctx, ["Two.", "Three."], max_tokens=4)
        counts = ctx.loop.watched_counts()
        assert counts.n_batches > out.stats.n_batches  # the batches of both calls
        assert counts.n_decode > 0


def growing() -> Callable[[], SlotTimes]:
    """Return a function whose times are one hour later at each call."""
    hours = count()

    def times() -> SlotTimes:
        now = 3600.0 * next(hours)
        prompts = (SlotTime(prefill_s=now), SlotTime(decode_s=now), SlotTime())
        return SlotTimes(
            began_s=1.0, at_s=now, prompts=prompts, prefixes=(SlotTime(waiting_s=now),)
        )

    return times


def test_slots_are_of_the_engine_and_shown_by_kind(
    browser: Browser, fake: FakeContext, client: Client
) -> None:
    fake.slot_times = lambda: SlotTimes(
        began_s=2.0,
        at_s=9.0,
        prompts=(SlotTime(prefill_s=1.0, decode_s=2.0, waiting_s=3.0),),
    )
    slots = client.ask("GET", DATA)[1]["slots"]
    expected = {"began": 2.0, "at": 9.0, "prompts": [[1.0, 2.0, 3.0]], "prefixes": []}
    assert slots == [{"model": NAME, **expected}]
    fake.slot_times = growing()
    with visited(browser, client.url) as page:
        name = "Slots, prefill: 1, decode: 1, waiting: 1, free: 1"
        page.get_by_role("img", name=name).wait_for()
        page.get_by_text("decode: 1", exact=True).wait_for()
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            check_accessible(page)
        page.emulate_media(media="print")
        assert not page.get_by_role("heading", name="Try a prompt").is_visible()
        assert page.get_by_text("decode: ").is_visible()


def _shown(client: Client, id_: str) -> dict[str, Any]:
    """Return a batch of the dashboard; tests of other files use the same server."""
    (batch,) = [b for b in client.ask("GET", DATA)[1]["batches"] if b["id"] == id_]
    return batch


def test_batches_have_a_bar_and_the_time_left(
    browser: Browser, fake: FakeContext, client: Client
) -> None:
    fake.may_run.clear()
    requests = [entry(i, prompt="p", max_tokens=1) for i in range(3)]
    with sdk_of(client) as sdk:
        batch = begun(sdk, jsonl(requests))
        wait_until(lambda: _shown(client, batch.id)["n_total"] == 3)
        current = _shown(client, batch.id)
        expected = {"id": batch.id, "endpoint": "/v1/completions", "n_total": 3}
        assert current == {
            **expected,
            "status": "in_progress",
            "n_done": 0,
            "left_s": None,  # no request is answered yet
            "problem": "",
        }
        with visited(browser, client.url) as page:
            row = page.get_by_role("row", name=f"{batch.id} (/v1/completions)")
            row.get_by_text("0 of 3", exact=True).wait_for()
            fake.may_run.set()
            row.get_by_role("cell", name="completed").wait_for()
            row.get_by_text("3 of 3", exact=True).wait_for()
    current = _shown(client, batch.id)
    assert current == {
        **expected,
        "status": "completed",
        "n_done": 3,
        "left_s": None,
        "problem": "",
    }


def test_time_left_is_by_the_speed_of_this_server() -> None:
    assert expected_s(n_left=40, n_done=20, elapsed_s=10.0) == 20.0
    assert expected_s(n_left=40, n_done=0, elapsed_s=10.0) is None
    assert expected_s(n_left=-1, n_done=20, elapsed_s=10.0) is None


def test_looks_read_the_store_of_batches_only_after_a_change(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[bool | None] = []
    batches = BatchStore.batches

    def counted(store: BatchStore, *, is_active: bool | None = None) -> Any:
        calls.append(is_active)
        return batches(store, is_active=is_active)

    monkeypatch.setattr(BatchStore, "batches", counted)
    with openai.OpenAI(base_url=f"{client.url}/v1", api_key="none") as sdk:
        sdk.files.create(file=("in.jsonl", b"{}\n"), purpose="batch")  # open the store
    n_before = len(calls)
    for _ in range(3):
        client.ask("GET", DATA)
    assert len(calls) - n_before <= 1


@pytest.mark.long(reason="starts Chromium, because only a browser can run a page")
def test_a_codebook_is_tried_on_a_text(browser: Browser, chat_model: lh.Model) -> None:
    book = "question: Which?\nlabels:\n  <b>good</b>: Praise.\n  bad: Blame.\n"
    with (
        lh.Context(chat_model, n_ctx=512, n_seq_max=2) as ctx,
        served(ctx) as client,
        visited(browser, client.url, [f"{REFUSED} 400 (Bad Request)"]) as page,
    ):
        page.get_by_label("Prompt, or text to code").fill("A good day.")
        page.get_by_label("Chat template").uncheck()
        page.get_by_label("Codebook, as YAML or JSON").fill("question: Which?\nlabel: x")
        page.get_by_role("button", name="Send").click()
        page.get_by_text("label is not a field of a codebook").wait_for()
        page.get_by_label("Codebook, as YAML or JSON").fill(book)
        page.get_by_role("button", name="Send").click()
        page.get_by_role("row", name=re.compile(r"^label \S*(good|bad)")).wait_for()
        rows = dict(
            line.split("\t") for line in page.locator("#codes").inner_text().split("\n")
        )
        assert {"p_<b>good</b>", "p_bad"} <= rows.keys()
        assert float(rows["p_<b>good</b>"]) + float(rows["p_bad"]) == pytest.approx(
            1, abs=1e-3
        )
        assert page.locator("#codes b").count() == 0


def test_the_page_asks_for_the_key_and_shows_a_prompts_answer(
    browser: Browser, fake: FakeContext
) -> None:
    refused = f"{REFUSED} 401 (Unauthorized)"
    with (
        served(fake, api_key="secret") as client,
        visited(browser, client.url, [refused]) as page,
    ):
        page.get_by_label("API key").wait_for()
        check_accessible(page)
        page.get_by_label("API key").fill("wrong")
        page.get_by_role("button", name="Show").click()
        page.get_by_text("This key is wrong.").wait_for()
        page.get_by_label("API key").fill("secret")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name=NAME).wait_for()
        assert page.locator("#figures dd").first.inner_text() == "0"
        chart = page.get_by_role("img", name="running: 0, waiting: 0")
        assert chart.count() == 1
        page.get_by_label("Prompt, or text to code").fill("<b>x</b>")
        page.get_by_label("Chat template").uncheck()
        page.get_by_label("Maximum tokens").fill("3")
        page.get_by_label("Tokens of thinking").fill("2")
        page.get_by_role("button", name="Send").click()
        page.get_by_text("length, 7 + ").wait_for()
        assert page.locator("#answer").inner_text() == answer("<b>x</b>", 3)
        assert page.locator("#thought").inner_text() == "hm0 hm1"
        page.get_by_label("JSON Schema").fill("{")
        page.get_by_role("button", name="Send").click()
        page.get_by_text("The schema is not JSON").wait_for()


@pytest.mark.long(reason="starts Chromium, because only a browser can run a page")
def test_a_phone_shows_all_without_scrolling_sideways(
    browser: Browser, client: Client
) -> None:
    phone = {"viewport": {"width": 375, "height": 700}, "color_scheme": "dark"}
    with visited(browser, client.url, **phone) as page:
        page.get_by_text("Kept prefixes").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") == 375


@pytest.mark.long(reason="starts Chromium, because only a browser can run a page")
def test_the_page_shows_several_models_and_asks_any_of_them(
    browser: Browser, tmp_path: Path
) -> None:
    specs = [
        ModelSpec(name, tiny_models.write(tmp_path / f"{name}.gguf", "llama", seed))
        for seed, name in enumerate(("one", "two"), 1)
    ]
    phone = {"viewport": {"width": 375, "height": 900}}
    with (
        served_models(specs) as client,
        visited(browser, client.url, **phone) as page,
    ):
        page.get_by_role("heading", name="2 models").wait_for()
        assert page.get_by_role("cell", name="unloaded").count() == 2
        page.get_by_role("combobox", name="Model").select_option("two")
        page.get_by_label("Prompt, or text to code").fill("yes")
        page.get_by_label("Chat template").uncheck()
        page.get_by_role("button", name="Send").click()
        page.get_by_text(re.compile("tokens, .* s$")).wait_for()
        page.get_by_role("row", name="two loaded").wait_for()
        page.get_by_role("row", name="one unloaded").wait_for()
        assert page.get_by_role("combobox", name="Model").input_value() == "two"
        assert page.evaluate("document.documentElement.scrollWidth") == 375


@pytest.mark.long(reason="starts Chromium, because only a browser can run a page")
def test_updates_keep_the_place_of_a_screen_reader(
    browser: Browser, fake: FakeContext
) -> None:
    """Orca loses its place in nodes that are replaced, also by equal nodes."""
    watch = """() => {
      window.replaced = [];
      new MutationObserver((changes) => {
        for (const each of changes) {
          if (each.target.closest?.("svg")) continue;
          for (const node of each.removedNodes) window.replaced.push(node.textContent);
        }
      }).observe(document.body, { childList: true, subtree: true });
    }"""
    with served(fake) as client, visited(browser, client.url) as page:
        page.get_by_role("heading", name="Now").wait_for()
        with page.expect_response("**/dashboard.json"):
            pass
        page.evaluate(watch)
        client.post("/generate", {"prompt": "a", "max_tokens": 3})
        for _ in range(3):
            with page.expect_response("**/dashboard.json"):
                pass
        assert "running for" in page.locator("#about").inner_text()
        assert page.locator("#figures dd").count() == 11
        assert page.evaluate("replaced") == []
