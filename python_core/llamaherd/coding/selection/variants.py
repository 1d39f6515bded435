"""Coding of the same texts in several variants, to measure how labels change."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.coding import frames
from llamaherd.coding.annotation.codebook import Codebook
from llamaherd.coding.annotation.coded import Coded
from llamaherd.coding.annotation.settings import checked_settings
from llamaherd.coding.annotation.texts import Source, checked_texts
from llamaherd.coding.estimation.estimate import estimate
from llamaherd.coding.gold.population import match_sample
from llamaherd.coding.selection.compare import (
    CodebookCandidate,
    by_name,
    check_model,
    code_in_turns,
)
from llamaherd.coding.selection.robustness import Robustness
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.core.caller import one_warning, warn_caller
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.keeping import keeping
from llamaherd.engine.core.phrases import with_commas
from llamaherd.engine.core.sampling import DEFAULT_SEED
from llamaherd.engine.core.thinking import (
    ThinkingOption,
    ThinkingWanted,
    checked_thinking,
)
from llamaherd.engine.core.words import call, name_of, setting, words

if TYPE_CHECKING:
    from llama_cpp import Llama

    from llamaherd.calls.run.host import Host
    from llamaherd.coding.estimation.estimates import Estimates
    from llamaherd.coding.estimation.outcomes import Outcome
    from llamaherd.coding.gold.sample import GoldSample
    from llamaherd.engine.core.stats import ProgressOption

    Contexts = Host | Llama | Sequence[Host | Llama] | Mapping[str, Host | Llama]

_CODED = "coded"  # name of the codebook that made the labels
_LABEL = "label"  # name of labels in formulas
_MAX_ORDERS = 1000
_OWN_ORDER = "own order"


def robustness(
    frame: Any,  # Coded, or a data frame of any kind
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
    **settings: Any,  # those of annotate
) -> Robustness:
    """Code the same texts in several variants and measure how many labels change.

    With a gold sample, also measure how much the estimates, corrected by its codes,
    differ between variants. The estimates should differ less than the shares of labels.

    Args:
        frame: Result of `annotate`, or a data frame as for `annotate`. With a result of
            `annotate`, the first variant has its codebook, settings and seed, and
            `report` accepts the variants as part of its report.
        text: Column of texts, as in `annotate`; not needed for a result of `annotate`.
        codebooks: Codebooks with the same labels but another wording; all are compared
            with the first. Pass a mapping to name them. Not needed for a result of
            `annotate`, whose codebook is the first.
        contexts: One context, or several with different models; the first must have the
            model that made the labels. Pass a mapping to name them.
        orders: Further orders of the labels to try: a number of random orders, drawn with
            `seed`, or lists of the labels. Not for an ordinal scale.
        seeds: Seeds of generation to try, with method="generate" and a temperature.
        thinking: Values of `thinking` to try, such as [False, 128, 512]; the result's
            `costs` gives the cost of each. A single value applies to all variants.
        n_texts: Number of texts to draw with `seed` from the available texts; None for
            all texts.
        seed: Seed of random orders and of the draw of texts.
        crossed: True to try all combinations; False to vary one setting at a time, with
            all other settings as in the first variant.
        gold: A sample with codes, drawn from `frame`. The result then contains for each
            variant an estimate by design-based supervised learning, from the variant's
            labels and the same codes. With `n_texts`, the codes of texts that are not
            drawn are not used.
        formula: As in `estimate`; in the formula the labels are called `label`.
        outcome: Outcome to estimate, as in `estimate`.
        progress: As in `annotate`; reports the progress over all variants.
        **settings: Further arguments of `annotate`. If `frame` is a result of `annotate`,
            these arguments replace the settings of that result.

    Returns:
        The labels of each variant, and measures of their differences.

    Warns:
        UserWarning: A variant's labels give no estimate.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The sample was drawn from other texts, or has too few codes; codebooks
            have different labels; there is only one variant; seeds are given without a
            temperature; or see `annotate`.
        Interrupted: Ctrl-C was pressed; `results` contains the finished variants, and
            `inner_results` the `Coded` of the variant that was running. If no variant is
            finished, this `Coded` is in `results`.
    """
    for name in {"columns", "journal"} & settings.keys():
        raise ArgumentTypeError(
            f"is not an argument of {call('robustness')}, which returns no "
            f"{words().frame}",
            argument=name,
            code="unknown_argument",
        )
    if contexts is None:
        raise ArgumentTypeError("must be a context, or several", argument="contexts")
    named_contexts = by_name("contexts", contexts, object, "a context")
    books = {}
    if codebooks is not None:
        books = by_name("codebooks", codebooks, Codebook, "a Codebook")
    frame, text, coded = _data(frame, text, books)
    if coded is not None:
        context = next(iter(named_contexts.values()))
        must = "must begin with a context of the model that made the labels"
        check_model(context, coded.run["model"], "contexts", must)
        books, settings, seeds = _coded_first(coded, books, settings, seeds)
    variants = variants_of(
        books,
        named_contexts,
        settings,
        orders=orders,
        seeds=seeds,
        thinking=_thinking_levels(thinking, settings),
        seed=seed,
        crossed=crossed,
    )
    for variant in variants.values():  # before the first one is coded
        checked_settings(variant.codebook, "model", variant.settings)
    column = checked_texts(frames.column(frame, text, "text"), text)
    rows = drawn_rows(column, n_texts, seed)
    texts = [column[row] for row in rows]
    codebook = next(iter(variants.values())).codebook
    if gold is not None:
        columns, gold = _estimable(frame, text, gold, rows)
    elif not (formula is None and outcome is None):
        raise ArgumentError(
            f"and {name_of('outcome')} are for estimates: these need {name_of('gold')}",
            argument="formula",
        )

    def result(coded: Mapping[str, Coded]) -> Robustness:
        with keeping(coded):
            labels = [of_one.labels for of_one in coded.values()]
            robust = Robustness(
                variants=tuple(coded),
                codebook=codebook,
                rows=rows,
                labels=labels,
                runs=[of_one.run for of_one in coded.values()],
                source=Source.of(texts, labels[0]),
            )
        if gold is None:
            return robust
        options = {"formula": formula, "outcome": outcome, "text": text}
        return _with_estimates(robust, columns, gold, options)

    return result(code_in_turns({text: texts}, variants, progress, result))


def _thinking_levels(
    thinking: object, settings: Mapping[str, Any]
) -> list[ThinkingWanted]:
    """Return the values of `thinking` to try; of several, that in `settings` is first."""
    if thinking is None:
        return []
    values = thinking if isinstance(thinking, (list, tuple)) else [thinking]
    levels: list[ThinkingWanted] = []
    for i, value in enumerate(values):
        level = checked_thinking(Argument("thinking", (i,)), value) or False
        if level in levels:
            raise ArgumentError(
                "occurs twice", argument="thinking", place=(i,), code="duplicate"
            )
        levels.append(level)
    if len(levels) == 1 or "thinking" not in settings:
        return levels
    of_call = checked_thinking("thinking", settings["thinking"]) or False
    return [of_call, *(level for level in levels if level != of_call)]


def _data(
    frame: Any,  # Coded, or a data frame of any kind
    text: str | None,
    books: Mapping[str, Any],
) -> tuple[Any, str, Coded | None]:
    """Return data frame, name of the column of texts, and the coding of this frame."""
    if isinstance(frame, Coded):
        if text not in (None, frame.text):
            raise ArgumentError(
                f"must be {checks.quoted(frame.text)}, which was coded, not "
                f"{checks.quoted(text)}",
                argument="text",
            )
        return frame.frame, frame.text, frame
    if text is None or not books:
        raise ArgumentTypeError(
            f"and {name_of('codebooks')} must be given for a {words().frame}",
            argument="text",
        )
    return frame, text, None


def _coded_first(
    coded: Coded,
    books: Mapping[str, Codebook],
    settings: Mapping[str, Any],
    seeds: Sequence[int],
) -> tuple[dict[str, Codebook], dict[str, Any], Sequence[int]]:
    """Return codebooks, settings and seeds to try, those that made the labels first."""
    first = coded.codebook
    names = (name for name, book in books.items() if book.hash == first.hash)
    others = {name: book for name, book in books.items() if book.hash != first.hash}
    settings = {**coded.run["settings"], **settings}
    if seeds and settings.get("seed") is not None:
        seeds = (settings["seed"], *seeds)
    return {next(names, _CODED): first, **others}, settings, seeds


def drawn_rows(texts: Sequence[object], n_texts: int | None, seed: int) -> list[int]:
    """Return the rows that have a text, in order: all, or `n_texts` drawn at random."""
    indices = [i for i, text in enumerate(texts) if text is not None]
    if n_texts is None:
        return indices
    n = min(checks.integer("n_texts", n_texts, 1), len(indices))
    drawn = np.random.default_rng(seed).choice(len(indices), size=n, replace=False)
    return [indices[i] for i in sorted(drawn.tolist())]


def variants_of(
    codebooks: Mapping[str, Codebook],
    contexts: Mapping[str, Any],
    settings: Mapping[str, Any] | None = None,
    *,
    orders: int | Sequence[Sequence[str]] = 0,
    seeds: Sequence[int] = (),
    thinking: Sequence[ThinkingWanted] = (),
    seed: int = DEFAULT_SEED,
    crossed: bool = False,
) -> dict[str, CodebookCandidate]:
    """Return the variants to code by name, which tells what varies: see `robustness`."""
    first = _checked_codebooks(codebooks)
    settings = dict(settings or {})
    is_drawn = settings.get("method") == "generate" and settings.get("temperature")
    if seeds and not is_drawn:
        raise ArgumentError(
            f"have an effect only with {setting('method', 'generate')} and a "
            "temperature above 0",
            argument="seeds",
        )
    label_orders = _orders(first, orders, checks.integer("seed", seed, 0, 2**32 - 1))
    all_axes: dict[str, dict[str, Any]] = {
        "codebook": dict(codebooks),
        "order": {str(i): order for i, order in enumerate(label_orders, start=1)},
        "context": dict(contexts),
        "seed": {str(seed): seed for seed in seeds},
        "thinking": {str(one.budget) if one else "off": one for one in thinking},
    }
    axes = {what: levels for what, levels in all_axes.items() if levels}
    tried = _levels_of_variants(axes, crossed=checks.flag("crossed", crossed))
    if len(tried) < 2:
        raise ArgumentError(
            "there is nothing to compare: give several codebooks or contexts, orders, "
            "seeds or values of thinking",
            argument="codebooks",
            code="missing",
            form="{problem}",
        )
    varied = [what for what, levels in axes.items() if len(levels) > 1]
    variants = {}
    for levels in tried:
        at = dict(zip(axes, levels, strict=True))
        changes = {what: axes[what][level] for what, level in at.items()}
        book, context = changes.pop("codebook"), changes.pop("context")
        order = changes.pop("order")
        if order is None:
            del at["order"]  # the name tells only of other orders
        else:
            book = replace(book, labels={name: book.definitions[name] for name in order})
        name = ", ".join(f"{what} {at[what]}" for what in varied if what in at)
        variants[name or _OWN_ORDER] = CodebookCandidate(
            codebook=book, context=context, settings={**settings, **changes}
        )
    return variants


def _levels_of_variants(
    axes: Mapping[str, Mapping[str, Any]], *, crossed: bool
) -> list[tuple[str, ...]]:
    """Return the levels of each variant: all combinations, or one change at a time."""
    levels = [list(names) for names in axes.values()]
    if crossed:
        return list(product(*levels))
    base = tuple(names[0] for names in levels)
    return [base] + [
        (*base[:i], name, *base[i + 1 :])
        for i, names in enumerate(levels)
        for name in names[1:]
    ]


def _checked_codebooks(codebooks: Mapping[str, Codebook]) -> Codebook:
    first = next(iter(codebooks.values()))
    if first.kind.is_generated:
        raise ArgumentError(
            f"{call('robustness')} compares labels; a codebook of fields has none",
            argument="codebooks",
            code="conflict",
            form="{problem}",
        )
    for name, book in codebooks.items():
        if set(book.names) != set(first.names) or book.type != first.type:
            raise ArgumentError(
                f"must have the same labels and type; {checks.quoted(name)} is of type "
                f"{checks.quoted(book.type)} with {with_commas(book.names)}; the "
                "first is of type "
                f"{checks.quoted(first.type)} with {with_commas(first.names)}",
                argument="codebooks",
            )
    return first


def _orders(
    codebook: Codebook, orders: object, seed: int
) -> list[tuple[str, ...] | None]:
    """Return orders of labels to try; the first, None, is each codebook's own order."""
    names = codebook.names
    if isinstance(orders, Sequence) and not isinstance(orders, str):
        further = []
        for i, order in enumerate(orders):
            if not isinstance(order, (list, tuple)) or sorted(order) != sorted(names):
                raise ArgumentError(
                    f"must have each label once, not {checks.brief(order)}",
                    argument="orders",
                    place=(i,),
                )
            further.append(tuple(order))
    else:
        n = checks.integer("orders", orders, 0, _MAX_ORDERS)
        n = min(n, math.factorial(min(len(names), 10)) - 1)
        generator = np.random.default_rng(seed)
        seen = {names}
        while len(seen) <= n:
            seen.add(tuple(names[i] for i in generator.permutation(len(names))))
        further = sorted(seen - {names})
    if further and codebook.kind.is_ordered:
        raise ArgumentError(
            "cannot be combined with an ordinal scale, whose order has a meaning",
            argument="orders",
            code="conflict",
        )
    return [None, *further]


def _estimable(
    frame: Any,  # a data frame of any kind
    text: str,
    gold: GoldSample,
    rows: Sequence[int],
) -> tuple[dict[str, list[Any]], GoldSample]:
    """Check that a sample fits; return the columns, and the sample without labels.

    Variants have other labels than the draw.
    """
    columns = {name: frames.column(frame, name, "frame") for name in frames.names(frame)}
    columns[_LABEL] = [None] * len(columns[text])
    gold = replace(gold, labels=[None] * len(gold), label_marks=None)
    _, moved, _ = match_sample(columns, gold, _LABEL, text, several=gold.several)
    here = set(rows)
    coded = zip(moved.rows, moved.gold, strict=True)
    if sum(code is not None and row in here for row, code in coded) < 2:
        raise ArgumentError(
            "has fewer than two codes of the texts to be coded", argument="gold"
        )
    return columns, gold


def _with_estimates(
    robust: Robustness,
    columns: Mapping[str, list[Any]],
    gold: GoldSample,
    options: Mapping[str, Any],
) -> Robustness:
    """Add an estimate by DSL from the labels of each variant; warn where it fails."""
    options = {"methods": ("dsl",), "several": robust.codebook.kind.is_several, **options}
    estimates: list[Estimates | None] = []
    with keeping(robust), one_warning():
        for variant, labels in zip(robust.variants, robust.labels, strict=True):
            column: list[str | None] = [None] * len(columns[_LABEL])
            for row, label in zip(robust.rows, labels, strict=True):
                column[row] = label
            data = {**columns, _LABEL: column}
            estimated = None
            try:
                with warnings.catch_warnings():
                    # the notes contain the same information
                    warnings.simplefilter("ignore", UserWarning)
                    estimated = estimate(data, gold, label=_LABEL, **options)
            except ValueError as error:
                name = checks.quoted(variant)
                warn_caller(f"The variant {name} has no estimate: {error}")
            estimates.append(estimated)
    return replace(robust, estimates=tuple(estimates))
