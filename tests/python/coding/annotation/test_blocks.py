"""Tests of coding many texts: in blocks, and long texts in parts."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, ClassVar

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.calls.journal.journal import Journal
from llamaherd.calls.run.call import Call
from llamaherd.coding.annotation import call_sequence, model_step, texts
from llamaherd.coding.annotation.texts import parts_of
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from llamaherd.calls.asks.options import GenerateOptions

TOPICS = lh.Codebook(
    "Which topic?",
    {"Sports": "Matches.", "Business": ""},
    examples=[("A goal.", "Sports"), ("Shares fell.", "Business")],
)
LONG = " ".join(f"word{i}" for i in range(400))
DATA = {"text": ["The team won.", None, "Profits rose.", "The team won.", "Rain.", "?"]}


def test_blocks_are_one_call(
    context: lh.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = lh.annotate(DATA, "text", TOPICS, context)
    monkeypatch.setattr(model_step, "BLOCK", 2)
    steps: list[lh.types.Progress] = []
    blocks = lh.annotate(DATA, "text", TOPICS, context, progress=steps.append)
    assert blocks.labels == whole.labels
    np.testing.assert_allclose(blocks.probs, whole.probs, atol=1e-3)
    assert blocks.stats.n_prompts == 4
    assert {progress.n_total for progress in steps} == {4}
    assert blocks.stats.prefill_tokens_per_s > 0


@pytest.mark.parametrize("calibrate", [None, "contextual"])
def test_progress_ends_at_its_total(context: lh.Context, calibrate: Any) -> None:
    """Prompts without content were counted as done, but not in the total."""
    steps: list[lh.types.Progress] = []
    lh.annotate(DATA, "text", TOPICS, context, calibrate=calibrate, progress=steps.append)
    assert all(progress.n_done <= progress.n_total for progress in steps)
    assert steps[-1].n_done == steps[-1].n_total == 4 + 3 * bool(calibrate)


def test_blocks_do_not_draw_alike(
    context: lh.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds: list[int] = []
    prepare = model_step.prepare_generate

    def spy(
        ctx: lh.Context, prompts: list[str], options: GenerateOptions, **more: Any
    ) -> Any:
        if prompts:  # a call without prompts only checks the arguments
            seeds.append(options.sampling["seed"])
        return prepare(ctx, prompts, options, **more)

    monkeypatch.setattr(model_step, "BLOCK", 1)
    monkeypatch.setattr(model_step, "prepare_generate", spy)
    for _ in range(2):
        lh.annotate(
            DATA, "text", TOPICS, context, method="generate", temperature=1.0, seed=7
        )
    assert seeds[0] == 7
    assert len(set(seeds[:4])) == 4
    assert seeds[4:] == seeds[:4]


def test_a_block_is_prepared_while_the_last_one_runs(
    context: lh.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next block must not start, because results would then depend on timing."""
    n_running, most, n_prepared = 0, 0, 0
    steps, prepare = Call.steps, model_step.prepare_classify
    is_prepared = threading.Event()

    def spy_prepare(*args: Any, **more: Any) -> Any:
        nonlocal n_prepared
        block = prepare(*args, **more)
        n_prepared += bool(args[1])
        if n_prepared > 1:
            is_prepared.set()
        return block

    def spy_steps(call: Call, *args: Any, **more: Any) -> Any:
        nonlocal n_running, most
        n_running += 1
        most = max(most, n_running)
        # otherwise the next block would be prepared too late
        waited.append(is_prepared.wait(30))
        try:
            return (yield from steps(call, *args, **more))
        finally:
            n_running -= 1

    waited: list[bool] = []
    monkeypatch.setattr(Call, "steps", spy_steps)
    monkeypatch.setattr(model_step, "prepare_classify", spy_prepare)
    monkeypatch.setattr(model_step, "BLOCK", 3)
    data = {"text": [f"Text {i}." for i in range(20)]}
    blocks = lh.annotate(data, "text", TOPICS, context)
    assert waited == [True] * 7
    assert most == 1
    monkeypatch.setattr(model_step, "BLOCK", 2048)
    whole = lh.annotate(data, "text", TOPICS, context)
    assert blocks.labels == whole.labels
    assert blocks.stats.wall_s <= blocks.run["seconds"] + 0.01


class SpiedJournal(Journal):
    """Journal that records when it is opened and closed."""

    events: ClassVar[list[str]] = []

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.events.append("opened")

    def close(self) -> None:
        super().close()
        self.events.append("closed")


@pytest.mark.parametrize("calibrate", [None, "contextual"])
def test_a_journal_is_opened_once_for_all_blocks(
    context: lh.Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, calibrate: Any
) -> None:
    monkeypatch.setattr(model_step, "BLOCK", 1)
    monkeypatch.setattr(call_sequence, "Journal", SpiedJournal)
    monkeypatch.setattr(SpiedJournal, "events", [])
    path = tmp_path / "run.journal"
    options = {"journal": path, "calibrate": calibrate}
    nothing = lh.annotate({"text": [None]}, "text", TOPICS, context, **options)
    assert nothing.labels == [None]
    assert SpiedJournal.events == []
    assert not path.exists()
    lh.annotate(DATA, "text", TOPICS, context, **options)
    assert SpiedJournal.events == ["opened", "closed"]
    again = lh.annotate(DATA, "text", TOPICS, context, **options)
    assert SpiedJournal.events == ["opened", "closed"] * 2
    assert again.stats.n_journal == again.stats.n_prompts == 4 + 3 * bool(calibrate)


def test_what_runs_is_stored_though_the_next_block_cannot_be_made(
    context: lh.Context, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    prepare, n_prepared = model_step.prepare_classify, 0

    def refuse(*args: Any, **more: Any) -> Any:
        nonlocal n_prepared
        n_prepared += bool(args[1])
        if n_prepared == 3:
            raise MemoryError("too many texts")
        return prepare(*args, **more)

    monkeypatch.setattr(model_step, "prepare_classify", refuse)
    monkeypatch.setattr(model_step, "BLOCK", 50)
    monkeypatch.setattr(call_sequence, "Journal", SpiedJournal)
    monkeypatch.setattr(SpiedJournal, "events", [])
    data = {"text": [f"Text {i}." for i in range(200)]}
    path = tmp_path / "run.journal"
    with pytest.raises(MemoryError, match="too many"):
        lh.annotate(data, "text", TOPICS, context, journal=path)
    assert SpiedJournal.events == ["opened", "closed"]
    assert len(lh.journal_read(path)) >= 50
    assert context.load.n_running == 0


@pytest.mark.parametrize("on_error", ["return", "stop"])
def test_a_failure_ends_the_next_block_too(
    context: lh.Context, monkeypatch: pytest.MonkeyPatch, on_error: Any
) -> None:
    monkeypatch.setattr(model_step, "BLOCK", 2)
    long = LONG * (1 + context.model.n_ctx_train // 1000)
    data = {"text": ["a", "b", long, *(f"Text {i}." for i in range(60))]}
    if on_error == "stop":
        with pytest.raises(lh.GenerationError, match="row 2 failed") as error:
            lh.annotate(data, "text", TOPICS, context, on_error=on_error)
        coded = error.value.results
    else:
        coded = lh.annotate(data, "text", TOPICS, context, on_error=on_error)
    assert coded.labels[0] is not None
    assert coded.errors[-1] == "not computed: the call ended before"
    assert context.load.n_running == 0


def test_a_context_that_is_closed_ends_all_blocks(
    tiny_path: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_step, "BLOCK", 50)
    data = {"text": [f"Text {i}." for i in range(5000)]}
    with lh.Model(tiny_path("llama")) as model, lh.Context(model) as context:
        job = lh.start_annotate(data, "text", TOPICS, context)
        wait_until(lambda: job.progress.n_done > 0)
        context.close()
        with pytest.raises(lh.ContextClosedError):
            job.results()


def test_a_long_text_fails_alone(context: lh.Context) -> None:
    n = context.model.n_ctx_train
    data = {"text": ["The team won.", LONG * (1 + n // 1000)]}
    coded = lh.annotate(data, "text", TOPICS, context)
    assert coded.errors[0] is None
    assert coded.labels[0] is not None
    assert "tokens" in str(coded.errors[1])
    assert coded.labels[1] is None
    for split in ("first", "last", "majority", "mean"):
        cut = lh.annotate(data, "text", TOPICS, context, split=split)
        assert cut.errors == [None, None]
        assert cut.labels[0] == coded.labels[0]
        assert cut.labels[1] is not None
    with pytest.raises(lh.GenerationError, match=r"row 1 failed: .*tokens") as error:
        lh.annotate(data, "text", TOPICS, context, on_error="stop")
    assert isinstance(error.value.results, lh.Coded)


def test_parts_are_joined_by_the_rule(context: lh.Context) -> None:
    def coded(split: Any) -> Any:
        return lh.annotate(
            {"text": [LONG, "x"]}, "text", TOPICS, context, split=split, part_tokens=200
        )

    parts = parts_of(context.model, LONG, 200)
    assert "".join(parts) == LONG
    assert len(parts) > 2
    assert all(
        len(lh.tokenize(context.model, part, add_special=False)) <= 200 for part in parts
    )
    by_part = lh.annotate({"text": parts}, "text", TOPICS, context)
    assert by_part.probs is not None
    np.testing.assert_allclose(coded("first").probs[0], by_part.probs[0], atol=1e-6)
    np.testing.assert_allclose(coded("last").probs[0], by_part.probs[-1], atol=1e-6)
    np.testing.assert_allclose(
        coded("mean").probs[0], by_part.probs.mean(axis=0), atol=1e-6
    )
    short = lh.annotate({"text": ["x"]}, "text", TOPICS, context)
    assert short.probs is not None
    for rule in ("first", "last", "mean", "majority"):  # "x" has one part
        np.testing.assert_allclose(coded(rule).probs[1], short.probs[0], atol=1e-6)
    votes = [by_part.labels.count(name) / len(parts) for name in TOPICS.names]
    np.testing.assert_allclose(coded("majority").probs[0], votes, atol=1e-6)


def test_long_texts_are_tokenized_in_pieces(
    context: lh.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenize, lengths = texts.vocabulary.tokenize, []

    def spy(handle: Any, text: str, **more: Any) -> Any:
        lengths.append(len(text))
        return tokenize(handle, text, **more)

    monkeypatch.setattr(texts.vocabulary, "tokenize", spy)
    for long in (LONG * 10, "x" * 30_000):
        parts = parts_of(context.model, long, 500)
        assert "".join(parts) == long
    assert max(lengths) <= 4096


def test_parts_are_short_though_there_is_room(
    context: lh.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_step, "PART", 100)
    fits, long = "The team won. " * 10, "The team won. " * 400
    data = {"text": [fits, long]}
    coded = lh.annotate(data, "text", TOPICS, context, split="mean")
    parts = parts_of(context.model, long, 100)
    assert len(parts) > 20
    assert coded.stats.n_prompts == 1 + len(parts)  # texts that fit are not split
    assert len(parts_of(context.model, fits, 100)) > 1


def test_texts_without_white_space_are_cut_as_well(context: lh.Context) -> None:
    for text in ("x" * 1000, "\u6771\u4eac" * 300, " " * 500):
        parts = parts_of(context.model, text, 50)
        assert "".join(parts) == text
        assert all(parts)
