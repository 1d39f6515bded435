"""The sources and the front page of the R package; `make lint` compares its help."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[3] / "r_package"


def test_a_function_of_the_package_is_defined_once() -> None:
    # Files share one namespace: of two definitions, the one in the last file is used
    # without an error.
    counts = Counter(
        name
        for path in sorted((PACKAGE / "R").glob("*.R"))
        for name in re.findall(r"(?m)^([\w.]+) <- ", path.read_text(encoding="utf-8"))
    )
    assert len(counts) > 400
    assert [name for name, n in counts.items() if n > 1] == []


def test_the_front_page_of_r_leads_to_every_help_page() -> None:
    exports = set(re.findall(r"export\((\w+)\)", (PACKAGE / "NAMESPACE").read_text()))
    front = (PACKAGE / "R" / "llamaherd-package.R").read_text(encoding="utf-8")
    topics = front.partition("@section Functions by topic:")[2].partition("@section")[0]
    linked = set(re.findall(r"\[(\w+)(?:\(\))?\]", topics))
    assert len(linked) <= 70
    left_out = []
    for page in (PACKAGE / "man").glob("*.Rd"):
        names = set(re.findall(r"\\alias\{(.*?)\}", page.read_text(encoding="utf-8")))
        if names & exports and not names & linked:
            left_out.append(page.stem)
    assert left_out == []
