"""Tests of coding the texts of data frames, with a tiny model and a real model."""

from __future__ import annotations

import json
import warnings
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from llamaherd.coding import frames
from llamaherd.coding.annotation import model_step
from llamaherd.coding.annotation.model_step import ModelStep
from llamaherd.coding.annotation.prompts import frame_of
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TOPICS = lh.Codebook(
    "Which topic?",
    {"Sports": "Matches.", "Business": ""},
    examples=[("A goal.", "Sports"), ("Shares fell.", "Business")],
)
TEXTS = ["The team won.", None, "Profits rose.", "The team won.", "Rain.", "?"]
DATA = {"id": [3, 1, 2, 9, 8, 7], "text": TEXTS}
COLUMNS = ["label", "prob", "margin", "entropy", "coverage", "p_Sports", "p_Business"]


def classified(context: lh.Context, codebook: lh.Codebook, **options: Any) -> Any:
    """Return what `classify_parallel` returns for the texts that are not missing."""
    prompts = frame_of(codebook).prompts([text for text in TEXTS if text is not None])
    return lh.classify_parallel(context, prompts, codebook.names, **options)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table, dict])
def test_says_what_classify_parallel_says(context: lh.Context, make: Any) -> None:
    frame = make(DATA)
    coded = lh.annotate(frame, "text", TOPICS, context)
    assert type(coded.frame) is type(frame)
    assert coded.frame is coded.to_frame()
    assert frames.names(coded.frame) == ["id", "text", *COLUMNS, "error"]
    assert frames.column(coded.frame, "id", "id") == DATA["id"]
    assert frames.column(coded.frame, "text", "text") == TEXTS
    expected = classified(context, TOPICS)
    labels = list(expected.labels)
    labels.insert(1, None)
    assert coded.labels == labels
    assert frames.column(coded.frame, "label", "label") == labels
    assert coded.errors == [None] * 6
    assert coded.names == TOPICS.names
    rows = [i for i, text in enumerate(TEXTS) if text is not None]
    assert coded.probs is not None
    np.testing.assert_allclose(coded.probs[rows], expected.probs, atol=1e-6)
    assert np.isnan(coded.probs[1]).all()
    for name in COLUMNS[1:5]:
        values = frames.column(coded.frame, name, name)
        assert values[1] is None
        numbers = [values[i] for i in rows]
        np.testing.assert_allclose(numbers, getattr(expected, name), atol=1e-6)
    assert coded.stats.n_prompts == 4  # equal texts are computed once
    n = sum(label == "Sports" for label in labels)
    counts = sorted([(-n, 0, f"Sports {n}"), (n - 5, 1, f"Business {5 - n}")])
    shares = ", ".join(count for *_, count in counts)
    head, note, *_ = repr(coded).splitlines()
    assert head == f"<Coded: 6 texts, 2 labels ({shares}), 1 missing, 0 failed>"
    assert note.startswith("Note: Median coverage is")  # the model is random


@pytest.mark.parametrize("method", ["classify", "generate"])
def test_a_codebook_of_several_labels_may_have_one(
    context: lh.Context, method: Any
) -> None:
    book = lh.Codebook("Which?", ["a"], type="multiple")
    coded = lh.annotate(DATA, "text", book, context, method=method)
    assert coded.errors == [None] * 6
    assert coded.labels[1] is None
    assert (coded.probs is None) is (method == "generate")
    if coded.probs is not None:
        assert coded.probs.shape == (6, 1)
        assert coded.labels[0] == ("a" if coded.probs[0, 0] > 0.5 else "")


def test_frames_of_pandas_keep_their_index_and_get_categories(
    context: lh.Context,
) -> None:
    frame = pd.DataFrame(DATA, index=list("aabbcc"))
    table = lh.annotate(frame, "text", TOPICS, context).frame
    assert list(table.index) == list("aabbcc")
    assert list(table["label"].cat.categories) == ["Sports", "Business"]
    assert list(frame.columns) == ["id", "text"]
    scale = lh.Codebook("How much?", ["low", "mid", "high"], type="ordinal")
    table = lh.annotate(frame, "text", scale, context).frame
    assert table["label"].cat.ordered
    means = table["p_low"] + 2 * table["p_mid"] + 3 * table["p_high"]
    np.testing.assert_allclose(table["mean"], means)


ANGER = lh.Codebook("How angry?", lh.number_scale(0, 10))


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("method", ["classify", "generate"])
@pytest.mark.parametrize(("book", "dtype"), [(TOPICS, "category"), (ANGER, "Int64")])
def test_no_texts_have_the_same_columns(
    context: lh.Context, n: int, method: Any, book: lh.Codebook, dtype: str
) -> None:
    frame = pd.DataFrame({"text": pd.Series([None] * n, dtype="string")})
    some = lh.annotate(pd.DataFrame(DATA), "text", book, context, method=method)
    none = lh.annotate(frame, "text", book, context, method=method)
    assert str(some.frame["label"].dtype) == dtype
    assert list(none.frame.columns) == [c for c in some.frame.columns if c != "id"]
    assert len(none) == n
    assert none.labels == [None] * n
    for name in some.columns.values():
        assert none.frame[name].dtype == some.frame[name].dtype, name


def test_columns_have_the_names_that_are_wanted(context: lh.Context) -> None:
    def named(columns: Any) -> list[str]:
        coded = lh.annotate(DATA, "text", TOPICS, context, columns=columns)
        return list(coded.frame)[2:]

    assert named("my_") == [f"my_{name}" for name in [*COLUMNS, "error"]]
    names = {"label": "topic", "p_": "share_", "p_Business": "b", "margin": None}
    assert named(names) == [
        "topic", "prob", "entropy", "coverage", "share_Sports", "b", "error",
    ]  # fmt: skip
    taken = {**DATA, "prob": [0] * 6}
    with pytest.raises(
        lh.ArgumentError, match=r"'prob' already.*columns={'prob': ...}"
    ) as refused:
        lh.annotate(taken, "text", TOPICS, context)
    error = refused.value
    assert (error.argument, error.place, error.code) == ("columns", ("prob",), "conflict")
    lh.annotate(taken, "text", TOPICS, context, columns={"prob": "q"})
    with pytest.raises(ValueError, match="there is no 'topic'; there are 'label'"):
        named({"topic": "x"})
    with pytest.raises(ValueError, match="two new columns would be called 'x'"):
        named({"label": "x", "prob": "x"})
    with pytest.raises(TypeError, match="columns must be a prefix"):
        named(3)


def test_several_labels_have_a_probability_each(context: lh.Context) -> None:
    book = lh.Codebook(
        "Which?", ["a", "b", "c"], type="multiple", examples=[("x", ["a", "c"])]
    )
    coded = lh.annotate(DATA, "text", book, context)
    prompts = frame_of(book).prompts([text for text in TEXTS if text is not None])
    answers = lh.classify_parallel(context, prompts, ["yes", "no"])
    rows = [i for i, text in enumerate(TEXTS) if text is not None]
    assert coded.probs is not None
    np.testing.assert_allclose(
        coded.probs[rows], answers.probs[:, 0].reshape(5, 3), atol=1e-6
    )
    assert list(coded.frame)[2:] == ["label", "coverage", "p_a", "p_b", "p_c", "error"]
    for label, row in zip(coded.labels, coded.probs, strict=True):
        expected = "; ".join(n for n, p in zip("abc", row, strict=True) if p > 0.5)
        assert label == (None if np.isnan(row).any() else expected)
    written = lh.annotate(DATA, "text", book, context, method="generate")
    assert written.probs is None
    assert [label is None for label in written.labels] == [text is None for text in TEXTS]


def test_labels_that_are_written_are_labels(context: lh.Context) -> None:
    coded = lh.annotate(
        DATA, "text", TOPICS, context, method="generate", temperature=2.0, seed=5
    )
    assert list(coded.frame)[2:] == ["label", "error"]
    assert set(coded.labels) <= {"Sports", "Business", None}
    assert coded.labels[0] == coded.labels[3]
    assert coded.run["settings"]["seed"] == 5
    again = lh.annotate(
        DATA, "text", TOPICS, context, method="generate", temperature=2.0, seed=5
    )
    assert again.labels == coded.labels


@pytest.mark.model
def test_fields_are_columns(smollm2: lh.Model) -> None:
    schema = {
        "type": "object",
        "properties": {
            "kind": {"enum": ["a", "b"]},
            "n": {"type": "integer", "minimum": 0, "maximum": 9},
        },
        "required": ["kind", "n"],
        "additionalProperties": False,
    }
    book = lh.Codebook("What?", type="fields", schema=schema)
    with lh.Context(smollm2) as context:
        coded = lh.annotate(DATA, "text", book, context)
        assert list(coded.frame)[2:] == ["kind", "n", "error"]
        assert coded.frame["kind"][1] is None
        assert set(coded.frame["kind"]) <= {"a", "b", None}
        assert json.loads(str(coded.labels[0])) == {
            "kind": coded.frame["kind"][0],
            "n": coded.frame["n"][0],
        }
        assert coded.names == ()
        cut = lh.annotate(DATA, "text", book, context, max_tokens=2)
        assert cut.labels == [None] * 6
        assert "cut off" in str(cut.errors[0])


def test_calibrations_are_those_of_all_rows(context: lh.Context) -> None:
    plain = lh.annotate(DATA, "text", TOPICS, context)
    fitted = lh.annotate(DATA, "text", TOPICS, context, calibrate="batch")
    assert plain.probs is not None
    assert fitted.probs is not None
    rows = [i for i, text in enumerate(TEXTS) if text is not None]
    prior = plain.probs[rows].mean(axis=0)
    shares = plain.probs / prior
    np.testing.assert_allclose(
        fitted.probs, shares / shares.sum(axis=1, keepdims=True), atol=1e-6
    )
    missing = TEXTS.index(None)
    for name in ("prob", "coverage"):
        assert fitted.frame[name][missing] is None
    np.testing.assert_allclose(
        [fitted.frame["coverage"][i] for i in rows],
        [plain.frame["coverage"][i] for i in rows],
    )
    stored = lh.Calibration.from_json(fitted.run["calibration"])
    assert stored.prior == pytest.approx(tuple(prior))
    free = lh.annotate(DATA, "text", TOPICS, context, calibrate="contextual")
    prompts = frame_of(TOPICS).prompts(list(model_step.CONTENT_FREE))
    prior = lh.classify_parallel(context, prompts, TOPICS.names).probs.mean(axis=0)
    stored = lh.Calibration.from_json(free.run["calibration"])
    assert stored.prior == pytest.approx(tuple(prior), abs=1e-6)


def test_journals_have_the_results(
    context: lh.Context,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    first = lh.annotate(DATA, "text", TOPICS, context, journal=True)
    [path] = tmp_path.glob("*.journal")
    assert path.name.startswith(TOPICS.hash[:12])
    assert capsys.readouterr().err == f"llamaherd: the journal is {path}\n"
    monkeypatch.setattr(model_step, "BLOCK", 3)
    again = lh.annotate(DATA, "text", TOPICS, context, journal=path)
    assert again.stats.n_journal == 4
    assert again.labels == first.labels
    assert capsys.readouterr().err == ""  # the caller knows this path
    for entry in lh.journal_read(path):  # no text was generated; all answers are complete
        assert (entry.text, entry.complete, entry.finish_reason) == (None, True, "stop")
        assert entry.numbers
    np.testing.assert_allclose(again.probs, first.probs, atol=1e-6)


def test_the_record_can_be_run_again(context: lh.Context) -> None:
    coded = lh.annotate(
        pd.DataFrame(DATA), "text", TOPICS, context, versions={"R": "4.5.0"}
    )
    run = json.loads(json.dumps(coded.run))
    assert run == coded.run
    assert lh.Codebook.from_dict(run["codebook"]["content"]) == TOPICS
    assert run["codebook"]["hash"] == TOPICS.hash
    assert run["model"]["sha256"] == context.model.file.sha256().hex()  # type: ignore[union-attr]
    assert run["model"]["size_bytes"] == context.model.path.stat().st_size  # type: ignore[union-attr]
    assert run["context"]["n_ctx"] == "auto"
    assert run["versions"]["R"] == "4.5.0"
    assert {"python", "llamaherd", "llama-cpp-python"} <= set(run["versions"])
    assert {"processor", "n_cores", "memory_bytes"} <= set(run["machine"])
    assert (run["n_rows"], run["n_texts"]) == (6, 4)
    assert len(run["texts_sha256"]) == 64
    prompts = run["prompts"]
    prompt = prompts["before"] + "Rain." + prompts["after"][0]
    assert prompt == frame_of(TOPICS).prompts(["Rain."])[0]
    assert prompt.startswith(prompts["shared"])
    repeated = lh.annotate(DATA, "text", TOPICS, context)
    assert repeated.run["texts_sha256"] == run["texts_sha256"]
    other = lh.annotate({"text": ["a", "b"]}, "text", TOPICS, context)
    swapped = lh.annotate({"text": ["b", "a"]}, "text", TOPICS, context)
    assert other.run["texts_sha256"] != swapped.run["texts_sha256"]


def test_ctrl_c_keeps_what_is_done(
    context: lh.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_step, "BLOCK", 1)
    data = {"text": [f"Text {i}." for i in range(200)]}

    prepared = ModelStep._labelling

    def hold(step: ModelStep, texts: Sequence[str]) -> object:
        calls = step._calls
        if calls.progress.n_done >= 3:  # otherwise all texts may end before the report
            wait_until(lambda: calls.is_over)
        return prepared(step, texts)

    def stop(progress: lh.types.Progress) -> None:
        if progress.n_done >= 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(ModelStep, "_labelling", hold)
    with pytest.raises(lh.Interrupted) as interrupted:
        lh.annotate(data, "text", TOPICS, context, progress=stop)
    coded = interrupted.value.results
    assert isinstance(coded, lh.Coded)
    n_done = sum(label is not None for label in coded.labels)
    assert 3 <= n_done < 200
    for label, error in zip(coded.labels, coded.errors, strict=True):
        assert (label is None) == (error == "not computed: the call ended before")


def test_jobs_run_beside_their_caller(context: lh.Context) -> None:
    job = lh.start_annotate(DATA, "text", TOPICS, context)
    assert job.wait(60)
    assert job.progress.n_done == 4
    assert job.results().labels == lh.annotate(DATA, "text", TOPICS, context).labels
    job = lh.start_annotate(
        {"text": list(map(str, range(20000)))}, "text", TOPICS, context
    )
    job.cancel()
    assert None in job.results().labels


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"text": "words"}, ValueError, "text must be a column .* not 'words'"),
        ({"text": "texts"}, ValueError, "there are id, text; did you mean 'text'"),
        ({"columns": {"lable": "x"}}, ValueError, "did you mean 'label'"),
        ({"text": "id"}, TypeError, "text: column 'id', row 0, must be a text, not 3"),
        ({"codebook": "c"}, TypeError, "codebook must be a Codebook, not 'c'"),
        ({"context": "c"}, TypeError, "context"),
        ({"frame": [1]}, TypeError, "the data frame must be one of"),
    ],
)
def test_what_is_wrong(
    context: lh.Context, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    defaults = {"frame": DATA, "text": "text", "codebook": TOPICS, "context": context}
    with pytest.raises(error, match=message):
        lh.annotate(**{**defaults, **arguments})


@pytest.mark.model
def test_chats_are_those_of_the_template(smollm2: lh.Model) -> None:
    book = lh.Codebook("Which?", ["Sports", "Business"], system="Be brief.")
    texts = ["The team won.", "Profits rose."]
    with lh.Context(smollm2, flash_attn=True) as context:
        coded = lh.annotate({"text": texts}, "text", book, context, chat=True)
        expected = lh.classify_parallel(
            context,
            frame_of(book, chat=True).prompts(texts),
            book.names,
            chat=True,
            system="Be brief.",
        )
    np.testing.assert_allclose(coded.probs, expected.probs, atol=1e-6)
    assert coded.run["prompts"]["chat_template"] == smollm2.chat_template
    assert "Be brief." in coded.run["prompts"]["shared"]


def test_a_text_without_content_gets_no_label(context: lh.Context) -> None:
    data = {"text": ["Rain.", "", None, " \n", "Rain."]}
    for method in ("classify", "generate"):
        coded = lh.annotate(data, "text", TOPICS, context, method=method)
        blank = [error == "the text is empty" for error in coded.errors]
        assert blank == [False, True, False, True, False]
        assert [label is None for label in coded.labels] == [
            False,
            True,
            True,
            True,
            False,
        ]
        assert coded.frame["error"] == coded.errors


@pytest.mark.parametrize("name", ["temperature", "max_tokens"])
def test_a_setting_of_generation_without_effect_warns(
    context: lh.Context, name: str
) -> None:
    with pytest.warns(UserWarning, match=f"{name} has no effect: only method='generate'"):
        lh.annotate(DATA, "text", TOPICS, context, **{name: 5})
    with pytest.raises(TypeError, match="versions must map names to versions"):
        lh.annotate(DATA, "text", TOPICS, context, versions=5)
    with pytest.raises(TypeError, match="codebook must be a Codebook, not 5"):
        lh.prompt_preview(5, "a")


@pytest.mark.parametrize(
    ("method", "way"), [("classify", "split='mean'"), ("generate", "split='first'")]
)
def test_the_error_of_a_long_text_names_the_split(
    context: lh.Context, method: Any, way: str
) -> None:
    data = {"text": ["Short.", "Long. " * 2000]}
    book = lh.Codebook("Which?", ["Sports", "Business"])
    options: dict[str, Any] = {"max_tokens": 4} if method == "generate" else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a random model
        coded = lh.annotate(data, "text", book, context, method=method, **options)
        parts = lh.annotate(
            data, "text", book, context, method=method, **options, split=way.split("'")[1]
        )
    assert coded.errors[0] is None or "too long" not in coded.errors[0]
    assert coded.errors[1] is not None
    assert coded.errors[1].endswith(f"; or code the text in parts, by {way}")
    assert coded.error_codes[1] == "too_long"
    assert parts.errors[1] is None or "too long" not in parts.errors[1]
