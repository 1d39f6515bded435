"""Gold samples for R, which stores a sample as JSON in addition to its columns."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd._r.boundary import boundary, form_of, renamed
from llamaherd._r.forms import Part, r_object, table_of, value, vector
from llamaherd.coding.annotation.codebook import Codebook
from llamaherd.coding.annotation.label_sets import confidence_of
from llamaherd.coding.codes import check_names
from llamaherd.coding.estimation.estimate_inputs import joined
from llamaherd.coding.estimation.gold import gold_sample, warn_of_examples
from llamaherd.coding.estimation.gold_drawn import GoldSample
from llamaherd.coding.estimation.gold_read import read_files, read_gold
from llamaherd.coding.frames import Categories
from llamaherd.coding.statistics import gold_size as gold_sizes
from llamaherd.coding.statistics.gold_size import GoldSize, PairedSize
from llamaherd.engine.core.caller import one_warning
from llamaherd.engine.core.phrases import count_of

if TYPE_CHECKING:
    from collections.abc import Sequence


Size = GoldSize | PairedSize


@boundary
def gold_size(width: float | None, options: Mapping[str, Any]) -> Size:
    """Return the number of texts to code."""
    given: Any = {**options, **({} if width is None else {"width": width})}
    found: Size = gold_sizes.gold_size(**given)
    return found


@form_of.register(GoldSize)
@form_of.register(PairedSize)
def _(found: Size) -> Part:
    names = ("gold", "dsl", "ppi", "kappa")
    made = {n: vector("number", [getattr(found, n, None)]) for n in names}
    return r_object("gold_size", made, page=found)


@boundary
def gold_draw(
    columns: Mapping[str, Sequence[Any]], n: int, options: Mapping[str, Any]
) -> GoldSample:
    """Draw a gold sample.

    Args:
        columns: Used columns of the data frame.
        n: Number of texts to draw.
        options: Options of `gold_sample`. `each`: columns of probabilities if texts may
            have several labels, otherwise []. `codebook`: JSON or None. `after`: sample
            as JSON, or None.

    Warns:
        UserWarning: See `gold_sample`.
    """
    arguments = dict(options)
    if arguments.get("after") is not None:
        arguments["after"] = GoldSample.from_json(arguments["after"])
    each = [columns[name] for name in arguments.pop("each")]
    if each and arguments["confidence"] is None:
        probs = np.array(each, dtype=np.float64).T  # None becomes NaN
        arguments["confidence"] = confidence_of(probs).tolist()
    if isinstance(arguments.get("allocation"), dict):
        sizes = arguments["allocation"]
        arguments["allocation"] = {name: int(size) for name, size in sizes.items()}
    content = arguments.pop("codebook")
    levels = {name: arguments.pop(name, None) for name in ("levels", "ordered")}
    data = with_levels(columns, {"label": arguments["label"], **levels})
    drawn = gold_sample(data, n, **arguments)
    if content is not None:
        codebook = Codebook.from_dict(json.loads(content))
        warn_of_examples(drawn, codebook.examples)
        if codebook.kind.is_ordered:
            design = {**drawn.design, "scale": codebook.kind.measured}
            drawn = replace(drawn, design=design)
    return drawn


@boundary
def gold_rows(
    columns: Mapping[str, Sequence[Any]], sample: str, options: Mapping[str, Any]
) -> Part:
    """Return the rows of a sample's texts in a data frame, from 1.

    Args:
        columns: Columns of the data frame that identify its texts.
        sample: Sample as JSON.
        options: `label` and `text`, names of columns. If there is no label column, `n`
            is the number of rows, and labels are not compared.
    """
    known, given = GoldSample.from_json(sample), dict(columns)
    label = options["label"]
    if label is None:
        known, label = replace(known, labels=[None] * len(known)), ".label"
        given[label] = [None] * int(options["n"])
    known.design.pop("split", None)  # all texts of the sample are looked up
    _, moved, _ = joined(given, known, label, options["text"], several=known.several)
    return vector("integer", [row + 1 for row in moved.rows])


@boundary
def gold_unlabelled(sample: str) -> str:
    """Return the JSON of a sample without the model's labels."""
    known = GoldSample.from_json(sample)
    return replace(known, labels=[None] * len(known), label_marks=None).to_json()


@boundary
def gold_write(sample: str, path: str, options: Mapping[str, Any]) -> None:
    """Write a sample, given as JSON, to a CSV file and its sidecar."""
    GoldSample.from_json(sample).write(path, **options)


@boundary
def gold_read(
    source: Sequence[str] | Mapping[str, Sequence[Any]],
    sample: str | None,
    coders: Sequence[str] | None,
    names: Sequence[str] = (),
) -> GoldSample:
    """Read the codes of human coders.

    Args:
        source: Paths of files, or columns of a data frame.
        names: Name of each file's coder, "" for a file without a name; or the names of
            the columns.
        sample: Sample as JSON; None to read it from the sidecar of the first file.
        coders: Columns of codes; None for the default of `read_gold`.
    """
    known = None if sample is None else GoldSample.from_json(sample)
    with renamed(sample="gold"):
        check_names(names, "path")
        if isinstance(source, Mapping):
            return read_gold(source, known, coders=coders)
        given = list(names) or [""] * len(source)
        with one_warning():
            return read_files(source, given, known, coders)


class ColumnsOfR(dict[str, Any]):
    """Columns of coded texts, with the codebook of the labels, as `Coded` has it.

    Attributes:
        codebook: The codebook; None if the labels have no record.
    """

    def __init__(
        self, columns: Mapping[str, Sequence[Any]], codebook: str | None
    ) -> None:
        super().__init__(columns)
        self.codebook: Codebook | None = None
        if codebook is not None:
            self.codebook = Codebook.from_dict(json.loads(codebook))


def with_levels(
    columns: Mapping[str, Sequence[Any]], options: Mapping[str, Any]
) -> ColumnsOfR:
    """Return a data frame whose label column is categorical if R's column is a factor."""
    made = ColumnsOfR(columns, options.get("codebook"))
    label, levels = options.get("label"), options.get("levels")
    if label is not None and levels is not None:
        made[label] = Categories(
            values=made[label], names=tuple(levels), ordered=bool(options.get("ordered"))
        )
    return made


@form_of.register
def _(found: GoldSample) -> Part:
    """Return a sample; row indices start at 1."""
    waves = {"wave": "integer", "kind": "text"}
    waves |= dict.fromkeys(("n", "N", "seed", "n_coded"), "number")
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
        "parts": value(None) if found.parts is None else vector("text", found.parts),
        "none": value(found.word_of("")),
        "design": value(design),
        "history": table_of(found.history, waves),
    }
    return r_object("gold", made, page="\n".join(_page(found)), json=found.to_json())


_DRAWN = {
    "simple": "simply",
    "stratified": "in strata",
    "uncertainty": "by uncertainty",
    "weights": "by weights",
    "given": "by the probabilities given",
    "waves": "in waves of different designs",
}


def _page(found: GoldSample) -> list[str]:
    """Return the lines that R prints before the rows of a sample."""
    n_coded = sum(code is not None for code in found.gold)
    ends = (float(found.probs.min()), float(found.probs.max()))
    n_decimals = max(len(f"{p:.3g}".partition(".")[2]) for p in ends)
    least, most = (f"{p:.{n_decimals}f}" for p in ends)
    sizes = ", ".join(str(each["n"]) for each in found.history)
    n = f"{len(found.ids)} of {count_of(len(found.all_probs), 'text')}"
    lines = [
        f"<GoldSample: {n}, drawn {_DRAWN[found.design['kind']]}>",
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
