"""Errors of functions of coding for arguments of a wrong type name the argument."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pandas as pd
import pytest
from llamaherd.coding.gold.draw import page_of
from llamaherd.engine.core.words import R, spoken_in

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = pd.DataFrame(
    {"text": ["x", "y"], "label": ["a", "b"], "p_a": [1, 0], "p_b": [0, 1]}
)
SAMPLE = lh.gold_sample(DATA, 2, seed=1)
BOOK = lh.Codebook("Which letter?", ["a", "b"])
PEOPLE = {"anna": ["a", "b"], "ben": ["a", "b"]}
OTHERS = [None, 3, float("nan"), {"a": 1}, b"a", object(), DATA, BOOK]


@pytest.mark.parametrize("value", OTHERS, ids=lambda case: type(case).__name__)
@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("gold", lh.dawid_skene),
        ("gold", lambda gold: lh.estimate(DATA, gold, prob="simple")),
        ("gold", lambda gold: lh.recalibrate(DATA, gold, prob="simple")),
        ("path", lh.read_codebook),
        ("path", lambda path: lh.write_codebook(BOOK, path)),
        ("path", lh.read_spans),
    ],
    ids=["dawid_skene", "estimate", "recalibrate", "read", "write", "read_spans"],
)
def test_a_wrong_type_is_an_error_of_the_argument(
    argument: str, call: Callable[[Any], object], value: object
) -> None:
    with pytest.raises(TypeError) as caught:
        call(value)
    assert isinstance(caught.value, lh.ArgumentTypeError)
    assert str(caught.value).startswith(f"{argument} must be ")


@pytest.mark.parametrize("value", [None, 3, object(), BOOK, SAMPLE])
def test_a_sheet_of_codes_is_a_path_or_a_table(value: object) -> None:
    with pytest.raises(lh.ArgumentTypeError, match="path must be a path or a list"):
        lh.read_gold(value, SAMPLE)
    with pytest.raises(lh.ArgumentTypeError, match=r"path\[1\] must be a path, not"):
        lh.read_gold([Path("a.csv"), value], SAMPLE)


@pytest.mark.parametrize("people", [PEOPLE, pd.DataFrame(PEOPLE)])
@pytest.mark.parametrize("measure", [lh.krippendorff_alpha, lh.percent_agreement])
def test_codes_by_coder_are_not_read_as_the_names_of_coders(
    measure: Callable[[Any], object], people: Any
) -> None:
    with pytest.raises(lh.ArgumentTypeError, match=r"take the columns of the coders"):
        measure(people)


def test_an_array_is_no_integer() -> None:
    with pytest.raises(lh.ArgumentTypeError, match="n must be an integer, not array"):
        lh.gold_sample(DATA, np.ones(2, dtype=int), seed=1)  # type: ignore[arg-type] # wrong


@pytest.mark.parametrize("example", [None, float("nan"), pd.NA])
def test_a_missing_example_and_a_missing_text_of_one_are_named(example: object) -> None:
    names = {"examples[0]": example}
    names["examples[0].text"] = {"text": example, "label": "a"}
    names["examples[0].label"] = {"text": "x", "label": example}
    for name, content in names.items():
        with pytest.raises(lh.ArgumentError) as caught:
            lh.Codebook("Which letter?", ["a", "b"], examples=[content])  # type: ignore[list-item] # wrong
        assert str(caught.value).startswith(f"{name} is missing")
        assert caught.value.code == "missing"
    reason = {"text": "x", "label": "a", "reason": example}
    assert lh.Codebook("Which?", ["a", "b"], examples=[reason]).examples[0].reason is None


WRITERS: dict[str, Callable[[Path], object]] = {
    "sheet.csv": SAMPLE.write,
    "book.yaml": lambda path: lh.write_codebook(BOOK, path),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_that_cannot_be_written_names_its_argument(
    name: str, tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError, match="No such file") as caught:
        WRITERS[name](tmp_path / "none" / name)
    assert isinstance(caught.value, lh.BadArgumentError)
    assert (caught.value.argument, caught.value.code) == ("path", "not_found")
    # A sheet's design is written first, to `sheet.csv.json`.
    assert caught.value.filename.startswith(str(tmp_path / "none" / name))


@pytest.mark.parametrize("suffix", [".xlsx", ".ods", ".parquet", ".gz", ".RDS"])
@pytest.mark.parametrize("name", ["sheet.csv", "book.yaml"])
def test_a_file_is_not_called_as_one_of_another_kind(
    name: str, suffix: str, tmp_path: Path
) -> None:
    with pytest.raises(lh.ArgumentError, match=r"path must not end with .*; use \."):
        WRITERS[name](tmp_path / f"x{suffix}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("codes", [[None] * 2, [float("nan")] * 2, {"ann": ["", "NA"]}])
def test_codes_that_are_all_missing_are_refused(codes: Any) -> None:
    with pytest.raises(lh.ArgumentError) as caught:
        lh.validate(DATA, codes, label="label")
    assert str(caught.value) == "gold has no codes: all are missing"
    sample = SAMPLE.with_codes([None, None])
    with pytest.raises(lh.ArgumentError, match="has no codes: all are missing"):
        lh.validate(DATA, sample, label="label")


def test_a_list_of_labels_has_all_labels_of_the_data() -> None:
    for argument, call in {
        "labels": lambda: lh.validate(DATA, ["a", "b"], labels=["a"]),
        "names": lambda: lh.gold_sample(DATA, 2, names=["a"]),
    }.items():
        with pytest.raises(lh.ArgumentError) as caught:
            call()
        assert str(caught.value) == f"{argument} must have all labels: 'b' is missing"
    several = DATA.assign(label=["a; b", "c"])
    with pytest.raises(lh.ArgumentError, match="names must have all labels: 'c' is mis"):
        lh.gold_sample(several, 2, names=["a", "b"], several=True)
    # People may give a label that the model cannot give.
    validation = lh.validate(["a", "b"], ["a", "c"], labels=["a", "b"])
    assert any("cannot give: c." in warning for warning in validation.warnings)


@pytest.mark.parametrize("large", [1e51, -1e300, 10**400])
def test_numbers_too_large_to_compute_with_are_named(large: float) -> None:
    coded = {"label": ["1", "2"] * 9, "x": [float("1e300"), 1.0] * 9}
    codes, scale = ["1", "2"] * 9, "interval"
    with pytest.raises(ValueError, match=r"outcome\['2'\] must be between -1e\+50 and"):
        lh.estimate(coded, codes, outcome={"1": 0, "2": large}, prob="simple")
    with pytest.raises(ValueError, match=r"formula must give numbers up to 1e\+50, but"):
        lh.estimate(coded, codes, "x ~ label", prob="simple")
    with pytest.raises(ValueError, match=r"gold\[1\] has the number .*is 1e\+50"):
        lh.validate([1, 2, 3], [1, large, 2], scale=scale)  # type: ignore[arg-type]


def test_columns_of_the_data_are_listed_up_to_ten() -> None:
    wide = DATA.assign(**{f"x{i}": i for i in range(9)})
    with pytest.raises(ValueError, match=r"there are text, label, .*, x5 and 3 more"):
        lh.validate(wide, ["a", "b"], label="none")


def test_equal_ends_of_a_range_are_one_number() -> None:
    page = page_of(lh.gold_sample({"text": list("abcdef")}, 2, seed=1))
    assert "inclusion probabilities all 0.333, seed 1" in page
    uneven = page_of(lh.gold_sample({"text": list("abcd")}, 2, prob=[0.3, 0.4, 0.6, 0.7]))
    assert "inclusion probabilities from 0." in uneven


@pytest.mark.parametrize(
    ("options", "argument"),
    [
        ({"width": 1e-6}, "width"),
        ({"width": 3e-5}, "width"),
        ({"compare": 1e-6}, "compare"),
        ({"compare": 1e-6, "measure": "mae", "error": 1e9}, "compare"),
    ],
)
def test_sizes_beyond_all_samples_are_refused(options: Any, argument: str) -> None:
    with pytest.raises(lh.ArgumentError, match="needs 1,000,000,000 texts") as caught:
        lh.gold_size(**options)
    assert (caught.value.argument, caught.value.code) == (argument, "out_of_range")
    best = float(str(caught.value).split("at least ")[1].split(",")[0])
    assert lh.gold_size(**{**options, argument: 1.1 * best})
    assert lh.gold_size(1e-6, population=100, target="texts").gold == 100


@pytest.mark.parametrize(
    "call",
    [
        lambda: lh.Codebook("Which?", ["a", "b"], examples=[("x", "zz")]),
        lambda: lh.Codebook("Which?", ["a", "a"]),
        lambda: lh.gold_sample({"text": ["x", "y"], "id": ["i", "i"]}, 1, id="id"),
        lambda: lh.gold_sample(DATA, 1, by=["label", "label"]),
        lambda: lh.validate(["yes", "no"], ["yes", "No"]),
        lambda: lh.validate(DATA, "label", label="label"),
        lambda: lh.validate(["a", "b"], ["a", "c"], labels=["a"]),
        lambda: SAMPLE.with_codes(["a", "zz"]),
    ],
)
def test_texts_have_the_quotes_of_the_callers_language(call: Callable[[], Any]) -> None:
    with pytest.raises(lh.BadArgumentError) as caught:
        call()
    assert "'" in str(caught.value)
    with spoken_in(R), pytest.raises(lh.BadArgumentError) as caught:
        call()
    assert '"' in str(caught.value)
    assert not re.search(r"(^|\W)'", str(caught.value))
