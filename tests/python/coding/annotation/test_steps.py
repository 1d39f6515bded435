"""Tests of coding in steps: by the model, by a head, and again for unsure texts."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pytest
import tiny_models
from llamaherd.calls.asks.calibration import Calibration
from llamaherd.calls.journal.journal import Journal
from llamaherd.calls.run.embedding import EmbedCall
from llamaherd.coding.annotation import head_step
from llamaherd.coding.annotation.head_step import HeadStep
from llamaherd.coding.statistics.heads import TextHead, least_sure, text_head

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TOPICS = lh.Codebook("Which topic?", ["Sports", "Business", "Rain"])
UNIQUE = [f"text {i} {'ball' * (i % 3)} {'rain' * (i % 5)}" for i in range(150)]
TEXTS = [*UNIQUE, None, UNIQUE[0], "  "]
DATA = {"text": TEXTS}


@pytest.fixture(scope="module")
def encoder(tiny_path: Callable[[str], Path]) -> Iterator[lh.Model]:
    with lh.Model(tiny_path("bert")) as model:
        yield model


@pytest.fixture(scope="module")
def larger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("larger") / "larger.gguf"
    return tiny_models.write(path, "llama", seed=2)


@pytest.fixture(scope="module")
def plain(context: lh.Context) -> lh.Coded:
    return lh.annotate(DATA, "text", TOPICS, context)


@pytest.fixture(scope="module")
def stepped(context: lh.Context, encoder: lh.Model) -> lh.Coded:
    return lh.annotate(DATA, "text", TOPICS, context, until=60, embeddings=encoder)


def rows_of(coded: lh.Coded, step: str) -> list[int]:
    return [i for i, name in enumerate(coded.frame["step"]) if name == step]


def test_each_step_labels_its_texts(
    stepped: lh.Coded, plain: lh.Coded, encoder: lh.Model
) -> None:
    steps = stepped.frame["step"]
    assert list(stepped.columns)[-2:] == ["step", "error"]
    assert [steps[:150].count(name) for name in ("model", "head", "unsure")] == [
        60,
        81,
        9,
    ]
    assert (steps[150], steps[151], steps[152]) == (None, steps[0], None)
    assert stepped.probs is not None
    assert plain.probs is not None
    for step in ("model", "unsure"):
        rows = rows_of(stepped, step)
        np.testing.assert_allclose(stepped.probs[rows], plain.probs[rows], atol=1e-3)
    vectors = lh.embed_parallel(encoder, UNIQUE).vectors
    sample = [i for i in rows_of(stepped, "model") if i < 150]
    rest = [i for i in range(150) if i not in sample]
    head = text_head(vectors[sample], stepped.probs[sample], np.random.default_rng(1234))
    by_head = rows_of(stepped, "head")
    expected = head.probs(vectors[by_head]) if 151 not in by_head else None
    if expected is not None:
        np.testing.assert_allclose(stepped.probs[by_head], expected, atol=1e-3)
    unsure = least_sure(head.probs(vectors[rest]), 9)
    assert [rest[i] for i in unsure] == [i for i in rows_of(stepped, "unsure") if i < 150]
    assert np.isnan(stepped.frame["coverage"][by_head[0]] or np.nan)
    assert stepped.labels[by_head[0]] == TOPICS.names[stepped.probs[by_head[0]].argmax()]
    assert stepped.errors[:152] == [None] * 152


def test_the_record_and_the_print_describe_the_steps(
    stepped: lh.Coded, tmp_path: Path
) -> None:
    steps = stepped.run["steps"]
    by_step = {one["step"]: one for one in steps["each"]}
    assert [one["n_texts"] for one in steps["each"]] == [60, 81, 9]
    assert sum(one["share"] for one in steps["each"]) == pytest.approx(1, abs=1e-5)
    assert by_step["head"]["agreement"]["n"] == 60
    assert 0 <= by_step["head"]["agreement"]["value"] <= 1
    assert by_step["unsure"]["agreement"]["n"] == 9
    assert steps["embeddings"]["sha256"]
    assert all(one["seconds"] >= 0 for one in steps["each"])
    assert "llama.gguf labelled 60 texts (40.0%), drawn at random" in repr(stepped)
    # `settings` contains the settings of the model's labels
    assert "until" not in stepped.run["settings"]
    page = lh.report(stepped, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "A classifier on embeddings by bert.gguf" in page
    assert "81" in page.partition("The agreement of the head")[2]


def test_a_second_run_computes_nothing(
    context: lh.Context,
    encoder: lh.Model,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(head_step, "BLOCK", 32)
    sizes: list[int] = []
    of_call = EmbedCall.__init__

    def spy(self: EmbedCall, texts: Any, *more: Any, **how: Any) -> None:
        sizes.append(len(texts))
        of_call(self, texts, *more, **how)

    monkeypatch.setattr(EmbedCall, "__init__", spy)
    how: dict[str, Any] = {
        "until": 60,
        "embeddings": encoder,
        "journal": tmp_path / "j",
        "calibrate": "batch",
    }
    first = lh.annotate(DATA, "text", TOPICS, context, **how)
    assert sizes == [60, 32, 32, 26]  # the remaining texts in blocks of at most 32
    again = lh.annotate(DATA, "text", TOPICS, context, **how)
    assert len(sizes) == 4
    assert again.stats.n_journal == again.stats.n_prompts == 69
    assert again.labels == first.labels
    np.testing.assert_array_equal(again.probs, first.probs)
    assert again.frame["step"] == first.frame["step"]
    assert again.run["steps"]["each"][1]["n_journal"] == 90
    assert "from the journal" in repr(again)
    # Another sample gives another head.
    lh.annotate(DATA, "text", TOPICS, context, **{**how, "seed": 5})
    assert len(sizes) == 8


def test_an_ended_run_goes_on(
    context: lh.Context,
    encoder: lh.Model,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(head_step, "BLOCK", 32)
    n_blocks = 0
    of_call = EmbedCall.__init__

    def ending(self: EmbedCall, texts: Any, *more: Any, **how: Any) -> None:
        nonlocal n_blocks
        n_blocks += 1
        if n_blocks == 3:
            job.cancel()
        of_call(self, texts, *more, **how)

    monkeypatch.setattr(EmbedCall, "__init__", ending)
    how: dict[str, Any] = {"until": 60, "embeddings": encoder, "journal": tmp_path / "j"}
    job = lh.start_annotate(DATA, "text", TOPICS, context, **how)
    part = job.results()
    done = sum(label is not None for label in part.labels)
    assert 92 <= done <= 93  # the sample and one block; a copy of a text may be added
    assert "cancelled" in part.error_codes
    n_blocks = 10
    whole = lh.annotate(DATA, "text", TOPICS, context, **how)
    assert whole.run["steps"]["each"][1]["n_journal"] == 32
    assert None not in whole.labels[:150]


def test_the_model_is_calibrated_once(context: lh.Context, encoder: lh.Model) -> None:
    coded = lh.annotate(
        DATA, "text", TOPICS, context,
        until=60, embeddings=encoder, calibrate="batch", unsure=0.5,
    )  # fmt: skip
    raw = lh.annotate(DATA, "text", TOPICS, context)
    assert raw.probs is not None
    calibration = Calibration.from_json(coded.run["calibration"])
    for step in ("model", "unsure"):
        rows = rows_of(coded, step)
        expected = calibration.apply(raw.probs[rows])
        np.testing.assert_allclose(coded.probs[rows], expected, atol=1e-3)
    assert len(rows_of(coded, "unsure")) >= 45


def test_a_larger_model_labels_what_the_first_is_unsure_of(
    context: lh.Context, plain: lh.Coded, larger: Path
) -> None:
    updates: list[lh.types.Progress] = []
    coded = lh.annotate(
        DATA, "text", TOPICS, context, larger=larger, unsure=0.2, progress=updates.append
    )
    assert updates[-1].n_done == updates[-1].n_total == 180
    with lh.Model(larger) as model, lh.Context(model) as second:
        other = lh.annotate(DATA, "text", TOPICS, second)
        repeated = lh.annotate(DATA, "text", TOPICS, context, larger=second, unsure=0.2)
    assert plain.probs is not None
    unsure = set(least_sure(plain.probs[:150], 30).tolist())
    assert {i for i in rows_of(coded, "unsure") if i < 150} == unsure
    for i in range(150):
        expected = other if i in unsure else plain
        np.testing.assert_allclose(coded.probs[i], expected.probs[i], atol=1e-3)
    assert repeated.labels == coded.labels
    agreed = np.mean([plain.labels[i] == other.labels[i] for i in unsure])
    step = coded.run["steps"]["each"][1]
    assert step["agreement"]["value"] == pytest.approx(agreed)
    assert (step["step"], step["by"], step["n_texts"]) == ("unsure", "larger.gguf", 30)
    assert coded.run["steps"]["larger"]["file"] == "larger.gguf"


@pytest.mark.long(reason="codes or estimates many times")
def test_both_at_once_and_texts_enough(
    context: lh.Context, encoder: lh.Model, larger: Path
) -> None:
    how: dict[str, Any] = {"embeddings": encoder, "larger": larger, "unsure": 0.2}
    coded = lh.annotate(DATA, "text", TOPICS, context, until=50, **how)
    assert [one["n_texts"] for one in coded.run["steps"]["each"]] == [40, 80, 30]
    assert [one["by"] for one in coded.run["steps"]["each"]] == [
        "llama.gguf", "bert.gguf", "larger.gguf",
    ]  # fmt: skip
    all_ = lh.annotate(DATA, "text", TOPICS, context, until=1000, embeddings=encoder)
    assert set(all_.frame["step"]) == {"model", None}
    assert "drawn" not in all_.run["steps"]["methods"]
    nothing = lh.annotate(
        {"text": [None]}, "text", TOPICS, context, until=50, embeddings=encoder
    )
    assert nothing.labels == [None]


def sampled(row: int, n: int) -> int:
    """Return a seed whose sample of 50 of 100 texts contains a row n times (0 or 1)."""
    for seed in range(100):
        rng = np.random.default_rng([seed, 100])
        if (rng.choice(100, 50, replace=False) == row).sum() == n:
            return seed
    raise AssertionError


def test_failures_keep_their_rows(tiny_path: Any, encoder: lh.Model) -> None:
    texts = [*UNIQUE[:99], "long " * 400]
    with lh.Model(tiny_path("llama")) as model, lh.Context(model, n_ctx=200) as small:
        coded = lh.annotate(
            {"text": texts}, "text", TOPICS, small,
            until=50, embeddings=encoder, unsure=1, on_error="stop", seed=sampled(99, 0),
        )  # fmt: skip
        assert coded.errors == [None] * 100
        # the head can label a text on which the model fails
        assert coded.frame["step"][99] == "head"
        with pytest.raises(lh.GenerationError, match="row 99 failed") as raised:
            lh.annotate(
                {"text": texts}, "text", TOPICS, small,
                until=50, embeddings=encoder, on_error="stop", seed=sampled(99, 1),
            )  # fmt: skip
        assert len(raised.value.results) == 100


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"larger": "no.gguf"}, "larger"),
        ({"until": 60, "embeddings": "no.gguf"}, "embeddings"),
    ],
)
def test_a_model_that_is_not_there_is_named(
    context: lh.Context, settings: dict[str, Any], name: str
) -> None:
    with pytest.raises(lh.ModelLoadError, match=f"{name} names no file"):
        lh.annotate(DATA, "text", TOPICS, context, **settings)


def test_a_head_is_read_as_it_was_written() -> None:
    rng = np.random.default_rng(3)
    vectors = rng.normal(size=(200, 6)).astype(np.float32)
    probs = np.exp(2 * vectors[:, :3] + rng.normal(size=(200, 3)))
    probs /= probs.sum(axis=1, keepdims=True)
    head = text_head(vectors, probs, rng)
    again = TextHead.from_dict(head.to_dict())
    np.testing.assert_array_equal(again.probs(vectors), head.probs(vectors))
    assert again.agreement() == head.agreement()
    assert head.agreement().value > 0.7
    others = rng.normal(size=(5000, 6))
    seen = 2 * others[:, :3] + rng.normal(size=(5000, 3))
    hits = head.probs(others).argmax(axis=1) == seen.argmax(axis=1)
    agreement = head.agreement()
    assert agreement.low < hits.mean() < agreement.high
    assert head.agreement(0.7).value > agreement.value


def test_labels_that_cannot_be_stored_are_kept(
    context: lh.Context,
    encoder: lh.Model,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add = Journal.add

    def refusing(self: Journal, entries: list[Any]) -> None:
        if any("head" in entry.settings for entry in entries):
            raise sqlite3.OperationalError("database or disk is full")
        add(self, entries)

    monkeypatch.setattr(Journal, "add", refusing)
    with pytest.warns(lh.JournalWarning, match="could not be stored in .*disk is full"):
        coded = lh.annotate(
            DATA, "text", TOPICS, context,
            until=60, embeddings=encoder, journal=tmp_path / "j",
        )  # fmt: skip
    assert None not in coded.labels[:150]


def test_texts_without_an_embedding_go_to_the_model(
    context: lh.Context, encoder: lh.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = HeadStep._vectors

    def failing(self: HeadStep, texts: list[str]) -> Any:
        embedded = np.array(vectors(self, texts))
        embedded[-3:] = np.nan
        return embedded

    monkeypatch.setattr(HeadStep, "_vectors", failing)
    coded = lh.annotate(
        DATA, "text", TOPICS, context, until=60, embeddings=encoder, unsure=0
    )
    steps = coded.frame["step"][:150]
    assert [steps.count(step) for step in ("model", "head", "unsure")] == [60, 87, 3]
    assert coded.run["steps"]["each"][1]["n_failed"] == 3
    assert coded.run["steps"]["each"][2]["agreement"]["value"] is None
    monkeypatch.setattr(
        HeadStep, "_vectors", lambda _, texts: np.full((len(texts), 4), np.nan)
    )
    with pytest.raises(ValueError, match="until must leave at least 30 texts"):
        lh.annotate(DATA, "text", TOPICS, context, until=60, embeddings=encoder)
