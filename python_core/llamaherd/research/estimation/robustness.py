"""Robustness of labels to wording, order of labels, model and random sampling."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.api.scoring import open_context
from llamaherd.core import checks
from llamaherd.core.caller import warn_caller
from llamaherd.core.errors import ArgumentError, ArgumentTypeError, Interrupted
from llamaherd.core.progress import reporter
from llamaherd.core.sampling import DEFAULT_SEED
from llamaherd.research import frames
from llamaherd.research.coding.annotate import annotated
from llamaherd.research.coding.answer_types import JOINED
from llamaherd.research.coding.codebook import Codebook
from llamaherd.research.coding.coded import Coded
from llamaherd.research.coding.source import Source
from llamaherd.research.coding.texts import checked_texts
from llamaherd.research.coding.variants import named, variants_of
from llamaherd.research.estimation.estimate import estimate, joined
from llamaherd.research.estimation.estimates import TITLES
from llamaherd.research.estimation.starting import (
    Start,
    check_model,
    check_variants,
    own_first,
    start_from,
    thinking_levels,
)
from llamaherd.research.statistics.krippendorff import krippendorff_alpha

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llama_cpp import Llama

    from llamaherd.asks.calibration import Floats
    from llamaherd.core.stats import Progress, ProgressOption
    from llamaherd.core.thinking import ThinkingOption
    from llamaherd.research.coding.variants import Variant
    from llamaherd.research.estimation.estimates import Estimates
    from llamaherd.research.estimation.gold_drawn import GoldSample
    from llamaherd.research.estimation.outcomes import Outcome
    from llamaherd.run.host import Host

    Contexts = Host | Llama | Sequence[Host | Llama] | Mapping[str, Host | Llama]

_LABEL = "label"  # name of labels in formulas


@dataclass(frozen=True, kw_only=True, eq=False)
class Robustness:
    """Labels of n texts under v variants, and how much they differ.

    Attributes:
        variants: Names of the v variants; all others are compared with the first.
        names: The k labels.
        rows: int[n], rows of the data frame that were coded.
        labels: For each variant n labels; None for failed texts.
        flips: float64[v], share of texts whose label differs from the label by the first
            variant, among texts with both labels; NaN if no text has both.
        pairwise: float64[v, v], share of texts with different labels for each pair of
            variants.
        agreement: Mean share of equal labels over all pairs of variants.
        alpha: Krippendorff's alpha with variants as coders, ordinal for an ordinal scale;
            None if it could not be computed.
        shares: float64[v, k], share of each label among the texts with a label.
        runs: Provenance of each variant's labels, see `Coded.run`.
        estimates: v estimates, each from a variant's labels and the codes of a gold
            sample; None for an estimate that failed; () if there is no sample.
        source: Hashes of the texts and labels of the first variant; None if unknown.
    """

    variants: tuple[str, ...]
    names: tuple[str, ...]
    rows: list[int]
    labels: list[list[str | None]]
    flips: Floats
    pairwise: Floats
    agreement: float
    alpha: float | None
    shares: Floats
    runs: list[dict[str, Any]]
    estimates: tuple[Estimates | None, ...] = ()
    source: Source | None = None

    def estimate_rows(self) -> list[dict[str, Any]]:
        """Return a dict for each estimate, with the name of its variant."""
        return [
            {"variant": name, **row}
            for name, found in zip(self.variants, self.estimates, strict=False)
            for row in (found.to_dicts() if found is not None else ())
        ]

    @property
    def costs(self) -> list[dict[str, float]]:
        """Cost per text of each variant: seconds, computed tokens, thinking tokens."""
        return [
            {
                "seconds": run["seconds"] / max(1, run["n_texts"]),
                "tokens": run.get("n_computed_tokens", math.nan) / max(1, run["n_texts"]),
                "thinking_tokens": run.get("thinking", {}).get("n_thinking_tokens", 0)
                / max(1, run["n_texts"]),
            }
            for run in self.runs
        ]

    @property
    def thinks(self) -> bool:
        """True if the model thought before its answers in some variant."""
        return any("thinking" in run for run in self.runs)

    @property
    def ranges(self) -> Floats:
        """Smallest and largest share of each label, float64[k, 2]."""
        return np.stack([self.shares.min(axis=0), self.shares.max(axis=0)], axis=1)

    @property
    def unstable(self) -> Floats:
        """Share of variants that do not give the text's modal label, float64[n]."""
        return np.array([_spread(each) for each in zip(*self.labels, strict=True)])

    def __str__(self) -> str:
        wide = max(map(len, self.variants))
        lines = [
            f"<Robustness: {len(self.rows)} texts, {len(self.variants)} variants>",
            f"{'':<{wide}}  flips  " + "  ".join(f"{name:>8.8}" for name in self.names),
        ]
        for i, name in enumerate(self.variants):
            shares = "  ".join(f"{share:>8.1%}" for share in self.shares[i])
            lines.append(f"{name:<{wide}}  {self.flips[i]:>5.1%}  {shares}")
        alpha = "" if self.alpha is None else f", Krippendorff's alpha {self.alpha:.3f}"
        lines.append(f"agreement {self.agreement:.1%}{alpha}")
        return "\n".join([*lines, *self._costs(wide), *self._estimated(wide)])

    def _costs(self, wide: int) -> list[str]:
        """Describe the costs of variants if some variant thinks."""
        if not self.thinks:
            return []
        lines = ["cost per text:"]
        for name, cost in zip(self.variants, self.costs, strict=True):
            lines.append(
                f"{name:<{wide}}  {cost['seconds']:.3g} s, {cost['tokens']:.0f} tokens "
                f"computed, {cost['thinking_tokens']:.0f} of them in thoughts"
            )
        return lines

    def _estimated(self, wide: int) -> list[str]:
        """Describe the estimates and how much they differ between variants."""
        known = [found for found in self.estimates if found is not None]
        lines = [f"{TITLES['dsl']}, with intervals:"] if known else []
        rows: dict[str, list[dict[str, Any]]] = {}
        for row in self.estimate_rows():
            parts = (row[part] for part in ("outcome", "term", "group"))
            rows.setdefault(" ".join(filter(None, parts)), []).append(row)
        for what, own in rows.items():
            values = [row["estimate"] for row in own]
            lines.append(f"{what}: from {min(values):.3f} to {max(values):.3f}")
            lines += [
                f"  {row['variant']:<{wide}}  {row['estimate']:.3f} "
                f"[{row['low']:.3f}, {row['high']:.3f}]"
                for row in own
            ]
        notes = dict.fromkeys(note for found in known for note in found.notes)
        return [*lines, *(f"Note: {note}" for note in notes)]


def robustness(
    frame: Any,  # noqa: ANN401 - Coded, or a data frame of any kind
    text: str | None = None,
    codebooks: Codebook | Sequence[Codebook] | Mapping[str, Codebook] | None = None,
    contexts: Contexts | None = None,
    *,
    orders: int | Sequence[Sequence[str]] = 0,
    seeds: Sequence[int] = (),
    thinking: ThinkingOption | Sequence[ThinkingOption] = None,
    n_texts: int | None = None,
    seed: int = DEFAULT_SEED,
    crossed: bool = False,
    gold: GoldSample | None = None,
    formula: str | None = None,
    outcome: Outcome | None = None,
    progress: ProgressOption = False,
    **settings: Any,  # noqa: ANN401 - those of annotate
) -> Robustness:
    """Code the same texts in several variants and measure how many labels change.

    With a gold sample, also measure how much the estimates, corrected by its codes,
    differ between variants. They should differ less than the shares of labels.

    Args:
        frame: Result of `annotate`: the first variant has its codebook, settings and
            seed, and `report` then accepts the result of `robustness`. Or a data frame,
            as for `annotate`.
        text: Column of texts, as in `annotate`; not needed for a result of `annotate`.
        codebooks: Codebooks with the same labels but another wording; all are compared
            with the first. A mapping names them. Not needed for a result of `annotate`,
            whose codebook is the first.
        contexts: One context, or several with different models; the first must have the
            model that made the labels. A mapping names them.
        orders: Further orders of the labels to try: a number of random orders, drawn with
            `seed`, or lists of the labels. Not for an ordinal scale.
        seeds: Seeds of generation to try, with method="generate" and a temperature.
        thinking: Values of `thinking` to try, such as [False, 128, 512]; the result's
            `costs` gives the cost of each. A single value applies to all variants.
        n_texts: Number of texts to draw with `seed` from those available; None for all.
        seed: Seed of random orders and of the draw of texts.
        crossed: True to try all combinations; False to vary one setting at a time, with
            the others as in the first variant.
        gold: A sample with codes, drawn from `frame`. For each variant it adds an
            estimate by design-based supervised learning, from the variant's labels and
            the same codes. With `n_texts` only codes of drawn texts are used.
        formula: As in `estimate`; in the formula the labels are called `label`.
        outcome: Outcome to estimate, as in `estimate`.
        progress: As in `annotate`; reports the progress over all variants.
        **settings: Further arguments of `annotate`. They replace the settings with which
            a result of `annotate` was made.

    Returns:
        The labels of each variant, and measures of their differences.

    Warns:
        UserWarning: A variant's labels give no estimate.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The sample was drawn from other texts, or has too few codes; codebooks
            have different labels; there is only one variant; seeds are given without a
            temperature; or see `annotate`.
        Interrupted: Ctrl-C was pressed; `results` contains the finished variants, None if
            no variant is finished.
    """
    for name in ("columns", "journal"):
        if name in settings:
            raise ArgumentTypeError(
                "is not an argument of robustness(), which returns no data frame",
                argument=name,
                code="unknown_argument",
            )
    if contexts is None:
        raise ArgumentTypeError("must be a context, or several", argument="contexts")
    budgets = thinking_levels(thinking)
    own = {**settings, "thinking": budgets[0]} if len(budgets) == 1 else settings
    named_contexts = named("contexts", contexts, object)
    given = list(named_contexts.values())
    books = {} if codebooks is None else named("codebooks", codebooks, Codebook)
    if isinstance(frame, Coded):
        check_model(frame.run, open_context(given[0]).model)
        start = start_from(frame.run, books, own, seeds)
    else:
        start = Start(codebooks=books, settings=own, seeds=list(seeds))
    frame, text = _data(frame, text, books)
    made = variants_of(
        start.codebooks,
        list(named_contexts),
        orders=orders,
        seeds=start.seeds,
        thinking=own_first(start.settings, budgets) if len(budgets) > 1 else (),
        seed=seed,
        crossed=crossed,
        is_drawn=start.is_drawn,
    )
    check_variants(made, start.settings)
    column = checked_texts(frames.column(frame, text, "text"), text)
    rows = drawn_rows(column, n_texts, seed)
    texts = {text: [column[row] for row in rows]}
    judge = None if gold is None else Judge.of(frame, text, gold, rows)
    if judge is None and not (formula is None and outcome is None):
        raise ArgumentError(
            "and outcome are for estimates: these need gold", argument="formula"
        )

    def result() -> Robustness:
        n = len(labels)
        found = compared(made[:n], labels, rows, runs, texts[text])
        if judge is None:
            return found
        book = made[0].codebook
        by = [judge.estimates(each, book, formula, outcome) for each in labels]
        return replace(found, estimates=tuple(by))

    labels: list[list[str | None]] = []
    runs: list[dict[str, Any]] = []
    with reporter(progress) as report:
        for i, variant in enumerate(made):
            drawn = {} if variant.seed is None else {"seed": variant.seed}
            try:
                coded = annotated(
                    texts,
                    text,
                    variant.codebook,
                    given[variant.context],
                    progress=_of_all(report, i, len(made)) if progress else False,
                    **{**start.settings, **drawn, **variant.settings},
                )
            except Interrupted:
                raise Interrupted(result() if labels else None) from None
            labels.append(coded.labels)
            runs.append(coded.run)
    return result()


def _data(frame: Any, text: str | None, books: Mapping[str, Any]) -> tuple[Any, str]:  # noqa: ANN401
    """Return the data frame and the name of its column of texts."""
    if isinstance(frame, Coded):
        if text not in (None, frame.text):
            raise ArgumentError(
                f"is {frame.text!r}, which was coded, not {text!r}", argument="text"
            )
        return frame.frame, frame.text
    if text is None or not books:
        raise ArgumentTypeError(
            "and codebooks must be given for a data frame", argument="text"
        )
    return frame, text


@dataclass(frozen=True, kw_only=True, eq=False)
class Judge:
    """Estimator that uses the codes of a gold sample for every variant.

    Attributes:
        columns: Columns of the data frame.
        text: Name of the column of texts.
        gold: Gold sample.
        rows: n rows that have labels.
    """

    columns: dict[str, list[Any]]
    text: str
    gold: GoldSample
    rows: Sequence[int]

    @classmethod
    def of(
        cls,
        frame: Any,  # noqa: ANN401 - a data frame of any kind
        text: str,
        gold: GoldSample,
        rows: Sequence[int],
    ) -> Judge:
        """Check that the sample fits, before anything is coded.

        Raises:
            ValueError: The sample is from other texts, or has too few codes for these.
        """
        names = frames.names(frame)
        columns = {name: frames.column(frame, name, "frame") for name in names}
        columns[_LABEL] = [None] * len(columns[text])
        gold = replace(gold, labels=[None] * len(gold))  # variants have other labels
        _, moved, _ = joined(columns, gold, _LABEL, text, several=gold.several)
        here = set(rows)
        coded = zip(moved.rows, moved.gold, strict=True)
        if sum(code is not None and row in here for row, code in coded) < 2:
            raise ArgumentError(
                "has fewer than two codes of the texts to be coded", argument="gold"
            )
        return cls(columns=columns, text=text, gold=gold, rows=rows)

    def estimates(
        self,
        labels: Sequence[str | None],
        codebook: Codebook,
        formula: str | None,
        outcome: Outcome | None,
    ) -> Estimates | None:
        """Estimate by DSL from n labels; if this fails, warn and return None."""
        column: list[str | None] = [None] * len(self.columns[self.text])
        for row, label in zip(self.rows, labels, strict=True):
            column[row] = label
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # the notes say the same
                return estimate(
                    {**self.columns, _LABEL: column},
                    self.gold,
                    formula,
                    outcome,
                    methods=("dsl",),
                    label=_LABEL,
                    text=self.text,
                    several=codebook.kind.is_several,
                )
        except ValueError as error:
            warn_caller(f"a variant has no estimate: {error}")
            return None


def drawn_rows(texts: Sequence[object], n_texts: int | None, seed: int) -> list[int]:
    """Return the rows that have a text, in order: all, or `n_texts` drawn at random."""
    there = [i for i, text in enumerate(texts) if text is not None]
    if n_texts is None:
        return there
    n = min(checks.integer("n_texts", n_texts, 1), len(there))
    drawn = np.random.default_rng(seed).choice(len(there), size=n, replace=False)
    return [there[i] for i in sorted(drawn.tolist())]


def compared(
    variants: Sequence[Variant],
    labels: Sequence[Sequence[str | None]],
    rows: Sequence[int],
    runs: Sequence[dict[str, Any]],
    texts: Sequence[str | None] | None = None,
) -> Robustness:
    """Compare the labels of variants.

    Args:
        variants: v variants.
        labels: For each variant n labels.
        rows: n rows.
        runs: Provenance of each variant's labels, see `Coded.run`.
        texts: n texts; None if unknown.
    """
    codebook = variants[0].codebook
    names = codebook.names
    v = len(variants)
    codes = _codes(labels)
    pairwise = np.array(
        [[_flips(codes[i], codes[j]) for j in range(v)] for i in range(v)]
    )
    others = pairwise[np.triu_indices(v, 1)]
    known = others[~np.isnan(others)]
    return Robustness(
        variants=tuple(each.name for each in variants),
        names=names,
        rows=list(rows),
        labels=[list(each) for each in labels],
        flips=pairwise[0],
        pairwise=pairwise,
        agreement=1 - float(known.mean()) if len(known) else math.nan,
        alpha=_alpha(labels, codebook) if v > 1 else None,
        shares=np.array([_shares(each, codebook) for each in labels]).reshape(v, -1),
        runs=list(runs),
        source=None if texts is None else Source.of(texts, labels[0]),
    )


def _codes(labels: Sequence[Sequence[str | None]]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return labels as numbers, -1 for missing ones."""
    number_of: dict[str, int] = {}
    return np.array(
        [
            [-1 if x is None else number_of.setdefault(x, len(number_of)) for x in each]
            for each in labels
        ],
        dtype=np.int64,
    ).reshape(len(labels), -1)


def _flips(one: Any, other: Any) -> float:  # noqa: ANN401 - int64[n]
    both = (one >= 0) & (other >= 0)
    return float((one[both] != other[both]).mean()) if both.any() else math.nan


def _spread(labels: Sequence[str | None]) -> float:
    known = [label for label in labels if label is not None]
    if not known:
        return math.nan
    return 1 - max(map(known.count, known)) / len(known)


def _shares(labels: Sequence[str | None], codebook: Codebook) -> list[float]:
    known = [label for label in labels if label is not None]
    if not known:
        return [math.nan] * len(codebook.names)
    if codebook.kind.is_several:
        parts = [label.split(JOINED) for label in known]
        return [
            sum(name in each for each in parts) / len(known) for name in codebook.names
        ]
    return [known.count(name) / len(known) for name in codebook.names]


def _alpha(labels: Sequence[Sequence[str | None]], codebook: Codebook) -> float | None:
    scale = codebook.kind.measured
    levels = None if codebook.kind.is_several else codebook.names
    found = krippendorff_alpha(labels, scale=scale, levels=levels, n_bootstrap=0).value
    return None if math.isnan(found) else found


def _of_all(report: Any, i: int, n: int) -> Any:  # noqa: ANN401 - functions of Progress
    """Report a variant's progress as part of the total."""

    def show(progress: Progress) -> None:
        n_total = progress.n_total
        report(
            replace(progress, n_done=i * n_total + progress.n_done, n_total=n * n_total)
        )

    return show
