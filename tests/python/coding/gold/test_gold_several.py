"""Tests of gold samples of texts that may have several labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pytest
from llamaherd import _r
from llamaherd.coding.annotation.codebook import Codebook
from llamaherd.coding.annotation.coded import Coded
from llamaherd.coding.annotation.label_sets import labels_in, none_of
from llamaherd.engine.core.stats import Stats

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("war", "economy", "climate")


def coded() -> Coded:
    probs = np.random.default_rng(3).random((40, 3)) * 0.8
    labels = ["; ".join(np.array(NAMES)[row > 0.5]) for row in probs]
    data = {"text": [f"Text {i}." for i in range(40)], "label": labels}
    shares = {f"p_{name}": probs[:, j].tolist() for j, name in enumerate(NAMES)}
    return Coded(
        frame=data | shares,
        text="text",
        codebook=Codebook("Which topics?", NAMES, type="multiple"),
        columns={"label": "label"} | {name: name for name in shares},
        names=NAMES,
        labels=list(labels),
        probs=probs,
        errors=[None] * 40,
        run={},
        stats=Stats(),
    )


def sample(**options: Any) -> lh.GoldSample:
    return lh.gold_sample(coded(), 20, seed=1, **options)


@pytest.mark.parametrize(
    ("cell", "code"),
    [
        ("war", "war"),
        ("climate;WAR ", "war; climate"),
        (" Economy , war;war; ", "war; economy"),
        ("None", ""),
        ("(none)", ""),
        ("", None),
        (" ; ", None),
        ("NA", None),
    ],
)
@pytest.mark.filterwarnings("ignore:No text has a code")
def test_cells_with_several_labels(tmp_path: Path, cell: str, code: str | None) -> None:
    drawn, path = sample(), tmp_path / "gold.csv"
    drawn.write(path)
    first = path.read_text(encoding="utf-8-sig").replace('"code"', "code")
    path.write_text(first.replace('""', f'"{cell}"'), encoding="utf-8")
    gold = lh.read_gold(path, drawn, coders=["code"])
    assert gold.codes == [[code] * 20]
    gold.write(path, overwrite=True)
    # also for texts to which no label applies
    assert lh.read_gold(path).codes == gold.codes


def test_what_is_no_label_is_named() -> None:
    drawn = sample()
    with pytest.raises(ValueError, match=r"'wart' is none of .*did you mean 'war'"):
        drawn.with_codes(["war; wart"] * 20)
    with pytest.raises(ValueError, match="'none' is none of the labels"):
        drawn.with_codes(["war; none"] * 20)


def test_the_design_knows_that_there_are_several() -> None:
    drawn = sample()
    assert drawn.design["several"] is True
    assert lh.GoldSample.from_json(drawn.to_json()).several
    assert "several" not in sample(several=False).design
    # Codes from a program: annotate() writes "" if no label applies.
    by_program = drawn.with_codes([coded().labels[i] for i in drawn.rows])
    assert by_program.gold == drawn.labels
    assert "" in by_program.gold
    frame = {"text": ["a", "b", "c"], "topics": ["x; y", "", "z;x"]}
    plain = lh.gold_sample(frame, 3, text="text", label="topics", several=True)
    assert plain.names == ("x", "y", "z")


def test_most_coders_say_so_of_each_label() -> None:
    three = {"ann": "war", "ben": "war; climate", "eve": "climate"}
    drawn = sample().with_codes({name: [code] * 20 for name, code in three.items()})
    assert drawn.gold[0] == "war; climate"
    two = sample().with_codes({"ann": ["war"] * 20, "ben": ["none"] * 20})
    assert two.gold[0] == "war"  # on a tie the first coder's code
    assert sample().with_codes({"ann": [None] * 20}).gold[0] is None


def test_a_label_may_be_called_none() -> None:
    assert none_of(["a", "None"]) == "(none)"
    assert labels_in("none", ["none", "a"]) == ("none",)
    assert labels_in("(none)", ["none", "a"]) == labels_in("", ["a"]) == ()
    data = {"label": ["none", "a; none", "a"]}
    drawn = lh.gold_sample(data, 3, label="label", several=True, names=["a", "none"])
    assert drawn.with_codes(["None", "(none)", ""]).gold == ["none", "", ""]


def test_uncertainty_is_that_of_the_least_sure_label() -> None:
    probs = coded().probs
    assert probs is not None
    sure = (2 * np.abs(probs - 0.5)).min(axis=1)
    drawn = sample(prob="uncertainty")
    assert drawn.rows == sample(prob="uncertainty", confidence=sure.tolist()).rows
    assert np.argsort(drawn.all_probs)[0] == sure.argmax()
    options = {
        **dict.fromkeys(("by", "id", "confidence")), "prob": "uncertainty",
        "text": "text", "label": "label", "floor": 0.3, "names": list(NAMES),
        "allocation": "proportional", "seed": 1.0, "several": True,
        "each": [f"p_{name}" for name in NAMES],
    }  # fmt: skip
    data = {".class": "frame", "content": coded().frame}
    from_r = _r.gold_draw(data, 20, **options)
    assert from_r["ok"], from_r
    parts = {part["name"]: part for part in from_r["value"]["parts"]}
    assert parts["rows"]["values"] == [row + 1 for row in drawn.rows]
    assert parts["design"]["value"]["several"] is True


@pytest.mark.parametrize("names", [("a", "b"), ("a", "none")])
def test_no_label_survives_a_csv_file(tmp_path: Path, names: tuple[str, str]) -> None:
    pd = pytest.importorskip("pandas")
    frame = {"text": list("uvwxyz"), "topics": ["a", "", "a; none", "", None, names[1]]}
    drawn = lh.gold_sample(
        frame,
        6,
        text="text",
        label="topics",
        several=True,
        names=sorted({"a", "b", names[1]}),
    )
    codes = [["", "a", None, "", names[1], f"a; {names[1]}"]]
    coded = drawn.with_codes({"ann": codes[0]})
    assert coded.codes == codes
    path = tmp_path / "by_hand.csv"
    coded.to_pandas().to_csv(path, index=False)
    gold = lh.read_gold(pd.read_csv(path), drawn, coders=["ann"])
    assert gold.codes == codes
    labels = coded.to_pandas()["model_label"]
    assert labels.isna().sum() == sum(label is None for label in drawn.labels)
    assert pd.read_csv(path)["model_label"].isna().sum() == labels.isna().sum()
    coded.write(tmp_path / "open.csv", blind=False)
    written = pd.read_csv(tmp_path / "open.csv")["model_label"]
    assert written.isna().sum() == labels.isna().sum()


def test_empty_texts_in_a_data_frame_are_no_codes_with_a_warning() -> None:
    """`codes` of a sample has "" for no label, which a sheet would read as not coded."""
    drawn = sample()
    codes = ["war", "", None, *["none"] * 17]
    with pytest.warns(UserWarning, match="1 code is an empty text, .* is 'none'"):
        coded = lh.read_gold({"id": drawn.ids, "anna": codes}, drawn)
    assert coded.codes[0][:4] == ["war", None, None, ""]
