"""A report and its methods paragraph take several results of `estimate`."""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import markupsafe
import pytest
from llamaherd.coding.reports.methods import methods_of
from llamaherd.coding.reports.report_data import read_report
from llamaherd.engine.core.phrases import as_sentence
from reported import LABELS, N

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DATA = {
    "text": [f"Text number {i}." for i in range(N)],
    "party": ["left", "right"] * (N // 2),
    "age": [20 + 7 * i % 40 for i in range(N)],
}


@pytest.fixture(scope="module")
def coded(context: lh.Context) -> lh.Coded:
    book = lh.Codebook("Which?", LABELS)
    return lh.annotate(DATA, "text", book, context, calibrate="batch")


@pytest.fixture(scope="module")
def fits(coded: lh.Coded) -> dict[str, lh.types.Estimates]:
    gold = lh.gold_sample(coded, 40, seed=7)
    gold = gold.with_codes([LABELS[row % 5 > 1] for row in gold.rows])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of few codes
        return {
            "shares": lh.estimate(coded, gold),
            "by party": lh.estimate(coded, gold, outcome="yes", by="party"),
            "regression": lh.estimate(coded, gold, "age ~ label"),
            "narrow": lh.estimate(coded, gold, level=0.8, methods=["gold"]),
        }


def headings(page: str) -> list[str]:
    section = page.split('<section id="estimates">')[1].split("</section>", maxsplit=1)[0]
    return re.findall(r"<h3>(.*?)</h3>", section)


@pytest.mark.parametrize("kind", ["html", "docx"])
def test_a_table_of_very_many_groups_is_bounded(
    coded: lh.Coded, fits: dict[str, lh.types.Estimates], tmp_path: Path, kind: str
) -> None:
    fit = fits["by party"]
    rows = tuple(replace(fit.rows[0], group=f"group {i}") for i in range(1000))
    path = tmp_path / f"report.{kind}"
    lh.report(coded, path, estimates=replace(fit, rows=rows))
    left_out = "The first 100 of 1,000 rows; 900 are left out."
    if kind == "docx":
        document = pytest.importorskip("docx").Document(str(path))
        assert any(left_out in paragraph.text for paragraph in document.paragraphs)
        assert max(len(table.rows) for table in document.tables) == 101
        return
    page = path.read_text("utf-8")
    section = page.split('<section id="estimates">')[1].split("</section>", maxsplit=1)[0]
    assert left_out in section
    assert section.count("<tr>") == 101
    assert "the first 100 of 1,000 rows" in section  # of the plot
    (stored,) = read_report(path)["estimates"]
    assert len(stored["rows"]) == 1000


def test_notes_are_sentences(
    coded: lh.Coded, fits: dict[str, lh.types.Estimates], tmp_path: Path
) -> None:
    fit = replace(fits["shares"], notes=("There are few codes", "Really?"))
    page = lh.report(coded, tmp_path / "report.html", estimates=fit).read_text("utf-8")
    assert '<p class="note">There are few codes.</p>' in page
    assert '<p class="note">Really?</p>' in page
    assert "Note: There are few codes.\nNote: Really?" in str(fit)


def test_each_has_a_section_with_a_title(
    coded: lh.Coded, fits: dict[str, lh.types.Estimates], tmp_path: Path
) -> None:
    path = tmp_path / "report.html"
    page = lh.report(coded, path, estimates=list(fits.values())).read_text("utf-8")
    assert headings(page) == [
        "Shares (1)",
        "Share of yes by party",
        "age ~ label",
        "Shares (2)",
    ]
    assert page.count("<h2>Estimates</h2>") == 1
    for fit in fits.values():
        for note in set(fit.notes):
            is_shared = all(note in other.notes for other in fits.values())
            n = 1 if is_shared else sum(note in other.notes for other in fits.values())
            assert page.count(f">{markupsafe.escape(as_sentence(note))}<") == n
    named = lh.report(coded, path, estimates={"A <b>": fits["shares"]}).read_text("utf-8")
    assert headings(named) == ["A &lt;b&gt;"]
    alone = lh.report(coded, path, estimates=fits["shares"]).read_text("utf-8")
    assert headings(alone) == []
    assert "<h2>Estimates</h2>" not in lh.report(coded, path, estimates=[]).read_text()


def test_the_paragraph_names_all_and_says_each_method_once(
    coded: lh.Coded, fits: dict[str, lh.types.Estimates], tmp_path: Path
) -> None:
    path = lh.report(coded, tmp_path / "r.json", estimates=fits)
    methods = lh.methods_text(path)
    assert methods.text == lh.methods_text(coded, estimates=list(fits.values())).text
    sentences = methods.text.split("\n\n")[-1].split("We estimated ")[1:]
    assert [sentence.split(", of which")[0] for sentence in sentences] == [
        "shares and differences between groups from 60 texts",
        "the regression age ~ label (least squares) from 60 texts",
        "shares from 60 texts",  # by another method
    ]
    correction = (
        "supervised learning (Egami et al. 2023; Egami et al. 2024) and, for shares and "
        "means, prediction-powered inference (PPI++) (Angelopoulos et al. 2023)"
    )
    assert correction in sentences[1]
    assert "from people's codes alone, with 80% confidence intervals." in sentences[2]
    models = [replace(fits["regression"], model=model) for model in ("ols", "logit")]
    both = lh.methods_text(coded, estimates=models).text
    assert "(least squares) and the regression age ~ label (logistic)" in both
    assert methods.text.count("corrected") == 1
    assert methods.text.count("The intervals treat these texts as a sample") == 1
    two = lh.methods_text(coded, estimates=[fits["shares"], fits["by party"]]).text
    alone = lh.methods_text(coded, estimates=fits["by party"]).text
    assert two == alone  # the differences come with shares
    assert [item.state for item in methods.checklist if "corrected" in item.question] == [
        "open"  # one of the estimates is by codes alone
    ]


def test_a_report_of_an_earlier_version_has_one(
    coded: lh.Coded, fits: dict[str, lh.types.Estimates], tmp_path: Path
) -> None:
    path = lh.report(coded, tmp_path / "r.json", estimates=fits["shares"])
    contents = read_report(path)
    earlier = {**contents, "estimates": contents["estimates"][0]}
    path.write_text(json.dumps(earlier), encoding="utf-8")
    assert methods_of(read_report(path)) == methods_of(contents)


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        (
            lambda fit: [fit, 3],
            r"estimates\[1\] must be the result of estimate\(\), not 3",
        ),
        (lambda fit: {"a": fit, "b": None}, r"estimates\['b'\] must be the result"),
        (lambda fit: {1: fit}, r"estimates\['1'\] must be a text, not 1"),
        (lambda fit: fit.rows[0], r"estimates must be .* or a list of several, not"),
        (lambda _: "fit", r"estimates must be .* or a list of several, not 'fit'"),
    ],
)
def test_other_values_are_refused_by_name(
    coded: lh.Coded,
    fits: dict[str, lh.types.Estimates],
    tmp_path: Path,
    wrong: Callable[[lh.types.Estimates], Any],
    name: str,
) -> None:
    with pytest.raises(TypeError, match=name):
        lh.report(coded, tmp_path / "r.json", estimates=wrong(fits["shares"]))


def test_an_estimate_of_other_labels_is_named(
    coded: lh.Coded, fits: dict[str, lh.types.Estimates], tmp_path: Path
) -> None:
    path = tmp_path / "r.json"
    with pytest.raises(ValueError, match=r"estimates\[1\] does not belong"):
        lh.report(coded, path, estimates=[fits["shares"], _of_others(fits["narrow"])])
    with pytest.raises(ValueError, match="estimates does not belong"):
        lh.report(coded, path, estimates=_of_others(fits["narrow"]))


def _of_others(fit: lh.types.Estimates) -> lh.types.Estimates:
    from dataclasses import replace  # one use

    assert fit.source is not None
    return replace(fit, source=replace(fit.source, labels="0" * 64))
