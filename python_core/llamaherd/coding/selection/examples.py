"""Examples for a codebook, from the texts of "explore"."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from llamaherd.coding.annotation.annotate import annotate_quietly
from llamaherd.coding.annotation.codebook import Codebook, Example, checked_codebook
from llamaherd.coding.annotation.texts import is_blank, same_rows
from llamaherd.coding.codes import numbers_of
from llamaherd.coding.selection.compare import check_codebook, checked_names
from llamaherd.coding.selection.measures import (
    checked_measure,
    compare,
    effect_of_examples,
    is_of_numbers,
    note,
)
from llamaherd.coding.selection.parts import PartCodes, codes_of_part, opened_sample
from llamaherd.engine.core import checks
from llamaherd.engine.core.caller import warn_caller
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.phrases import count_of, shape_of
from llamaherd.engine.core.progress import say
from llamaherd.engine.core.words import setting

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from llama_cpp import Llama

    from llamaherd.calls.run.host import Host
    from llamaherd.coding.annotation.coded import Coded
    from llamaherd.coding.gold.sample import GoldSample
    from llamaherd.engine.core.arrays import Floats

By = Literal["diverse", "hardest"]
BY: tuple[By, ...] = ("diverse", "hardest")
_SIZE = 3  # number of characters of an n-gram
_LEAST_NORM = 1e-12
_LEAST = 2  # minimum number of texts to measure the effect of examples


def choose_examples(
    gold: GoldSample | str | os.PathLike[str],
    k: int,
    codebook: Codebook,
    *,
    by: By = "diverse",
    coded: Any = None,  # Coded, or what is like it
    embeddings: Any = None,  # array-like
    context: Host | Llama | None = None,
    **settings: Any,  # those of annotate
) -> Codebook:
    """Add coded texts of "explore" to a codebook as examples.

    Examples are chosen from each label in turn, so that all labels have about the same
    number of examples. For each label, "diverse" begins with the most typical text, which
    is nearest to the other texts of the label. In each further turn, "diverse"
    adds, among the texts of the label, the text that is farthest from all examples so
    far. "hardest" begins with the texts that the model labelled wrongly, in the order of
    its confidence in the wrong label, the highest first. "hardest" then uses the texts
    whose right label has the lowest probability. Texts that also occur in "select" or
    "evaluate" are never used.

    Examples can make labels worse, above all of small models: on 33 news texts, 8
    examples changed the accuracy of one model from 0.70 to 0.55, and that of another
    one from 0.61 to 1.00 (benchmarks/examples_effect.py). With `context` the other
    coded texts of "explore" are coded with and without the examples, and a warning
    states the change of the accuracy, unless it is a clear gain, which a line on stderr
    states. `compare_codebooks` measures the change on the texts of "select".

    Args:
        gold: Sample with codes, split by `gold_split`; or the path of its CSV file.
        k: Number of examples.
        codebook: Codebook to extend. The codebook's own examples remain, before the new
            examples.
        by: "diverse" or "hardest".
        coded: For "hardest": result of `annotate` that contains labels of these texts.
        embeddings: For "diverse": a vector for each text of the whole sample, in the
            order of the sample, see `embed_parallel`. None uses distances by character
            trigrams: 1 minus the cosine similarity, weighted by rarity.
        context: Context of the model, to measure the effect of the examples. None does
            not measure it.
        **settings: Further arguments of `annotate` for this measurement.

    Returns:
        A codebook with k more examples, or with fewer examples and a warning if there are
        not enough coded texts.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The sample has no split, or no codes of "explore"; the codebook has
            other labels; or an argument is missing or not used with this `by`.

    Warns:
        UserWarning: There are fewer texts than requested examples; or the examples do
            not clearly improve the labels, with the measured change.
    """
    sample = opened_sample(gold)
    _check_use(by, k, codebook, coded, embeddings)
    for name in checked_names(settings) if context is None else ():
        raise ArgumentTypeError(
            "is used only with a context", argument=name, code="conflict"
        )
    check_codebook("codebook", codebook, sample)
    codes = codes_of_part(sample, "explore")
    groups = _by_label(codes, _free(codes, sample, codebook))
    if by == "hardest":
        chosen = _in_turns(_hardest(codes, coded, groups), k, lambda group, _: group[0])
    elif embeddings is None:
        chosen = _diverse(text_distances(codes.texts), groups, k)
    else:
        vectors = checked_vectors(embeddings, len(sample))
        at = {identifier: i for i, identifier in enumerate(sample.ids)}
        vectors = vectors[[at[identifier] for identifier in codes.ids]]
        chosen = _diverse(vector_distances(vectors), groups, k)
    if not chosen:
        raise ArgumentError(
            "has no coded text of explore that can be an example",
            argument="gold",
            code="too_few",
        )
    if len(chosen) < k:
        warn_caller(note("few_examples", n=len(chosen), k=k))
    examples = [
        Example(codes.texts[i], list(labels) if codes.several else labels[0])
        for i in chosen
        for labels in [codes.right[i]]
    ]
    book = replace(codebook, examples=(*codebook.examples, *examples))
    if context is not None:
        effect, is_gain = effect_on_others(sample, codebook, book, context, settings)
        if is_gain:
            say(f"llamaherd: {effect}")
        else:
            warn_caller(effect)
    return book


def effect_on_others(
    gold: GoldSample,
    before: Codebook,
    after: Codebook,
    context: Host | Llama,
    settings: Mapping[str, Any],
) -> tuple[str, bool]:
    """Code the other texts of "explore" with and without the new examples.

    Return a note on the effect of the examples, and True for a clear gain.
    """
    n = len(after.examples) - len(before.examples)
    measure = checked_measure(None, [before])
    codes = codes_of_part(gold, "explore", as_numbers=is_of_numbers(measure))
    rows = same_rows(codes.texts, [example.text for example in after.examples])
    codes = codes.at(np.setdiff1d(np.arange(len(codes)), rows))
    if len(codes) < _LEAST:
        return note("unmeasured_effect", n=n), False
    labels = [
        annotate_quietly({"text": codes.texts}, "text", book, context, **settings)
        for book in (before, after)
    ]
    paired = compare(labels, codes, measure, adjust="none")
    values = [measured.value for measured in paired.values]
    difference = paired.differences[0].turned()
    texts = f" on {count_of(len(codes), 'other text')} of explore"
    effect = effect_of_examples(n, measure, values, difference, texts=texts)
    is_gain = difference.verdict(measure) == "better"
    return effect if is_gain else f"{effect}. Try other examples, or none", is_gain


def _check_use(
    by: object, k: object, codebook: object, coded: object, embeddings: object
) -> None:
    """Check the arguments that select examples."""
    checks.choice("by", by, BY)
    checks.integer("k", k, 1, 10_000)
    checked_codebook(codebook)
    if (coded is None) == (by == "hardest"):
        problem = "is needed" if coded is None else "is not used"
        raise ArgumentError(
            f"{problem} with {setting('by', by)}", argument="coded", code="conflict"
        )
    if embeddings is not None and by != "diverse":
        raise ArgumentError(
            f"are not used with {setting('by', by)}",
            argument="embeddings",
            code="conflict",
        )


def _free(codes: PartCodes, gold: GoldSample, codebook: Codebook) -> list[int]:
    """Return texts that can be examples: each once, none of another part, no tie."""
    taken = [example.text for example in codebook.examples]
    parts = zip(gold.texts, gold.parts or (), strict=True)
    taken += [text for text, part in parts if text is not None and part != "explore"]
    not_free = {*same_rows(codes.texts, taken), *codes.ties}
    seen: set[str] = set()
    free = []
    for i, text in enumerate(codes.texts):
        form = " ".join(text.split())
        if i not in not_free and form not in seen and not is_blank(text):
            free.append(i)
        seen.add(form)
    return free


def _by_label(codes: PartCodes, free: Sequence[int]) -> list[list[int]]:
    """Return the texts of each label, or set of labels, in the order of the labels."""
    keys = [codes.right[i] for i in free]
    ranks = {name: j for j, name in enumerate(codes.names)}
    order = sorted(set(keys), key=lambda key: [ranks.get(name, -1) for name in key])
    return [[i for i in free if codes.right[i] == key] for key in order]


def _in_turns(
    groups: Sequence[Sequence[int]], k: int, pick: Callable[[list[int], list[int]], int]
) -> list[int]:
    """Return k texts, one of each label in turn.

    `pick` gets the texts of a label that are left and, after its first turn, all chosen.
    """
    left = [list(group) for group in groups]
    chosen: list[int] = []
    turn = 0
    while len(chosen) < k and any(left):
        for group in left:
            if group and len(chosen) < k:
                text = pick(group, chosen if turn else [])
                chosen.append(text)
                group.remove(text)
        turn += 1
    return chosen


def _hardest(
    codes: PartCodes, coded: object, groups: Sequence[Sequence[int]]
) -> list[list[int]]:
    """Return the texts of each label, the hardest first, texts without a label last."""
    texts, labels = codes.labelled(coded, partly=True)
    answers = texts.sets_of(labels.labels)
    rows = {identifier: row for row, identifier in enumerate(texts.ids)}

    def hardness(i: int) -> tuple[float, float]:
        row, right = rows.get(codes.ids[i]), codes.right[i]
        if row is None or answers[row] is None:
            return (2.0, 0.0)
        return (float(answers[row] == right), _confidence(labels, row, right))

    return [sorted(group, key=hardness) for group in groups]


def _confidence(coded: Coded, row: int, right: Sequence[str]) -> float:
    """Return the probability of the right labels: small for confident errors."""
    if coded.probs is None:
        return 0.0
    several = coded.codebook.type == "multiple"
    confidences = [
        prob if name in right else 1 - prob
        for name, prob in zip(coded.names, coded.probs[row], strict=True)
        if several or name in right
    ]
    return float(np.min(confidences)) if confidences else 0.0


def _diverse(distances: Floats, groups: Sequence[Sequence[int]], k: int) -> list[int]:
    """Return texts that are far from each other, one of each label in turn."""

    def pick(group: list[int], chosen: list[int]) -> int:
        if not chosen:  # the most typical text
            return group[int(distances[np.ix_(group, group)].mean(axis=1).argmin())]
        return group[int(distances[np.ix_(group, chosen)].min(axis=1).argmax())]

    return _in_turns(groups, k, pick)


def text_distances(texts: Sequence[str]) -> Floats:
    """Return 1 - cosine similarity of character trigrams, float64[n, n].

    Case and the length of whitespace are ignored. A trigram that occurs c times in a
    text, and in d of the n texts, has the weight
    (1 + log(c)) * (1 + log((1 + n) / (1 + d))) in this text.

    Source: Salton, Buckley, "Term-weighting approaches in automatic text retrieval", Inf.
    Process. Manag. 24, 1988.
    """
    counts = [Counter(_grams(text)) for text in texts]
    n_with = Counter(gram for gram_counts in counts for gram in gram_counts)
    column = {gram: j for j, gram in enumerate(n_with)}
    weights = {gram: np.log((1 + len(texts)) / (1 + n)) + 1 for gram, n in n_with.items()}
    vectors = np.zeros((len(texts), len(column)))
    for i, gram_counts in enumerate(counts):
        for gram, n in gram_counts.items():
            vectors[i, column[gram]] = (1 + np.log(n)) * weights[gram]
    return vector_distances(vectors)


def vector_distances(vectors: Floats) -> Floats:
    """Return 1 - cosine similarity of rows, float64[n, n]; it is 1 for a row of zeros."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(
        vectors, norms, out=np.zeros_like(vectors), where=norms > _LEAST_NORM
    )
    return np.asarray(np.clip(1 - unit @ unit.T, 0.0, 2.0))


def _grams(text: str) -> list[str]:
    plain = f" {' '.join(text.casefold().split())} "
    return [plain[i : i + _SIZE] for i in range(max(1, len(plain) - _SIZE + 1))]


def checked_vectors(embeddings: object, n: int) -> Floats:
    """Return embeddings of n texts as float64[n, d]."""
    vectors = numbers_of(embeddings, "embeddings")
    if vectors.ndim != 2 or len(vectors) != n or vectors.shape[1] == 0:
        raise ArgumentError(
            f"must have a row of numbers for each of the {count_of(n, 'text')} of the "
            f"sample, not {shape_of(vectors.shape)}",
            argument="embeddings",
            code="wrong_length",
        )
    if not np.isfinite(vectors).all():
        raise ArgumentError("must be finite", argument="embeddings", code="out_of_range")
    return vectors
