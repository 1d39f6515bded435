"""Reports of coded texts, and their methods paragraphs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.boundary import form_of
from llamaherd._r.forms import Part, fields, r_object, table_of
from llamaherd.coding.annotation.texts import hash_of_texts
from llamaherd.coding.reports.methods import MethodsText, methods_of
from llamaherd.coding.reports.report import DEFAULT_TITLE, write_report
from llamaherd.coding.reports.report_data import contents_of
from llamaherd.engine.core.errors import ArgumentError

if TYPE_CHECKING:
    from collections.abc import Mapping


def report(
    coded: lh.Coded, path: str, parts: Mapping[str, Any], options: Mapping[str, Any]
) -> str:
    """Write a report and return its path.

    Args:
        coded: Coded texts.
        path: Path of the report to write.
        parts: `estimates`, a list of pairs of JSON and title. As JSON, or None:
            `validation`; `robustness`; `variants`, the estimates of its variants;
            `evaluation`. `original`: the model's own labels if those of `coded` are
            recalibrated, otherwise None.
        options: `title`, or None; `texts`; `n_examples`.
    """
    return str(write_report(report_contents(coded, parts, options), path))


def report_contents(
    coded: lh.Coded, parts: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the content of a report; raise an ArgumentError if rows were changed."""
    known = {
        name: None if parts.get(name) is None else json.loads(parts[name])
        for name in ("validation", "robustness", "variants", "evaluation")
    }
    variants, robustness = known.pop("variants"), known["robustness"]
    if robustness is not None:
        robustness["estimates"] = variants
    is_generated = coded.codebook.kind.is_generated
    texts = coded.frame[coded.text]
    if is_generated and hash_of_texts(texts) != coded.run["texts_sha256"]:
        raise ArgumentError(
            "must have the rows that were coded, in their order: report it before rows "
            "are sorted or their texts edited",
            argument="x",
        )
    return contents_of(
        coded,
        original=parts.get("original"),
        title=options["title"] or DEFAULT_TITLE,
        texts=options["texts"],
        n_examples=options["n_examples"],
        estimates=[
            {**json.loads(content), "title": title}
            for content, title in parts["estimates"]
        ],
        **known,
    )


def methods_text(
    coded: lh.Coded | None, path: str | None, parts: Mapping[str, Any]
) -> MethodsText:
    """Return the methods paragraph for a coding or for a report."""
    if coded is None:
        return lh.methods_text(str(path))
    options = {"title": None, "texts": False, "n_examples": 0}
    return methods_of(report_contents(coded, parts, options))


@form_of.register
def _(methods: MethodsText) -> Part:
    names = "question state answer sources"
    rows = [
        {name: getattr(item, name) for name in names.split()}
        | {"sources": "; ".join(item.sources)}
        for item in methods.checklist
    ]
    elements = fields(methods, "text bibtex references")
    elements["checklist"] = table_of(rows, names)
    return r_object("methods", elements, page=methods)
