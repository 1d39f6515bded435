"""Labels and continuations scored after a thought."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.calls.asks.scores import Thought, joined_thoughts
from llamaherd.calls.asks.scoring import BehindThoughts
from llamaherd.calls.chat.chat import chat_prompts
from llamaherd.engine.core.request import ThoughtStage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.model

# SmolLM2's own format with a switch, as in templates of thinking models.
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'assistant' and m.reasoning_content %}<think>\n"
    "{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
    "{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n"
    "{% if enable_thinking is defined and enable_thinking is false %}\n</think>\n\n"
    "{% endif %}{% endif %}"
)
ASKED = [
    "Is this about sports or politics? The keeper saved a penalty.",
    "Is this about sports or politics? Parliament passed the budget.",
]
LABELS = ["Sports", "Politics", "Sports and politics"]
CHAT: Any = {"chat": True, "template": TEMPLATE}
BUDGET = 12


@pytest.fixture(scope="module")
def context(smollm2: lh.Model) -> Iterator[lh.Context]:
    with lh.Context(smollm2, deterministic=True) as context:
        yield context


def test_labels_and_continuations_have_the_same_scores(context: lh.Context) -> None:
    two = ["Sports", "Politics"]
    labelled = lh.classify_parallel(context, ASKED, two, thinking=BUDGET, **CHAT)
    scores = lh.score_parallel(context, ASKED, [two] * 2, thinking=BUDGET, **CHAT)
    np.testing.assert_allclose(np.array(scores.logprob), labelled.logprobs, atol=1e-6)
    assert labelled.thoughts is not None
    assert scores.thoughts == tuple(thought for (thought,) in labelled.thoughts)
    assert labelled.n_thinking_tokens == [BUDGET] * 2
    assert labelled.thinking_complete == [False] * 2
    assert all(labelled.thinking)
    assert labelled.between is None
    stats = labelled.stats
    assert (stats.n_thoughts, stats.n_thoughts_closed) == (2, 2)
    assert stats.n_thinking_tokens == 2 * BUDGET
    # Each prompt and its thought are computed once, the forced tokens with prompts.
    closing = f"{lh.Thinking().message}</think>\n\n"
    n_closing = len(lh.tokenize(context.model, closing, parse_special=True))
    assert stats.n_prefill_tokens <= stats.n_prompt_tokens + 2 * n_closing
    assert stats.n_decode_tokens <= 2 * (BUDGET + 2)  # "Politics" are three tokens


@pytest.mark.long(reason="several calls of a real model")
def test_several_thoughts_give_mean_and_spread(
    context: lh.Context, tmp_path: Path
) -> None:
    def classified(journal: Path | None = None, **more: Any) -> lh.types.ClassifyResults:
        how = {"thinking": BUDGET, "n_thoughts": 3, "journal": journal, **CHAT, **more}
        return lh.classify_parallel(context, ASKED, ["Yes", "No"], **how)

    path = tmp_path / "thoughts.journal"
    several = classified(path)
    assert several.thoughts is not None
    assert several.between is not None
    texts = [[thought.text for thought in thoughts] for thoughts in several.thoughts]
    assert [len(set(thoughts)) for thoughts in texts] == [3, 3]
    # The same thoughts, as single samples with their own scores.
    entries = [e for e in lh.journal_read(path) if e.thinking is not None]
    assert sorted(e.thinking.strip() for e in entries) == sorted(
        t for thoughts in texts for t in thoughts
    )
    by_text = {e.thinking.strip(): e.numbers for e in entries}
    for i, thoughts in enumerate(texts):
        scores = np.array([by_text[text] for text in thoughts])
        # Both labels begin with the blank line, which has two tokens before a word.
        logs = scores[:, :2].sum(axis=1, keepdims=True) + scores[:, 2:]
        probs = np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True)
        np.testing.assert_allclose(several.probs[i], probs.mean(axis=0))
        np.testing.assert_allclose(several.between[i], probs.std(axis=0, ddof=1))
        np.testing.assert_allclose(np.exp(several.logprobs[i]), np.exp(logs).mean(axis=0))
    assert several.stats.n_thoughts == 6
    n_tokens = [
        [thought.n_tokens for thought in thoughts] for thoughts in several.thoughts
    ]
    assert several.n_thinking_tokens == list(map(sum, n_tokens))
    assert max(map(max, n_tokens)) == BUDGET
    frame = several.to_pandas()
    at = [several.names.index(label) for label in several.labels]
    assert list(frame["between"]) == [several.between[i, j] for i, j in enumerate(at)]
    assert list(frame.columns)[-5:] == [
        "between", "thinking", "n_thinking_tokens", "thinking_complete", "error",
    ]  # fmt: skip
    assert list(frame["thinking"]) == [thoughts[0] for thoughts in texts]
    # The journal returns the scores with their thoughts; without it, the seed draws the
    # same thoughts.
    again = classified(path)
    assert again.stats.n_journal == 6
    assert again.thoughts == several.thoughts
    np.testing.assert_array_equal(again.probs, several.probs)
    np.testing.assert_array_equal(classified().probs, several.probs)
    assert classified(seed=7).thoughts != several.thoughts


def test_a_prompt_whose_thought_fails_has_no_probabilities(context: lh.Context) -> None:
    labelled = lh.classify_parallel(
        context, ["x " * 12_000, ASKED[0]], LABELS, thinking=BUDGET, n_thoughts=2, **CHAT
    )
    assert labelled.finish_reasons == ["error", "stop"]
    assert labelled.error_codes[0] == "too_long"
    assert np.isnan(labelled.probs[0]).all()
    assert labelled.thoughts is not None
    assert [len(thoughts) for thoughts in labelled.thoughts] == [0, 2]
    assert labelled.thinking[0] is None
    assert labelled.n_thinking_tokens[0] == 0
    assert labelled.thinking_complete[0] is None
    frame = labelled.to_pandas()
    assert frame["n_thinking_tokens"].isna().tolist() == [True, False]
    assert frame["thinking_complete"].isna().tolist() == [True, False]
    assert frame["n_thinking_tokens"].dtype == "Int64"


def test_without_thinking_the_thought_is_closed(context: lh.Context) -> None:
    off = lh.classify_parallel(context, ASKED, LABELS, thinking=False, **CHAT)
    closed = [
        str(
            chat_prompts(
                context.model,
                [prompt],
                None,
                template=TEMPLATE,
                variables={"enable_thinking": False},
            )[0]
        )
        for prompt in ASKED
    ]
    plain = lh.classify_parallel(context, closed, LABELS, parse_special=True, space=False)
    np.testing.assert_array_equal(off.logprobs, plain.logprobs)
    assert off.thoughts is None
    assert off.thinking == [None, None]
    assert "thinking" not in off.to_pandas()
    # If the template has no switch, text closes the thought.
    bare = TEMPLATE.replace("{% if enable_thinking is", "{% if false and enable_x is")
    how = {**CHAT, "template": bare}
    text = lh.classify_parallel(context, ASKED, LABELS, thinking=False, **how)
    assert (text.coverage > 0).all()
    assert text.errors == [None, None]


@pytest.mark.long(reason="several calls of a real model")
def test_a_prefix_comes_between_thought_and_label(context: lh.Context) -> None:
    labelled = lh.classify_parallel(
        context, ASKED, LABELS[:2], thinking=BUDGET, prefix="The topic is", **CHAT
    )
    plain = lh.classify_parallel(context, ASKED, LABELS[:2], thinking=BUDGET, **CHAT)
    assert labelled.thinking == plain.thinking
    assert not np.allclose(labelled.probs, plain.probs)
    scored = lh.score_parallel(
        context,
        ASKED,
        [[f" {label}" for label in LABELS[:2]]] * 2,
        thinking=BUDGET,
        prefix="The topic is",
        **CHAT,
    )
    np.testing.assert_allclose(np.array(scored.logprob), labelled.logprobs, atol=1e-6)
    frame = scored.to_pandas()
    assert list(frame["thinking"]) == [t for t in labelled.thinking for _ in range(2)]
    assert list(frame["n_thinking_tokens"]) == [BUDGET] * 4
    assert frame["thinking_complete"].dtype == "boolean"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_thoughts": 2}, "n_thoughts is 2, but without thinking"),
        ({"n_thoughts": 0, "thinking": 8}, "n_thoughts must be between 1 and 1000"),
        ({"normalize": "pmi", "thinking": 8}, "normalize='pmi' subtracts the log"),
        ({"thinking": 8, "chat": False, "template": None}, "thinking needs chat=True"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(
    context: lh.Context, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        lh.classify_parallel(context, ASKED, LABELS, **{**CHAT, **settings})


def test_a_calibration_is_fitted_to_texts_alone(context: lh.Context) -> None:
    how = {"thinking": BUDGET, **CHAT}
    with pytest.raises(ValueError, match="'contextual' cannot be combined with"):
        lh.classify_calibrated(
            context, ASKED, LABELS, method="contextual", content_free=["N/A"], **how
        )
    calibrated = lh.classify_calibrated(context, ASKED, LABELS, **how)
    plain = lh.classify_parallel(context, ASKED, LABELS, **how)
    np.testing.assert_allclose(
        calibrated.probs, plain.calibrated(calibrated.calibration).probs
    )
    assert calibrated.thoughts == plain.thoughts


def test_only_tokens_behind_the_end_marker_move_into_a_label(smollm2: lh.Model) -> None:
    def ids(text: str) -> tuple[int, ...]:
        return tuple(lh.tokenize(smollm2, text, add_special=False, parse_special=True))

    end, after = ids("</think>"), ids("\n\n")
    stage = ThoughtStage(
        budget=4, is_open=True, end=end, after=after, closing=(*end, *after)
    )
    cut, (label,) = BehindThoughts(smollm2).join(stage, ["\n\nSports"])
    whole = ids("</think>\n\n\n\nSports")
    assert (*cut.end, *cut.after, *label) == whole
    assert (*cut.closing, *label) == whole
    assert len(cut.after) < len(after)
    # A label that could merge with the marker itself does not merge.
    bare = replace(stage, after=(), closing=end)
    kept, (label,) = BehindThoughts(smollm2).join(bare, [">>"])
    assert kept.end == end
    assert kept.closing == end
    assert tuple(label) == ids(">>")


def test_thoughts_are_joined() -> None:
    one = Thought(text="a", n_tokens=2, is_complete=True)
    two = Thought(text="b", n_tokens=3, is_complete=False)
    assert joined_thoughts([one, two]) == Thought(text="a", n_tokens=5, is_complete=False)
    assert joined_thoughts([]) is None
