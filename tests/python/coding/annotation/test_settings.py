"""Tests of the options of a coding: which ones go together, and what is recorded."""

from __future__ import annotations

import json
from typing import Any

import llamaherd as lh
import pytest
from llamaherd.coding.annotation.settings import RECORDED, checked_settings

TOPICS = lh.Codebook("Which topic?", ["Sports", "Politics"])
SCALE = lh.Codebook("How much?", lh.number_scale(0, 2))
SEVERAL = lh.Codebook("Which?", ["a", "b"], type="multiple")
FIELDS = lh.Codebook("What?", type="fields", schema={"properties": {"a": {}}})
SPANS = lh.Codebook("Mark.", ["a", "b"], type="spans")
THINKS = {"chat": True, "thinking": 8}
HEAD = {"until": 60, "embeddings": "x"}
WRITTEN = {"method": "generate"}
CASES: list[tuple[lh.Codebook, dict[str, Any], str]] = [
    (TOPICS, {"nromalize": "sum"}, "no argument 'nromalize'; did you mean 'norm"),
    (TOPICS, {"method": "ask"}, "method must be one of 'auto', 'classify'"),
    (TOPICS, {"normalize": "max"}, "normalize must be one of"),
    (TOPICS, {"on_error": "ignore"}, "on_error must be one of"),
    (TOPICS, {"seed": -1}, "seed must be between"),
    (TOPICS, {"journal": 3}, "journal must be None, True or a path"),
    (FIELDS, {"method": "classify"}, "this codebook has fields"),
    (TOPICS, {"calibrate": "batch", **WRITTEN}, "calibrate needs probabilities"),
    (TOPICS, {"normalize": "token", **WRITTEN}, "normalize needs probabilities"),
    (SEVERAL, {"calibrate": "batch"}, "calibrate needs one label per text"),
    (TOPICS, {"distribution": True}, "distribution needs type='scale'"),
    (SCALE, {"distribution": True, **WRITTEN}, "distribution needs .*'classify'"),
    # parts of long texts
    (TOPICS, {"split": "second"}, "split must be one of"),
    (TOPICS, {"part_tokens": 5}, "part_tokens needs split"),
    (TOPICS, {"split": "mean", **WRITTEN}, "split='mean' needs probabilities"),
    (FIELDS, {"split": "majority"}, "combines labels; for fields use 'first' or 'last'"),
    (SPANS, {"split": "majority"}, "combines labels; for passages use 'all'"),
    (TOPICS, {"split": "all"}, "takes the passages of all parts"),
    # quotes
    (SEVERAL, {"evidence": True}, "texts may have several"),
    (FIELDS, {"evidence": True}, "a field of the schema that is a quote such as type_qu"),
    (TOPICS, {"evidence": "yes"}, "evidence must be true or false, or a quote"),
    (TOPICS, {"evidence": {"least": 0}}, "evidence.least"),
    # chats and thoughts
    (TOPICS, {"thinking": 8}, "thinking needs chat=True"),
    (TOPICS, {"template": "x"}, "template needs chat=True"),
    (TOPICS, {"merge_system": True}, "merge_system needs chat=True"),
    (TOPICS, {"chat": True, "variables": {"x": {1, 2}}}, "must contain only JSON"),
    (TOPICS, {"chat": True, "n_thoughts": 2}, "n_thoughts is 2, but without thinking"),
    (TOPICS, {**THINKS, "n_thoughts": 2, **WRITTEN}, "n_thoughts averages probabilities"),
    (
        TOPICS,
        {**THINKS, "calibrate": "contextual"},
        "calibrate='contextual' cannot be combined with thinking",
    ),
    # steps
    (TOPICS, {"until": 60}, "embeddings must be a model for embeddings"),
    (TOPICS, {"until": 49, "embeddings": "x"}, "until must be at least 50"),
    (TOPICS, {"embeddings": "x"}, "embeddings needs until"),
    (TOPICS, {"unsure": 0.3}, "unsure needs until or larger"),
    (TOPICS, {"larger": "x", "unsure": 0}, "unsure is 0"),
    (TOPICS, {"larger": "x", "unsure": 2}, "unsure must be"),
    (TOPICS, {"until": 60, "embeddings": 3}, "embeddings must be a model"),
    (TOPICS, {"larger": 3}, "larger must be a context or the path"),
    (SEVERAL, {"larger": "x"}, "larger needs probabilities of one label"),
    (FIELDS, HEAD, "until needs probab"),
    (TOPICS, {**HEAD, "evidence": True}, "evidence cannot be combined with until"),
    (TOPICS, {"larger": "x", "evidence": True}, "cannot be combined with larger"),
    (TOPICS, {"larger": "x", "calibrate": "batch"}, "larger cannot be combined"),
]


@pytest.mark.parametrize(("codebook", "options", "message"), CASES)
def test_options_that_do_not_go_together(
    codebook: lh.Codebook, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(lh.BadArgumentError, match=message):
        checked_settings(codebook, "model", options)


def test_options_are_checked_before_anything_runs(context: lh.Context) -> None:
    with pytest.raises(lh.ArgumentError, match="part_tokens needs split"):
        lh.annotate({"text": ["a"]}, "text", TOPICS, context, part_tokens=5)


CHAT: dict[str, Any] = {
    "chat": True,
    "template": "{{ messages[0].content }}",
    "variables": {"mood": "calm"},
    "merge_system": True,
    "date": "2026-01-31",
}
# Together, these options record all settings, each with a value that is not the default.
RECORDS: dict[str, dict[str, Any]] = {
    "classify": {
        **CHAT,
        "method": "classify",
        "normalize": "token",
        "calibrate": "batch",
        "split": "first",
        "part_tokens": 50,
        "thinking": {"budget": 7},
        "n_thoughts": 3,
        "seed": 5,
    },
    "generate": {
        **CHAT,
        "method": "generate",
        "thinking": False,
        "seed": 7,
        "temperature": 0.5,
        "max_tokens": 12,
        "split": "majority",
    },
    "evidence": {
        "method": "classify",
        "evidence": {"unit": "characters", "least": 5, "most": 50},
        "seed": 3,
        "temperature": 0.25,
        "max_tokens": 40,
    },
}


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_leads_to_the_same_settings(name: str) -> None:
    recorded = checked_settings(TOPICS, "model", RECORDS[name]).to_dict()
    assert RECORDS[name].keys() <= recorded.keys()
    again = json.loads(json.dumps(recorded))
    assert checked_settings(TOPICS, "model", again).to_dict() == recorded


def test_reproduce_knows_all_recorded_settings_and_no_others() -> None:
    recorded = {
        name
        for options in RECORDS.values()
        for name in checked_settings(TOPICS, "model", options).to_dict()
    }
    assert recorded == RECORDED
