"""Reports of coded texts, and their methods paragraphs."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any, TypeVar

import llamaherd as lh
from llamaherd._r.boundary import form_of
from llamaherd._r.forms import Part, fields, r_object, table_of
from llamaherd._r.quotes import columns_of_quotes
from llamaherd.coding.annotation.texts import hash_of_texts
from llamaherd.coding.reports.methods import MethodsText, methods_of
from llamaherd.coding.reports.report import DEFAULT_TITLE, write_report
from llamaherd.coding.reports.report_data import contents_of
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.stats import ActorStats

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_S = TypeVar("_S", lh.Stats, ActorStats)


def report(
    coded: Mapping[str, Any],
    path: str,
    parts: Mapping[str, Any],
    options: Mapping[str, Any],
) -> str:
    """Write a report and return its path.

    Args:
        coded: Mapping with these keys. `text`: name of the column. `texts`, `labels`,
            `names`, `errors`, `stats`. `probs`: rows of probabilities of all labels, or
            None. `quotes`: `start` and `end` of each quote as positions in R, or None.
            `run`: JSON. `original`: the model's own `labels` and `probs` if `labels` are
            recalibrated, otherwise None.
        path: Path of the report to write.
        parts: `estimates`, a list of pairs of JSON and title. As JSON, or None:
            `validation`; `robustness`; `variants`, the estimates of its variants;
            `evaluation`.
        options: `title`, or None; `texts`; `n_examples`.
    """
    return str(write_report(report_contents(coded, parts, options), path))


def report_contents(
    coded: Mapping[str, Any], parts: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the content of a report from R's objects."""
    known = {
        name: None if parts.get(name) is None else json.loads(parts[name])
        for name in ("validation", "robustness", "variants", "evaluation")
    }
    variants, robustness = known.pop("variants"), known["robustness"]
    if robustness is not None:
        robustness["estimates"] = variants
    given = coded.get("original")
    return contents_of(
        _coded(coded),
        original=None if given is None else _coded({**coded, **given}),
        title=options["title"] or DEFAULT_TITLE,
        texts=options["texts"],
        n_examples=options["n_examples"],
        estimates=[
            {**json.loads(content), "title": title}
            for content, title in parts["estimates"]
        ],
        **known,
    )


def _coded(given: Mapping[str, Any]) -> lh.Coded:
    """Return R's coded texts as `Coded`; raise a ValueError if rows were changed."""
    run = json.loads(given["run"])
    codebook = lh.Codebook.from_dict(run["codebook"]["content"])
    if (
        codebook.kind.is_generated
        and hash_of_texts(given["texts"]) != run["texts_sha256"]
    ):
        raise ArgumentError(
            "must have the rows that were coded, in their order: report it before rows "
            "are sorted or their texts edited",
            argument="x",
        )
    quotes = columns_of_quotes(given["text"], given.get("quotes"))
    return lh.Coded.of_record(
        run,
        {given["text"]: list(given["texts"]), **quotes.frame},
        given["text"],
        columns=quotes.names,
        stats=_stats(given["stats"]),
        **{name: given[name] for name in ("labels", "probs", "errors", "names")},
    )


def _stats(numbers: Mapping[str, Any]) -> lh.Stats:
    """Return the statistics as `Stats`; R's doubles are converted to integers."""
    rows = rows_of(numbers.get("actors") or {})
    actors = tuple(_counted(ActorStats(actor=0, node=""), row) for row in rows)
    return dataclasses.replace(_counted(lh.Stats(), numbers), actors=actors)


def rows_of(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    """Return the rows of a table from its columns."""
    values = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in values]


def _counted(like: _S, given: Mapping[str, Any]) -> _S:
    """Return a copy of a dataclass with given values, converted to the fields' types."""
    names = [field.name for field in dataclasses.fields(like) if field.name != "actors"]
    changed = {name: type(getattr(like, name))(given[name]) for name in names}
    return dataclasses.replace(like, **changed)


def methods_text(
    coded: Mapping[str, Any] | None, path: str | None, parts: Mapping[str, Any]
) -> MethodsText:
    """Return the methods paragraph for a coding or for a report."""
    if coded is None:
        return lh.methods_text(str(path))
    options = {"title": None, "texts": False, "n_examples": 0}
    return methods_of(report_contents(coded, parts, options))


@form_of.register
def _(found: MethodsText) -> Part:
    names = "question state answer sources"
    rows = [
        {name: getattr(item, name) for name in names.split()}
        | {"sources": "; ".join(item.sources)}
        for item in found.checklist
    ]
    made = fields(found, "text bibtex references")
    made["checklist"] = table_of(rows, names, text=names)
    return r_object("methods", made, page=found)
