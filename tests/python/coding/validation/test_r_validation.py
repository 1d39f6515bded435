"""Tests of validation for R: all results are plain values."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import llamaherd as lh
import pytest
from llamaherd import _r
from llamaherd.coding.statistics.agreement import COEFFICIENTS
from plain_forms import attributes, plain

# Coefficients of two coders on a nominal scale.
NOMINAL = [name for name, of in COEFFICIENTS.items() if not of.is_ordered]
COMMON = {"scale": "nominal", "level": 0.95}
OPTIONS = {**COMMON, "several": None}
MORE = {**COMMON, "levels": None, "known": [], "weights": None, "kappa_weights": None}


def value(status: dict[str, Any]) -> Any:
    assert status["ok"], status
    assert status["warnings"] == []
    json.dumps(status["value"])  # no values of numpy's types
    return status["value"]


def columns_of(table: dict[str, Any]) -> dict[str, list[Any]]:
    return {column["name"]: column["values"] for column in table["columns"]}


def test_agreement_is_a_table() -> None:
    codes = [["a", "b", "a", None], ["a", "b", "b", "a"]]
    reply = value(_r.agreement(codes, MORE))
    assert reply["class"] == "llamaherd_agreement"
    of = attributes(reply)
    assert (of["level"], of["scale"], of["is_weighted"]) == (0.95, "nominal", False)
    columns = columns_of(reply)
    assert columns["coefficient"] == NOMINAL
    assert columns["value"][1] == lh.cohen_kappa(*codes).value
    of_scale = {**MORE, "scale": "ordinal"}
    ordinal = columns_of(value(_r.agreement([[1, 2, 3], [1, 3, 3]], of_scale)))
    assert ordinal["coefficient"][1:4] == ["kappa", "linear kappa", "quadratic kappa"]
    weighted = {**MORE, "kappa_weights": [0, 1, 4]}
    columns = columns_of(value(_r.agreement([[1, 2, 3, 3], [1, 3, 3, 1]], weighted)))
    assert columns["coefficient"] == [*NOMINAL[:2], "weighted kappa", *NOMINAL[2:]]
    squared = lh.cohen_kappa([1, 2, 3, 3], [1, 3, 3, 1], weights="quadratic")
    assert columns["value"][2] == pytest.approx(squared.value)
    refused = _r.agreement([["a"], ["b", "c"]], MORE)
    assert refused["error_type"] == "ArgumentError"
    assert "the same number of units for each coder" in refused["message"]


def test_agreement_has_every_coefficient(monkeypatch: pytest.MonkeyPatch) -> None:
    kappa = COEFFICIENTS["kappa"]
    further = dataclasses.replace(
        kappa, compute=lambda *how: dataclasses.replace(kappa.compute(*how), name="new")
    )
    monkeypatch.setitem(COEFFICIENTS, "new", further)
    for scale in ("nominal", "ordinal"):
        options = {**MORE, "scale": scale, "kappa_weights": [0, 1, 4]}
        columns = columns_of(value(_r.agreement([[1, 2, 3], [1, 3, 3]], options)))
        kinds = ["linear", "quadratic"] * (scale == "ordinal") + ["weighted"]
        kappas = [f"{kind} kappa" for kind in kinds]
        assert columns["coefficient"] == [*NOMINAL[:2], *kappas, *NOMINAL[2:], "new"]


def frame(**columns: list[Any]) -> dict[str, Any]:
    return {".class": "frame", "content": columns, "label": "label"}


def test_validation_is_columns() -> None:
    nan = float("nan")
    columns = {
        "label": ["a", "b", "a", None],
        "p_a": [0.9, 0.2, 0.6, nan],
        "p_b": [0.1, 0.8, 0.4, nan],
        "text": ["w", "x", "y", "z"],
        "key": [4, 3, 2, 1],
    }
    known = {"names": ["a", "b"], "probs": ["p_a", "p_b"], "text": "text"}
    options = {**OPTIONS, "label": "label"}
    codes = [["a", "b", "b", "a"]]
    data = frame(**columns) | known
    fields = plain(value(_r.validate(data, codes, ["ann"], None, [], options)))
    assert fields["coders"] == ["ann"]
    assert fields["confusion"]["vs_gold"]["model"] == [[1, 1], [0, 1]]
    wrong = {"row": [3], "label": ["a"], "truth": ["b"], "prob": [0.6], "text": ["y"]}
    assert fields["wrong"] == wrong
    assert len(set(map(len, fields["table"].values()))) == 1
    assert fields["page"][0].startswith("<llamaherd_validation> 4 of 4 texts")
    assert any(line.startswith("3  0.60  a, people: b") for line in fields["page"])
    assert sum(fields["bins"]["n"]) == 3
    turned = plain(value(_r.validate(data, codes, ["ann"], ["b", "a"], [], options)))
    assert turned["prob"][:3] == fields["prob"][:3] == [0.9, 0.8, 0.6]
    sample = lh.gold_sample(
        {"text": columns["text"], "key": columns["key"]}, 2, text="text", id="key",
        prob=[0.25, 0.75, 0.5, 0.5], names=["a", "b"], seed=3,
    )  # fmt: skip
    assert sample.rows == [0, 2]
    drawn = dataclasses.replace(sample, codes=[["a", "b"]], coders=["ann"])
    gold = {".class": "gold", "content": drawn.to_json()}
    back = frame(**{name: cells[::-1] for name, cells in columns.items()}) | known
    weighted = plain(value(_r.validate(back, gold, None, None, [], options)))
    assert weighted["is_weighted"]
    assert weighted["wrong"]["row"] == [2]
    record = json.loads(weighted["json"])
    assert record["design"] == sample.design
    assert record["source"]["n"] == 4
    bare = frame(label=columns["label"])
    fields = plain(value(_r.validate(bare, codes, ["ann"], None, [], options)))
    assert (fields["bins"], fields["coverage"], fields["prob"]) == (None, None, None)


def test_agreement_on_several_labels_is_columns() -> None:
    data = frame(label=["a; b", "b"]) | {"names": ["a", "b"]}
    arguments = (data, [["b;a", "a"]], ["ann"], None, [])
    options = {**OPTIONS, "label": "label"}
    fields = plain(value(_r.validate(*arguments, {**options, "several": True})))
    assert fields["several"] is True
    assert fields["confusion"]["vs_gold"]["model"] is None
    of = fields["label_agreement"]
    assert of["label"] == [name for name in "ab" for _ in NOMINAL]
    assert set(of["between"]) == {"model and people"}
    assert of["coefficient"] == NOMINAL * 2
    one = plain(value(_r.validate(*arguments, options)))
    assert (one["several"], one["label_agreement"]) == (False, None)


def test_coverage_goes_to_r_and_back() -> None:
    curve = _r.coverage_curve([0.9, 0.8, 0.7], [True, True, False], None, 0.95)
    curve = plain(value(curve))
    assert curve["accuracy"] == pytest.approx([1, 1, 2 / 3])
    reply = plain(value(_r.for_people(curve, [0.75, 0.95, 0.8], 0.9, False)))
    assert reply == {"rows": [1], "threshold": 0.8}
    none = plain(value(_r.for_people(curve, [0.75], 0.99, True)))
    assert none == {"rows": [1], "threshold": float("inf")}


def test_tables_and_reliability_are_lists() -> None:
    columns = {
        "sample": ["1", "2", "1", "2"],
        "model": ["m", "m", "n", "n"],
        "label": ["a", "b", "a", "a"],
    }
    of = {"sample_col": "sample", "model_col": "model", "label_col": "label"}
    tables = _r.compute_confusion_matrices({**columns, "truth": ["a", "b"] * 2}, **of)
    fields = plain(value(tables))
    assert list(fields["vs_gold"]) == ["m", "n"]
    assert fields["pairwise"] == {"m vs n": [[1, 0], [1, 0]]}
    fields = plain(value(_r.intercoder_reliability(columns, **of)))
    assert fields["cohen"]["kappa"] == [0]
    assert len(fields["krippendorff"]["per_item"]) == 2
    fields = plain(value(_r.intercoder_reliability(columns, method="cohen", **of)))
    assert list(fields) == ["cohen"]
