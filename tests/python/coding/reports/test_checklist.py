"""Tests of the checklist: items are answered from the data, or open."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import llamaherd as lh
import pytest
from llamaherd.coding.references import GUIDELINES
from llamaherd.coding.reports.methods import PARTS, ChecklistItem, checklist_of, facts_of
from llamaherd.coding.reports.page import page_of
from llamaherd.coding.reports.report_data import sha256_of_text
from reported import LABELS, with_codebook, with_run, with_settings

# The model is random, so a batch calibration changes many labels.
pytestmark = pytest.mark.filterwarnings("ignore:calibrate='batch' gave:UserWarning")


def test_the_checklist_is_open_where_the_data_are_silent(
    coded: lh.Coded, results: tuple[lh.types.Validation, lh.types.Estimates]
) -> None:
    alone = lh.methods_text(coded).checklist
    whole = lh.methods_text(coded, *results).checklist
    assert [item.question for item in alone] == [item.question for item in whole]
    newly = {
        a.question for a, b in zip(alone, whole, strict=True) if a.is_open > b.is_open
    }
    assert "How were these texts drawn?" in newly
    assert "Are results corrected for errors of the labels?" in newly
    always = {item.question for item in whole if item.is_open}
    assert "Why a language model, and this one?" in always
    for item in whole:
        assert item.answer
        assert item.state == ("open" if item.is_open else "answered")


def answers(contents: dict[str, Any]) -> dict[str, ChecklistItem]:
    whole = {**dict.fromkeys(PARTS), **contents}
    return {item.question: item for item in checklist_of(facts_of(whole))}


@pytest.fixture(scope="module")
def validated(
    contents: dict[str, Any], results: tuple[lh.types.Validation, lh.types.Estimates]
) -> dict[str, Any]:
    return {**contents, "validation": results[0].to_dict()}


def test_errors_and_people_are_answered_from_a_validation(
    validated: dict[str, Any], results: tuple[lh.types.Validation, lh.types.Estimates]
) -> None:
    items = answers(validated)
    errors = items["Which errors are most frequent?"]
    accuracy = results[0].accuracy
    table = [
        (int(accuracy.confusion[i, j]), f"\u201c{LABELS[i]}\u201d for \u201c{LABELS[j]}")
        for i, j in ((0, 1), (1, 0))
    ]
    frequent = [text for n, text in sorted(table, reverse=True) if n]
    assert frequent
    places = [errors.answer.index(text) for text in frequent]
    assert places == sorted(places)
    people = items[
        "Does the model agree with people as often as people agree with each other?"
    ]
    ceiling = results[0].ceiling
    assert ceiling is not None
    assert f"a coder in {ceiling.model.value:.2f}" in people.answer
    least = min(accuracy.per_label, key=lambda label: label.n_gold)
    rarest = items["How many codes does the rarest label have?"]
    assert rarest.answer.startswith(f"{least.n_gold}, of \u201c{least.label}\u201d")
    assert ("fewer than 20" in rarest.answer) == (least.n_gold < 20)
    good = items["How good are the labels, overall and for each label, with intervals?"]
    assert "Cohen's kappa" in good.answer
    assert "Krippendorff's alpha" in good.answer
    alike = items["How far do people agree with each other?"].answer
    assert alike.startswith("percent agreement 0.")
    assert "Gwet's AC1 0." in alike


def test_no_error_and_a_rare_label_are_said(validated: dict[str, Any]) -> None:
    question = "Which errors are most frequent?"
    validation = validated["validation"]
    right = {**validation["accuracy"], "confusion": [[19, 0], [0, 21]]}
    right["per_label"] = [
        {**scores, "n_gold": n}
        for scores, n in zip(right["per_label"], (19, 21), strict=True)
    ]
    items = answers({**validated, "validation": {**validation, "accuracy": right}})
    assert items[question].answer.startswith("none in ")
    rarest = items["How many codes does the rarest label have?"].answer
    assert rarest.startswith("19, of ")
    assert "fewer than 20" in rarest
    several = {**validation["accuracy"], "confusion": []}
    items = answers({**validated, "validation": {**validation, "accuracy": several}})
    assert items[question].is_open


def test_runs_vary_where_answers_are_sampled(contents: dict[str, Any]) -> None:
    question = "Do labels differ between runs?"
    assert "not sampled" in answers(contents)[question].answer
    drawn = {"method": "generate", "temperature": 0.7, "seed": 3}
    assert answers(with_settings(contents, **drawn))[question].is_open
    greedy = answers(with_settings(contents, **{**drawn, "temperature": 0.0}))
    assert "temperature 0" in greedy[question].answer
    runs = [{"settings": {"seed": seed}} for seed in (1, 2)]
    variants = {"variants": ["a", "b"], "agreement": 0.9, "runs": runs}
    tried = with_settings({**contents, "robustness": variants}, **drawn)
    assert answers(tried)[question].answer.startswith("2 seeds, mean agreement 90%")
    repeated = {**variants, "runs": runs[:1] * 2}
    assert answers({**tried, "robustness": repeated})[question].is_open


def test_examples_among_the_texts_leave_an_item_open(contents: dict[str, Any]) -> None:
    question = (
        "Are the prompt's examples excluded from the texts that measure its accuracy?"
    )
    assert (
        answers(contents)[question].answer == "yes: no example is one of the coded texts"
    )
    data = contents["data"]
    texts = {**contents, "data": {**data, "texts": [*data["texts"], " A. "]}}
    assert answers(texts)[question].is_open
    hashed = {k: v for k, v in data.items() if k != "texts"}
    for text, is_open in (("A.", True), ("B.", False)):
        hashes = {**hashed, "texts_sha256": [sha256_of_text(text)]}
        items = answers({**contents, "data": hashes})
        assert items[question].is_open is is_open
    none = answers(with_codebook(contents, lh.Codebook("Which?", LABELS)))
    assert none[question].answer == "the prompt has no examples"


def test_the_model_and_what_was_done_to_labels_are_told(contents: dict[str, Any]) -> None:
    items = answers(contents)
    assert (
        "calibrated (batch)"
        in items["Were the model's labels changed afterwards?"].answer
    )
    alone = items["Was each text coded independently of the other texts?"].answer
    assert "calibration uses the probabilities of all texts" in alone
    plain = answers(with_settings(contents, calibrate=None))
    assert (
        "of all texts"
        not in plain["Was each text coded independently of the other texts?"].answer
    )
    changed_labels = plain["Were the model's labels changed afterwards?"].answer
    assert changed_labels == "no: labels are the model's own"
    run = contents["run"]
    lora = {"file": "a.gguf", "scale": 1.0, "sha256": None}
    metadata = {**run["model"]["metadata"], "general.license": "mit"}
    model = {**run["model"], "loras": [lora], "metadata": metadata}
    items = answers(with_run(contents, model=model))
    assert "a.gguf" in items["Was the model fine-tuned or changed?"].answer
    exact = items["Which model exactly, and is its file identified?"].answer
    assert "licence mit" in exact


def test_a_ready_codebook_answers_for_its_concept(contents: dict[str, Any]) -> None:
    question = "Is the concept defined, and is the definition grounded in theory?"
    assert answers(contents)[question].is_open
    items = answers(with_codebook(contents, lh.ready_codebook("populism")))
    assert "Mudde 2004 and Hawkins 2009" in items[question].answer


def test_each_guideline_asks_something_and_is_listed(contents: dict[str, Any]) -> None:
    sources = {source for item in answers(contents).values() for source in item.sources}
    assert sources == {guideline.short for guideline in GUIDELINES}
    page = unescape(page_of(contents))
    section = page.split('<section id="checklist">')[1].split("</section>")[0]
    for number, guideline in enumerate(GUIDELINES, start=1):
        assert f"[{number}] {guideline.short} ({guideline.address})" in section
    rows = [re.findall("<bdi>(.*?)</bdi>", row) for row in section.split("<tr>")[2:]]
    asked_by = {row[0]: row[3] for row in rows}
    assert asked_by["Was each text coded independently of the other texts?"] == "3"
    assert len(asked_by) == len(answers(contents))
