"""Tests of coding after thoughts: columns, record, prompts, reproduction, robustness."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.calls.asks.options import ClassifyOptions
from llamaherd.coding.annotation.prompts import frame_of
from llamaherd.tasks.annotate import Annotate
from llamaherd.tasks.classify import Classify

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.model

TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'assistant' and m.reasoning_content %}<think>\n"
    "{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
    "{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n"
    "{% if enable_thinking is defined and enable_thinking is false %}\n</think>\n\n"
    "{% endif %}{% endif %}"
)
CHAT: Any = {"chat": True, "template": TEMPLATE}
TEXTS = ["The keeper saved it.", None, "Parliament met.", "The keeper saved it."]
FRAME = {"text": TEXTS}
TOPICS = lh.Codebook("Which topic?", ["Sports", "Politics"])
SEVERAL = lh.Codebook("Which topics?", ["Sports", "Politics"], type="multiple")
FIELDS = lh.Codebook(
    "What is in it?",
    type="fields",
    schema={
        "type": "object",
        "properties": {"thinking": {"type": "boolean"}},
        "required": ["thinking"],
        "additionalProperties": False,
    },
)
BUDGET = 8
NAMES = ["thinking", "n_thinking_tokens", "thinking_complete", "error"]


@pytest.fixture(scope="module")
def context(smollm2: lh.Model) -> Iterator[lh.Context]:
    with lh.Context(smollm2, deterministic=True) as context:
        yield context


def test_labels_after_thoughts_are_those_of_classify_parallel(
    context: lh.Context,
) -> None:
    how = {"thinking": BUDGET, "n_thoughts": 2, "seed": 5, **CHAT}
    coded = lh.annotate(FRAME, "text", TOPICS, context, **how)
    texts = ["The keeper saved it.", "Parliament met."]
    expected = lh.classify_parallel(
        context, frame_of(TOPICS, chat=True).prompts(texts), TOPICS.names, **how
    )
    rows = [0, None, 1, 0]
    assert list(coded.frame)[-5:] == ["between", *NAMES]
    for name in NAMES[:-1]:
        values = getattr(expected, name)
        assert coded.frame[name] == [None if i is None else values[i] for i in rows]
    assert coded.probs is not None
    assert expected.label_between is not None
    np.testing.assert_array_equal(coded.probs[[0, 2]], expected.probs)
    between = np.array(coded.frame["between"], dtype=float)
    np.testing.assert_array_equal(between[[0, 2, 3]], expected.label_between[[0, 1, 0]])
    assert np.isnan(between[1])


def test_a_model_that_would_think_is_noticed_once(smollm2_path: Path) -> None:
    def noticed(book: lh.Codebook, context: lh.Context) -> list[str]:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            lh.annotate({"text": ["a"]}, "text", book, context, **CHAT)
        return [note.filename for note in seen if note.category is lh.ThinkingWarning]

    with lh.Model(smollm2_path) as model, lh.Context(model) as context:
        lh.prompt_preview(TOPICS, "a", model, chat=True)
        assert noticed(TOPICS, context) == [__file__]
        assert noticed(SEVERAL, context) == []


def test_a_note_on_coverage_is_about_the_end_of_the_thought(context: lh.Context) -> None:
    coded = lh.annotate(FRAME, "text", TOPICS, context, thinking=BUDGET, **CHAT)
    (note,) = [line for line in coded.notes if "Median coverage" in line]
    assert "inside a thought" not in note
    assert "Try a larger budget of thinking" in note


def test_the_record_says_how_models_thought(context: lh.Context) -> None:
    how = {"thinking": BUDGET, "variables": {"tone": ["calm"]}, **CHAT}
    coded = lh.annotate(FRAME, "text", TOPICS, context, **how)
    settings = json.loads(json.dumps(coded.run))["settings"]
    assert settings["thinking"]["budget"] == BUDGET
    assert settings["variables"] == {"tone": ["calm"]}
    assert settings["template"] == TEMPLATE
    assert "n_thoughts" not in settings
    thought = coded.run["thinking"]
    assert (thought["n_thoughts"], thought["budget"]) == (2, BUDGET)
    assert thought["n_thinking_tokens"] == coded.stats.n_thinking_tokens
    assert "a thought of at most 8 tokens" in thought["methods"]
    assert "of 2 were ended at this limit" in thought["methods"]
    assert coded.run["prompts"]["chat_template"] == TEMPLATE
    assert coded.run["prompts"]["empty"].endswith("<think>\n")
    off = lh.annotate(FRAME, "text", TOPICS, context, thinking=False, **CHAT)
    assert off.run["settings"]["thinking"] is False
    assert "thinking" not in off.run
    assert list(off.frame)[-1] == "error"
    assert "thinking" not in off.frame
    assert off.run["prompts"]["empty"].endswith("</think>\n\n")


@pytest.mark.more(reason="codes or estimates many times", cases=1)
@pytest.mark.parametrize(
    ("codebook", "method", "names"),
    [
        (TOPICS, "generate", ["label", *NAMES]),
        (SEVERAL, "classify", ["label", "coverage", "p_Sports", "p_Politics", *NAMES]),
        (SEVERAL, "generate", ["label", *NAMES]),
        (FIELDS, "generate", ["thinking", f".{NAMES[0]}", *NAMES[1:]]),
    ],
)
def test_every_way_of_coding_thinks(
    context: lh.Context, codebook: lh.Codebook, method: Any, names: list[str]
) -> None:
    coded = lh.annotate(
        FRAME, "text", codebook, context, method=method, thinking=BUDGET, **CHAT
    )
    assert list(coded.frame)[1:] == names
    assert coded.errors == [None] * 4
    thoughts = coded.frame[names[-4]]
    assert thoughts[1] is None
    assert all(isinstance(thoughts[i], str) for i in (0, 2, 3))
    n_asked = 2 if codebook is SEVERAL else 1
    assert coded.frame["n_thinking_tokens"][1] is None
    assert coded.frame["n_thinking_tokens"][0] <= BUDGET * n_asked
    assert coded.stats.n_thoughts == 2 * n_asked
    # A part of a table has the same columns as the whole table.
    settings = {"method": method, "thinking": BUDGET, **CHAT}
    assert list(Annotate(codebook, settings).columns) == names
    nothing = lh.annotate({"text": [None]}, "text", codebook, context, **settings)
    assert list(nothing.frame)[1:] == names


def test_a_refused_system_role_fails_its_rows_or_is_merged(context: lh.Context) -> None:
    book = lh.Codebook("Which topic?", ["Sports", "Politics"], system="You are terse.")
    with pytest.raises(lh.ChatTemplateError, match="merge_system"):
        lh.annotate(FRAME, "text", book, context, thinking=False, **CHAT)
    merged = lh.annotate(
        FRAME, "text", book, context, thinking=False, merge_system=True, **CHAT
    )
    assert merged.errors == [None] * 4
    assert merged.run["settings"]["merge_system"] is True
    assert "You are terse." in merged.run["prompts"]["empty"]


@pytest.mark.long(reason="codes or estimates many times")
def test_a_report_is_reproduced_with_its_thoughts(
    context: lh.Context, tmp_path: Path
) -> None:
    how = {"thinking": BUDGET, "n_thoughts": 2, **CHAT}
    coded = lh.annotate(FRAME, "text", TOPICS, context, **how)
    path = tmp_path / "report.html"
    lh.report(coded, path)
    page = path.read_text(encoding="utf-8")
    assert "2 thoughts of at most 8 tokens" in page
    again = lh.reproduce(path, context)
    assert again.is_same


@pytest.mark.long(reason="codes or estimates many times")
def test_thinking_is_a_variant_with_its_cost(context: lh.Context) -> None:
    frame = {"text": ["The keeper saved it.", "Parliament met."]}
    trial = lh.robustness(
        frame, "text", TOPICS, context, thinking=[False, 4, BUDGET], **CHAT
    )
    assert trial.variants == ("thinking off", "thinking 4", "thinking 8")
    costs = trial.costs
    assert costs[0]["thinking_tokens"] == 0
    assert 0 < costs[1]["thinking_tokens"] <= 4 < costs[2]["thinking_tokens"] <= 8
    assert costs[0]["tokens"] < costs[1]["tokens"] < costs[2]["tokens"]
    assert "cost per text:" in str(trial)
    single = lh.annotate(frame, "text", TOPICS, context, thinking=4, **CHAT)
    others = lh.robustness(single, contexts=context, thinking=[False, 4])
    assert others.variants == ("thinking 4", "thinking off")
    assert others.labels[0] == single.labels
    with pytest.raises(ValueError, match=r"thinking\[1\] occurs twice"):
        lh.robustness(frame, "text", TOPICS, context, thinking=[4, 4], **CHAT)
    with pytest.raises(ValueError, match="nothing to compare"):
        lh.robustness(frame, "text", TOPICS, context, thinking=4, **CHAT)


def test_runs_have_the_columns_of_thoughts(context: lh.Context) -> None:
    options = ClassifyOptions(
        labels=["Sports", "Politics"], thinking=4, n_thoughts=2, **CHAT
    )
    task = Classify(options)
    cells = task.answer(context, ["Sports or politics?"], [7])
    assert list(cells) == list(task.columns)
    assert list(cells)[-5:] == ["between", *NAMES]
    # The seed of a row depends on the row's index.
    both = task.answer(context, ["Or?", "Sports or politics?"], [3, 7])
    assert both["thinking"][1] == cells["thinking"][0]
