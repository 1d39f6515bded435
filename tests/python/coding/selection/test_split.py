"""Tests of splits of gold samples, which are stored with the samples."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pytest

if TYPE_CHECKING:
    from pathlib import Path

N = 300
DATA: dict[str, list[Any]] = {
    "text": [f"Text {i} of {'many' if i % 3 else 'few'}" for i in range(N)],
    "label": ["a" if i % 10 else "b" for i in range(N)],
    "sure": [(i % 17) / 17 for i in range(N)],
}


def drawn(design: str = "simple", n: int = 120) -> lh.GoldSample:
    more: dict[str, Any] = {}
    if design == "stratified":
        more = {"allocation": "equal"}
    if design == "uncertainty":
        more = {"confidence": "sure"}
    gold = lh.gold_sample(
        DATA, n, text="text", label="label", prob=design, seed=1, **more
    )
    return gold.with_codes([DATA["label"][row] for row in gold.rows])


@pytest.mark.parametrize("design", ["simple", "stratified", "uncertainty"])
def test_parts_are_samples(design: str) -> None:
    n = 50 if design == "stratified" else 120
    gold = drawn(design, n)
    split = lh.gold_split(gold, 0.2, 0.4, 0.4, seed=2)
    assert split.parts is not None
    assert split.parts == lh.gold_split(gold, 0.2, 0.4, 0.4, seed=2).parts
    assert split.parts != lh.gold_split(gold, 0.2, 0.4, 0.4, seed=3).parts
    assert abs(split.parts.count("explore") - n / 5) < 1
    part = lh.gold_part(split, "select")
    assert len(part) == split.parts.count("select")
    if design != "uncertainty":
        assert (1 / part.probs).sum() == pytest.approx(N)
    whole = dict(zip(gold.ids, gold.probs.tolist(), strict=True))
    assert all(p < whole[i] for i, p in zip(part.ids, part.probs, strict=True))
    labels = [DATA["label"][row] for row in part.rows]
    validation = lh.validate(DATA, part, label="label")
    assert validation.accuracy.accuracy.value == 1
    assert validation.n_gold == len(labels)


def test_weights_of_parts_are_right_on_average() -> None:
    """On average over many splits, a part estimates the totals of all texts."""
    gold = drawn("uncertainty")
    values = np.array(DATA["sure"])
    whole = float((values[gold.rows] / gold.probs).sum())
    totals = []
    for seed in range(200):
        part = lh.gold_part(lh.gold_split(gold, 0.2, 0.5, 0.3, seed=seed), "select")
        totals.append(float((values[part.rows] / part.probs).sum()))
    error = np.std(totals) / np.sqrt(len(totals))
    assert abs(np.mean(totals) - whole) < 4 * error


def test_split_is_kept_in_files(tmp_path: Path) -> None:
    path = tmp_path / "gold.csv"
    gold = lh.gold_split(drawn(), seed=2)
    gold.write(path)
    assert lh.read_gold(path).parts == gold.parts
    assert lh.GoldSample.from_json(gold.to_json()).parts == gold.parts
    plain = path.read_text(encoding="utf-8-sig")
    assert "part" not in plain.splitlines()[0]
    seen = tmp_path / "seen.csv"
    gold.write(seen, blind=False)
    assert "part" in seen.read_text(encoding="utf-8-sig").splitlines()[0]
    read = lh.read_gold(seen)
    assert read.coders == ["code"]
    assert list(gold.to_pandas().part) == gold.parts
    with pytest.raises(ValueError, match="different names"):
        gold.write(tmp_path / "other.csv", coders=["part"])


def test_split_of_a_file_is_stored_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "gold.csv"
    drawn().write(path)
    before = path.read_bytes()
    gold = lh.gold_split(path, seed=2)
    assert path.read_bytes() == before
    assert lh.read_gold(path).parts == gold.parts
    with pytest.raises(ValueError, match="split already"):
        lh.gold_split(path)


def test_changed_splits_are_refused() -> None:
    gold = lh.gold_split(drawn(), seed=2)
    stored = json.loads(gold.to_json())
    parts = stored["design"]["split"]["parts"]
    at = parts.index("evaluate")
    parts[at] = "select"
    with pytest.raises(
        ValueError, match="split of other texts, or its split was changed"
    ):
        lh.gold_part(lh.GoldSample.from_json(json.dumps(stored)), "select")


def test_closed_until_it_is_opened() -> None:
    gold = lh.gold_split(drawn(), seed=2)
    with pytest.raises(lh.ArgumentError, match="is locked until") as caught:
        lh.gold_part(gold, "evaluate")
    assert caught.value.code == "closed"


def refused(message: str, gold: Any, *shares: float, **more: Any) -> lh.BadArgumentError:
    with pytest.raises(lh.BadArgumentError, match=message) as caught:
        lh.gold_split(gold, *shares, **more)
    return caught.value


def test_what_is_wrong() -> None:
    gold = drawn()
    assert refused("must sum to 1, not to 1.2", gold, 0.4, 0.5, 0.3).argument == "explore"
    assert refused("select must be", gold, 0.5, 0, 0.5).argument == "select"
    assert refused("must be a GoldSample", 3).argument == "gold"
    assert refused("would have 1 of 120", gold, 0.2, 0.795, 0.005).code == "too_few"
    few = lh.gold_sample(
        DATA, 4, text="text", label="label", prob="stratified", allocation="equal", seed=1
    )
    assert "too few for 3 parts" in str(refused("2 texts in the stratum", few))
    part = lh.gold_part(lh.gold_split(gold, seed=1), "select")
    assert refused("is the part 'select'", part).code == "already_split"
    with pytest.raises(lh.ArgumentError, match="has no split") as caught:
        lh.gold_part(gold, "select")
    assert caught.value.code == "no_split"
    with pytest.warns(UserWarning, match="few texts: select has 6, evaluate has 2"):
        lh.gold_split(drawn(n=10), 0.2, 0.6, 0.2, seed=1)
    no_explore = lh.gold_split(gold, 0, 0.5, 0.5, seed=1)
    assert no_explore.parts is not None
    assert "explore" not in no_explore.parts


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "use",
    [
        lambda data, gold: lh.validate(data, gold).warnings,
        lambda data, gold: lh.estimate(data, gold, outcome="a").notes,
        lambda data, gold: lh.estimate(data, gold, "label == 'a' ~ 1").notes,
        lambda data, gold: lh.recalibrate(data, gold).run["notes"],
    ],
)
def test_codes_of_a_locked_part_are_used_by_no_call(use: Any) -> None:
    """Other codes of "evaluate" change no result; a note says that they are left out."""
    rng = np.random.default_rng(4)
    label = rng.choice(["a", "b"], 500)
    sure = rng.uniform(0.5, 1, 500)
    data = {
        "text": [f"Text {i}." for i in range(500)],
        "label": label,
        "p_a": np.where(label == "a", sure, 1 - sure),
        "p_b": np.where(label == "b", sure, 1 - sure),
    }
    gold = lh.gold_split(
        lh.gold_sample(data, 200, text="text", label="label", seed=1), seed=2
    )
    codes = [label[row] if rng.random() < 0.8 else "a" for row in gold.rows]
    other = [
        "b" if part == "evaluate" else code
        for part, code in zip(gold.parts or (), codes, strict=True)
    ]
    notes = [use(data, gold.with_codes(version)) for version in (codes, other)]
    assert notes[0] == notes[1]
    assert any("60 texts of the part 'evaluate' are left out" in n for n in notes[0])
    record = {**gold.design["split"], "opened": [{"at": "now"}]}
    opened = replace(gold, design={**gold.design, "split": record})
    assert not any("'evaluate'" in note for note in use(data, opened.with_codes(codes)))
