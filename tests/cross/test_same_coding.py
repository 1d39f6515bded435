"""R and Python label the same texts, pairs and quotes equally, and select equally."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pytest
import rscript
from llamaherd.coding.selection import evaluation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


# ---- labels --------------------------------------------------------------------------

NEWS = ["The keeper saved two penalties.", None,
         "Les actions ont baissé de 9 %.", "東京",
         "The keeper saved two penalties.", ""]  # fmt: skip
TOPICS = lh.Codebook(
    "Which topic does the text have?",
    {"Sports": "Matches.", "économie": "", "no": ""},
    examples=[("A late goal.", "Sports", "It is of a match."), ("Rien.", "no")],
    language="fr",
)


def column(values: list[float | None]) -> list[float]:
    return [np.nan if value is None else value for value in values]


@pytest.mark.model
@pytest.mark.filterwarnings("ignore:calibrate='batch' was fitted to only:UserWarning")
@pytest.mark.parametrize("arguments", [{}, {"calibrate": "batch", "chat": True}])
def test_labels_and_runs_are_equal(
    smollm2: lh.Model, smollm2_path: Path, tmp_path: Path, arguments: dict[str, Any]
) -> None:
    lh.write_codebook(TOPICS, tmp_path / "topics.yaml")
    job = {
        "model": str(smollm2_path),
        "codebook": str(tmp_path / "topics.yaml"),
        "texts": NEWS,
        "arguments": arguments,
    }
    from_r = rscript.results("texts.R coding", tmp_path, job)
    data = {"text": NEWS}
    with lh.Context(smollm2, n_threads=1) as context:
        coded = lh.annotate(data, "text", TOPICS, context, **arguments)
        several = lh.robustness(data, "text", TOPICS, context, orders=2, n_texts=4)
        preview = lh.prompt_preview(TOPICS, "x", context)
    assert list(from_r["coded"]) == list(coded.frame)
    assert from_r["coded"]["label"] == coded.labels
    assert from_r["coded"]["error"] == coded.errors
    for name in coded.columns.values():
        if name not in ("label", "error"):
            np.testing.assert_allclose(
                column(from_r["coded"][name]), column(coded.frame[name]), rtol=1e-9
            )
    run = json.loads(from_r["run"][0])
    assert set(run.pop("versions")) - {"R"} == set(coded.run["versions"])
    for name in ("codebook", "settings", "prompts", "model", "context", "texts_sha256"):
        assert run[name] == coded.run[name], name
    assert from_r["hash"] == [TOPICS.hash]
    assert from_r["preview"]["prompt"] == [preview.prompt]
    assert from_r["preview"]["tokens"] == preview.tokens
    labels = from_r["labels"]
    assert [row - 1 for row in labels["row"]] == several.rows
    for name, expected in zip(several.variants, several.labels, strict=True):
        assert labels[name] == expected
    np.testing.assert_allclose(from_r["pairwise"], several.pairwise)


# ---- pairs ---------------------------------------------------------------------------

NAMED = {
    "a": "It rains.",
    "b": "I hate größer!",
    "c": "Fine {first}.",
    "d": "Oh",
    "e": "?",
}


@pytest.mark.filterwarnings("ignore:the model favours", "ignore:.*texts won")
def test_comparisons_of_pairs_are_equal(
    tiny_path: Callable[[str], Path], tmp_path: Path
) -> None:
    model = tiny_path("llama")
    job = {"model": str(model), "names": list(NAMED), "texts": list(NAMED.values())}
    from_r = rscript.results("numbers.R pairs", tmp_path, job)
    with lh.Model(model) as loaded, lh.Context(loaded, n_threads=1) as context:
        ranking = lh.compare_pairs(NAMED, "Which is angrier?", context, n_pairs=8, seed=3)
        other = lh.compare_pairs(
            NAMED,
            "Which is angrier?",
            context,
            labels=("x", "y"),
            layout="{question} {a}={first} {b}={second}. Answer:",
            design="random",
            level=0.9,
        )
    for part, mine in (("strengths", ranking), ("other", other)):
        table = {name: [row[name] for row in mine.to_dicts()] for name in from_r[part]}
        for name in ("strength", "std_error", "low", "high"):
            np.testing.assert_allclose(from_r[part][name], table[name], rtol=1e-6)
        for name in ("name", "text", "rank", "n_pairs"):
            assert from_r[part][name] == table[name]
    rows = ranking.pair_dicts()
    for name in ("first", "second", "round", "consistent"):
        assert from_r["pairs"][name] == [row[name] for row in rows]
    np.testing.assert_allclose(
        from_r["pairs"]["log_odds"], [row["log_odds"] for row in rows], rtol=1e-6
    )
    assert from_r["bias"]["value"] == pytest.approx([ranking.position_bias.value])
    assert len(from_r["notes"]) == len(from_r["known_notes"])
    assert len(from_r["errors"]) == 4


# ---- quotes --------------------------------------------------------------------------

QUOTED = [
    'He said "no\\way",\r\nthen left.',
    (
        "Gr\u00fc\u00dfe \U0001f469\u200d\U0001f680 aus e\u0301t\u00e9 "
        "\u05d0\u05d1 \u6f22\u5b57"
    ),
    "One two one two three.",
]
FIELD = {
    "type": "object",
    "properties": {"why": lh.structured.type_quote(least=2, most=6)},
    "required": ["why"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def folder(
    tiny_path: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Folder with the quotes and the reports that R wrote."""
    folder = tmp_path_factory.mktemp("quotes")
    job = {"model": str(tiny_path("llama")), "texts": QUOTED}
    rscript.results("texts.R quotes", folder, job)
    return folder


@pytest.fixture(scope="module")
def quotes(folder: Path) -> dict[str, dict[str, list[Any]]]:
    columns: dict[str, dict[str, list[Any]]] = json.loads(
        (folder / "out.json").read_text(encoding="utf-8")
    )
    return columns


def marked(page: Path) -> list[str]:
    """Return the texts with highlighted passages of a report, as HTML."""
    return re.findall(r'<p class="marked".*?</p>', page.read_text("utf-8"), re.DOTALL)


def in_python(path: Path, folder: Path) -> dict[str, list[dict[str, Any]]]:
    data = {"text": QUOTED}
    with (
        lh.Model(path) as model,
        lh.Context(model, deterministic=True, n_threads=1) as context,
    ):
        answers = lh.generate_parallel(
            context, ["Quote: "] * 3, schema=FIELD, quote_from=QUOTED, max_tokens=150
        )
        topics = lh.Codebook("Which topic?", ["Sports", "Business"])
        coded = lh.annotate(data, "text", topics, context, evidence=True)
        labels = coded.frame
        lh.report(coded, folder / "evidence_of_python.html")
        book = lh.Codebook("Why?", type="fields", schema=FIELD)
        frame = lh.annotate(data, "text", book, context, max_tokens=80).frame
        marks = lh.Codebook("Mark.", ["a", "b"], type="spans", max_spans=2)
        coded = lh.annotate(
            data, "text", marks, context, max_tokens=200, temperature=99.0
        )
        lh.report(coded, folder / "spans_of_python.html")
        spans = coded.spans()
    names = ("quote", "start", "end")
    return {
        "generate": [answer["why"] for answer in answers.parsed],  # type: ignore[index]
        "evidence": [
            dict(zip(names, row, strict=True))
            for row in zip(*(labels[name] for name in names), strict=True)
        ],
        "fields": frame["why"],
        "spans": [
            {"text": QUOTED[row], **dict(zip(names, values, strict=True))}
            for row, *values in zip(
                spans["row"], *(spans[name] for name in names), strict=True
            )
        ],
    }


@pytest.mark.filterwarnings("ignore:median coverage")
@pytest.mark.filterwarnings("ignore:all texts")
@pytest.mark.slow(reason="starts R, and llguidance compiles a schema for each text")
def test_r_has_the_quotes_of_python(
    quotes: dict[str, dict[str, list[Any]]],
    folder: Path,
    tiny_path: Callable[[str], Path],
) -> None:
    for name, rows in in_python(tiny_path("llama"), folder).items():
        columns = quotes[name]
        assert columns["quote"] == [row["quote"] for row in rows], name
        assert columns["start"] == [row["start"] + 1 for row in rows], name
        assert columns["end"] == [row["end"] for row in rows], name
        assert columns["cut"] == columns["quote"], name
        assert rows, name
        for i, row in enumerate(rows):
            text = row.get("text") or QUOTED[i]
            assert text[row["start"] : row["end"]] == row["quote"]
    for name in ("evidence", "spans"):
        page = marked(folder / f"{name}.html")
        assert page == marked(folder / f"{name}_of_python.html")
        assert "<mark" in "".join(page)
    # After sorting, each row still has its own quotes.
    marked_rows, every = marked(folder / "rows.html"), marked(folder / "evidence.html")
    number = re.compile(r'<span class="row">.*?</span>')
    assert [number.sub("", text) for text in marked_rows] == [
        number.sub("", text) for text in (every[2], every[1])
    ]


# ---- selection of codebooks ----------------------------------------------------------

TEXTS = [f"Text {i} says {'this' if i % 3 else 'größer'}" for i in range(80)]
CODES = ["a" if i % 3 else "b" for i in range(80)]


def compare_scales(from_r: dict[str, Any], context: lh.Context) -> None:
    """For codebooks of numbers, R and Python return the same errors and differences."""
    names = list(map(str, range(5)))
    gold = lh.gold_sample({"text": TEXTS}, 60, text="text", names=names, seed=3)
    anna = [row % 5 for row in gold.rows]
    codes = {"anna": anna, "ben": [min(code + 1, 4) for code in anna]}
    gold = gold.with_codes({name: list(map(str, coded)) for name, coded in codes.items()})
    gold = lh.gold_split(gold, 0, 1 / 2, 1 / 2, seed=4)
    tried = {
        name: lh.Codebook(task, type="scale", scale=lh.number_scale(0, 4))
        for name, task in (("one", "How angry?"), ("other", "Rate the anger."))
    }
    ranking = lh.compare_codebooks(None, tried, gold, context)
    rows = ranking.to_dicts()
    for name in ("mae", "low", "high", "difference"):
        np.testing.assert_allclose(
            from_r["scales"][name], [row[name] for row in rows], rtol=1e-9
        )
    assert from_r["scales"]["verdict"] == [row["verdict"] for row in rows]
    np.testing.assert_allclose(from_r["scale_pairs"]["low"], ranking.differences[0].low)
    value = lh.evaluate_codebook(lh.best_codebook(ranking), gold, context).value
    assert from_r["scale_value"]["measure"] == ["mae"]
    assert from_r["scale_value"]["value"] == pytest.approx([value.value])


@pytest.mark.slow(reason="R loads a model and codes 380 texts")
def test_selections_are_equal(
    tiny_path: Callable[[str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evaluation, "_OPENED", {})
    model = tiny_path("llama")
    job = {
        "model": str(model),
        "texts": TEXTS,
        "codes": CODES,
        "sheet": str(tmp_path / "r.csv"),
    }
    from_r = rscript.results("numbers.R selection", tmp_path, job)

    data = {"text": TEXTS}
    gold = lh.gold_sample(data, 60, text="text", names=["a", "b"], seed=1)
    gold = gold.with_codes([CODES[row] for row in gold.rows])
    gold = lh.gold_split(gold, 1 / 3, 1 / 3, 1 / 3, seed=2)
    assert from_r["parts"] == gold.parts
    np.testing.assert_allclose(from_r["probs"], lh.gold_part(gold, "select").probs)
    book = lh.Codebook("Which?", ["a", "b"])
    shots = lh.choose_examples(gold, 3, book)
    assert from_r["shots"] == [shots.hash]
    tried = {
        "plain": book,
        "batch": lh.candidate(book, calibrate="batch"),
        "shots": shots,
    }
    with lh.Model(model) as loaded, lh.Context(loaded, n_threads=1) as context:
        ranking = lh.compare_codebooks(data, tried, gold, context, measure="macro_f1")
        choice = lh.best_codebook(ranking, name="plain")
        first = lh.evaluate_codebook(choice, gold, context)
        coded = lh.annotate(data, "text", book, context)
        with pytest.warns(UserWarning, match="The 3 examples") as caught:
            lh.choose_examples(gold, 3, book, context=context, calibrate="batch")
        compare_scales(from_r, context)
    table = {
        name: [row[name] for row in ranking.to_dicts()] for name in ranking.to_dicts()[0]
    }
    for name in ("macro_f1", "low", "high", "difference"):
        np.testing.assert_allclose(from_r["summary"][name], table[name], rtol=1e-9)
    for name in ("candidate", "verdict", "hash"):
        assert from_r["summary"][name] == table[name]
    assert all(seconds > 0 for seconds in from_r["summary"]["seconds"])
    pairs = ranking.pairs()
    assert from_r["pairs"]["first"] == [pair["first"] for pair in pairs]
    np.testing.assert_allclose(
        from_r["pairs"]["low"], [pair["low"] for pair in pairs], rtol=1e-9
    )
    assert from_r["tied"] == [ranking.names[i] for i in ranking.tied]
    assert from_r["plotted"]["name"] == list(ranking.names)
    np.testing.assert_allclose(from_r["plotted"]["value"], table["macro_f1"], rtol=1e-9)
    assert from_r["hash"] == [choice.hash]
    assert from_r["value"]["value"] == pytest.approx([first.value.value])
    assert from_r["value"]["high"] == pytest.approx([first.value.high])
    assert from_r["first"] == [True, False]
    assert from_r["opened"] == ["plain", "shots"]
    assert "EVALUATE WAS OPENED BEFORE" in from_r["again"][0]
    assert from_r["stored"] == [20]
    wrong = lh.disagreements(coded, gold)
    assert from_r["wrong"]["id"] == wrong.columns["id"]
    np.testing.assert_allclose(from_r["wrong"]["prob"], wrong.columns["prob"], rtol=1e-9)
    hard = lh.choose_examples(gold, 3, book, by="hardest", coded=coded)
    assert from_r["hardest"] == [hard.hash]
    assert from_r["effect"][0].replace("\n", " ") == f"{caught[0].message}."
    assert from_r["size"] == [lh.gold_size(compare=0.05).gold]
