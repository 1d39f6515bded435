"""Comparison of texts in pairs: `compare_pairs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from llamaherd.calls.api.running import run_to_end, start
from llamaherd.calls.api.scoring import open_context
from llamaherd.calls.asks.keywords import PairSettings
from llamaherd.calls.asks.options import ClassifyOptions
from llamaherd.calls.asks.settings import takes
from llamaherd.calls.run.hosted import HostedCall
from llamaherd.coding.pairs.design import DESIGNS, PAIRS_A_TEXT, n_pairs_of
from llamaherd.coding.pairs.question import LABELS, LAYOUT, PairQuestion, PairWork
from llamaherd.coding.pairs.run import PairRun
from llamaherd.coding.statistics.intervals import LEVEL, level_of
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.core.caller import warn_notes
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.keeping import keeping

if TYPE_CHECKING:
    from llama_cpp import Llama
    from typing_extensions import Unpack

    from llamaherd.calls.run.host import Host
    from llamaherd.calls.run.job import Job
    from llamaherd.coding.pairs.comparison import PairComparison
    from llamaherd.coding.pairs.design import Design
    from llamaherd.engine.core.stats import ProgressOption

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
    run: list[PairRun] = []

    def prepare() -> HostedCall[PairComparison]:
        run.append(
            _prepared(
                texts, question, context, n_pairs, design, labels, layout, level, settings
            )
        )
        return HostedCall(run[0].context, run[0])

    found = run_to_end(prepare, progress)
    with keeping(found):
        warn_notes(found.notes)
    return found


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
    run = _prepared(
        texts, question, context, n_pairs, design, labels, layout, level, settings
    )
    return start(lambda: HostedCall(run.context, run))


def _prepared(  # noqa: PLR0917 - the arguments of compare_pairs
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
    names, given = _named(texts)
    asked = PairQuestion.of(question, labels, layout)
    options = ClassifyOptions.of(
        PairSettings, settings, labels=list(asked.labels), on_error="continue"
    )
    most = n_pairs_of(len(given))
    if n_pairs is None:
        number = min(most, PAIRS_A_TEXT * len(given))
    else:
        number = checks.integer("n_pairs", n_pairs, min(len(given), most), most)
    work = PairWork(
        texts=given,
        names=names,
        question=asked,
        n_pairs=number,
        design=checks.choice("design", design, DESIGNS),
        seed=options.seed,
        level=level_of(level),
    )
    run = PairRun(open_context(context), work, options)
    run.check()
    return run


def _named(texts: object) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return names and texts."""
    if isinstance(texts, Mapping):
        names, values = list(map(str, texts)), list(texts.values())
    elif isinstance(texts, Sequence) and not isinstance(texts, str):
        values = list(texts)
        names = list(map(str, range(len(values))))
    # arrays and columns of numpy, pandas, polars and pyarrow
    elif hasattr(texts, "tolist"):
        values = [str(each) if isinstance(each, str) else each for each in texts.tolist()]
        names = list(map(str, range(len(values))))
    else:
        raise ArgumentTypeError(
            f"must be a list of texts, or texts by name, not {checks.shown(texts)}",
            argument="texts",
        )
    if not 2 <= len(values) <= MOST_TEXTS:
        raise ArgumentError(
            f"must have 2 to {MOST_TEXTS:,} texts, not {len(values):,}",
            argument="texts",
            code="out_of_range",
        )
    for i, each in enumerate(values):
        if not checks.text(Argument("texts", (i,)), each).strip():
            raise ArgumentError(
                "must not be blank: leave this text out",
                argument="texts",
                place=(i,),
                code="empty",
            )
    return tuple(names), tuple(values)
