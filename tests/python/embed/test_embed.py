"""Embeddings of real texts, by an encoder and by decoders."""

from __future__ import annotations

import base64
import json
import math
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import llama_cpp
import llamaherd as lh
import numpy as np
import pytest
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    TinyPath = Callable[[str], Path]

pytestmark = pytest.mark.model

REFERENCE = json.loads(
    Path(__file__).with_name("minilm_reference.json").read_text(encoding="utf-8")
)
TEXTS = REFERENCE["texts"]


def cosines(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return (a * b).sum(axis=1) / lengths


def test_vectors_are_those_of_the_reference(minilm: lh.Model) -> None:
    expected = np.frombuffer(base64.b64decode(REFERENCE["vectors"]), dtype="<f2")
    out = lh.embed_parallel(minilm, TEXTS)
    assert out.errors == [None] * 100
    assert out.vectors.dtype == np.float32
    assert out.vectors.shape == (100, 384)
    assert cosines(out.vectors, expected.reshape(100, 384)).min() > 0.9999
    assert np.linalg.norm(out.vectors, axis=1) == pytest.approx(1, abs=1e-5)
    assert out.stats.n_tokens == sum(REFERENCE["n_tokens"])
    assert out.stats.pooling == "mean"
    assert out.stats.n_batches < 50
    assert repr(out) == "<Embeddings: 100 of 100 texts, 384 numbers each>"


def test_vectors_do_not_depend_on_company(minilm: lh.Model) -> None:
    # Lengths from 3 to 347 tokens, mixed.
    together = lh.embed_parallel(minilm, TEXTS).vectors
    backwards = lh.embed_parallel(minilm, TEXTS[::-1]).vectors[::-1]
    assert cosines(together, backwards).min() > 0.99999
    for i in (0, 7, 20, 40, 88):
        alone = lh.embed_parallel(minilm, [TEXTS[i]]).vectors
        assert cosines(alone, together[[i]])[0] > 0.99999


def test_deterministic_vectors_are_the_same_to_the_last_bit(minilm: lh.Model) -> None:
    together = lh.embed_parallel(minilm, TEXTS[:30], deterministic=True)
    alone = [lh.embed_parallel(minilm, [t], deterministic=True) for t in TEXTS[:30]]
    assert together.stats.n_batches == 30
    for i, one in enumerate(alone):
        assert np.array_equal(one.vectors[0], together.vectors[i])


def test_bad_texts_fail_alone(minilm: lh.Model) -> None:
    texts = ["fine", "", "word " * 600, " \n", [101, 30522, 102], [], [101, 102]]
    out = lh.embed_parallel(minilm, texts)
    assert out.errors == [
        None,
        "the text is empty",
        (
            "the text has 602 tokens, more than the 512 that the model was trained "
            "for: shorten it, or set truncate"
        ),
        "the text is empty",
        "the text has the token 30522, but the model's token ids are 0 to 30521",
        "the text is empty",
        None,
    ]
    assert [math.isnan(row[0]) for row in out.vectors] == [
        error is not None for error in out.errors
    ]
    assert out.stats.n_failed == 5
    fine = lh.embed_parallel(minilm, ["fine"]).vectors[0]
    assert np.abs(out.vectors[0] - fine).max() < 1e-5


def test_texts_are_cut_on_request(minilm: lh.Model) -> None:
    long = "word " * 600
    ids = lh.tokenize(minilm, long)
    assert len(ids) == 602
    kept = [*ids[:511], ids[-1]]  # with the token that marks the end of a text
    out = lh.embed_parallel(minilm, [long, kept, long * 50, "short"], truncate=True)
    assert out.errors == [None] * 4
    assert out.stats.n_truncated == 2
    assert out.stats.n_copied == 2
    assert np.array_equal(out.vectors[0], out.vectors[1])
    assert np.array_equal(out.vectors[0], out.vectors[2])
    failed = lh.embed_parallel(minilm, [long * 50])
    assert "the text has more than" in failed.errors[0]


def test_special_tokens_in_a_text_mean_nothing(minilm: lh.Model) -> None:
    out = lh.embed_parallel(minilm, ["[CLS] a [SEP]", [101, 101, 1037, 102, 102]])
    assert cosines(out.vectors[[0]], out.vectors[[1]])[0] < 0.9


def test_pooling_and_length(minilm: lh.Model) -> None:
    texts = TEXTS[:5]
    plain = lh.embed_parallel(minilm, texts, normalize=False)
    unit = lh.embed_parallel(minilm, texts)
    lengths = np.linalg.norm(plain.vectors, axis=1, keepdims=True)
    assert np.abs(lengths - 1).min() > 0.01
    assert np.abs(plain.vectors / lengths - unit.vectors).max() < 1e-5
    first = lh.embed_parallel(minilm, texts, pooling="cls")
    last = lh.embed_parallel(minilm, texts, pooling="last")
    assert (first.stats.pooling, last.stats.pooling) == ("cls", "last")
    assert cosines(first.vectors, unit.vectors).max() < 0.99
    assert cosines(last.vectors, first.vectors).max() < 0.999


def test_no_texts_have_no_vectors(minilm: lh.Model) -> None:
    out = lh.embed_parallel(minilm, [])
    assert out.vectors.shape == (0, 384)
    assert len(out) == 0


@pytest.mark.long(reason="many calls of a real model")
@pytest.mark.parametrize("pooling", ["mean", "last"])
def test_decoders_have_vectors(smollm2: lh.Model, pooling: str) -> None:
    texts = [
        "The cat sleeps on the sofa.",
        "A cat is sleeping on a couch.",
        "The central bank raised its interest rate.",
        "word " * 700,  # longer than a batch
    ]
    with lh.Context(smollm2) as context:
        out = lh.embed_parallel(context, texts, pooling=pooling)
    assert out.errors == [None] * 4
    assert out.vectors.shape == (4, 576)
    alone = [lh.embed_parallel(smollm2, [t], pooling=pooling).vectors[0] for t in texts]
    assert cosines(np.array(alone), out.vectors).min() > 0.9999
    alike = out.vectors @ out.vectors.T
    assert alike[0, 1] > alike[0, 2]


def test_the_first_token_of_a_decoder_knows_nothing_of_the_rest(
    smollm2: lh.Model,
) -> None:
    out = lh.embed_parallel(smollm2, ["Same first", "Same second"], pooling="cls")
    assert cosines(out.vectors[[0]], out.vectors[[1]])[0] > 0.99999


@pytest.mark.parametrize("kind", ["bert", "llama", "mamba", "jamba"])
@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
def test_every_kind_of_model_has_vectors(
    tiny_path: TinyPath, kind: str, pooling: str
) -> None:
    texts = ["some text", "another one", "x" * 200, "y" * 200, "short"]
    with lh.Model(tiny_path(kind)) as model:
        out = lh.embed_parallel(model, texts, pooling=pooling, n_threads=1)
        assert out.errors == [None] * 5
        alone = [
            lh.embed_parallel(model, [t], pooling=pooling, n_threads=1).vectors[0]
            for t in texts
        ]
    assert cosines(np.array(alone), out.vectors).min() > 0.9999
    if pooling != "cls" or kind == "bert":
        assert np.unique(out.vectors.round(4), axis=0).shape[0] == 5


def test_numbers_that_are_none_fail_their_text(tmp_path: Path) -> None:
    import tiny_models  # conftest.py finds it

    broken = len(tiny_models.SPECIAL) + ord("?")
    for kind in ("bert", "llama"):
        path = tiny_models.write(tmp_path / f"{kind}.gguf", kind, broken_token=broken)
        with lh.Model(path) as model:
            out = lh.embed_parallel(model, ["good", "bad?", "also good"], n_threads=1)
        assert out.errors[0] is out.errors[2] is None
        assert "NaN or infinite" in out.errors[1]
        assert np.isnan(out.vectors[1]).all()
        assert np.isfinite(out.vectors[[0, 2]]).all()


def test_models_without_vectors_are_refused(tiny_path: TinyPath, tmp_path: Path) -> None:
    with (
        lh.Model(tiny_path("t5")) as model,
        pytest.raises(lh.ModelLoadError, match="an encoder and a decoder"),
    ):
        lh.embed_parallel(model, ["text"])
    import tiny_models

    path = tiny_models.write(tmp_path / "rank.gguf", "bert", changes={"pooling_type": 4})
    with (
        lh.Model(path) as model,
        pytest.raises(lh.ModelLoadError, match="ranks texts"),
    ):
        lh.embed_parallel(model, ["text"])


def test_what_cannot_generate_is_refused_where_texts_are_generated(
    minilm: lh.Model,
) -> None:
    with pytest.raises(lh.ContextError, match=r"embedding models do.*cannot generate"):
        lh.Context(minilm)


def test_a_llama_stands_for_its_model(minilm_path: Path) -> None:
    llama = llama_cpp.Llama(str(minilm_path), embedding=True, verbose=False)
    theirs = np.array(
        [d["embedding"] for d in llama.create_embedding(TEXTS[:20])["data"]]
    )
    ours = lh.embed_parallel(llama, TEXTS[:20])
    assert cosines(theirs, ours.vectors).min() > 0.9999
    llama.close()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"texts": "one"}, TypeError, "texts must be a list of texts, not str"),
        ({"texts": {"a"}}, TypeError, "texts must be a list of texts, not a set"),
        ({"texts": [1.5]}, TypeError, r"texts\[0\] must be text or a sequence"),
        ({"pooling": "max"}, ValueError, "pooling must be one of 'auto', 'mean', 'cls'"),
        ({"pooling": None}, ValueError, "pooling must be one of"),
        ({"normalize": 1}, TypeError, "normalize must be true or false"),
        ({"truncate": "yes"}, TypeError, "truncate must be true or false"),
        ({"deterministic": 0}, TypeError, "deterministic must be true or false"),
        ({"n_threads": 0}, ValueError, "n_threads must be between 1 and 1024"),
        ({"progress": 5}, TypeError, "progress must be true or false, or a function"),
        ({"model": "minilm.gguf"}, TypeError, "model must be a llamaherd.Model.*not str"),
    ],
)
def test_bad_arguments_are_named(
    minilm: lh.Model,
    arguments: dict[str, object],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        lh.embed_parallel(**({"model": minilm, "texts": ["a"]} | arguments))


def test_too_little_memory_is_an_error(
    tiny_path: TinyPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lh.Model(tiny_path("bert")) as model:
        monkeypatch.setattr(
            "llamaherd.engine.memory.hardware.available_memory", lambda: 1000
        )
        with pytest.raises(lh.ContextError, match="shorten the longest one"):
            lh.embed_parallel(model, ["text"])


def test_progress_is_told(minilm: lh.Model) -> None:
    seen: list[lh.types.EmbedProgress] = []
    lh.embed_parallel(minilm, ["a", "", "b"], progress=seen.append)
    assert (seen[-1].n_done, seen[-1].n_failed, seen[-1].n_total) == (3, 1, 3)
    lh.embed_parallel(minilm, ["a"], progress=True)


@pytest.mark.long(reason="many calls of a real model")
def test_ctrl_c_keeps_what_is_done(smollm2: lh.Model) -> None:
    texts = [f"{i} " * 300 for i in range(400)]

    def press(progress: lh.types.EmbedProgress) -> None:
        if 0 < progress.n_done < 300:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(lh.Interrupted) as caught:
        lh.embed_parallel(smollm2, texts, progress=press)
    results = caught.value.results
    n_done = sum(error is None for error in results.errors)
    assert 0 < n_done < 400
    assert {e for e in results.errors if e} == {"the call ended before it was computed"}


@pytest.mark.long(reason="many calls of a real model")
def test_a_model_that_is_closed_ends_the_job(smollm2_path: Path) -> None:
    model = lh.Model(smollm2_path)
    job = lh.start_embed(model, [f"{i} " * 400 for i in range(300)])
    wait_until(lambda: job.progress.n_done > 0)
    model.close()
    with pytest.raises(lh.ModelClosedError):
        job.results()
    with pytest.raises(lh.ModelClosedError):
        lh.embed_parallel(model, ["text"])


def test_it_runs_beside_generation(smollm2: lh.Model, minilm: lh.Model) -> None:
    expected = lh.embed_parallel(minilm, TEXTS[:40]).vectors
    with lh.Context(smollm2) as context:
        job = lh.start_parallel(context, ["One", "Two", "Three"], max_tokens=20)
        beside = lh.embed_parallel(minilm, TEXTS[:40]).vectors
        assert all(text is not None for text in job.results().texts)
    assert cosines(expected, beside).min() > 0.99999
