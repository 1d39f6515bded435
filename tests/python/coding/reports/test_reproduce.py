"""Tests of reproducing reports: results are identical, or differences are reported."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest
import tiny_models
from llamaherd.coding.reports import reproduce_context
from llamaherd.coding.reports.report_data import read_report
from llamaherd.engine.core.errors import CANCELLED, BadArgumentError
from llamaherd.engine.memory import hardware

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

TOPICS = lh.Codebook(
    "Which topic?",
    ["Sports", "Business"],
    examples=[("A goal.", "Sports"), ("Shares fell.", "Business")],
)
TEXTS = ["The team won.", None, "Profits rose.", "The team won.", "Rain.", "Snow fell."]


@pytest.fixture(scope="module")
def model(tiny_path: Callable[[str], Path]) -> Iterator[lh.Model]:
    with lh.Model(tiny_path("llama")) as model:
        yield model


@pytest.fixture(scope="module")
def written(model: lh.Model, tmp_path_factory: pytest.TempPathFactory) -> Path:
    with lh.Context(model, deterministic=True, n_threads=1) as context:
        coded = lh.annotate({"text": TEXTS}, "text", TOPICS, context)
    return lh.report(coded, tmp_path_factory.mktemp("report") / "report.json")


def changed(path: Path, folder: Path, change: Callable[[Any], None]) -> Path:
    """Write a changed report to another folder."""
    contents = json.loads(path.read_text(encoding="utf-8"))
    change(contents)
    other = folder / "changed.json"
    other.write_text(json.dumps(contents), encoding="utf-8")
    return other


ODD = (None, -1, "x", [], {"a": [1]}, 1e400)


def crafted(contents: Any) -> Iterator[Any]:
    """Yield copies of a report with one value replaced, or removed."""

    def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
        if place:
            yield place
        keys = value if isinstance(value, dict) else ()
        keys = range(min(1, len(value))) if isinstance(value, list) else keys
        for key in keys:
            yield from places(value[key], (*place, key))

    for i, (*above, last) in enumerate(places(contents)):
        for odd in (..., ODD[i % len(ODD)]):
            changed = copy.deepcopy(contents)
            holder = changed
            for key in above:
                holder = holder[key]
            if odd is ...:
                del holder[last]
            else:
                holder[last] = odd
            yield changed


def test_a_crafted_report_is_refused_or_used(
    written: Path, model: lh.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No content of a report leads to an error that does not name the report."""
    contents = json.loads(written.read_text(encoding="utf-8"))
    path, n_used = tmp_path / "crafted.json", 0
    coded = lh.reproduce(written, model).coded
    coding = "llamaherd.coding.reports.reproduce.annotate_quietly"
    monkeypatch.setattr(coding, lambda *_, **__: coded)  # coding takes longest
    with lh.Context(model, deterministic=True, n_threads=1) as context:
        for other in crafted(contents):
            path.write_text(json.dumps(other), encoding="utf-8")
            for use in (lh.methods_text, lambda path: lh.reproduce(path, context)):
                with suppress(BadArgumentError, lh.LlamaHerdError):
                    use(path)
                    n_used += 1
    assert n_used > 30


def test_everything_is_the_same(written: Path, model: lh.Model) -> None:
    rerun = lh.reproduce(written, model.path, n_seq_max=3)
    assert str(rerun) == "5 of 5 labels and probabilities are the same"
    assert rerun
    assert rerun.is_deterministic
    assert rerun.n == rerun.n_same == rerun.n_same_labels == 5  # one row has no text
    assert rerun.largest_difference == 0
    assert rerun.changed == ()
    assert rerun.versions == {}


def test_quotes_are_the_same(model: lh.Model, tmp_path: Path) -> None:
    with lh.Context(model, deterministic=True) as context:
        coded = lh.annotate({"said": TEXTS}, "said", TOPICS, context, evidence=True)
    rerun = lh.reproduce(lh.report(coded, tmp_path / "r.html"), model)
    assert rerun.n == rerun.n_same == 5


def test_layers_on_a_gpu_are_there_again(
    written: Path, model: lh.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def move(contents: Any) -> None:
        contents["run"]["model"]["n_gpu_layers"] = 99

    other = changed(written, tmp_path, move)
    before = json.loads(written.read_text(encoding="utf-8"))
    assert before["run"]["model"]["n_gpu_layers"] == 0
    monkeypatch.setattr(reproduce_context.shim, "supports_gpu", lambda: False)
    rerun = lh.reproduce(other, model.path)
    assert rerun.is_same
    assert "n_gpu_layers: 99 then, 0 (no GPU can be used here) now" in str(rerun)
    requests: list[int] = []

    class Loaded(lh.Model):
        def __init__(self, path: Any, *, n_gpu_layers: int, **more: Any) -> None:
            requests.append(n_gpu_layers)
            super().__init__(path, **more)

    monkeypatch.setattr(reproduce_context, "Model", Loaded)
    monkeypatch.setattr(reproduce_context.shim, "supports_gpu", lambda: True)
    assert lh.reproduce(other, model.path).is_same
    assert requests == [99]


@pytest.mark.parametrize("n_layers", ["all", 1.5, 10**12])
def test_layers_that_are_no_number_are_refused(
    written: Path, model: lh.Model, tmp_path: Path, n_layers: object
) -> None:
    def move(contents: Any) -> None:
        contents["run"]["model"]["n_gpu_layers"] = n_layers

    other = changed(written, tmp_path, move)
    with pytest.raises((TypeError, ValueError), match="the report's n_gpu_layers must"):
        lh.reproduce(other, model.path)


def test_takes_a_model_or_a_context(written: Path, model: lh.Model) -> None:
    assert lh.reproduce(written, model).is_same
    with lh.Context(model, deterministic=True) as context:
        assert lh.reproduce(written, context).is_same
        assert not context.closed
        with pytest.raises(ValueError, match="are set by the given context"):
            lh.reproduce(written, context, n_seq_max=2)


def test_finds_the_model_beside_the_report_and_in_the_cache(
    written: Path, model: lh.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert model.path is not None
    beside = tmp_path / "beside"
    cache = tmp_path / "cache"
    for folder in (beside, cache):
        folder.mkdir()
    monkeypatch.setenv("LLAMAHERD_CACHE_DIR", str(cache))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "none"))
    report = shutil.copy(written, beside / "r.json")
    with pytest.raises(FileNotFoundError, match=f"there is no {model.path.name} in"):
        lh.reproduce(report)
    shutil.copy(model.path, cache)
    assert lh.reproduce(report).is_same
    other = beside / model.path.name
    other.write_bytes(b"GGUF")  # same name, other content: the cache has the right file
    assert lh.reproduce(report).is_same
    (cache / model.path.name).unlink()
    with pytest.raises(ValueError, match="the model was changed"):
        lh.reproduce(report)


def test_a_changed_model_is_refused(
    written: Path, tiny_path: Callable[[str], Path], tmp_path: Path
) -> None:
    other = tmp_path / "other.gguf"
    other.write_bytes(tiny_path("llama").read_bytes() + b"\0")
    with pytest.raises(ValueError, match=r"the model was changed: other.gguf has"):
        lh.reproduce(written, other)
    with (
        lh.Model(other) as model,
        pytest.raises(ValueError, match="the model was changed"),
    ):
        lh.reproduce(written, model)
    with pytest.raises(FileNotFoundError, match="there is no model file"):
        lh.reproduce(written, tmp_path / "none.gguf")


def test_a_changed_codebook_or_text_is_refused(
    written: Path, model: lh.Model, tmp_path: Path
) -> None:
    def question(contents: Any) -> None:
        contents["run"]["codebook"]["content"]["question"] = "Which topic??"

    def text(contents: Any) -> None:
        contents["data"]["texts"][0] = "The team lost."

    def journal(contents: Any) -> None:
        contents["run"]["settings"]["journal"] = str(tmp_path / "x")

    for change, message in (
        (question, "the report's codebook was changed"),
        (text, "the report's texts were changed"),
        (journal, "unknown settings: journal"),
    ):
        with pytest.raises(ValueError, match=message):
            lh.reproduce(changed(written, tmp_path, change), model)
    assert not (tmp_path / "x").exists()


def test_data_of_a_report_without_texts(
    model: lh.Model, tmp_path: Path, written: Path
) -> None:
    with lh.Context(model, deterministic=True) as context:
        coded = lh.annotate({"said": TEXTS}, "said", TOPICS, context)
    path = lh.report(coded, tmp_path / "r.html", texts=False)
    with pytest.raises(ValueError, match="data must be given"):
        lh.reproduce(path, model)
    frame = pd.DataFrame({"said": TEXTS})
    assert lh.reproduce(path, model, data=frame).is_same
    again = frame.rename(columns={"said": "other"})
    assert lh.reproduce(path, model, data=again, text="other").is_same
    with pytest.raises(
        ValueError, match="must be a column of the data frame, not 'said'"
    ):
        lh.reproduce(path, model, data=again)
    for data, message in (
        (frame[::-1], "data, row 0: the text differs from the coded text"),
        (frame[:3], "data has 3 rows, but the report has 6"),
    ):
        with pytest.raises(ValueError, match=message):
            lh.reproduce(path, model, data=data)
    # Data are also compared if the report contains the texts.
    with pytest.raises(ValueError, match="data, row 0"):
        lh.reproduce(written, model, data=frame[::-1], text="said")


@pytest.mark.parametrize("texts", [True, False])
def test_rows_without_content_are_kept(
    model: lh.Model, tmp_path: Path, *, texts: bool
) -> None:
    data = {"text": ["The team won.", " ", None, "", "Rain."]}
    with lh.Context(model, deterministic=True) as context:
        coded = lh.annotate(data, "text", TOPICS, context)
    path = lh.report(coded, tmp_path / "r.json", texts=texts)
    for frame in (data, None) if texts else (data,):
        rerun = lh.reproduce(path, model, data=frame)
        assert rerun.n == rerun.n_same == 2
        assert rerun.coded.errors == coded.errors


def test_what_differs_is_told(written: Path, model: lh.Model, tmp_path: Path) -> None:
    def numbers(contents: Any) -> None:
        labels = contents["labels"]["values"]
        labels[0] = "Sports" if labels[0] == "Business" else "Business"
        contents["probs"][1][0] = float(np.nextafter(contents["probs"][1][0], 1))
        contents["run"]["versions"]["numpy"] = "0.1"

    rerun = lh.reproduce(changed(written, tmp_path, numbers), model)
    assert not rerun
    assert (rerun.n, rerun.n_same, rerun.n_same_labels) == (5, 2, 3)
    assert [diff.row for diff in rerun.changed] == [0, 3]  # both rows have the same text
    assert 0 < rerun.largest_difference < 1e-15
    assert rerun.versions["numpy"] == ("0.1", np.__version__)
    page = str(rerun)
    assert page.startswith("2 of 5 labels and probabilities are the same")
    assert "3 of 5 labels are the same" in page
    assert "numpy: 0.1 then" in page
    assert "row 1: " in page


@pytest.mark.parametrize("name", ["n", "n_labelled", "share", "prob", "bands", "label"])
def test_a_summary_that_does_not_fit_the_labels_is_told(
    written: Path, model: lh.Model, tmp_path: Path, name: str
) -> None:
    def other(contents: Any) -> None:
        summary = contents["summary"][0]
        values = {
            "n": 3,
            "n_labelled": 9,
            "share": 0.99,
            "prob": 0.99,
            "bands": [1, 1, 1, 1],
            "label": "a",
        }
        assert summary[name] != values[name]
        summary[name] = values[name]

    rerun = lh.reproduce(changed(written, tmp_path, other), model)
    assert rerun.n_same == rerun.n == 5
    assert not rerun
    assert not rerun.is_summary_same
    assert str(rerun).splitlines() == [
        "5 of 5 labels and probabilities are the same",
        "The report's counts and shares of labels are not those of its labels.",
    ]


def test_a_damaged_summary_is_refused(
    written: Path, model: lh.Model, tmp_path: Path
) -> None:
    def less(contents: Any) -> None:
        del contents["summary"][0]["share"]

    with pytest.raises(ValueError, match="is damaged: it does not have the form"):
        lh.reproduce(changed(written, tmp_path, less), model)


def test_without_deterministic_equality_is_not_promised(
    model: lh.Model, tmp_path: Path
) -> None:
    with lh.Context(model) as context:
        coded = lh.annotate({"text": TEXTS}, "text", TOPICS, context)
    rerun = lh.reproduce(lh.report(coded, tmp_path / "r.json"), model)
    assert not rerun.is_deterministic
    assert "equal results are likely, not certain" in str(rerun)


@pytest.mark.parametrize("calibrate", ["batch", "contextual"])
def test_calibrated_probabilities_are_the_same(
    model: lh.Model, tmp_path: Path, calibrate: Any
) -> None:
    with lh.Context(model, deterministic=True) as context:
        coded = lh.annotate({"text": TEXTS}, "text", TOPICS, context, calibrate=calibrate)
        path = lh.report(coded, tmp_path / "r.json")
        assert lh.reproduce(path, context).is_same
        part = lh.Coded(
            **{
                **vars(coded),
                "frame": {"text": TEXTS[:3]},
                "labels": coded.labels[:3],
                "probs": None if coded.probs is None else coded.probs[:3],
                "errors": coded.errors[:3],
            }
        )
        path = lh.report(part, tmp_path / "part.json")
        if calibrate == "batch":
            with pytest.raises(ValueError, match="only some of the coded rows"):
                lh.reproduce(path, context)
        else:
            assert lh.reproduce(path, context).is_same


@pytest.mark.parametrize("options", [{}, {"temperature": 1.0, "seed": 7}])
def test_generated_labels_are_the_same(
    model: lh.Model, tmp_path: Path, options: dict[str, Any]
) -> None:
    with lh.Context(model, deterministic=True) as context:
        coded = lh.annotate(
            {"text": TEXTS}, "text", TOPICS, context, method="generate", **options
        )
    path = lh.report(coded, tmp_path / "r.json")
    rerun = lh.reproduce(path, model, n_seq_max=2)
    assert str(rerun) == "5 of 5 labels are the same"


def test_rows_that_were_not_computed_are_not_compared(
    written: Path, model: lh.Model, tmp_path: Path
) -> None:
    def cancel(contents: Any) -> None:
        contents["labels"]["values"][2] = None
        contents["probs"][2] = None
        contents["errors"]["2"] = CANCELLED

    rerun = lh.reproduce(changed(written, tmp_path, cancel), model)
    assert (rerun.n, rerun.n_same) == (4, 4)


def test_options_that_no_report_can_set_are_refused(
    written: Path, model: lh.Model, tmp_path: Path
) -> None:
    def vector(contents: Any) -> None:
        contents["run"]["context"]["cvec"] = "x"

    with pytest.raises(ValueError, match="model must be a context with cvec"):
        lh.reproduce(changed(written, tmp_path, vector), model)


MANY = [f"Text number {i}." for i in range(60)]
CODES = ["Sports" if i % 3 else "Business" for i in range(60)]


@pytest.mark.filterwarnings("ignore:The codes do not show that the new:UserWarning")
@pytest.mark.filterwarnings("ignore:Recalibration does not help:UserWarning")
def test_a_report_of_recalibrated_labels_is_reproduced(
    model: lh.Model, tmp_path: Path
) -> None:
    with lh.Context(model, deterministic=True) as context:
        coded = lh.annotate({"text": MANY}, "text", TOPICS, context)
    gold = lh.gold_sample(coded, 40, seed=1)
    gold = gold.with_codes([CODES[row] for row in gold.rows])
    better = lh.recalibrate(coded, gold)
    validation = lh.validate(better, gold)
    estimates = lh.estimate(better, gold)
    path = lh.report(better, tmp_path / "report.html", validation, estimates)
    contents = read_report(path)
    assert contents["labels"]["values"] == coded.labels
    assert contents["run"]["recalibration"]["n_codes"] == 40
    page = path.read_text(encoding="utf-8")
    assert "Labels and probabilities are recalibrated" in page
    assert lh.reproduce(path, model).n_same == 60
    assert better.columns == coded.columns
    assert better.frame["raw_label"] == coded.labels
    assert better.frame["prob"] == pytest.approx(better.probs.max(axis=1))


def test_all_steps_are_repeated(tiny_path: Callable[[str], Path], tmp_path: Path) -> None:
    texts = [f"text {i} {'ball' * (i % 4)}" for i in range(80)]
    folder = tmp_path / "models"
    folder.mkdir()
    small = shutil.copy(tiny_path("llama"), folder / "small.gguf")
    encoder = shutil.copy(tiny_path("bert"), folder / "encoder.gguf")
    larger = tiny_models.write(folder / "larger.gguf", "llama", seed=2)
    exact: dict[str, Any] = {"deterministic": True, "n_threads": 1}
    with lh.Model(small) as model, lh.Context(model, **exact) as context:
        coded = lh.annotate(
            {"text": texts}, "text", TOPICS, context,
            until=50, embeddings=encoder, larger=larger, seed=7,
        )  # fmt: skip
        enough = lh.annotate(
            {"text": texts}, "text", TOPICS, context, until=100, embeddings=encoder
        )
    path = lh.report(coded, tmp_path / "report.json")
    rerun = lh.reproduce(path, small)  # the other models are in the same folder
    assert str(rerun).startswith("80 of 80 labels and probabilities are the same")
    whole = lh.report(enough, tmp_path / "whole.json")
    assert lh.reproduce(whole, small).n_same == 80

    contents = json.loads(path.read_text(encoding="utf-8"))
    encoder.rename(folder / "other.gguf")
    with pytest.raises(
        FileNotFoundError, match=r"no encoder.gguf in .*put the file into one"
    ):
        lh.reproduce(path, small)
    shutil.copy(larger, encoder)
    with pytest.raises(ValueError, match="the model for embeddings was changed"):
        lh.reproduce(path, small)
    contents["run"]["steps"]["larger"]["sha256"] = None
    contents["run"]["steps"].pop("embeddings")
    path.write_text(json.dumps(contents), encoding="utf-8")
    with pytest.raises(ValueError, match="the report's larger model has adapters, or"):
        lh.reproduce(path, small)


PROGRAM = """
import sys
import llamaherd as lh
found = lh.reproduce(sys.argv[1], sys.argv[2], n_seq_max=int(sys.argv[3]))
print(found)
sys.exit(0 if found.is_same and found.is_deterministic else 1)
"""


@pytest.mark.long(reason="codes or estimates many times")
@pytest.mark.model
def test_a_new_process_with_other_slots_gets_every_bit(
    smollm2: lh.Model, smollm2_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The new process counts the cores itself, because conftest.py does not affect it.
    monkeypatch.setattr(hardware, "n_cores", hardware.n_cores.__wrapped__)
    texts = [f"Item {i}: {'the team won again' * (i % 3)} and so on." for i in range(24)]
    with lh.Context(smollm2, n_seq_max=8, deterministic=True) as context:
        coded = lh.annotate({"text": texts}, "text", TOPICS, context)
    path = lh.report(coded, tmp_path / "report.html")
    for n_seq_max in (1, 5):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, path, smollm2_path, str(n_seq_max)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONWARNINGS": "error"},
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.strip() == "24 of 24 labels and probabilities are the same"


def test_a_document_is_refused_with_the_files_that_can_be_repeated(
    tmp_path: Path,
) -> None:
    path = tmp_path / "report.docx"
    path.write_bytes(b"PK\x03\x04\xff")
    with pytest.raises(lh.ArgumentError, match=r"report as \.html or \.json") as caught:
        lh.reproduce(path)
    assert caught.value.code == "not_a_report"
