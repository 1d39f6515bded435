"""Coverage of 95% intervals from waves, coders who err, weights, and many estimates.

python benchmarks/coverage_waves.py [--draws 400] [--only waves|coders|weights|many|check]

Each draw makes 1,500 texts of two groups with codes, and labels that miss more in one of
the groups. Waves after the first may depend on the codes so far: texts are drawn by the
error rate of their label and group in the waves before. The truth is that of the
distribution. docs/estimates.md gets the tables; a part that was run by itself replaces
its table only.
"""

from __future__ import annotations

import argparse
import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import marked
import numpy as np
from llamaherd.research.statistics.representative import label_check

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Floats = np.ndarray[Any, np.dtype[np.float64]]
PAGE = Path(__file__).resolve().parent.parent / "docs" / "estimates.md"
N_TEXTS, SEED = 1500, 5
SHARES = (0.25, 0.55)  # of the label "yes" in groups A and B
MISSED, FALSE = (0.1, 0.45), (0.15, 0.05)  # errors of the model in groups A and B
GROUP_B = 0.4
TRUTH = {
    "share": (1 - GROUP_B) * SHARES[0] + GROUP_B * SHARES[1],
    "difference": SHARES[1] - SHARES[0],
}
LABELS = ("a", "b", "c", "d")


def made(rng: np.random.Generator) -> dict[str, Any]:
    """Texts with their codes, as columns."""
    is_b = rng.random(N_TEXTS) < GROUP_B
    at = is_b.astype(int)
    code = rng.random(N_TEXTS) < np.array(SHARES)[at]
    wrong = rng.random(N_TEXTS) < np.where(
        code, np.array(MISSED)[at], np.array(FALSE)[at]
    )
    return {
        "id": np.arange(N_TEXTS).astype(str).tolist(),
        "label": np.where(code ^ wrong, "yes", "no").tolist(),
        "group": np.where(is_b, "B", "A").tolist(),
        "code": np.where(code, "yes", "no").tolist(),
    }


def coded(data: dict[str, Any], sample: lh.GoldSample) -> lh.GoldSample:
    """The sample with all codes."""
    return sample.with_codes([data["code"][row] for row in sample.rows])


def by_errors(data: dict[str, Any], sample: lh.GoldSample) -> list[float]:
    """Sizes that grow with the error rate of a text's label and group so far."""
    cells = list(zip(data["label"], data["group"], strict=True))
    counts = dict.fromkeys(cells, np.zeros(2))
    for row, code in zip(sample.rows, sample.gold, strict=True):
        cell = cells[row]
        counts[cell] = counts[cell] + np.array([code != data["label"][row], 1.0])
    sizes = {cell: math.sqrt((n[0] + 0.5) / (n[1] + 1)) for cell, n in counts.items()}
    return [sizes[cell] for cell in cells]


def first(
    data: dict[str, Any],
    n: int,
    seed: int,
    **how: Any,  # noqa: ANN401 - of gold_sample
) -> lh.GoldSample:
    """The codes of a first wave."""
    own = {name: data[name] for name in ("id", "label", "group")}
    return coded(data, lh.gold_sample(own, n, label="label", id="id", seed=seed, **how))


def more(
    data: dict[str, Any],
    sample: lh.GoldSample,
    n: int,
    seed: int,
    **how: Any,  # noqa: ANN401 - of gold_sample
) -> lh.GoldSample:
    """The codes of one more wave."""
    own = {name: data[name] for name in ("id", "label", "group")}
    return coded(data, lh.gold_sample(own, n, after=sample, seed=seed, **how))


def adaptive(data: dict[str, Any], sizes: Sequence[int], seed: int) -> lh.GoldSample:
    """A simple wave, and waves by the errors found before."""
    sample = first(data, sizes[0], seed)
    for i, n in enumerate(sizes[1:], start=1):
        sample = more(data, sample, n, seed + i, prob=by_errors(data, sample))
    return sample


def _equal(data: dict[str, Any], seed: int) -> lh.GoldSample:
    return first(data, 100, seed, by="label", allocation="equal")


WAVES: dict[str, Callable[[dict[str, Any], int], lh.GoldSample]] = {
    "simple, 200 at once": lambda data, seed: first(data, 200, seed),
    "simple, 100 and 100": lambda data, seed: more(
        data, first(data, 100, seed), 100, seed + 1
    ),
    "equal strata, 100 and 100": lambda data, seed: more(
        data, _equal(data, seed), 100, seed + 1, by="label", allocation="equal"
    ),
    "simple 100, then strata of groups 100": lambda data, seed: more(
        data, first(data, 100, seed), 100, seed + 1, by="group", allocation="equal"
    ),
    "simple 100, then 100 by errors found": lambda data, seed: adaptive(
        data, (100, 100), seed
    ),
    "five waves of 40, by errors found": lambda data, seed: adaptive(
        data, (40,) * 5, seed
    ),
    "two waves of 25, by errors found": lambda data, seed: adaptive(data, (25, 25), seed),
}


def waves(n_draws: int) -> str:
    """Coverage of samples that were drawn in waves."""
    wrong = "simple 100, then 100 by errors found, said to be simple"
    names = [*WAVES, wrong]
    lines = ["| waves | share: gold alone | share: DSL | difference of groups: DSL |"]
    lines.append("|---|---:|---:|---:|")
    for name in names:
        found: dict[tuple[str, str], list[tuple[bool, float]]] = {}
        for draw in range(n_draws):
            data = made(np.random.default_rng([SEED, draw]))
            is_wrong = name == wrong
            key = "simple 100, then 100 by errors found" if is_wrong else name
            sample = WAVES[key](data, 1000 * draw)
            gold: Any = sample
            if is_wrong:
                own = dict(zip(sample.rows, sample.gold, strict=True))
                gold = [own.get(i) for i in range(N_TEXTS)]
            for row in estimates(data, gold, "simple" if is_wrong else None):
                what = "share" if row.term == "share" else "difference"
                if what == "share" and row.group:
                    continue
                hit = row.low <= TRUTH[what] <= row.high
                found.setdefault((what, row.method), []).append((hit, row.high - row.low))
        keys = [("share", "gold"), ("share", "dsl"), ("difference", "dsl")]
        lines.append(f"| {name} | {' | '.join(cell(found[key]) for key in keys)} |")
    return heading(n_draws) + "\n".join(lines) + "\n"


def estimates(
    data: dict[str, Any],
    gold: lh.GoldSample | list[str | None],
    prob: str | None,
) -> list[lh.Estimate]:
    """The share, and the difference of the groups."""
    own = {name: data[name] for name in ("id", "label", "group")}
    both: list[lh.Estimate] = []
    for by in (None, "group"):
        found = lh.estimate(
            own,
            gold,
            outcome="yes",
            by=by,
            label="label",
            prob=prob,
            methods=["dsl", "gold"],
        )
        both += found.rows
    return both


def cell(found: list[tuple[bool, float]]) -> str:
    """Coverage and median width."""
    hits, widths = zip(*found, strict=True)
    return f"{np.mean(hits):.1%} ({np.median(widths):.3f})"


def heading(n_draws: int) -> str:
    """Number of draws and Monte Carlo error."""
    error = math.sqrt(0.95 * 0.05 / n_draws)
    return (
        f"{n_draws} draws of {N_TEXTS:,} texts; standard error of a coverage of 95%: "
        f"{error:.1%}. In parentheses the median width.\n\n"
    )


CODERS = {
    "three coders, right in 95, 90, 85%": (0.95, 0.9, 0.85),
    "three coders, right in 90, 75, 75%": (0.9, 0.75, 0.75),
    "five coders, right in 80% each": (0.8,) * 5,
}


def coders(n_draws: int) -> str:
    """Coverage of the share if coders err independently of each other."""
    lines = ["| 200 codes, DSL | majority | Dawid-Skene | one-coin |"]
    lines.append("|---|---:|---:|---:|")
    for name, right in CODERS.items():
        found: dict[str, list[tuple[bool, float]]] = {}
        for draw in range(n_draws):
            rng = np.random.default_rng([SEED, draw])
            data = made(rng)
            sample = first(data, 200, draw)
            truth = np.array([data["code"][row] == "yes" for row in sample.rows])
            given = {
                f"coder {j}": np.where(
                    truth ^ (rng.random(len(truth)) >= p), "yes", "no"
                ).tolist()
                for j, p in enumerate(right)
            }
            gold = lh.gold_sample(
                {name: data[name] for name in ("id", "label", "group")},
                200,
                label="label",
                id="id",
                seed=draw,
            ).with_codes(given)
            for way in ("majority", "dawid_skene", "one_coin"):
                row = lh.estimate(
                    {"id": data["id"], "label": data["label"]},
                    gold,
                    outcome="yes",
                    label="label",
                    methods=["dsl"],
                    consensus=way,
                ).rows[0]
                hit = row.low <= TRUTH["share"] <= row.high
                found.setdefault(way, []).append((hit, row.high - row.low))
        lines.append(f"| {name} | {' | '.join(cell(each) for each in found.values())} |")
    return heading(n_draws) + "\n".join(lines) + "\n"


def weights(n_draws: int) -> str:
    """Coverage where group B was sampled four times as often as it should be."""
    lines = ["| share, 200 codes | with weights | without |", "|---|---:|---:|"]
    in_sample = 4 * GROUP_B / (4 * GROUP_B + 1 - GROUP_B)
    for name, how in {
        "simple": {},
        "strata of labels": {"by": "label", "allocation": "equal"},
        "drawn by weights": {"prob": "weights", "weights": "w"},
    }.items():
        found: dict[str, list[tuple[bool, float]]] = {}
        for draw in range(n_draws):
            rng = np.random.default_rng([SEED, draw])
            data = unequal(rng, in_sample)
            own = {key: data[key] for key in ("id", "label", "w")}
            gold = coded(
                data, lh.gold_sample(own, 200, label="label", id="id", seed=draw, **how)
            )
            for way in ("w", None):
                row = lh.estimate(
                    own, gold, outcome="yes", label="label", methods=["dsl"], weights=way
                ).rows[0]
                hit = row.low <= TRUTH["share"] <= row.high
                found.setdefault(str(way), []).append((hit, row.high - row.low))
        lines.append(f"| {name} | {cell(found['w'])} | {cell(found['None'])} |")
    return heading(n_draws) + "\n".join(lines) + "\n"


def unequal(rng: np.random.Generator, in_sample: float) -> dict[str, Any]:
    """Texts with more of group B than the population has, and their weights."""
    is_b = rng.random(N_TEXTS) < in_sample
    at = is_b.astype(int)
    code = rng.random(N_TEXTS) < np.array(SHARES)[at]
    wrong = rng.random(N_TEXTS) < np.where(
        code, np.array(MISSED)[at], np.array(FALSE)[at]
    )
    return {
        "id": np.arange(N_TEXTS).astype(str).tolist(),
        "label": np.where(code ^ wrong, "yes", "no").tolist(),
        "code": np.where(code, "yes", "no").tolist(),
        "w": np.where(is_b, 1.0, 4.0).tolist(),
    }


def many(n_draws: int) -> str:
    """Share of draws in which all intervals of a method have the truth."""
    shares = np.array([[0.4, 0.3, 0.2, 0.1], [0.3, 0.3, 0.2, 0.2], [0.2, 0.3, 0.3, 0.2]])
    lines = [
        "| 4 labels in 3 groups, and differences: 20 intervals | all hold | mean width |"
    ]
    lines.append("|---|---:|---:|")
    ways = (None, "bonferroni", "max_t")
    found: dict[str | None, list[tuple[bool, float]]] = {way: [] for way in ways}
    for draw in range(n_draws):
        rng = np.random.default_rng([SEED, draw])
        group = rng.integers(3, size=N_TEXTS)
        edges = np.cumsum(shares, axis=1)[group]
        code = (rng.random(N_TEXTS)[:, None] > edges[:, :3]).sum(axis=1)
        wrong = rng.random(N_TEXTS) < 0.2
        label = np.where(wrong, rng.integers(4, size=N_TEXTS), code)
        data = {
            "id": np.arange(N_TEXTS).astype(str).tolist(),
            "label": [LABELS[k] for k in label],
            "code": [LABELS[k] for k in code],
            "group": group.tolist(),
        }
        gold = first(data, 400, draw)
        for way in ways:
            rows = lh.estimate(
                {name: data[name] for name in ("id", "label", "group")},
                gold,
                by="group",
                label="label",
                methods=["dsl"],
                simultaneous=way,
            ).rows
            hits = []
            for row in rows:
                k = LABELS.index(row.outcome)
                at = [int(each) for each in row.group.split(" - ")]
                truth = shares[at[0], k] - (shares[at[1], k] if len(at) > 1 else 0.0)
                hits.append(row.low <= truth <= row.high)
            width = float(np.mean([row.high - row.low for row in rows]))
            found[way].append((all(hits), width))
    names = {None: "each by itself", "bonferroni": "Bonferroni", "max_t": "max-t"}
    for way, name in names.items():
        hits, widths = zip(*found[way], strict=True)
        lines.append(f"| {name} | {np.mean(hits):.1%} | {np.mean(widths):.3f} |")
    return heading(n_draws).split(". In")[0] + ".\n\n" + "\n".join(lines) + "\n"


def check(n_draws: int) -> str:
    """Share of draws that the check of a simple sample refuses."""
    lines = ["| 200 codes that are said to be simple | warned of |", "|---|---:|"]
    for name, odds in {
        "a simple sample": 1.0,
        "texts with the label *yes* drawn 1.5 times as often": 1.5,
        "twice as often": 2.0,
        "three times as often": 3.0,
    }.items():
        refused = 0
        for draw in range(n_draws):
            rng = np.random.default_rng([SEED, draw])
            labels = np.array(made(rng)["label"])
            p = np.where(labels == "yes", odds, 1.0)
            drawn = rng.choice(N_TEXTS, 200, replace=False, p=p / p.sum())
            refused += label_check(labels.tolist(), labels[drawn].tolist()).is_unlikely
        lines.append(f"| {name} | {refused / n_draws:.1%} |")
    return f"{n_draws} draws.\n\n" + "\n".join(lines) + "\n"


PARTS: dict[str, Callable[[int], str]] = {
    "waves": waves,
    "coders": coders,
    "weights": weights,
    "many": many,
    "check": check,
}


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--only", choices=list(PARTS))
    given = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    names = [given.only] if given.only else list(PARTS)
    for name in names:
        marked.write(PAGE, {f"coverage: {name}": PARTS[name](given.draws)})


if __name__ == "__main__":
    main()
