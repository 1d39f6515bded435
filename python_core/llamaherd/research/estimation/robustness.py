"""How far labels depend on words, on the order of labels, on the model, on chance."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.api.progress import reporter
from llamaherd.api.scoring import open_context
from llamaherd.core import checks
from llamaherd.core.errors import Interrupted
from llamaherd.core.sampling import DEFAULT_SEED
from llamaherd.research import frames
from llamaherd.research.coding.annotate import annotated
from llamaherd.research.coding.codebook import JOINED, Codebook
from llamaherd.research.coding.coded import Coded
from llamaherd.research.coding.source import Source
from llamaherd.research.coding.texts import checked_texts
from llamaherd.research.coding.variants import named, variants_of
from llamaherd.research.estimation.estimate import estimate, joined
from llamaherd.research.estimation.estimates import TITLES
from llamaherd.research.estimation.starting import Start, check_model, start_from
from llamaherd.research.statistics.krippendorff import krippendorff_alpha

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llama_cpp import Llama

    from llamaherd.api.progress import ProgressOption
    from llamaherd.core.calibration import Floats
    from llamaherd.core.stats import Progress
    from llamaherd.research.coding.variants import Variant
    from llamaherd.research.estimation.estimates import Estimates
    from llamaherd.research.estimation.gold_drawn import GoldSample
    from llamaherd.research.estimation.outcomes import Outcome
    from llamaherd.research.statistics.ratings import Scale
    from llamaherd.run.host import Host

    Contexts = Host | Llama | Sequence[Host | Llama] | Mapping[str, Host | Llama]

_LABEL = "label"  # what formulas call labels


@dataclass(frozen=True, kw_only=True, eq=False)
class Robustness:
    """The labels of n texts under v variants, and how much they differ.

    Attributes:
        variants: v names; the first is what the others are compared with.
        names: The k labels.
        rows: int[n], rows of the data frame that were coded.
        labels: For each variant n labels; None: failed.
        flips: float64[v], share of texts whose label is not that of the first variant, of
            those that have both; NaN where there are none.
        pairwise: float64[v, v], the same for each pair.
        agreement: Mean over all pairs of the share of equal labels.
        alpha: Krippendorff's alpha, of variants as coders; of an ordinal scale the
            ordinal one; None: it could not be computed.
        shares: float64[v, k], share of each label among the texts that have one.
        runs: How each variant's labels came about, see `Coded.run`.
        estimates: v estimates by its labels and the codes of a gold sample; None where
            there is none; () without a sample.
        source: Texts and labels of the first variant; None: not known.
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
        """Each estimate as what `Estimate` has, with its variant: for a data frame."""
        return [
            {"variant": name, **row}
            for name, found in zip(self.variants, self.estimates, strict=False)
            for row in (found.to_dicts() if found is not None else ())
        ]

    @property
    def ranges(self) -> Floats:
        """float64[k, 2]: smallest and largest share of each label."""
        return np.stack([self.shares.min(axis=0), self.shares.max(axis=0)], axis=1)

    @property
    def unstable(self) -> Floats:
        """float64[n]: share of variants without the most frequent label of each text."""
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
        return "\n".join([*lines, *self._estimated(wide)])

    def _estimated(self, wide: int) -> list[str]:
        """What labels and codes say together, and how far that depends on the variant."""
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
    n_texts: int | None = None,
    seed: int = DEFAULT_SEED,
    crossed: bool = False,
    gold: GoldSample | None = None,
    formula: str | None = None,
    outcome: Outcome | None = None,
    progress: ProgressOption = False,
    **settings: Any,  # noqa: ANN401 - those of annotate
) -> Robustness:
    """Codes the same texts in several ways and tells how many labels change.

    With a gold sample it tells, too, how far estimates that are corrected by its codes
    depend on the way: less than the shares of labels, if all is well.

    Args:
        frame: What `annotate` returned: the first variant is how these labels were made,
            with their codebook, settings and seed, so that `report` takes the result. Or
            a data frame, as there.
        text: As in `annotate`; not needed for what it returned.
        codebooks: The same labels in other words; the first is what the others are
            compared with. A mapping gives them names. Not needed for what `annotate`
            returned, whose codebook is the first.
        contexts: One, or several of other models; the first on the model that labels were
            made by. A mapping gives them names.
        orders: Orders of the labels to try beside the codebook's own: so many, drawn by
            `seed`, or lists of the labels. Not for an ordinal scale.
        seeds: With method="generate" and a temperature: to draw with.
        n_texts: How many texts to draw, by `seed`, of those that are there; None: all.
        seed: Of orders and texts.
        crossed: Try all combinations; otherwise each alone, the others as in the first.
        gold: A sample with codes, drawn from `frame`: adds an estimate by DSL for each
            variant, from its labels and the same codes. With `n_texts` only the codes of
            texts that are drawn count.
        formula: As in `estimate`; labels are called `label` in it.
        outcome: As there.
        progress: As in `annotate`, over all variants.
        **settings: Further arguments of `annotate`; in place of those that labels were
            made with.

    Returns:
        The labels of each variant, and how much they differ.

    Warns:
        UserWarning: A variant's labels give no estimate.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The sample is of other texts, or has hardly a code. Codebooks have
            other labels; there is nothing to compare; seeds without a temperature;
            otherwise as `annotate`.
        Interrupted: Ctrl-C; its `results` has the variants that were finished, None if
            there is not even the first.
    """
    for name in ("columns", "journal"):
        if name in settings:
            raise TypeError(f"robustness() takes no {name}: it returns no data frame")
    if contexts is None:
        raise TypeError("contexts must be a context, or several")
    places = named("contexts", contexts, object)
    given = list(places.values())
    books = {} if codebooks is None else named("codebooks", codebooks, Codebook)
    if isinstance(frame, Coded):
        check_model(frame.run, open_context(given[0]).model)
        start = start_from(frame.run, books, settings, seeds)
    else:
        start = Start(codebooks=books, settings=settings, seeds=list(seeds))
    frame, text = _data(frame, text, books)
    made = variants_of(
        start.codebooks,
        list(places),
        orders=orders,
        seeds=start.seeds,
        seed=seed,
        crossed=crossed,
        is_drawn=start.is_drawn,
    )
    column = checked_texts(frames.column(frame, text, "text"), text)
    rows = drawn_rows(column, n_texts, seed)
    texts = {text: [column[row] for row in rows]}
    judge = None if gold is None else Judge.of(frame, text, gold, rows)
    if judge is None and not (formula is None and outcome is None):
        raise ValueError("formula and outcome are for estimates: these need gold")

    def told() -> Robustness:
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
                    **{**start.settings, **drawn},
                )
            except Interrupted:
                raise Interrupted(told() if labels else None) from None
            labels.append(coded.labels)
            runs.append(coded.run)
    return told()


def _data(frame: Any, text: str | None, books: Mapping[str, Any]) -> tuple[Any, str]:  # noqa: ANN401
    """The data frame, and the name of its column of texts."""
    if isinstance(frame, Coded):
        if text not in (None, frame.text):
            raise ValueError(f"text is {frame.text!r}, which was coded, not {text!r}")
        return frame.frame, frame.text
    if text is None or not books:
        raise TypeError("text and codebooks must be given for a data frame")
    return frame, text


@dataclass(frozen=True, kw_only=True, eq=False)
class Judge:
    """Estimates by the codes of a gold sample.

    Attributes:
        columns: Of the data frame.
        text: Name of the column of texts.
        gold: The sample.
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
        """Checks that the sample fits, before anything is coded.

        Raises:
            ValueError: It is of other texts, or has hardly a code of these.
        """
        names = frames.names(frame)
        columns = {name: frames.column(frame, name, "frame") for name in names}
        columns[_LABEL] = [None] * len(columns[text])
        gold = replace(gold, labels=[None] * len(gold))  # those of variants are others
        _, moved, _ = joined(columns, gold, _LABEL, text, several=gold.several)
        here = set(rows)
        coded = zip(moved.rows, moved.gold, strict=True)
        if sum(code is not None and row in here for row, code in coded) < 2:
            raise ValueError("gold has fewer than two codes of the texts to be coded")
        return cls(columns=columns, text=text, gold=gold, rows=rows)

    def estimates(
        self,
        labels: Sequence[str | None],
        codebook: Codebook,
        formula: str | None,
        outcome: Outcome | None,
    ) -> Estimates | None:
        """By DSL from n labels; None if they give none, with a warning."""
        column: list[str | None] = [None] * len(self.columns[self.text])
        for row, label in zip(self.rows, labels, strict=True):
            column[row] = label
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # notes tell the same
                return estimate(
                    {**self.columns, _LABEL: column},
                    self.gold,
                    formula,
                    outcome,
                    methods=("dsl",),
                    label=_LABEL,
                    text=self.text,
                    several=codebook.type == "multiple",
                )
        except ValueError as error:
            warnings.warn(f"a variant has no estimate: {error}", stacklevel=4)
            return None


def drawn_rows(texts: Sequence[object], n_texts: int | None, seed: int) -> list[int]:
    """Rows that have a text, in their order: all, or so many drawn by the seed."""
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
    """What the labels of variants say together.

    Args:
        variants: v of them.
        labels: For each of them n.
        rows: n.
        runs: v.
        texts: n; None: not known.
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
    """Labels as numbers, -1 for none."""
    place: dict[str, int] = {}
    return np.array(
        [
            [-1 if x is None else place.setdefault(x, len(place)) for x in each]
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
    if codebook.type == "multiple":
        parts = [label.split(JOINED) for label in known]
        return [
            sum(name in each for each in parts) / len(known) for name in codebook.names
        ]
    return [known.count(name) / len(known) for name in codebook.names]


def _alpha(labels: Sequence[Sequence[str | None]], codebook: Codebook) -> float | None:
    scale: Scale = "ordinal" if codebook.type == "ordinal" else "nominal"
    levels = None if codebook.type == "multiple" else codebook.names
    found = krippendorff_alpha(labels, scale=scale, levels=levels, n_bootstrap=0).value
    return None if math.isnan(found) else found


def _of_all(report: Any, i: int, n: int) -> Any:  # noqa: ANN401 - functions of Progress
    """Tells of a variant's progress as part of all variants'."""

    def show(progress: Progress) -> None:
        n_total = progress.n_total
        report(
            replace(progress, n_done=i * n_total + progress.n_done, n_total=n * n_total)
        )

    return show
