"""Coverage of 95% intervals: waves, coders' errors, survey weights, many estimates.

python benchmarks/coverage_waves.py [--only waves|coders|weights|many|check]
    [--draws 1000] [--workers 1] [--seed 5] [--skip N] [--save FILE] [--merge FILE ...]

Each simulation draws 1,500 texts in two groups, with codes, and with labels that miss
more codes in one group. A later wave may depend on earlier codes: texts are then drawn by
the error rate of their label and group in earlier waves. True values are the values of
the distribution, not of a sample. The tables are written into
docs/estimates-simulated.md; with `--only`, only the table of the selected part is
replaced; `--save` and `--merge` need it.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import draws
import marked
import numpy as np
from llamaherd.coding.estimation.estimate import at_level
from llamaherd.coding.estimation.fitting import FitSettings, Found
from llamaherd.coding.estimation.means import fit_means
from llamaherd.coding.gold import waves
from llamaherd.coding.gold.used import GoldUsed
from llamaherd.coding.gold.waves import Wave
from llamaherd.coding.statistics import sampling
from llamaherd.coding.statistics.dsl import Drawing
from llamaherd.coding.statistics.sampling import label_check

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.coding.estimation.estimates import Estimate

Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]
PAGE = Path(__file__).resolve().parent.parent / "docs" / "estimates-simulated.md"
N_TEXTS, LEVEL = 1500, 0.95
SHARES = np.array([0.25, 0.55])  # shares of texts with the label in groups A and B
MISSED, FALSE = np.array([0.1, 0.45]), np.array([0.15, 0.05])  # error rates of the model
GROUP_B = 0.4
SHARE = float((1 - GROUP_B) * SHARES[0] + GROUP_B * SHARES[1])
DIFFERENCE = float(SHARES[1] - SHARES[0])
Hit = tuple[bool, float]


@dataclass(frozen=True, kw_only=True, eq=False)
class Texts:
    """Texts with their groups, codes and labels, each 0 or 1."""

    group: Ints
    code: Ints
    label: Ints


def made(rng: np.random.Generator, in_b: float = GROUP_B) -> Texts:
    """Draw texts; the model's labels miss more codes in group B."""
    group = (rng.random(N_TEXTS) < in_b).astype(np.int64)
    code = (rng.random(N_TEXTS) < SHARES[group]).astype(np.int64)
    wrong = rng.random(N_TEXTS) < np.where(code == 1, MISSED[group], FALSE[group])
    return Texts(group=group, code=code, label=np.where(wrong, 1 - code, code))


def first(texts: Texts, n: int, rng: np.random.Generator, kind: str) -> Wave:
    """Draw the first wave: a simple sample, or equal strata of labels."""
    if kind == "simple":
        return wave_of(sampling.draw_simple(N_TEXTS, n, rng), np.arange(N_TEXTS))
    labels = texts.label.tolist()
    draw = sampling.draw_stratified(labels, n, rng, "equal")
    return wave_of(draw, np.arange(N_TEXTS))


def wave_of(draw: sampling.Draw, left: Ints) -> Wave:
    """Convert a draw from the remaining texts to a wave."""
    probs, strata = np.zeros(N_TEXTS), np.full(N_TEXTS, -1, dtype=np.int64)
    probs[left], strata[left] = draw.all_probs, draw.strata
    return Wave(
        rows=left[draw.rows],
        probs=probs,
        strata=strata,
        n=len(draw.rows),
        n_left=len(left),
    )


def later(
    texts: Texts, before: Sequence[Wave], n: int, rng: np.random.Generator, kind: str
) -> Wave:
    """Draw a later wave: simple, by strata of groups, or by errors in earlier waves."""
    drawn = np.concatenate([wave.rows for wave in before])
    left = np.setdiff1d(np.arange(N_TEXTS), drawn)
    if kind == "simple":
        return wave_of(sampling.draw_simple(len(left), n, rng), left)
    if kind == "groups":
        groups = texts.group[left].tolist()
        return wave_of(sampling.draw_stratified(groups, n, rng, "equal"), left)
    cells = 2 * texts.label + texts.group
    wrong = texts.label[drawn] != texts.code[drawn]
    n_wrong = np.bincount(cells[drawn], wrong, minlength=4)
    rate = (n_wrong + 0.5) / (np.bincount(cells[drawn], minlength=4) + 1)
    most = waves.highest_of_wave([*(wave.n for wave in before), n], N_TEXTS)
    probs = waves.bounded_probs(np.sqrt(rate)[cells[left]], n, 0.0, most)
    return wave_of(sampling.draw_unequal(probs, rng), left)


def of_waves(drawn: Sequence[Wave]) -> GoldUsed:
    """Return the codes of waves of different designs."""
    found = waves.combine(drawn)
    return GoldUsed(
        rows=found.rows,
        codes=[],
        probs=1 / found.weights,
        strata=found.strata,
        is_even=False,
        design="waves",
        all_probs=found.all_probs,
        all_strata=np.zeros(N_TEXTS, dtype=np.int64),
        drawing=Drawing(scale=found.scale, left=found.left),
    )


def of_one(rows: Ints, probs: Floats, strata: Ints, *, is_even: bool) -> GoldUsed:
    """Return the codes of one draw, or of waves of one design."""
    return GoldUsed(
        rows=rows,
        codes=[],
        probs=probs[rows],
        strata=strata[rows],
        is_even=is_even,
        design="one",
        all_probs=probs,
        all_strata=strata,
    )


def simple_of(rows: Ints) -> GoldUsed:
    """Return codes with the inclusion probabilities of a simple sample."""
    probs = np.full(N_TEXTS, len(rows) / N_TEXTS)
    return of_one(np.sort(rows), probs, np.zeros(N_TEXTS, dtype=np.int64), is_even=True)


def pooled(drawn: Sequence[Wave]) -> GoldUsed:
    """Return the codes of waves of one stratified design, with pooled probabilities."""
    rows, strata = np.sort(np.concatenate([w.rows for w in drawn])), drawn[0].strata
    probs = (np.bincount(strata[rows]) / np.bincount(strata))[strata]
    return of_one(rows, np.asarray(probs), strata, is_even=False)


def estimates(
    texts: Texts,
    gold: GoldUsed,
    *,
    in_groups: bool = False,
    codes: Ints | None = None,
    weights: Floats | None = None,
    methods: tuple[Any, ...] = ("dsl", "gold"),
    level: float = LEVEL,
) -> Found:
    """Estimate the share of the label, or the shares in groups and their difference."""
    settings = FitSettings(
        gold=gold, methods=methods, level=level, target="population", weights=weights
    )
    groups = texts.group if in_groups else np.zeros(N_TEXTS, dtype=np.int64)
    y = (texts.code[gold.rows] if codes is None else codes).astype(float)
    outcome = ("yes", texts.label.astype(float), y)
    names = ["A", "B"] if in_groups else [""]
    return fit_means([outcome], "share", groups, names, settings)


def two_waves(kind: str, then: str, sizes: Sequence[int]) -> Any:  # noqa: ANN401
    """Return a function that draws waves of the given sizes."""

    def drawn(texts: Texts, rng: np.random.Generator) -> list[Wave]:
        made_of = [first(texts, sizes[0], rng, kind)]
        for n in sizes[1:]:
            made_of.append(later(texts, made_of, n, rng, then))
        return made_of

    return drawn


def equal_twice(texts: Texts, rng: np.random.Generator) -> list[Wave]:
    """Draw two waves; each has the same number of texts of each label."""
    one = first(texts, 100, rng, "equal")
    left = np.setdiff1d(np.arange(N_TEXTS), one.rows)
    names = dict.fromkeys(texts.label.tolist())
    sizes = dict.fromkeys(names, 50)
    draw = sampling.draw_stratified(texts.label[left].tolist(), 100, rng, sizes)
    two = wave_of(draw, left)
    return [one, replace(two, strata=np.where(two.strata < 0, -1, one.strata))]


ERRORS = "simple 100, then 100 by errors found"
WAVES: dict[str, Any] = {
    "simple, 100 and 100": (two_waves("simple", "simple", (100, 100)), "simple"),
    "equal strata of labels, 100 and 100": (equal_twice, "pooled"),
    "simple 100, then strata of groups 100": (
        two_waves("simple", "groups", (100, 100)),
        "waves",
    ),
    ERRORS: (two_waves("simple", "errors", (100, 100)), "waves"),
    "five waves of 40, by errors found": (
        two_waves("simple", "errors", (40,) * 5),
        "waves",
    ),
    "two waves of 25, by errors found": (
        two_waves("simple", "errors", (25, 25)),
        "waves",
    ),
    f"{ERRORS}, taken for a simple sample": (
        two_waves("simple", "errors", (100, 100)),
        "simple",
    ),
}


def waves_draw(case: str, seed: int, k: int) -> dict[str, Hit]:
    """Simulate draw k of samples in waves."""
    draw_waves, way = WAVES[case]
    rng = np.random.default_rng([seed, k])
    texts = made(rng)
    drawn = draw_waves(texts, rng)
    if way == "simple":
        gold = simple_of(np.concatenate([wave.rows for wave in drawn]))
    else:
        gold = pooled(drawn) if way == "pooled" else of_waves(drawn)
    rows = estimates(texts, gold).rows
    found = {row.method: hit(row, SHARE) for row in rows}
    both = estimates(texts, gold, in_groups=True, methods=("dsl",)).rows
    row = next(each for each in both if each.term == "difference")
    return {**found, "difference": hit(row, DIFFERENCE)}


def waves_table(found: draws.Drawn) -> str:
    """Return the table of coverage for samples drawn in waves."""
    lines = ["| waves | share: gold alone | share: DSL | difference of groups: DSL |"]
    lines.append("|---|---:|---:|---:|")
    for name, values in found.cases.items():
        cells = [cell(values, way) for way in ("gold", "dsl", "difference")]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return heading(found) + "\n".join(lines) + "\n"


def hit(row: Estimate, truth: float) -> Hit:
    """Return True if the interval contains the true value, and its width."""
    return bool(row.low <= truth <= row.high), float(row.high - row.low)


def cell(values: Sequence[dict[str, Hit]], way: str) -> str:
    """Format coverage and median width of a way in all draws."""
    hits, widths = zip(*(value[way] for value in values), strict=True)
    return f"{np.mean(hits):.1%} ({np.median(widths):.3f})"


def heading(found: draws.Drawn) -> str:
    """Return a sentence on the number of draws and the Monte Carlo error."""
    error = math.sqrt(0.95 * 0.05 / found.n_draws)
    return (
        f"{found.n_draws:,} draws of {N_TEXTS:,} texts; standard error of a coverage of "
        f"95%: {error:.1%}. The median width is in parentheses.\n\n"
    )


CODERS = {
    "three coders, right in 95, 90, 85%": (0.95, 0.9, 0.85),
    "three coders, right in 90, 75, 75%": (0.9, 0.75, 0.75),
    "five coders, right in 80% each": (0.8,) * 5,
}


OF_CODERS = ("share", "share, equal strata of labels", "difference of groups")


CODER_CASES = {f"{who} | {what}": (who, what) for who in CODERS for what in OF_CODERS}


def coders_draw(case: str, seed: int, k: int) -> dict[str, Hit]:
    """Simulate draw k of codes by several coders who make independent errors."""
    who, what = CODER_CASES[case]
    rng = np.random.default_rng([seed, k])
    texts = made(rng)
    gold = simple_of(rng.choice(N_TEXTS, 200, replace=False))
    if what == OF_CODERS[1]:
        gold = pooled([first(texts, 200, rng, "equal")])
    truth = texts.code[gold.rows]
    right = CODERS[who]
    given = np.array([np.where(rng.random(200) < p, truth, 1 - truth) for p in right])
    codes = (2 * given.sum(axis=0) > len(right)).astype(np.int64)
    return {"dsl": _with_codes(texts, gold, codes, what)}


def coders_table(found: draws.Drawn) -> str:
    """Return the table of coverage if coders make independent errors."""
    lines = ["| 200 codes, DSL, code of the majority | estimate | |", "|---|---|---:|"]
    lines += [f"| {name} | {cell(v, 'dsl')} |" for name, v in found.cases.items()]
    return heading(found) + "\n".join(lines) + "\n"


def _with_codes(texts: Texts, gold: GoldUsed, codes: Ints, what: str) -> Hit:
    in_groups = what == OF_CODERS[2]
    rows = estimates(texts, gold, in_groups=in_groups, codes=codes, methods=("dsl",)).rows
    if not in_groups:
        return hit(rows[0], SHARE)
    return hit(next(row for row in rows if row.term == "difference"), DIFFERENCE)


OF_WEIGHTS = ("simple", "equal strata of labels", "drawn by weights")


def weights_draw(case: str, seed: int, k: int) -> dict[str, Hit]:
    """Simulate draw k of texts in which group B is four times overrepresented."""
    rng = np.random.default_rng([seed, k])
    texts = made(rng, 4 * GROUP_B / (4 * GROUP_B + 1 - GROUP_B))
    w = np.where(texts.group == 1, 1.0, 4.0)
    if case == "simple":
        gold = simple_of(rng.choice(N_TEXTS, 200, replace=False))
    elif case == "drawn by weights":
        probs = sampling.inclusion_probs(w, 200, 0.3)
        own = sampling.draw_unequal(probs, rng)
        gold = of_one(own.rows, own.all_probs, own.strata, is_even=False)
    else:
        gold = pooled([first(texts, 200, rng, "equal")])
    found = {}
    for way, used in (("with", w / w.mean()), ("without", None)):
        row = estimates(texts, gold, weights=used, methods=("dsl",)).rows[0]
        found[way] = hit(row, SHARE)
    return found


def weights_table(found: draws.Drawn) -> str:
    """Return the table of coverage with and without survey weights."""
    lines = ["| share, 200 codes, DSL | with weights | without |", "|---|---:|---:|"]
    for name, values in found.cases.items():
        lines.append(f"| {name} | {cell(values, 'with')} | {cell(values, 'without')} |")
    return heading(found) + "\n".join(lines) + "\n"


OF_GROUPS = np.array([[0.4, 0.3, 0.2, 0.1], [0.3, 0.3, 0.2, 0.2], [0.2, 0.3, 0.3, 0.2]])


Way = Literal["bonferroni"] | None
WAYS_OF_MANY: dict[str, Way] = {
    "each by itself": None,
    "Bonferroni": "bonferroni",
}


def many_draw(_: str, seed: int, k: int) -> dict[str, Hit]:
    """Simulate draw k of 20 intervals: True if all hold, and their mean width."""
    rng = np.random.default_rng([seed, k])
    group = rng.integers(3, size=N_TEXTS)
    edges = np.cumsum(OF_GROUPS, axis=1)[group]
    code = (rng.random(N_TEXTS)[:, None] > edges[:, :3]).sum(axis=1)
    wrong = rng.random(N_TEXTS) < 0.2
    label = np.where(wrong, rng.integers(4, size=N_TEXTS), code)
    gold = simple_of(rng.choice(N_TEXTS, 400, replace=False))
    found = {}
    for name, way in WAYS_OF_MANY.items():
        rows = _of_labels(group, code, label, gold, way)
        hits = [hit(row, _truth(row)) for row in rows]
        width = float(np.mean([each[1] for each in hits]))
        found[name] = all(each[0] for each in hits), width
    return found


def many_table(found: draws.Drawn) -> str:
    """Return the table of draws in which all intervals contain their true values."""
    lines = [
        "| 4 labels in 3 groups, and differences: 20 intervals | all hold | mean width |"
    ]
    lines.append("|---|---:|---:|")
    values = found.cases["many"]
    for name in WAYS_OF_MANY:
        hold, widths = zip(*(value[name] for value in values), strict=True)
        lines.append(f"| {name} | {np.mean(hold):.1%} | {np.mean(widths):.3f} |")
    return heading(found).split(". The")[0] + ".\n\n" + "\n".join(lines) + "\n"


def _of_labels(
    group: Ints, code: Ints, label: Ints, gold: GoldUsed, way: Way
) -> Sequence[Estimate]:
    outcomes = [
        (str(k), (label == k).astype(float), (code[gold.rows] == k).astype(float))
        for k in range(4)
    ]

    def fit(settings: FitSettings) -> Found:
        return fit_means(outcomes, "share", group, ["0", "1", "2"], settings)

    settings = FitSettings(gold=gold, methods=("dsl",), level=LEVEL, target="population")
    return at_level(fit, settings, way).rows


def _truth(row: Estimate) -> float:
    k, at = int(row.outcome), [int(each) for each in row.group.split(" - ")]
    return float(OF_GROUPS[at[0], k] - (OF_GROUPS[at[1], k] if len(at) > 1 else 0.0))


ODDS = {
    "a simple sample": 1.0,
    "texts with the label *yes* drawn 1.5 times as often": 1.5,
    "twice as often": 2.0,
    "three times as often": 3.0,
}


def check_draw(case: str, seed: int, k: int) -> bool:
    """Return True if draw k gives a warning that the sample is not simple."""
    rng = np.random.default_rng([seed, k])
    labels = np.where(made(rng).label == 1, "yes", "no")
    p = np.where(labels == "yes", ODDS[case], 1.0)
    drawn = rng.choice(N_TEXTS, 200, replace=False, p=p / p.sum())
    return bool(label_check(labels.tolist(), labels[drawn].tolist()).is_unlikely)


def check_table(found: draws.Drawn) -> str:
    """Return the table of draws for which the check of a simple sample warns."""
    lines = ["| 200 codes that are said to be simple | warned of |", "|---|---:|"]
    lines += [f"| {name} | {np.mean(each):.1%} |" for name, each in found.cases.items()]
    return f"{found.n_draws:,} draws.\n\n" + "\n".join(lines) + "\n"


Part = tuple["Sequence[str]", "Callable[[str, int, int], Any]", "Callable[..., str]"]
PARTS: dict[str, Part] = {  # cases, simulation of a draw, table
    "waves": (list(WAVES), waves_draw, waves_table),
    "coders": (list(CODER_CASES), coders_draw, coders_table),
    "weights": (OF_WEIGHTS, weights_draw, weights_table),
    "many": (["many"], many_draw, many_table),
    "check": (list(ODDS), check_draw, check_table),
}


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    draws.add_options(parser, 1000, 5)
    parser.add_argument("--only", choices=list(PARTS))
    given = parser.parse_args()
    if given.only is None and (given.save or given.merge):
        parser.error("--save and --merge need --only")
    for name in [given.only] if given.only else list(PARTS):
        cases, draw, table = PARTS[name]
        simulation = draws.Simulation(name=name, cases=cases, draw=draw)
        found = draws.results(simulation, given)
        if found is not None:
            marked.write(PAGE, {f"coverage: {name}": table(found)})


if __name__ == "__main__":
    main()
