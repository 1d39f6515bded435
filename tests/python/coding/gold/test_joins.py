"""Tests of joining codes to texts by id; data are refused if the order is unknown."""

from __future__ import annotations

import hashlib
import json
import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pandas as pd
import polars as pl
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

N = 400
RNG = np.random.default_rng(7)
PARTY = RNG.choice(["A", "B"], N)
# People code "yes" more often in party A; in the model's labels the difference is
# smaller.
CODE = np.where(RNG.random(N) < np.where(PARTY == "A", 0.8, 0.3), "yes", "no")
LABEL = np.where(RNG.random(N) < 0.7, CODE, "no")
DATA = pd.DataFrame(
    {
        "key": [f"k{i:03}" for i in RNG.permutation(N)],
        "text": [f"Speech {i}" for i in range(N)],
        "label": LABEL,
        "party": PARTY,
        "code": CODE,
    }
)
OTHER = "gold was drawn from other data: "


def gold(data: pd.DataFrame = DATA, **options: Any) -> lh.GoldSample:
    arguments = {"text": "text", "label": "label", "seed": 2, **options}
    drawn = lh.gold_sample(data, 150, **arguments)
    return drawn.with_codes([str(data["code"].iloc[row]) for row in drawn.rows])


def numbers(data: Any, drawn: lh.GoldSample) -> list[float]:
    estimates = lh.estimate(data, drawn, outcome="yes", by="party", label="label")
    return [value for row in estimates.rows for value in (row.estimate, row.std_error)]


def hits(data: Any, drawn: lh.GoldSample) -> float:
    validation = lh.validate(data, drawn, label="label")
    return float(validation.accuracy.accuracy.value)


BY_LABEL = {"by": "label", "allocation": "equal"}
SORTED = DATA.sort_values(["party", "text"]).reset_index(drop=True)


@pytest.mark.more(reason="repeats an estimate for many forms of the same data", cases=4)
@pytest.mark.parametrize("design", [{}, BY_LABEL, {"by": "party"}])
@pytest.mark.parametrize(
    "kind", [pd.DataFrame, pl.from_pandas, lambda d: d.to_dict("list")]
)
@pytest.mark.parametrize("dropped", [[], ["text"], ["text", "code"]])
def test_codes_find_their_texts_by_id(
    design: dict[str, Any], kind: Callable[[pd.DataFrame], Any], dropped: list[str]
) -> None:
    drawn = gold(id="key", **design)
    expected, right = numbers(DATA, drawn), hits(DATA, drawn)
    for kept in (drawn, pickle.loads(pickle.dumps(drawn))):
        for sample in (kept, lh.GoldSample.from_json(kept.to_json())):
            data = kind(SORTED.drop(columns=dropped))
            assert numbers(data, sample) == pytest.approx(expected)
            assert hits(data, sample) == pytest.approx(right)


def test_other_names_of_the_text_column_do_not_matter_with_ids() -> None:
    drawn = gold(id="key")
    renamed = SORTED.rename(columns={"text": "speech"})
    assert numbers(renamed, drawn) == pytest.approx(numbers(DATA, drawn))
    estimates = lh.estimate(renamed, drawn, outcome="yes", text="speech")
    assert estimates.n_gold == 150


@pytest.mark.parametrize("id_column", [None, "key"])
def test_what_a_csv_file_changes_in_texts_does_not_matter(
    id_column: str | None, tmp_path: Path
) -> None:
    texts = [" A\r\nspeech ", "", None, *(f"{text} " for text in DATA["text"][3:])]
    labels = [LABEL[0], None, None, *LABEL[3:]]
    data = DATA.assign(text=texts, label=labels)
    drawn = gold(data, id=id_column)
    data.to_csv(tmp_path / "coded.csv", index=False)
    read = pd.read_csv(tmp_path / "coded.csv")  # the blank text is missing
    read["text"] = read["text"].str.strip()  # as R's readr::read_csv()
    assert numbers(read, drawn) == numbers(data, drawn)
    earlier = replace(drawn, design=drawn.design | {"sha256": exact_hash(drawn, texts)})
    assert numbers(data, earlier) == numbers(data, drawn)


def exact_hash(drawn: lh.GoldSample, texts: list[str | None]) -> str:
    pairs = zip(drawn.all_ids or map(str, range(1, N + 1)), texts, strict=True)
    lines = "".join(f"{json.dumps(pair, ensure_ascii=False)}\n" for pair in pairs)
    return hashlib.sha256(lines.encode()).hexdigest()


def test_what_cannot_be_joined_is_refused() -> None:
    drawn, with_ids = gold(), gold(id="key")

    def refused(data: Any, sample: lh.GoldSample, message: str) -> None:
        for use in (numbers, hits):
            with pytest.raises(ValueError, match=OTHER + message):
                use(data, sample)

    bare = SORTED.drop(columns="text")
    refused(bare, drawn, "the model's labels of the drawn texts have changed")
    refused(SORTED.rename(columns={"text": "speech"}), drawn, "the model's labels")
    refused(bare.drop(columns="key"), with_ids, "the model's labels")
    refused(SORTED, drawn, "texts or their order")
    renumbered = bare.assign(key=DATA["key"])  # new ids were assigned after sorting
    refused(renumbered, with_ids, "the model's labels of the drawn texts have changed")
    twice = bare.assign(key=["k000", *bare["key"][1:]])
    for use in (numbers, hits):
        with pytest.raises(ValueError, match=r"k000' (twice|occurs twice)"):
            use(twice, with_ids)
    others = bare.assign(key=[*bare["key"][1:], "new"])
    refused(others, with_ids, r"the id '.*' is not in column 'key'")
    refused(SORTED[:-1], drawn, "it was drawn from 400 texts, but the data have 399")
    edited = SORTED.assign(text=SORTED["text"] + "!")
    refused(edited, with_ids, "texts or their order")


def test_rows_in_the_order_of_the_draw_need_no_texts() -> None:
    drawn = gold()
    assert numbers(DATA.drop(columns="text"), drawn) == numbers(DATA, drawn)
    assert hits(DATA.drop(columns="text"), drawn) == hits(DATA, drawn)
    assert lh.validate(LABEL.tolist(), drawn).n_gold == 150
    with pytest.raises(ValueError, match=OTHER + "the model's labels"):
        lh.validate(LABEL[::-1].tolist(), drawn)


def test_labels_that_are_sorted_or_all_alike_tell_no_order() -> None:
    for labels in (["no"] * N, sorted(LABEL)):
        data = DATA.assign(label=labels)
        with pytest.raises(
            ValueError, match="the order of rows that are sorted by label"
        ):
            numbers(data.drop(columns="text"), gold(data, names=["yes", "no"]))


def test_one_label_among_many_tells_the_order() -> None:
    """All drawn texts have the same label; two of the other texts have another label."""
    names = ["yes", "no"]
    drawn = gold(DATA.assign(label="no"), names=names)
    labels = ["no"] * N
    free = [i for i in range(N) if i not in set(drawn.rows)]
    labels[free[0]] = labels[free[7]] = "yes"
    data = DATA.assign(label=labels)
    drawn = gold(data, names=names)
    bare = data.drop(columns="text")
    assert numbers(bare, drawn) == numbers(data, drawn)
    with pytest.raises(ValueError, match=OTHER + "the model's labels"):
        numbers(bare[::-1], drawn)


def test_a_column_id_that_is_unique_is_taken() -> None:
    data = DATA.rename(columns={"key": "id"})
    drawn = gold(data)
    assert drawn.design["id"] == "id"
    assert drawn.ids == [data["id"][row] for row in drawn.rows]
    bare = data.drop(columns="text").sort_values("party")
    assert numbers(bare, drawn) == pytest.approx(numbers(data, drawn))
    assert gold(data, id="text").design["id"] == "text"


def test_a_single_changed_label_is_told_in_the_singular() -> None:
    drawn = gold(id="key")
    data = DATA.copy()
    other = next(i for i in range(N) if i not in set(drawn.rows))
    for row in (drawn.rows[0], other):
        data.loc[row, "label"] = "no" if data["label"][row] == "yes" else "yes"
    notes = lh.estimate(data, drawn, outcome="yes").notes
    start = f"1 of {len(drawn)} texts of the gold sample has another label than"
    assert any(note.startswith(start) for note in notes)


def test_labels_of_another_run_are_told() -> None:
    drawn = gold(id="key")
    again = SORTED.assign(label="yes")
    estimates = lh.estimate(again, drawn, outcome="yes")
    assert any("have another label than when it was drawn" in n for n in estimates.notes)
    assert not any("another label" in n for n in lh.estimate(DATA, drawn).notes)


def test_samples_of_earlier_versions() -> None:
    """Samples of earlier versions contain neither all ids nor the hash of all labels."""
    drawn = gold(id="key")
    design = {k: v for k, v in drawn.design.items() if k != "labels_sha256"}
    old = lh.GoldSample.from_json(replace(drawn, all_ids=None, design=design).to_json())
    bare = DATA.drop(columns="text")
    assert numbers(bare, old) == numbers(DATA, drawn)
    with pytest.raises(ValueError, match="ids in column 'key' differ from those"):
        numbers(bare[::-1], old)
    with pytest.raises(ValueError, match=OTHER + "the model's labels"):
        numbers(bare.drop(columns="key")[::-1], old)


def test_series_in_another_order_are_refused() -> None:
    codes, moved = DATA["code"], DATA["code"][::-1]
    sure = pd.Series(np.full(N, 0.5))[::-1]
    other = "{} has another index than the data".format
    refused = [
        (other("gold"), lambda: lh.estimate(DATA, moved, prob="simple")),
        (other("gold"), lambda: lh.validate(DATA, moved, label="label")),
        (other("gold"), lambda: lh.validate(DATA, pd.DataFrame({"a": moved}))),
        (other("gold"), lambda: lh.validate(DATA, {"a": codes, "b": moved})),
        (other("gold") + ".*gold.reindex", lambda: lh.validate(DATA["label"], moved)),
        (other("prob"), lambda: lh.estimate(DATA, codes, prob=sure)),
        (other("prob"), lambda: lh.gold_sample(DATA, 200, prob=sure)),
        (other("prob"), lambda: lh.validate(DATA, codes, prob=sure)),
        (
            other("confidence"),
            lambda: lh.gold_sample(DATA, 20, prob="uncertainty", confidence=sure),
        ),
        ("different indexes", lambda: lh.krippendorff_alpha([codes, moved])),
        ("different indexes", lambda: lh.cohen_kappa(codes, moved)),
    ]
    for match, call in refused:
        with pytest.raises(ValueError, match=match):
            call()
    assert lh.validate(DATA, moved.to_numpy()).n_gold == N
    assert lh.cohen_kappa(codes, codes).value == pytest.approx(1, abs=1e-12)


BLANK = ["b; a", "a; b", "", " ", "none", None, "NA", "1", "1.0"]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("known", [{}, {"text": "text"}, {"id": "key"}])
def test_blank_and_joined_labels_are_those_of_the_draw(
    known: dict[str, str], several: bool
) -> None:
    rng = np.random.default_rng(3)
    label = [BLANK[i] for i in rng.integers(0, len(BLANK), N)]
    data: dict[str, list[Any]] = {"label": label, "own": label}
    data |= {name: list(DATA[name]) for name in known.values()}
    drawn = lh.gold_sample(data, 150, label="label", seed=2, **known)
    drawn = drawn.with_codes([label[row] or "none" for row in drawn.rows])
    lh.validate(data, drawn, label="label", several=several)
    lh.validate(label, drawn, several=several)
    lh.estimate(data, drawn, several=several, outcome="a" if several else "b; a")
    data["label"] = [label[i] for i in rng.permutation(N)]
    with pytest.raises(ValueError, match=OTHER):
        lh.validate(data["label"], drawn, several=several)


# Ways in: each way names other columns when the sample is drawn. A sample never gives a
# number for rows in another order without matching them.
WAYS_IN: dict[str, tuple[list[str], dict[str, Any]]] = {
    "nothing named": (["text", "label", "code"], {}),
    "an id": (["id", "label", "code"], {}),
    "an id and a text": (["id", "text", "label", "code"], {}),
    "a text of another name": (["words", "label", "code"], {"text": "words"}),
    "labels": (["label", "code"], {"label": "label"}),
    "no column that is known": (["label", "code", "party"], {}),
    "strata": (["label", "code", "party"], {"by": "party"}),
    "a text and labels": (["text", "label", "code"], {"text": "text", "label": "label"}),
}
CHANGES: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "reversed": lambda d: d.iloc[::-1].reset_index(drop=True),
    "two rows exchanged": lambda d: d.iloc[[*range(1, N), 0]].reset_index(drop=True),
    "shuffled": lambda d: d.sample(frac=1, random_state=4).reset_index(drop=True),
}


@pytest.mark.more(reason="repeats an estimate for many forms of the same data", cases=15)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("way", WAYS_IN)
def test_rows_in_another_order_are_matched_or_refused(way: str, change: str) -> None:
    columns, options = WAYS_IN[way]
    data = DATA.assign(id=DATA["key"], words=DATA["text"])[columns]
    drawn = lh.gold_sample(data, 150, seed=2, **options)
    drawn = drawn.with_codes([str(data["code"].iloc[row]) for row in drawn.rows])
    expected = hits(data, drawn), share(data, drawn)
    moved = CHANGES[change](data)
    if "id" in columns:
        assert (hits(moved, drawn), share(moved, drawn)) == pytest.approx(expected)
        return
    for number in (hits, share):
        with pytest.raises(ValueError, match=OTHER):
            number(moved, drawn)


def share(data: Any, drawn: lh.GoldSample) -> float:
    return lh.estimate(data, drawn, outcome="yes", label="label").rows[0].estimate


def test_other_columns_may_change_if_the_order_is_unknown() -> None:
    data = DATA[["label", "code", "party"]]
    drawn = lh.gold_sample(data.rename(columns={"label": "answer"}), 150, seed=2)
    drawn = drawn.with_codes([str(data["code"].iloc[row]) for row in drawn.rows])
    other = data.assign(label=np.where(data["label"] == "yes", "no", "yes"), new=1)
    assert hits(other.drop(columns="party"), drawn) < hits(data, drawn)


def test_blank_texts_are_not_drawn_although_no_column_is_named() -> None:
    data = DATA.assign(
        text=[" " if i < 300 else text for i, text in enumerate(DATA.text)]
    )
    assert min(lh.gold_sample(data, 50, seed=2).rows) >= 300


@pytest.mark.parametrize(
    ("first", "reason"), [("k001", "'k001' 2 times"), (None, "no value for some texts")]
)
def test_a_column_of_ids_that_is_not_used_is_told(first: str | None, reason: str) -> None:
    data = DATA.assign(id=[first, *[f"k{i:03}" for i in range(1, N)]])
    with pytest.warns(UserWarning, match=f"column 'id' has .*{reason}.* row numbers"):
        drawn = lh.gold_sample(data, 20, seed=1)
    assert drawn.ids == [str(row + 1) for row in drawn.rows]
    assert drawn.design["id"] is None
