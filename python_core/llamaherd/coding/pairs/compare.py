"""Comparison of texts in pairs: `compare_pairs`, and its rounds of prompts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from llamaherd.calls.api.classify import prepare_classify
from llamaherd.calls.api.running import open_context, run_to_end, start
from llamaherd.calls.asks.keywords import PairSettings
from llamaherd.calls.asks.options import ClassifyOptions
from llamaherd.calls.asks.settings import takes
from llamaherd.coding.annotation.call_sequence import CallSequence
from llamaherd.coding.pairs.comparison import PairComparison, comparison_of
from llamaherd.coding.pairs.design import (
    DESIGNS,
    FIELD,
    LAYOUT,
    PAIRS_A_TEXT,
    ComparedPair,
    Design,
    PairDesign,
    PairWork,
    n_pairs_of,
)
from llamaherd.coding.statistics.intervals import LEVEL, level_of
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.core.caller import warn_notes
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.keeping import keep, keep_made, keeping

if TYPE_CHECKING:
    from llama_cpp import Llama

    from llamaherd.calls.asks.scores import ClassifyResults
    from llamaherd.calls.run.host import Host
    from llamaherd.calls.run.hosted import HostedCall
    from llamaherd.calls.run.job import Job
    from llamaherd.coding.pairs.bradley_terry import Pair
    from llamaherd.engine.core.stats import ProgressOption


LABELS = ("A", "B")
_NEEDED = ("question", "first", "second")  # fields of a layout
_LEAST = -700.0  # lower bound of log-probabilities, so that log-odds are finite


class PairRun(CallSequence):
    """Comparison of texts in rounds of pairs, run as one call."""

    def __init__(self, context: Host, work: PairWork, options: ClassifyOptions) -> None:
        super().__init__(context)
        self._work = work
        self._options = options
        self._design = PairDesign(len(work.texts), work.n_pairs, work.design, work.seed)
        self.expect(2 * work.n_pairs)  # each pair is shown in both orders
        self._notes: dict[str, None] = {}

    def check(self) -> None:
        """Raise an error for invalid settings or labels, before any prompt runs."""
        self._call([])

    def run(self) -> PairComparison:
        """Compare the pairs of all rounds."""
        self._started_s = time.perf_counter()
        try:
            self._run_rounds()
            return self.result()
        except Exception as error:
            if self._design.results:
                raw = tuple(self._design.results)
                keep(error, raw, converted=True)  # if no result can be made
                keep_made(error, self.result)
            raise

    def _run_rounds(self) -> None:
        with self._opened_journal(self._options.journal):
            while not self._is_cancelled and (pairs := self._design.next()):
                self._design.take(self._compare_both_orders(pairs))
                self.raise_error()

    def result(self) -> PairComparison:
        """Return the result of all rounds so far."""
        return comparison_of(self._work, self._design, list(self._notes))

    # ---- private ----

    def _call(self, pairs: Sequence[Pair]) -> HostedCall[ClassifyResults]:
        orders = [order for i, j in pairs for order in ((i, j), (j, i))]
        prompts = [self._work.prompt(i, j) for i, j in orders]
        options = replace(self._options, journal=None)
        return prepare_classify(self.context, prompts, options, journal=self.journal)

    def _compare_both_orders(self, pairs: Sequence[Pair]) -> list[ComparedPair]:
        """Score both orders of each pair; pairs that were cancelled are left out."""
        results: ClassifyResults = self.results(
            self.start(self._call(pairs), 2 * len(pairs))
        )
        if not self._notes:
            self._notes.update(dict.fromkeys(results.notes))
        compared = (
            _pair(pair, self._design.round, results, k) for k, pair in enumerate(pairs)
        )
        return [pair for pair in compared if pair is not None]


def _pair(
    pair: Pair, number: int, results: ClassifyResults, k: int
) -> ComparedPair | None:
    """Return the result of pair k; None if the pair was cancelled."""
    at = slice(2 * k, 2 * k + 2)
    if "cancelled" in results.finish_reasons[at]:
        return None
    error = next((error for error in results.errors[at] if error is not None), None)
    logs = np.maximum(results.logprobs[at], _LEAST)
    odds = logs[:, 0] - logs[:, 1]
    return ComparedPair(
        first=pair[0],
        second=pair[1],
        round=number,
        forward=float("nan") if error else float(odds[0]),
        backward=float("nan") if error else float(-odds[1]),
        coverage=float("nan") if error else float(results.coverage[at].mean()),
        error=error,
    )


MOST_TEXTS = 5000  # the fit uses a matrix with a row and a column for each text


@takes(ClassifyOptions, PairSettings)
def compare_pairs(
    texts: Sequence[str] | Mapping[str, str],
    question: str,
    context: Host | Llama,
    *,
    n_pairs: int | None = None,
    design: Design = "adaptive",
    labels: Sequence[str] = LABELS,
    layout: str = LAYOUT,
    level: float = LEVEL,
    progress: ProgressOption = False,
    **settings: Unpack[PairSettings],
) -> PairComparison:
    """Compare texts in pairs and estimate the strength of each text.

    Each pair is scored in both orders, by the exact probabilities of both labels. The
    mean of both log-odds is the result of the pair, so that a constant preference for a
    position cancels out. Strengths follow the Bradley-Terry model: the difference of two
    strengths is the log-odds that the first text wins.

    Args:
        texts: Texts, 2 to 5,000; or texts by name. Default names are indices.
        question: The question, such as "Which text is angrier?".
        context: Context to run in; a `llama_cpp.Llama` gets its own context.
        n_pairs: Number of pairs. None for six times the number of texts, but at most all
            pairs.
        design: "adaptive": two random cycles through all texts, then rounds of the most
            informative pairs alternate with rounds of random pairs. "random": two such
            cycles, then random pairs.
        labels: Names of the first and the second text in the prompt; the model answers
            with one of them.
        layout: Text of the prompt. {question}, {first} and {second} are replaced by the
            question and the texts, {a} and {b} by the labels.
        level: Confidence level of the intervals.
        progress: As in `classify_parallel`.
        **settings: Options of classification, see `ClassifyOptions`. `seed` is also the
            seed of the design.

    Returns:
        Strengths with standard errors and intervals; the results of all pairs; position
        bias, connectedness and convergence.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range, or a text is missing or blank.
        Interrupted: Ctrl-C was pressed; `results` contains the pairs of finished rounds.
        GenerationError: As `classify_parallel`.

    Warns:
        UserWarning: Strengths contain little information, see `PairComparison.notes`.

    Source:
        Bradley, Terry, Biometrika 39, 1952; Glickman, Jensen, J. Stat. Planning and
        Inference 127, 2005 (adaptive designs).
    """
    comparison = run_to_end(
        lambda: _prepare_run(
            texts, question, context, n_pairs, design, labels, layout, level, settings
        ),
        progress,
    )
    with keeping(comparison):
        warn_notes(comparison.notes)
    return comparison


@takes(ClassifyOptions, PairSettings)
def start_compare_pairs(
    texts: Sequence[str] | Mapping[str, str],
    question: str,
    context: Host | Llama,
    *,
    n_pairs: int | None = None,
    design: Design = "adaptive",
    labels: Sequence[str] = LABELS,
    layout: str = LAYOUT,
    level: float = LEVEL,
    **settings: Unpack[PairSettings],
) -> Job[PairComparison]:
    """Start `compare_pairs` in the background and return its job; same arguments."""
    run = _prepare_run(
        texts, question, context, n_pairs, design, labels, layout, level, settings
    )
    return start(lambda: run)


def _prepare_run(  # noqa: PLR0917 - the arguments of compare_pairs
    texts: object,
    question: object,
    context: Host | Llama,
    n_pairs: object,
    design: object,
    labels: object,
    layout: object,
    level: float,
    settings: Mapping[str, Any],
) -> PairRun:
    names, values = _names_and_texts(texts)
    text, pair_labels, form = _checked_question(question, labels, layout)
    options = ClassifyOptions.of(
        PairSettings, settings, labels=list(pair_labels), on_error="continue"
    )
    most = n_pairs_of(len(values))
    if n_pairs is None:
        number = min(most, PAIRS_A_TEXT * len(values))
    else:
        number = checks.integer("n_pairs", n_pairs, min(len(values), most), most)
    work = PairWork(
        texts=values,
        names=names,
        question=text,
        labels=pair_labels,
        layout=form,
        n_pairs=number,
        design=checks.choice("design", design, DESIGNS),
        seed=options.seed,
        level=level_of(level),
    )
    run = PairRun(open_context(context), work, options)
    run.check()
    return run


def _checked_question(
    question: object, labels: object, layout: object
) -> tuple[str, tuple[str, str], str]:
    """Check question, labels and layout of prompts."""
    text = checks.not_blank("question", question)
    if isinstance(labels, str) or not isinstance(labels, Sequence):
        raise ArgumentTypeError(
            f"must be two texts, not {checks.brief(labels)}", argument="labels"
        )
    names = [checks.text("labels", label) for label in labels]
    if len(names) != 2 or names[0] == names[1] or not all(map(str.strip, names)):
        raise ArgumentError(
            f"must be two different texts, not {checks.brief(names)}",
            argument="labels",
        )
    form = checks.text("layout", layout)
    form_fields = set(FIELD.findall(form))
    missing = [f"{{{name}}}" for name in _NEEDED if name not in form_fields]
    if missing:
        raise ArgumentError(
            f"must have {', '.join(missing)}, not {checks.quoted(form)}",
            argument="layout",
            code="missing",
        )
    return text, (names[0], names[1]), form


def _names_and_texts(texts: object) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return names and texts."""
    values: Any
    if isinstance(texts, Mapping):
        names, values = tuple(map(str, texts)), list(texts.values())
    else:
        values = checks.column_as_list(texts)
        if isinstance(values, str) or not isinstance(values, Sequence):
            raise ArgumentTypeError(
                f"must be a list of texts, or texts by name, not {checks.brief(texts)}",
                argument="texts",
            )
        names = tuple(map(str, range(len(values))))
    if not 2 <= len(values) <= MOST_TEXTS:
        raise ArgumentError(
            f"must have 2 to {MOST_TEXTS:,} texts, not {len(values):,}",
            argument="texts",
            code="out_of_range",
        )
    known = [checks.text(Argument("texts", (i,)), text) for i, text in enumerate(values)]
    for i, text in enumerate(known):
        if not text.strip():
            raise ArgumentError(
                "must not be blank: leave this text out",
                argument="texts",
                place=(i,),
                code="empty",
            )
    return names, tuple(known)
