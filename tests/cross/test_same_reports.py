"""Python reproduces R's reports, and R reproduces Python's, bit by bit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
import rscript
from llamaherd.coding.reports.report_data import read_report
from llamaherd.engine.memory import hardware

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.model

TEXTS = ["The keeper saved two penalties.", None,
         "Les actions ont baissé de 9 %.", "</script>東京",
         "The keeper saved two penalties.", "Rain"]  # fmt: skip
TOPICS = lh.Codebook("Which topic?", ["Sports", "économie", "no"])


@pytest.mark.slow(reason="codes, reports and runs again, in both languages")
def test_reports_cross(
    smollm2: lh.Model, smollm2_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # R determines the number of cores itself, and settings of conftest.py do not affect
    # it.
    monkeypatch.setattr(hardware, "n_cores", hardware.n_cores.__wrapped__)
    lh.write_codebook(TOPICS, tmp_path / "topics.yaml")
    with lh.Context(smollm2, n_seq_max=3, deterministic=True) as context:
        coded = lh.annotate({"text": TEXTS}, "text", TOPICS, context)
    lh.report(coded, tmp_path / "python.html")
    job = {
        "model": str(smollm2_path),
        "codebook": str(tmp_path / "topics.yaml"),
        "texts": TEXTS,
        "page": str(tmp_path / "r.html"),
        "part": str(tmp_path / "part.json"),
        "of_python": str(tmp_path / "python.html"),
    }
    outcome = rscript.results("texts.R telling", tmp_path, job)
    assert outcome["same"]
    refused = {name: text.replace("`", "") for name, text in outcome["refused"].items()}
    assert refused["saved"] == "taken"
    assert (
        "validation does not belong to these labels: it was computed from"
        in (refused["validation"])
    )
    assert "the same texts in another order" in refused["sorted"]
    assert "estimates does not belong to these labels" in refused["estimates"]
    assert "made by an earlier version" in refused["earlier"]
    assert "normalize is 'token', and was 'sum'" in refused["robustness"]
    assert outcome["page"] == "5 of 5 labels and probabilities are the same"

    again = lh.reproduce(tmp_path / "r.html", smollm2, n_seq_max=1)
    assert again.is_same
    assert again.n == 5
    data = {"text": [TEXTS[i] for i in (3, 0, 4)]}
    part = lh.reproduce(tmp_path / "part.json", smollm2, data=data)
    assert (part.n, part.n_same) == (3, 3)

    ours, theirs = read_report(tmp_path / "python.html"), read_report(tmp_path / "r.html")
    for name in ("labels", "probs", "errors", "summary"):
        assert theirs[name] == ours[name]
    assert theirs["data"] == ours["data"]
    assert "R" in theirs["run"]["versions"]
    assert theirs["validation"]["n_gold"] == 5
    assert {row["method"] for row in theirs["estimates"][0]["rows"]} >= {"gold", "naive"}
    assert len(theirs["robustness"]["variants"]) == 2
    assert len(theirs["robustness"]["runs"]) == 2
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    for part_of_page in ("validation", "estimates", "robustness", "codebook", "prompts"):
        assert f'<section id="{part_of_page}">' in page
