"""Gold samples and estimates. A sample goes to R and back as JSON, beside its columns."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd._r.boundary import boundary, clean, clean_or_none
from llamaherd.research.coding.codebook import Codebook
from llamaherd.research.coding.label_sets import confidence_of
from llamaherd.research.estimation import estimate as estimating
from llamaherd.research.estimation.fitting import fit_regression
from llamaherd.research.estimation.formulas import Matrices
from llamaherd.research.estimation.gold import gold_sample, warn_of_examples
from llamaherd.research.estimation.gold_drawn import GoldSample
from llamaherd.research.estimation.gold_read import read_gold
from llamaherd.research.estimation.gold_use import used_gold
from llamaherd.research.estimation.one_form import in_one_form
from llamaherd.research.frames import Categories
from llamaherd.research.statistics import sampling

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.research.estimation.estimates import Estimates
    from llamaherd.research.statistics.sampling import Floats


@boundary
def gold_size(width: float, options: Mapping[str, Any]) -> dict[str, Any]:
    """How many texts to code; `line` says it."""
    size = sampling.gold_size(width, **options)
    return {
        "gold": float(size.gold),
        "dsl": None if size.dsl is None else float(size.dsl),
        "ppi": None if size.ppi is None else float(size.ppi),
        "kappa": size.kappa,
        "line": str(size),
    }


@boundary
def gold_draw(
    columns: Mapping[str, Sequence[Any]], n: int, options: Mapping[str, Any]
) -> dict[str, Any]:
    """Draws a sample.

    Args:
        columns: Those of the data frame that are used.
        n: Texts to draw.
        options: Those of `gold_sample`; `seed` as a float, if any; `each`, the columns
            of several labels' probabilities, [] if there are none; `codebook` as JSON,
            or None.

    Warns:
        UserWarning: See `gold_sample`.
    """
    arguments = dict(options)
    each = [columns[name] for name in arguments.pop("each")]
    if each and arguments["confidence"] is None:
        probs = np.array(each, dtype=np.float64).T  # None becomes NaN
        arguments["confidence"] = confidence_of(probs).tolist()
    if arguments.get("seed") is not None:
        arguments["seed"] = int(arguments["seed"])
    if isinstance(arguments.get("allocation"), dict):
        sizes = arguments["allocation"]
        arguments["allocation"] = {name: int(size) for name, size in sizes.items()}
    content = arguments.pop("codebook")
    levels = {name: arguments.pop(name, None) for name in ("levels", "ordered")}
    data = _with_levels(columns, {"label": arguments["label"], **levels})
    drawn = gold_sample(data, n, **arguments)
    if content is not None:
        warn_of_examples(drawn, Codebook.from_dict(json.loads(content)).examples)
    return _for_r(drawn)


@boundary
def gold_rows(
    columns: Mapping[str, Sequence[Any]], sample: str, options: Mapping[str, Any]
) -> list[float]:
    """Rows, from 0, of data in which the texts of a sample are.

    Args:
        columns: Those of the data frame by which they are found.
        sample: As JSON.
        options: `label` and `text`, names of columns. Without a label `n`, the number of
            rows: labels are then not compared.
    """
    known, given = GoldSample.from_json(sample), dict(columns)
    label = options["label"]
    if label is None:
        known, label = replace(known, labels=[None] * len(known)), ".label"
        given[label] = [None] * int(options["n"])
    _, moved, _ = estimating.joined(
        given, known, label, options["text"], several=known.several
    )
    return [float(row) for row in moved.rows]


@boundary
def gold_unlabelled(sample: str) -> str:
    """A sample, as JSON, that does not know the model's labels."""
    known = GoldSample.from_json(sample)
    return replace(known, labels=[None] * len(known)).to_json()


@boundary
def gold_write(sample: str, path: str, options: Mapping[str, Any]) -> None:
    """Writes the CSV and its sidecar. `sample` is JSON."""
    GoldSample.from_json(sample).write(path, **options)


@boundary
def gold_read(
    source: Sequence[str] | Mapping[str, Sequence[Any]],
    sample: str | None,
    coders: Sequence[str] | None,
) -> dict[str, Any]:
    """Reads what people coded.

    Args:
        source: Paths of files, or the columns of a data frame.
        sample: As JSON; None: from the sidecar of the first file.
        coders: Columns of codes; None: see `read_gold`.
    """
    known = None if sample is None else GoldSample.from_json(sample)
    return _for_r(read_gold(source, known, coders=coders))


@boundary
def codes_in_one_form(
    columns: Mapping[str, Sequence[Any]],
    gold: str | Sequence[Any],
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Labels and codes so that equal ones are the same text.

    Args:
        columns: Text, label and id, where there are any.
        gold: A sample as JSON, or N codes.
        options: `label`, `text`, `several`; `levels` of the column of labels, or None,
            and whether it is `ordered`.

    Returns:
        `labels`: N; `rows`, from 0, and `codes` of those that have one; and `gold` with
        the codes in that form.
    """
    several = options["several"]
    texts, sample, _ = estimating.joined(
        _with_levels(columns, options),
        _gold(gold),
        options["label"],
        options["text"],
        several=several,
    )
    texts, read, _ = in_one_form(texts, sample, several=several)
    given: Sequence[str | None] = read.gold if isinstance(read, GoldSample) else read
    rows = read.rows if isinstance(read, GoldSample) else range(len(given))
    coded = [
        (row, code) for row, code in zip(rows, given, strict=True) if code is not None
    ]
    return {
        "labels": [clean_or_none(each) for each in texts.labels],
        "rows": [float(row) for row, _ in coded],
        "codes": [clean(code) for _, code in coded],
        "gold": read.to_json() if isinstance(read, GoldSample) else list(given),
    }


def _with_levels(
    columns: Mapping[str, Sequence[Any]], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Columns as a data frame, that of labels with its levels if it is a factor."""
    made: dict[str, Any] = dict(columns)
    label, levels = options.get("label"), options.get("levels")
    if label is not None and levels is not None:
        made[label] = Categories(
            values=made[label], names=tuple(levels), ordered=bool(options.get("ordered"))
        )
    return made


@boundary
def estimate_means(
    columns: Mapping[str, Sequence[Any]],
    gold: str | Sequence[Any],
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Shares, means and differences.

    Args:
        columns: Those of the data frame that are used.
        gold: A sample as JSON, or N codes.
        options: Arguments of `estimate`.
    """
    arguments = {n: v for n, v in options.items() if n not in {"levels", "ordered"}}
    data = _with_levels(columns, options)
    return _estimates(estimating.estimate(data, _gold(gold), **arguments))


@boundary
def estimate_regression(
    columns: Mapping[str, Sequence[Any]],
    gold: str | Sequence[Any],
    matrices: Mapping[str, Any],
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """A regression whose matrices R made of a formula.

    Args:
        columns: Text, label and id, where there are any, to tell other
            data.
        gold: A sample as JSON, or N codes.
        matrices: `kept`, rows that are used, from 0; `x_hat` and `x`, lists of columns,
            of all these texts and of those with codes; `y_hat` and `y`; `clusters`, a
            number for each text that is used, or None; `terms`; `outcome`;
            `has_label_right`; `formula`.
        options: `label`, `text`, `several`, `model`, `methods`, `level`, `target`,
            `prob`.
    """
    texts, sample, notes = estimating.joined(
        dict(columns),
        _gold(gold),
        options["label"],
        options["text"],
        several=options["several"],
    )
    kept = np.array(matrices["kept"], dtype=np.int64)
    used = used_gold(sample, options["prob"], len(texts), kept).among(kept, len(texts))
    clusters = matrices["clusters"]
    settings = estimating.settings_of(
        used,
        methods=options["methods"],
        level=options["level"],
        target=options["target"],
        clusters=None if clusters is None else np.array(clusters, dtype=np.int64),
    )
    made = Matrices(
        x_hat=_columns(matrices["x_hat"]),
        y_hat=np.array(matrices["y_hat"], dtype=np.float64),
        x=_columns(matrices["x"]),
        y=np.array(matrices["y"], dtype=np.float64),
        terms=tuple(matrices["terms"]),
        outcome=matrices["outcome"],
        has_label_right=matrices["has_label_right"],
    )
    if len(made.y_hat) != len(kept) or len(made.y) != len(used.rows):
        raise ValueError("matrices have other rows than the texts and codes")
    model = options["model"]
    found = fit_regression("logit" if model == "logit" else "ols", made, settings)
    return _estimates(
        estimating.result(
            found,
            settings,
            model=model,
            formula=matrices["formula"],
            n_kept=len(kept),
            texts=texts,
            notes=notes,
        )
    )


def _gold(gold: str | Sequence[Any]) -> GoldSample | Sequence[Any]:
    return GoldSample.from_json(gold) if isinstance(gold, str) else gold


def _columns(columns: Sequence[Sequence[float]]) -> Floats:
    return np.asarray(np.array(columns, dtype=np.float64).T)


def _for_r(sample: GoldSample) -> dict[str, Any]:
    """A sample's columns; rows from 0."""
    design = {
        name: value if isinstance(value, (str, bool, type(None))) else _plain(value)
        for name, value in sample.design.items()
    }
    return {
        "json": sample.to_json(),
        "rows": [float(row) for row in sample.rows],
        "ids": [clean(each) for each in sample.ids],
        "texts": [clean_or_none(text) for text in sample.texts],
        "probs": sample.probs.tolist(),
        "all_probs": sample.all_probs.tolist(),
        "strata": [float(stratum) for stratum in sample.strata[sample.rows]],
        "names": list(sample.names),
        "labels": list(sample.labels),
        "gold": list(sample.gold),
        "coders": list(sample.coders),
        "codes": [list(codes) for codes in sample.codes],
        "design": design,
    }


def _plain(value: object) -> object:
    """Numbers as floats, which R has no other large ones of."""
    if isinstance(value, int):
        return float(value)
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    return value


def _estimates(found: Estimates) -> dict[str, Any]:
    rows = found.rows
    names = ("outcome", "term", "group", "method")
    numbers = ("estimate", "std_error", "low", "high", "lam", "df")
    return {
        "rows": {
            **{name: [getattr(row, name) for row in rows] for name in names},
            **{name: [float(getattr(row, name)) for row in rows] for name in numbers},
        },
        "covariances": [
            {"outcome": outcome, "method": method, "values": matrix.tolist()}
            for (outcome, method), matrix in found.covariances.items()
        ],
        "n_texts": float(found.n_texts),
        "n_gold": float(found.n_gold),
        "design": found.design,
        "notes": list(found.notes),
        "line": str(found),
        "source": None if found.source is None else json.dumps(found.source.to_dict()),
    }
