"""Help pages of the R package agree with the roxygen comments."""

from __future__ import annotations

import re
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "scripts"))
import r_help


def test_pages_say_what_the_comments_say() -> None:
    assert sorted(r_help.differing()) == []


@pytest.mark.parametrize(
    ("markdown", "rd"),
    [
        ("See [vote()].", "See \\code{\\link[=vote]{vote()}}."),
        ("[all][plots]", "\\link[=plots]{all}"),
        ("50% of `a%b`", "50\\% of \\code{a\\%b}"),
        (
            "Two:\n\n* one\n  line\n* two",
            "Two:\n\\itemize{\n\\item one\nline\n\\item two\n}",
        ),
        (
            "* one\nlazy line\n* two\n\nafter",
            "\\itemize{\n\\item one\nlazy line\n\\item two\n}\n\nafter",
        ),
        ("[text](https://example.org)", "\\href{https://example.org}{text}"),
    ],
)
def test_markdown_becomes_rd(markdown: str, rd: str) -> None:
    assert r_help.rd_of(markdown) == rd


def test_a_comment_that_the_page_lacks_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "R").mkdir()
    (tmp_path / "man").mkdir()
    source = tmp_path / "R" / "a.R"
    source.write_text(
        "#' A title\n#'\n#' @param x Number.\n#' @returns It.\n#' @export\n"
        'a <- function(x = c("(\\"", ","), y = 1.0, z = "127.0.0.1", ...) x\n',
        encoding="utf-8",
    )
    monkeypatch.setattr(r_help, "ROOT", tmp_path)
    assert list(r_help.differing()) == ["a"]
    page = r_help.differing()["a"]
    assert 'a(x = c("(\\\\"", ","), y = 1, z = "127.0.0.1", ...)' in page
    assert "\\item{x}{Number.}" in page
    (tmp_path / "man" / "a.Rd").write_text(page, encoding="utf-8")
    assert r_help.differing() == {}
    source.write_text(source.read_text().replace("Number", "Integer"), encoding="utf-8")
    assert list(r_help.differing()) == ["a"]
    (tmp_path / "man" / "b.Rd").write_text("old", encoding="utf-8")
    assert r_help.differing()["b"] == ""


def test_a_function_of_the_package_is_defined_once() -> None:
    # Files share one namespace: of two definitions, the one in the last file is used
    # without an error.
    counts = Counter(
        name
        for path in sorted((r_help.ROOT / "R").glob("*.R"))
        for name in re.findall(r"(?m)^([\w.]+) <- ", path.read_text(encoding="utf-8"))
    )
    assert len(counts) > 400
    assert [name for name, n in counts.items() if n > 1] == []


def test_the_front_page_of_r_leads_to_every_help_page() -> None:
    exports = set(re.findall(r"export\((\w+)\)", (r_help.ROOT / "NAMESPACE").read_text()))
    front = (r_help.ROOT / "R" / "llamaherd-package.R").read_text(encoding="utf-8")
    topics = front.partition("@section Functions by topic:")[2].partition("@section")[0]
    linked = set(re.findall(r"\[(\w+)(?:\(\))?\]", topics))
    assert len(linked) <= 70
    left_out = []
    for page in (r_help.ROOT / "man").glob("*.Rd"):
        names = set(re.findall(r"\\alias\{(.*?)\}", page.read_text(encoding="utf-8")))
        if names & exports and not names & linked:
            left_out.append(page.stem)
    assert left_out == []
