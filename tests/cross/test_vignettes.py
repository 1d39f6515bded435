"""Guides of the R package on a computer without a model or without Python."""

from __future__ import annotations

import os
import re
import sys
from typing import TYPE_CHECKING

import pytest
import rscript

if TYPE_CHECKING:
    from pathlib import Path

VIGNETTES = sorted((rscript.ROOT / "r_package" / "vignettes").glob("*.Rmd"))


@pytest.mark.parametrize("path", VIGNETTES, ids=lambda path: path.stem)
def test_values_in_sentences_are_guarded(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    inline = re.findall(r"`r ([^`]+)`", text)
    unguarded = [code for code in inline if not re.fullmatch(r"shown\(.*\)", code)]
    assert unguarded == []
    assert bool(inline) == ("shown <- " in text)


@pytest.mark.long(reason="starts R, with a real model or several calls")
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
