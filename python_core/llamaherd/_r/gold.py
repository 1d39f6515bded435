"""Gold samples for R, which stores a sample as JSON in addition to its columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

import llamaherd as lh
from llamaherd._r.boundary import form_of, renamed
from llamaherd._r.forms import Part, fields, r_object, table_of, value, vector
from llamaherd.coding.annotation.label_sets import confidence_of
from llamaherd.coding.codes import check_names
from llamaherd.coding.gold.draw import DESIGNS, warn_of_examples
from llamaherd.coding.gold.population import match_sample
from llamaherd.coding.gold.sample import GoldSample
from llamaherd.coding.gold.sheets import read_files
from llamaherd.coding.gold.size import GoldSize, PairedSize
from llamaherd.engine.core.caller import one_warning
from llamaherd.engine.core.phrases import count_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd._r.arguments import ColumnsOfR


@form_of.register(GoldSize)
@form_of.register(PairedSize)
def _(found: GoldSize | PairedSize) -> Part:
    names = ("gold", "dsl", "ppi", "kappa")
    made = {n: vector("number", [getattr(found, n, None)]) for n in names}
    return r_object("gold_size", made, page=found)


def gold_draw(
    data: ColumnsOfR,
    n: int,
    each: Sequence[str],
    confidence: str | Sequence[float] | None,
    **options: Any,  # noqa: ANN401 - of `gold_sample`
) -> GoldSample:
    """Draw a gold sample from used columns of a data frame.

    Args:
        data: Columns, with the codebook of the labels.
        n: Number of texts to draw.
        each: Columns of probabilities if texts may have several labels, otherwise [].
        confidence: As in `gold_sample`.
        options: Other options of `gold_sample`.

    Warns:
        UserWarning: See `gold_sample`.
    """
    if each and confidence is None:
        probs = np.array([data[name] for name in each], dtype=np.float64).T  # None: NaN
        confidence = confidence_of(probs).tolist()
    codebook = data.codebook
    drawn = lh.gold_sample(dict(data), n, confidence=confidence, **options)
    if codebook is not None:
        warn_of_examples(drawn, codebook.examples)
        if codebook.kind.is_ordered:
            design = {**drawn.design, "scale": codebook.kind.measured}
            drawn = replace(drawn, design=design)
    return drawn


def gold_rows(
    data: Mapping[str, Any], gold: GoldSample, label: str | None, text: str, n: int
) -> Part:
    """Return the rows of a sample's texts in a data frame, from 1.

    Args:
        data: Columns of the data frame that identify its texts.
        gold: Sample.
        label: Column of labels; None without one, and labels are then not compared.
        text: Column of texts.
        n: Number of rows.
    """
    known, given = gold, dict(data)
    if label is None:
        known, label = replace(known, labels=[None] * len(known)), ".label"
        given[label] = [None] * n
    known.design.pop("split", None)  # all texts of the sample are looked up
    _, moved, _ = match_sample(given, known, label, text, several=known.several)
    return vector("integer", [row + 1 for row in moved.rows])


def gold_unlabelled(gold: GoldSample) -> str:
    """Return the JSON of a sample without the model's labels."""
    return replace(gold, labels=[None] * len(gold), label_marks=None).to_json()


def gold_read(
    source: Sequence[str] | Mapping[str, Sequence[Any]],
    sample: GoldSample | None,
    coders: Sequence[str] | None,
    names: Sequence[str] = (),
) -> GoldSample:
    """Read the codes of human coders.

    Args:
        source: Paths of files, or columns of a data frame.
        names: Name of each file's coder, "" for a file without a name; or the names of
            the columns.
        sample: Sample; None to read it from the sidecar of the first file.
        coders: Columns of codes; None for the default of `read_gold`.
    """
    with renamed(sample="gold"):
        check_names(names, "path")
        if isinstance(source, Mapping):
            return lh.read_gold(source, sample, coders=coders)
        given = list(names) or [""] * len(source)
        with one_warning():
            return read_files(source, given, sample, coders)


@form_of.register(GoldSample)
def _(found: GoldSample) -> Part:
    """Return a sample; row indices start at 1."""
    codes = [
        vector("text", own, name)
        for own, name in zip(found.codes, found.coders, strict=True)
    ]
    design = {
        name: value if isinstance(value, (str, bool, type(None))) else _plain(value)
        for name, value in found.design.items()
        if name != "history"
    }
    made = {
        "rows": vector("integer", [row + 1 for row in found.rows]),
        "ids": vector("text", found.ids),
        "texts": vector("text", found.texts),
        "labels": vector("text", found.labels),
        "probs": vector("number", found.probs),
        "all_probs": vector("number", found.all_probs),
        "strata": vector("integer", [row + 1 for row in found.strata[found.rows]]),
        "names": vector("text", found.names),
        "codes": {"type": "list", "parts": codes},
        "gold": vector("text", found.gold),
        **fields(found, "parts"),
        "none": found.word_of(""),
        "design": value(design),
        "history": table_of(
            found.history, "wave kind n N seed n_coded", integer="wave", text="kind"
        ),
    }
    return r_object("gold", made, page="\n".join(_page(found)), json=found.to_json())


def _page(found: GoldSample) -> list[str]:
    """Return the lines that R prints before the rows of a sample."""
    n_coded = sum(code is not None for code in found.gold)
    ends = (float(found.probs.min()), float(found.probs.max()))
    n_decimals = max(len(f"{p:.3g}".partition(".")[2]) for p in ends)
    least, most = (f"{p:.{n_decimals}f}" for p in ends)
    sizes = ", ".join(str(each["n"]) for each in found.history)
    n = f"{len(found.ids)} of {count_of(len(found.all_probs), 'text')}"
    lines = [
        f"<GoldSample: {n}, drawn {DESIGNS[found.design['kind']]}>",
        f"inclusion probabilities from {least} to {most}, seed {found.design['seed']}",
    ]
    if len(found.history) > 1:
        lines.append(f"waves of {sizes} texts")
    return [*lines, f"{n_coded} coded, by {count_of(len(found.coders), 'coder')}"]


def _plain(value: object) -> object:
    """Return numbers as floats, because R has no large integers."""
    if isinstance(value, int):
        return float(value)
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    return value
