"""Tests of methods paragraphs: they describe and cite exactly the steps taken."""

from __future__ import annotations

import dataclasses
import io
import re
import sys
import warnings
import zipfile
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from llamaherd.cli import main
from llamaherd.coding.gold.draw import DESIGNS
from llamaherd.coding.gold.pooling import WAVES
from llamaherd.coding.reports.methods import methods_of
from llamaherd.coding.reports.report_data import contents_of
from llamaherd.coding.statistics.agreement import COEFFICIENTS
from reported import LABELS, N, with_codebook, with_run, with_settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# The model is random, so a batch calibration changes many labels.
pytestmark = pytest.mark.filterwarnings("ignore:calibrate='batch' gave:UserWarning")


def gold_of(coded: lh.Coded, n: int = 40, **options: Any) -> lh.GoldSample:
    """Return a sample with the codes of one person."""
    gold = lh.gold_sample(coded, n, seed=7, **options)
    return gold.with_codes([LABELS[row % 2] for row in gold.rows])


def keys(bibtex: str) -> list[str]:
    return re.findall(r"^@\w+\{(\w+),$", bibtex, re.MULTILINE)


def test_a_coding_alone_cites_programs_and_calibration(coded: lh.Coded) -> None:
    methods = lh.methods_text(coded)
    assert methods.references == ("llamaherd", "llamacpp", "zhou2024")
    assert keys(methods.bibtex) == list(methods.references)
    assert f"{N} texts" in methods.text
    assert "labels: yes and no" in methods.text
    assert "1 coded example;" in methods.text
    assert "no temperature was involved" in methods.text
    assert "calibrated by batch calibration (Zhou et al. 2024)" in methods.text
    assert "people" not in methods.text
    assert str(methods) == f"{methods.text}\n\n{methods.bibtex}"


def test_people_and_estimators_come_from_the_data(
    coded: lh.Coded, results: tuple[lh.types.Validation, lh.types.Estimates]
) -> None:
    validation, estimates = results
    methods = lh.methods_text(coded, validation, estimates)
    assert "40 texts were coded by 2 people" in methods.text
    assert (
        "These texts belong to a sample of 40 of 60 texts, drawn at random"
        in methods.text
    )
    assert "(seed 7)" in methods.text
    accuracy = validation.accuracy.accuracy
    assert f"accuracy of {accuracy.value:.2f} (95% interval" in methods.text
    assert {"cohen1960", "hayes2007", "egami2023", "angelopoulos2023"} < set(
        methods.references
    )
    assert "on a tie the code of the first coder" in methods.text
    assert "zrnic2024" not in methods.references
    for key in methods.references:
        assert methods.references.count(key) == 1


def test_one_coder_has_no_ties(coded: lh.Coded) -> None:
    methods = lh.methods_text(coded, estimates=lh.estimate(coded, gold_of(coded)))
    assert "on a tie" not in methods.text


def test_methods_that_were_not_used_are_not_cited(
    coded: lh.Coded, results: tuple[lh.types.Validation, lh.types.Estimates]
) -> None:
    naive = lh.estimate(coded, gold_of(coded), methods=["gold", "naive"])
    methods = lh.methods_text(coded, results[0], naive)
    assert "egami2023" not in methods.references
    assert "angelopoulos2023" not in methods.references
    assert "corrected" not in methods.text


@pytest.mark.filterwarnings("ignore:.*codes:UserWarning")
def test_the_rule_for_ties_is_told_once(coded: lh.Coded) -> None:
    gold = lh.gold_sample(coded, 40, seed=7)
    anna = [LABELS[row % 2] for row in gold.rows]
    ben = [
        LABELS[1 - row % 2] if i < 3 else LABELS[row % 2]
        for i, row in enumerate(gold.rows)
    ]
    tied = lh.validate(coded, gold.with_codes({"anna": anna, "ben": ben}))
    text = lh.methods_text(coded, tied).text
    assert "on a tie the code of the first coder" in text
    assert "leave out" not in text
    alike = lh.validate(coded, gold.with_codes({"anna": anna}))
    assert "on a tie" not in lh.methods_text(coded, alike).text
    both = lh.methods_text(coded, tied, lh.estimate(coded, gold.with_codes(anna)))
    assert both.text.count("on a tie") == 1


def test_each_coefficient_with_a_sentence_is_reported(
    results: tuple[lh.types.Validation, lh.types.Estimates],
    coded: lh.Coded,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert all(of.reference for of in COEFFICIENTS.values() if of.sentence)
    named = dataclasses.replace(
        COEFFICIENTS["ac1"], sentence="Gwet's AC1", reference="fang2026"
    )
    monkeypatch.setitem(COEFFICIENTS, "ac1", named)
    methods = lh.methods_text(coded, results[0])
    assert "Gwet's AC1 0." in methods.text
    assert "fang2026" in methods.references


def test_weighted_kappa_is_of_1968(coded: lh.Coded) -> None:
    ordered = lh.validate(coded, gold_of(coded), scale="ordinal")
    methods = lh.methods_text(coded, ordered)
    assert "Cohen's kappa with quadratic weights between" in methods.text
    assert "(Cohen 1968)" in methods.text
    assert "cohen1968" in methods.references
    assert "cohen1960" not in methods.references


def test_regressions_cite_labels_on_either_side(
    contents: dict[str, Any], results: tuple[lh.types.Validation, lh.types.Estimates]
) -> None:
    estimates = results[1].to_dict()
    assert "egami2024" not in methods_of({**contents, "estimates": estimates}).references
    regression = {**estimates, "formula": "age ~ label", "model": "ols"}
    methods = methods_of({**contents, "estimates": regression})
    assert "(Egami et al. 2023; Egami et al. 2024)" in methods.text


def test_settings_are_told_as_they_were(contents: dict[str, Any]) -> None:
    text = methods_of(with_settings(contents, calibrate="contextual")).text
    assert "(Zhao et al. 2021)" in text
    text = methods_of(with_settings(contents, calibrate=None)).text
    assert "Probabilities were not calibrated." in text
    drawn = {"method": "generate", "temperature": 0.7, "seed": 3, "max_tokens": 9}
    text = methods_of(with_settings(contents, calibrate=None, **drawn)).text
    assert "temperature 0.7 (seed 3)" in text
    assert "at most 9 tokens" in text
    assert "not calibrated" not in text
    greedy = methods_of(with_settings(contents, **{**drawn, "temperature": 0.0})).text
    assert "greedily (temperature 0)" in greedy
    assert "chat template" in methods_of(with_settings(contents, chat=True)).text


def test_a_ready_codebook_is_cited(contents: dict[str, Any]) -> None:
    methods = methods_of(with_codebook(contents, lh.ready_codebook("populism")))
    assert {"mudde2004", "hawkins2009"} < set(methods.references)
    assert "(Mudde 2004; Hawkins 2009)" in methods.text


def test_every_design_of_a_sample_has_a_sentence() -> None:
    kinds = {"simple", "stratified", "uncertainty", "weights"}
    assert set(DESIGNS) == {*kinds, "given", WAVES}


def test_values_are_text_and_never_part_of_a_template(contents: dict[str, Any]) -> None:
    hostile = "{{ 7 * 7 }}{% if %}"
    book = lh.Codebook("Which?", {hostile: "One.", "other": "Two."})
    model = {**contents["run"]["model"], "file": "{# a #}\n--\n.gguf"}
    methods = methods_of(with_run(with_codebook(contents, book), model=model))
    before = methods_of(contents)
    assert hostile in methods.text
    assert "{# a #} -- .gguf" in methods.text
    assert methods.text.count("\n\n") == before.text.count("\n\n")
    assert any("{# a #} -- .gguf" in item.answer for item in methods.checklist)


def test_a_choice_is_told_with_its_evaluation(contents: dict[str, Any]) -> None:
    evaluation = {
        "name": "b",
        "measure": "macro_f1",
        "on_select": 0.81,
        "n_candidates": 10,
        "value": 0.7,
        "low": 0.6,
        "high": 0.8,
        "level": 0.95,
        "n": 90,
        "n_failed": 0,
        "n_openings": 2,
        "tied": ["a"],
        "notes": [],
    }
    whole = {**contents, "evaluation": evaluation}
    text = methods_of(whole).text
    assert "chosen among 10 candidates by their macro F1" in text
    assert "0.70 (95% interval 0.60 to 0.80)" in text
    assert "used before (1 earlier evaluation)" in text
    answers = {item.question: item for item in methods_of(whole).checklist}
    assert not answers["How many prompts and models were tried?"].is_open


def test_a_report_has_it_and_gives_it_again(
    coded: lh.Coded,
    results: tuple[lh.types.Validation, lh.types.Estimates],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = lh.report(coded, tmp_path / "r.html", *results)
    page = path.read_text(encoding="utf-8")
    assert '<section id="methods">' in page
    assert '<section id="checklist">' in page
    methods = lh.methods_text(path)
    assert methods.text == lh.methods_text(coded, *results).text
    assert main(["methods", str(path), "--bibtex", str(tmp_path / "m.bib")]) == 0
    assert capsys.readouterr().out == methods.text + "\n"
    assert (tmp_path / "m.bib").read_text(encoding="utf-8") == methods.bibtex + "\n"
    assert main(["methods", str(path), "--checklist"]) == 0
    assert capsys.readouterr().out.count("\n") == len(methods.checklist)
    with pytest.raises(lh.ArgumentError) as caught:
        lh.methods_text(path, results[0])
    assert caught.value.argument == "validation"
    (tmp_path / "no.html").write_text("<p>", encoding="utf-8")
    assert main(["methods", str(tmp_path / "no.html")]) == 2


def document_xml(path: Path) -> str:
    with zipfile.ZipFile(io.BytesIO(path.read_bytes())) as parts:
        return parts.read("word/document.xml").decode()


def test_a_document_has_the_same_parts(
    coded: lh.Coded,
    results: tuple[lh.types.Validation, lh.types.Estimates],
    tmp_path: Path,
) -> None:
    import docx  # optional

    path = lh.report(coded, tmp_path / "r.docx", *results, title="A \0 title & <b>")
    document = docx.Document(str(path))
    titles = [p.text for p in document.paragraphs if p.style.name == "Heading 1"]
    assert titles[:3] == ["Methods", "Labels", "Validation"]
    assert {"Estimates", "Checklist", "Codebook", "References"} <= set(titles)
    assert document.paragraphs[0].text == "A \ufffd title & <b>"
    assert len(document.inline_shapes) == 7
    assert "w:tblHeader" in document_xml(path)
    text = lh.methods_text(coded, *results).text.split("\n\n")[1]
    assert text in [p.text for p in document.paragraphs]
    cells = [c.text for t in document.tables for row in t.rows for c in row.cells]
    assert "Krippendorff's alpha" in cells


def test_a_document_needs_a_package(
    coded: lh.Coded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "docx", None)
    with pytest.raises(ImportError, match=r"llamaherd\[docx\]"):
        lh.report(coded, tmp_path / "r.docx")
    assert not list(tmp_path.iterdir())


def test_an_evaluation_of_another_codebook_is_refused(coded: lh.Coded) -> None:
    with pytest.raises(lh.ArgumentError) as caught:
        contents_of(
            coded,
            title="t",
            texts=False,
            n_examples=0,
            validation=None,
            estimates=(),
            robustness=None,
            evaluation={"choice_hash": "0" * 64},
        )
    assert caught.value.argument == "evaluation"


@pytest.fixture(scope="module")
def evaluated(context: lh.Context) -> tuple[lh.Coded, lh.types.Evaluation]:
    """Return a coding by the better of two codebooks, and its evaluation."""
    data = {"text": [f"Text {i} says {'this' if i % 3 else 'that'}" for i in range(60)]}
    gold = lh.gold_sample(data, 60, text="text", names=["a", "b"], seed=1)
    gold = gold.with_codes(["a" if row % 3 else "b" for row in gold.rows])
    gold = lh.gold_split(gold, explore=0, select=0.5, evaluate=0.5, seed=1)
    books = {"one": lh.Codebook("Which?", ["a", "b"])}
    books["two"] = lh.Codebook("Say which.", ["a", "b"])
    choice = lh.best_codebook(lh.compare_codebooks(data, books, gold, context))
    coded = lh.annotate(data, "text", choice.codebook, context)
    return coded, lh.evaluate_codebook(choice, gold, context)


def test_an_evaluation_is_part_of_methods_and_report(
    evaluated: tuple[lh.Coded, lh.types.Evaluation], tmp_path: Path
) -> None:
    coded, evaluation = evaluated
    methods = lh.methods_text(coded, evaluation=evaluation)
    assert "chosen among 2 candidates by their accuracy" in methods.text
    assert f"measured on {evaluation.n} other texts" in methods.text
    path = lh.report(coded, tmp_path / "r.html", evaluation=evaluation)
    assert '<section id="choice">' in path.read_text(encoding="utf-8")
    assert lh.methods_text(path).text == methods.text
    settings = {**coded.run["settings"], "calibrate": "batch"}
    other = dataclasses.replace(coded, run={**coded.run, "settings": settings})
    with pytest.raises(lh.ArgumentError) as caught:
        lh.methods_text(other, evaluation=evaluation)
    assert caught.value.argument == "evaluation"


def _told(coded: lh.Coded, **options: Any) -> str:
    """Return the paragraph on people's codes of a validation with these options."""
    codes = options.pop("gold", None) or [LABELS[i % 2] for i in range(N)]
    validation = lh.validate(coded, codes, **options)
    return lh.methods_text(coded, validation).text.split("\n\n")[1]


@pytest.mark.parametrize(
    ("prob", "weights", "sentence", "printed"),
    [
        (None, None, "", ""),
        (None, "w", "its survey weight", "survey weight"),
        ("simple", None, "", "inclusion probability"),
        ("simple", "w", "its survey weight", "inclusion probability and survey weight"),
        (
            "uncertainty",
            None,
            "the inverse of its inclusion probability",
            "inclusion probability",
        ),
        (
            "uncertainty",
            "w",
            "its survey weight divided by its inclusion probability",
            "inclusion probability and survey weight",
        ),
    ],
)
def test_weights_are_named_by_what_they_are(
    coded: lh.Coded, prob: str | None, weights: str | None, sentence: str, printed: str
) -> None:
    values = None if weights is None else [1 + i % 3 for i in range(N)]
    gold: Any = [LABELS[i % 2] for i in range(N)]
    if prob is not None:
        gold = gold_of(coded, prob=prob)
    validation = lh.validate(coded, gold, weights=values)
    text = lh.methods_text(coded, validation).text
    assert [*re.findall(r"each text weighted by ([\w ]+)", text), ""][0] == sentence
    line = str(validation).splitlines()[1]
    assert [*re.findall(r"; weighted by ([\w ]+)", line), ""][0] == printed


def test_missing_texts_and_codes_are_counted(tiny_path: Callable[[str], Path]) -> None:
    texts = ["One text.", None, "  ", "Another.", "Another.", "word " * 2000]
    book = lh.Codebook("Which?", LABELS)
    with (
        lh.Model(tiny_path("llama")) as model,
        lh.Context(model, n_ctx=512) as context,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", UserWarning)  # of the text that is too long
        coded = lh.annotate({"text": texts}, "text", book, context)
        text = lh.methods_text(coded).text
    n_labelled = sum(label is not None for label in coded.labels)
    assert f"We coded {n_labelled} texts (2 different ones)" in text
    assert "Of 6 rows, 2 have no text and 1 could not be coded." in text


@pytest.mark.parametrize(
    ("n", "n_open", "sentence"),
    [
        (N, 0, "These were all texts."),
        (N, 5, "All 60 texts were to be coded. 5 texts of the sample have no code;"),
        (40, 0, "These texts belong to a sample of 40 of 60 texts"),
        (40, 1, "1 text of the sample has no code;"),
    ],
)
def test_texts_without_a_code_are_told(
    coded: lh.Coded, n: int, n_open: int, sentence: str
) -> None:
    drawn = lh.gold_sample(coded, n, seed=7)
    codes = [None if i < n_open else LABELS[i % 2] for i in range(n)]
    text = _told(coded, gold=drawn.with_codes(codes))
    assert sentence in text
    assert ("no code" in text) == (n_open > 0)
    assert ("all texts" in text) == (n == N and n_open == 0)


@pytest.mark.parametrize("target", ["texts", "population"])
@pytest.mark.parametrize(
    ("outcome", "by", "sentence"),
    [
        (None, None, "We estimated shares from"),
        ("yes", "group", "We estimated shares and differences between groups from"),
        ({"yes": 1, "no": 0}, None, "We estimated means from"),
    ],
)
def test_estimates_are_named_by_what_they_are(
    coded: lh.Coded, outcome: Any, by: str | None, sentence: str, target: Any
) -> None:
    frame = {**coded.frame, "group": ["a", "b"] * (N // 2)}
    grouped = dataclasses.replace(coded, frame=frame)
    gold = gold_of(grouped)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of few codes
        estimates = lh.estimate(grouped, gold, outcome=outcome, by=by, target=target)
    text = lh.methods_text(grouped, estimates=estimates).text
    assert sentence in text
    assert ("describe these texts only" in text) == (target == "texts")


def test_clusters_and_survey_weights_of_estimates_are_named(coded: lh.Coded) -> None:
    frame = {
        **coded.frame,
        "author": [row // 2 for row in range(N)],
        "w": [1.0, 2.0] * (N // 2),
    }
    written = dataclasses.replace(coded, frame=frame)
    gold = gold_of(written)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of few codes and clusters
        by_author = lh.estimate(written, gold, cluster="author")
        weighted = lh.estimate(written, gold, weights="w")
    text = lh.methods_text(written, estimates=by_author).text
    assert f"treated as dependent ({N // 2} clusters)." in text
    assert "survey weights" not in text
    text = lh.methods_text(written, estimates=[by_author, weighted]).text
    assert text.count("dependent") == text.count("survey weights") == 1
