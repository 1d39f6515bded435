"""Tests of the functions for R: dates of templates, columns that R accepts."""

from __future__ import annotations

import json
from typing import Any

import llamaherd as lh
from llamaherd import _r
from llamaherd.calls.chat.chat import template_date
from plain_forms import plain

BOOK = {"question": "Which?", "labels": {"a": "", "b": ""}, "type": "label"}


def tagged(book: dict[str, Any]) -> dict[str, str]:
    return {".class": "codebook", "content": json.dumps(book)}


def coded(context: lh.Context, book: dict[str, Any], **options: Any) -> dict[str, Any]:
    status = _r.annotate_start(context, ["x", None, "y"], tagged(book), options)
    assert status["ok"], status
    status = _r.job_result(status["value"]["job"])
    assert status["ok"], status
    return plain(status["value"])


def test_the_date_of_templates_can_be_fixed_and_given_back() -> None:
    day = template_date(None).date()
    assert _r.chat_date_enter("2026-01-31")["value"] is None
    assert template_date(None).date().isoformat() == "2026-01-31"
    assert _r.chat_date_enter(None)["value"] == "2026-01-31"
    assert template_date(None).date().isoformat() == "2026-01-31"
    assert _r.chat_date_enter("1999-12-31")["value"] == "2026-01-31"
    assert "must be like" in _r.chat_date_enter("31.1.2026")["message"]
    assert template_date(None).date().isoformat() == "1999-12-31"
    _r.chat_date_leave("2026-01-31")
    _r.chat_date_leave(None)
    assert template_date(None).date() >= day


def test_a_contextual_calibration_goes_without_thoughts() -> None:
    assert _r.check_contextual(None)["ok"]
    assert _r.check_contextual(False)["ok"]
    for thinking in (True, 8, {"budget": 8}):
        status = _r.check_contextual(thinking)
        assert (status["argument"], status["code"]) == ("method", "conflict")


def test_columns_are_those_that_were_told(context: lh.Context) -> None:
    for book, options in (
        (BOOK, {}),
        (BOOK, {"method": "generate"}),
        ({**BOOK, "type": "multiple"}, {}),
        ({**BOOK, "type": "ordinal"}, {"calibrate": "batch"}),
    ):
        roles = _r.annotate_roles(tagged(book), options)["value"]
        reply = coded(context, book, **options, seed=4e9, versions={"R": "4.2.2"})
        assert list(reply["columns"]) == roles
        assert [label is None for label in reply["labels"]] == [False, True, False]
        for role in set(roles) - {"label", "error"}:
            assert all(isinstance(value, float) for value in reply["columns"][role])
        assert json.loads(reply["run"])["versions"]["R"] == "4.2.2"
        assert "prompts" in reply["stats"]["page"][0]


def test_a_codebook_is_described() -> None:
    description = plain(_r.codebook_make(json.dumps(BOOK))["value"])
    assert description["hash"] == lh.Codebook("Which?", ["a", "b"]).hash
    assert description["page"][0].startswith("<llamaherd_codebook> one label per text")
    preview = plain(_r.prompt_preview(tagged(BOOK), "T")["value"])
    assert preview["prompt"].endswith("Text: T\nLabel:")
    assert preview["tokens"] is None
