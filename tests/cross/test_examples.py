"""Examples, tutorials and guides run: in R, in Python, and without a model."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import rscript

if TYPE_CHECKING:
    from pathlib import Path

EXAMPLES = rscript.ROOT / "examples"
TOPICS = ("Business", "Politics", "Science", "Sports")
VIGNETTES = sorted((rscript.ROOT / "r_package" / "vignettes").glob("*.Rmd"))
starts_r = pytest.mark.long(reason="starts R, with a real model or several calls")
labels_texts = pytest.mark.long(reason="labels all texts with a real model")


def run(*arguments: object) -> str:
    """Run a Python program; return its output."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "MPLBACKEND": "agg"},
        capture_output=True,
        encoding="utf-8",
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---- examples --------------------------------------------------------------------------


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the news texts, in the columns that the examples expect."""
    with (EXAMPLES / "data" / "headlines.csv").open(encoding="utf-8", newline="") as file:
        rows = [(row["text"], row["topic"]) for row in csv.DictReader(file)]
    path = tmp_path / "texts.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    monkeypatch.chdir(tmp_path)
    return path


def check(output: str, folder: Path) -> None:
    """Check that labels are better than chance, shares sum to 1, a plot exists."""
    accuracy = re.search(r"^accuracy +([0-9.]+)", output, re.MULTILINE)
    assert accuracy is not None
    assert float(accuracy[1]) > 0.6
    _, rest = output.split("labels corrected by codes (DSL)")
    shares, *_ = rest.split("\n\n")
    share_of = dict(re.findall(r"(\w+) share +([0-9.]+)", shares))
    assert sorted(share_of) == sorted(TOPICS)
    assert sum(map(float, share_of.values())) == pytest.approx(1, abs=0.001)
    assert (folder / "estimate.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.model
@labels_texts
def test_corrected_shares_in_r(texts: Path, smollm2_path: Path) -> None:
    output = rscript.run(str(EXAMPLES / "estimate.R"), texts, smollm2_path)
    check(output, texts.parent)


@pytest.mark.model
@labels_texts
def test_corrected_shares_in_python(texts: Path, smollm2_path: Path) -> None:
    check(run(EXAMPLES / "estimate.py", texts, smollm2_path), texts.parent)


@pytest.mark.long(reason="simulates many samples")
def test_naive_intervals_miss_the_truth_and_corrected_ones_do_not() -> None:
    output = run(EXAMPLES / "naive_or_corrected.py", 20)
    pattern = r"^(\w+) +slope ([\d.]+)  coverage (\d+)%  width ([\d.]+)$"
    rows = {row[0]: row[1:] for row in re.findall(pattern, output, re.MULTILINE)}
    assert list(rows) == ["naive", "gold", "dsl"]
    slope = {name: float(row[0]) for name, row in rows.items()}
    covered = {name: int(row[1]) for name, row in rows.items()}
    width = {name: float(row[2]) for name, row in rows.items()}
    assert slope["naive"] < 0.15
    assert 0.17 < slope["dsl"] < 0.23
    assert covered["naive"] < 50
    assert min(covered["gold"], covered["dsl"]) >= 80
    assert width["naive"] < width["dsl"] < width["gold"]


@pytest.mark.model
@labels_texts
def test_scores_go_from_texts_to_regressions(smollm2_path: Path) -> None:
    output = run(EXAMPLES / "scores.py", EXAMPLES / "data" / "comments.csv", smollm2_path)
    assert "<CodebookComparison: 3 candidates" in output
    assert "Krippendorff's alpha" in output
    assert "label waited" in output
    assert "visits label" in output
    assert "(Egami et al. 2023; Egami et al. 2024)" in output


# ---- scripts for localLLM run after only library() and the path are changed -----------


@pytest.fixture
def _model(smollm2_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLAMAHERD_TEST_SMOLLM2", str(smollm2_path))


@pytest.mark.model
@pytest.mark.usefixtures("_model")
@starts_r
def test_parallel_generation() -> None:
    assert "parallel: done" in rscript.run("tutorials/parallel.R")


@pytest.fixture(scope="module")
def results_path(tmp_path_factory: pytest.TempPathFactory, smollm2_path: Path) -> Path:
    """Run annotation.R; return the folder with its files."""
    path = tmp_path_factory.mktemp("tutorials") / "found.rds"
    output = rscript.run(
        "tutorials/annotation.R", path, LLAMAHERD_TEST_SMOLLM2=str(smollm2_path)
    )
    assert "annotation: done" in output
    return path


@pytest.mark.model
@pytest.mark.usefixtures("_model")
@starts_r
def test_annotation(results_path: Path) -> None:
    assert results_path.stat().st_size > 0


@pytest.mark.model
@pytest.mark.usefixtures("_model")
@starts_r
def test_validation(results_path: Path) -> None:
    assert "validation: done" in rscript.run("tutorials/validation.R", results_path)


@pytest.mark.model
@pytest.mark.usefixtures("_model")
@starts_r
def test_reproducibility(tmp_path: Path) -> None:
    output = rscript.run("tutorials/reproducibility.R", tmp_path / "run.txt")
    assert "reproducibility: done" in output
    # The hashes are plain SHA-256 of the bytes of the log and of each text.
    printed = dict(re.findall(r"^(input|output|text) (.*?) $", output, re.MULTILINE))
    assert printed["input"] == hashlib.sha256(b"The sky is").hexdigest()
    text = json.loads(printed["text"])
    assert printed["output"] == hashlib.sha256(text.encode()).hexdigest()
    digest, name = (tmp_path / "run.txt.sha256").read_text().split()
    log = (tmp_path / "run.txt").read_bytes()
    assert (digest, name) == (hashlib.sha256(log).hexdigest(), "run.txt")
    program = shutil.which("sha256sum")
    if program is not None:
        subprocess.run([program, "--check", "run.txt.sha256"], cwd=tmp_path, check=True)


# ---- guides of the R package, without a model or without Python ------------------------


@pytest.mark.parametrize("path", VIGNETTES, ids=lambda path: path.stem)
def test_values_in_sentences_are_guarded(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    inline = re.findall(r"`r ([^`]+)`", text)
    unguarded = [code for code in inline if not re.fullmatch(r"shown\(.*\)", code)]
    assert unguarded == []
    assert bool(inline) == ("shown <- " in text)


@starts_r
def test_guides_are_built_without_a_model(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    # Python without llamaherd: even the guide that needs no model is not run.
    output = rscript.run(
        "vignettes.R",
        VIGNETTES[0].parent,
        tmp_path,
        LLAMAHERD_CACHE_DIR=str(tmp_path / "cache"),
        LLAMAHERD_TEST_SMOLLM2="",
        LLAMAHERD_PYTHON="",
        RETICULATE_PYTHON=os.path.realpath(sys.executable),
    )
    assert "vignettes: done" in output
    for path in VIGNETTES:
        page = (tmp_path / f"{path.stem}.md").read_text(encoding="utf-8")
        n_values = len(re.findall(r"`r shown\(", path.read_text(encoding="utf-8")))
        assert page.count("...") >= n_values
        assert "`r " not in page
