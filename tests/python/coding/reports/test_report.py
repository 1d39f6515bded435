"""Tests of reports: their content, texts that they must not contain, hostile texts."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import sys
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pytest
from llamaherd import _r
from llamaherd.coding.plots.counts import in_bands
from llamaherd.coding.reports.prose import date_of
from llamaherd.coding.reports.report_data import read_report
from llamaherd.engine.core.words import R, spoken_in

if TYPE_CHECKING:
    from pathlib import Path

TOPICS = lh.Codebook(
    "Which topic?",
    {"Sports": "Matches.", "Business <b>": ""},
    examples=[("A goal </script>", "Sports"), ("Shares fell.", "Business <b>")],
)
HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "<!-- <script> \u2028\u2029 ]]> & &amp; {{ 7 * 7 }} {% raw %}",
    "\U0001f600 \u202eright to left \u05d0\u05d1",
    "a\0b\x1b[31m\x85",
    "quotes \" and ' and `",
]
TEXTS = [*HOSTILE, None, HOSTILE[0], "plain"]
CODES = [
    "Sports",
    "Business <b>",
    "Sports",
    None,
    "Sports",
    "Sports",
    None,
    "Sports",
    None,
]


@pytest.fixture(scope="module")
def coded(context: lh.Context) -> lh.Coded:
    # A prompt cannot contain NUL, so this row fails.
    return lh.annotate({"text": TEXTS}, "text", TOPICS, context)


@pytest.fixture(scope="module")
def validation(coded: lh.Coded) -> lh.types.Validation:
    return lh.validate(coded, CODES)


class Page(HTMLParser):
    """Parser that stores all elements and attributes, and the text outside the JSON."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._inside = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.elements.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002 - as the parser calls it
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside not in ("script", "style"):
            self.text += data


@pytest.fixture(scope="module")
def page(coded: lh.Coded, validation: lh.types.Validation, tmp_path_factory: Any) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    assert lh.report(coded, path, validation, title="<i>Title") == path
    text: str = path.read_text(encoding="utf-8")
    return text


@pytest.fixture(scope="module")
def texts_page(coded: lh.Coded, tmp_path_factory: Any) -> str:
    """Return a page that shows all texts, because there are no human codes."""
    path = tmp_path_factory.mktemp("texts") / "report.html"
    text: str = lh.report(coded, path, title="<i>Title").read_text(encoding="utf-8")
    return text


@pytest.mark.parametrize("which", ["page", "texts_page"])
def test_hostile_texts_are_text_and_nothing_runs(
    which: str, request: pytest.FixtureRequest
) -> None:
    page: str = request.getfixturevalue(which)
    parsed = Page(page)
    scripts = [attrs for tag, attrs in parsed.elements if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "llamaherd-report"}]
    tags = {tag for tag, _ in parsed.elements}
    assert not tags & {
        "img",
        "iframe",
        "link",
        "object",
        "embed",
        "form",
        "base",
        "i",
        "b",
    }
    for tag, attrs in parsed.elements:
        assert not [name for name in attrs if name.startswith("on")], tag
        for name in ("src", "href", "xlink:href"):
            value = attrs.get(name)
            assert value is None or value.startswith("#"), (tag, value)
    policy = next(a["content"] for t, a in parsed.elements if a.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "script" not in policy
    assert "<i>Title" in parsed.text
    assert HOSTILE[1] in parsed.text
    if which == "texts_page":
        for text in (HOSTILE[0], HOSTILE[2], HOSTILE[3], HOSTILE[5]):
            assert text in parsed.text


def test_nothing_is_fetched_from_anywhere(page: str) -> None:
    outside = re.sub(r'xmlns(:xlink)?="[^"]*"', "", page.partition("<script")[0])
    # BibTeX entries contain addresses, as text.
    references = re.compile(r'<section id="references">.*?</section>', re.DOTALL)
    cited = "".join(references.findall(outside))
    assert "<a " not in cited
    outside = references.sub("", outside)
    assert "http://" not in outside
    assert "https://" not in outside
    assert "url(" not in re.sub(r"url\(#[\w-]+\)", "", outside)
    assert "@import" not in outside


def test_control_characters_are_shown(texts_page: str) -> None:
    before, _, data = texts_page.partition('id="llamaherd-report"')
    assert "a\u2400b\u241b[31m\ufffd" in before
    assert not set(before) & {"\0", "\x1b", "\x85"}
    assert "\u2028" not in data
    assert "<" not in data.partition("</script>")[0].partition(">")[2]


def test_numbers_are_those_that_print_shows(
    page: str, validation: lh.types.Validation
) -> None:
    """Measures have the same decimals in a report and when they are printed."""
    printed = str(validation)
    rows = [re.sub(r"<[^>]+>", " ", row) for row in page.split("<tr>")]
    accuracy = next(row for row in rows if row.split()[:1] == ["accuracy"])
    value, low, high = re.findall(r"\d[.]\d+", accuracy)
    assert f"{value} [{low}, {high}]" in printed.splitlines()[3]


def test_shares_have_the_denominator_that_is_named(
    coded: lh.Coded, page: str, tmp_path: Path
) -> None:
    """One of the nine texts is missing; then two equal texts fail, too."""
    assert "Labels of 8 of 9 texts" in page
    assert "Shares are of the 8 texts with a label." in page
    failed = [i for i, text in enumerate(TEXTS) if text == HOSTILE[0]]
    assert coded.probs is not None
    probs = coded.probs.copy()
    probs[failed] = np.nan
    labels = [None if i in failed else label for i, label in enumerate(coded.labels)]
    less = dataclasses.replace(
        coded,
        frame={"text": TEXTS, "label": labels},
        labels=labels,
        errors=["too long" if i in failed else None for i in range(len(TEXTS))],
        probs=probs,
    )
    page = lh.report(less, tmp_path / "less.html").read_text(encoding="utf-8")
    assert "Labels of 6 of 9 texts" in page
    assert "Shares are of the 6 texts with a label." in page
    assert "2 texts have no label (1 different): too long" in page


def test_ids_of_all_plots_differ(page: str) -> None:
    ids = re.findall(r'\bid="([^"]+)"', page.partition("<script")[0])
    assert len(ids) == len(set(ids))
    assert page.count("<svg") == 5 + 1  # plots of the validation and of the labels


def test_everything_comes_back_from_the_page(
    page: str, coded: lh.Coded, validation: lh.types.Validation, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    path.write_text(page, encoding="utf-8")
    contents = read_report(path)
    data = contents["data"]
    texts = [None if i is None else data["texts"][i] for i in data["rows"]]
    assert texts == TEXTS
    assert len(data["texts"]) == len(TEXTS) - 2  # each distinct text once
    labels = contents["labels"]["values"]
    assert [None if i is None else labels[i] for i in data["rows"]] == coded.labels
    assert contents["run"] == json.loads(json.dumps(coded.run))
    assert coded.probs is not None
    for row, place in enumerate(data["rows"]):
        stored = None if place is None else contents["probs"][place]
        if stored is None:
            assert np.isnan(coded.probs[row]).all()
        else:
            assert stored == coded.probs[row].tolist()  # equal to the last bit
    assert contents["validation"]["accuracy"]["n"] == validation.accuracy.n
    assert "confidence" not in contents["validation"]


def test_json_alone_is_the_same(coded: lh.Coded, page: str, tmp_path: Path) -> None:
    path = lh.report(coded, tmp_path / "r.json", title="<i>Title")
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    alone, embedded = read_report(path), read_report(tmp_path / "page.html")
    for name in ("run", "data", "labels", "probs", "errors", "summary"):
        assert alone[name] == embedded[name]
    assert alone["validation"] is None


def test_texts_that_must_not_be_shared_are_not(
    coded: lh.Coded, validation: lh.types.Validation, tmp_path: Path
) -> None:
    for name in ("r.html", "r.json"):
        path = lh.report(coded, tmp_path / name, validation, texts=False)
        written = path.read_text(encoding="utf-8")
        for text in ("right to left", "onerror", "alert(1)", "plain\\", "7 * 7"):
            assert text not in written
        contents = read_report(path)
        assert contents["examples"] == []
        assert "texts" not in contents["data"]
        hashes = contents["data"]["texts_sha256"]
        assert hashes[0] == hashlib.sha256(HOSTILE[0].encode()).hexdigest()


@pytest.mark.model
def test_fields_that_quote_texts_are_hidden_with_them(
    smollm2: lh.Model, tmp_path: Path
) -> None:
    schema = {
        "type": "object",
        "properties": {"text": {"type": "string", "enum": ["a secret", "another one"]}},
        "required": ["text"],
    }
    book = lh.Codebook("What is said?", type="fields", schema=schema)
    with lh.Context(smollm2, deterministic=True) as context:
        labelled = lh.annotate({"t": ["x", "y"]}, "t", book, context, max_tokens=60)
    assert all(labelled.labels), labelled.errors
    full = read_report(lh.report(labelled, tmp_path / "a.json"))
    hidden = read_report(lh.report(labelled, tmp_path / "b.json", texts=False))
    assert full["labels"]["values"] == labelled.labels
    assert hidden["labels"]["are_hashes"]
    assert hidden["labels"]["values"][0] not in labelled.labels
    assert lh.report(labelled, tmp_path / "a.html").is_file()
    data = {"t": ["x", "y"]}
    repeated = lh.reproduce(tmp_path / "b.json", smollm2, data=data, n_seq_max=1)
    assert str(repeated) == "2 of 2 labels are the same"


def test_a_table_that_was_changed_after_coding_is_refused(
    coded: lh.Coded, tmp_path: Path
) -> None:
    labels = list(coded.labels)
    labels[7] = "Business <b>" if labels[7] == "Sports" else "Sports"
    changed = dataclasses.replace(coded, labels=labels)
    with pytest.raises(ValueError, match=r"was changed after coding: .* in row 7"):
        lh.report(changed, tmp_path / "r.html")
    frame = {**coded.frame, "label": labels}
    both = dataclasses.replace(changed, frame=frame)
    with pytest.raises(ValueError, match="rows 0 and 7 have the same text"):
        lh.report(both, tmp_path / "r.html")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("role", ["prob", "p_Sports"])
def test_a_changed_probability_is_refused(
    coded: lh.Coded, role: str, tmp_path: Path
) -> None:
    cells = [*coded.frame[role][:4], 0.123, *coded.frame[role][5:]]
    changed = dataclasses.replace(coded, frame={**coded.frame, role: cells})
    with pytest.raises(ValueError, match=rf"'{role}'.* was changed .* 0\.123 in row 4"):
        lh.report(changed, tmp_path / "r.html")
    with spoken_in(R), pytest.raises(ValueError, match=r"0\.123 in row 5"):
        lh.report(changed, tmp_path / "r.html")


def test_a_report_of_some_rows_tells_of_the_others(
    coded: lh.Coded, tmp_path: Path
) -> None:
    page = lh.report(coded[:3], tmp_path / "r.html").read_text(encoding="utf-8")
    lead = page.partition('<p class="lead">')[2].partition("</p>")[0]
    assert lead.startswith("3 texts, of 9 rows coded with")
    assert lead.endswith(date_of(coded.run["started"]))
    assert "Rows are counted from 1." in page
    assert "9, of which 3 are reported" in page
    with pytest.raises(lh.ArgumentError) as none:
        lh.report(coded[:0], tmp_path / "r.html")
    with pytest.raises(lh.ArgumentError, match="repeated after coding") as repeated:
        lh.report(coded[[1, 1, 1, 2, 2, 2]], tmp_path / "r.html")
    assert (none.value.code, repeated.value.code) == ("no_rows", "repeated")


@pytest.mark.model
def test_r_s_rows_of_fields_that_were_sorted_are_refused(
    smollm2: lh.Model, tmp_path: Path
) -> None:
    schema = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}}
    book = lh.Codebook("Which?", type="fields", schema=schema)
    texts = ["One.", "Two."]
    with lh.Context(smollm2, n_ctx=1024) as context:
        coded = lh.annotate({"t": texts}, "t", book, context)
    fields: dict[str, Any] = {
        ".class": "coded",
        "text": "t",
        "texts": texts,
        "labels": coded.labels,
        "names": [],
        "probs": None,
        "errors": coded.errors,
        "run": json.dumps(coded.run),
        "stats": dataclasses.asdict(coded.stats),
    }
    options = {"texts": True, "n_examples": 3}
    path = str(tmp_path / "r.json")
    sorted_rows = {**fields, "texts": texts[::-1]}
    status = _r.report(sorted_rows, path, **options)
    assert "before rows are sorted" in status["message"]
    assert not list(tmp_path.iterdir())
    assert _r.report(fields, path, **options)["value"] == path


def test_without_matplotlib_a_note_says_what_is_missing(
    coded: lh.Coded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page = lh.report(coded, tmp_path / "r.html").read_text(encoding="utf-8")
    assert "<svg" not in page
    assert "pip install &#34;llamaherd[plot] @ git" in page
    with pytest.raises(ImportError, match=r"llamaherd\[plot\]"):
        lh.plot(coded)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (
            {"path": "r.pdf"},
            ValueError,
            r"path must end with .html, .docx or .json, not 'r.pdf'",
        ),
        ({"path": 3}, TypeError, "path must be a path, not 3"),
        ({"coded": [1]}, TypeError, r"coded must be a Coded, not \[1\]"),
        ({"validation": 2}, TypeError, "validation must be a Validation, not 2"),
        (
            {"validation": lh.types.SpanValidation({}, (), 0.95)},
            TypeError,
            r"validation must be the result of validate\(\), not of validate_spans\(\)",
        ),
        ({"title": None}, TypeError, "title"),
        ({"n_examples": -1}, ValueError, "n_examples"),
    ],
)
def test_wrong_arguments_are_named(
    coded: lh.Coded, arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        lh.report(**{"coded": coded, **arguments})


@pytest.mark.long(reason="codes or estimates many times")
def test_one_hundred_thousand_rows(coded: lh.Coded, tmp_path: Path) -> None:
    n = 100_000
    rng = np.random.default_rng(1)
    first = rng.random(n)
    probs = np.stack([first, 1 - first], axis=1)
    labels: list[str | None] = [TOPICS.names[int(p < 0.5)] for p in first]
    frame = {"text": [f"Text number {i}" for i in range(n)]}
    many = lh.Coded(
        **{
            **vars(coded),
            "frame": frame,
            "labels": labels,
            "probs": probs,
            "errors": [None] * n,
        }
    )
    path = lh.report(many, tmp_path / "r.html")
    assert path.stat().st_size < 150 * n
    contents = read_report(path)
    assert contents["probs"] == probs.tolist()
    assert len(Page(path.read_text(encoding="utf-8")).elements) < 3000
    assert sum(contents["summary"][0]["bands"]) == contents["summary"][0]["n"]


def test_bands_of_probabilities() -> None:
    assert in_bands([1.0, 0.9, 0.89, 0.7, 0.5, 0.499, 0.0]) == [2, 2, 1, 2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<html></html>", "no element 'llamaherd-report'"),
        ('<script id="llamaherd-report">{"format": 1}</script>', "'format' is not"),
        ('<script id="llamaherd-report">{"form</script>', "or is cut off"),
        (
            '<script id="llamaherd-report">'
            + json.dumps({"format": "llamaherd report", "version": 9})
            + "</script>",
            "of version 9; this llamaherd reads version 1",
        ),
    ],
)
def test_what_is_no_report_says_so(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_report(path)


def test_a_file_that_cannot_be_used_is_named_with_its_argument(
    coded: lh.Coded, tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError, match=r"^path: '.*r\.html' cannot be used: No"):
        lh.report(coded, tmp_path / "none" / "r.html")
    path = tmp_path / "r.html"
    for read, name in ((lh.reproduce, "path"), (lh.methods_text, "coded")):
        with pytest.raises(FileNotFoundError, match=rf"^{name}: '.*r\.html' cannot be"):
            read(path)
        with pytest.raises(OSError, match=rf"^{name}: .* cannot be used: Is a dir"):
            read(tmp_path)
    path.write_bytes(b"<p>\xf6")
    with pytest.raises(ValueError, match=r"^coded: '.*' is not in UTF-8: byte 0xf6"):
        lh.methods_text(path)


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        ("run", 3, "it has no object 'run'"),
        ("run", {}, "no object run.codebook"),
        ("data", {"rows": [0]}, "no list data.rows or data.texts"),
        ("data", {"rows": [5], "texts": ["a"]}, "must have 1 values in labels.values"),
        ("probs", [], "must have . values in probs"),
    ],
)
def test_a_damaged_report_says_where(
    coded: lh.Coded, part: str, value: Any, message: str, tmp_path: Path
) -> None:
    path = lh.report(coded, tmp_path / "r.json")
    contents = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**contents, part: value}), encoding="utf-8")
    with pytest.raises(lh.ArgumentError, match=message) as caught:
        read_report(path)
    assert (caught.value.argument, caught.value.code) == ("path", "damaged")


def test_a_report_edited_by_hand_is_damaged_without_python_s_words(
    coded: lh.Coded, tmp_path: Path
) -> None:
    path = lh.report(coded, tmp_path / "r.json")
    contents = json.loads(path.read_text(encoding="utf-8"))
    del contents["run"]["codebook"]["content"]
    path.write_text(json.dumps(contents), encoding="utf-8")
    with pytest.raises(lh.ArgumentError, match="form of a report: 'content'") as caught:
        lh.methods_text(path)
    assert "Error" not in str(caught.value)


@pytest.mark.filterwarnings("ignore:.*examples:UserWarning")
def test_it_tells_how_the_gold_sample_was_drawn(coded: lh.Coded, tmp_path: Path) -> None:
    frame = {**coded.frame, "half": ["a", "b"] * 4 + ["b"]}
    data = dataclasses.replace(coded, frame=frame)
    gold = lh.gold_sample(data, 5, by="half", allocation="equal", seed=7)
    gold = gold.with_codes({"ann": ["Sports"] * 5, "ben": ["Sports"] * 5})
    checked = lh.validate(data, gold)
    lh.report(data, tmp_path / "report.html", checked)
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8")).text
    for words in (
        "How the gold sample was drawn",
        "at random, a fixed number in each stratum of half",
    ):
        assert words in page
    for words in ("5 of 8", "ann, ben", "of a", "of b", "equal", gold.design["sha256"]):
        assert words in page
    drawn = gold.design["drawn"]
    assert sum(drawn.values()) == 5
    assert f"{drawn['a']} of {gold.design['strata']['a']}" in page
    stored = read_report(tmp_path / "report.html")["validation"]["design"]
    assert stored == gold.design
    lh.report(coded, tmp_path / "other.html", lh.validate(coded, CODES))
    other = (tmp_path / "other.html").read_text(encoding="utf-8")
    assert "There is no record of how the coded texts were selected" in other
