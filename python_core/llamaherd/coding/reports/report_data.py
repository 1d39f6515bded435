"""Content of a report as JSON: all data to display and to reproduce it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import TemplateError

from llamaherd.coding import frames
from llamaherd.coding.annotation.record import plain
from llamaherd.coding.annotation.texts import (
    Source,
    check_source,
    checked_texts,
    hash_of_texts,
    is_blank,
    unique_texts,
)
from llamaherd.coding.plots.counts import summary_of
from llamaherd.coding.selection.comparison import hash_of
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.core.errors import ArgumentError, BadArgumentError, LlamaHerdError
from llamaherd.engine.core.files import text_of_file
from llamaherd.engine.core.phrases import count_of
from llamaherd.engine.core.plain import DAMAGED
from llamaherd.engine.core.words import number_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from llamaherd.coding.annotation.coded import Coded
    from llamaherd.coding.selection.evaluation import Evaluation
    from llamaherd.engine.core.arrays import Ints


_AGAIN = "Compute it from the labels that are reported: robustness(coded, ...)"


def check_variants(
    fields: Mapping[str, Any], texts: Sequence[str | None], run: Mapping[str, Any]
) -> None:
    """Raise an error if the variants have other texts or another first coding."""
    source, rows = Source.from_dict(fields.get("source")), fields.get("rows")
    if source is None or rows is None:
        raise ArgumentError(
            "does not record the texts that it was computed from: it was made by an "
            f"earlier version. {_AGAIN}",
            argument="robustness",
        )
    indices = [int(row) for row in rows]
    is_within = not indices or 0 <= min(indices) <= max(indices) < len(texts)
    texts_of_rows = (
        Source.of([texts[row] for row in indices], None) if is_within else None
    )
    if texts_of_rows is None or texts_of_rows.texts != source.texts:
        raise ArgumentError(
            "does not belong to these labels: it was computed from other texts, or "
            f"these texts in another order. {_AGAIN}",
            argument="robustness",
        )
    different = _differences(fields["runs"][0], run) if fields.get("runs") else []
    if different:
        raise ArgumentError(
            "does not belong to these labels: its first variant, which the "
            f"others are compared with, is another coding ({'; '.join(different)}). "
            f"{_AGAIN}",
            argument="robustness",
        )


def _differences(first: Mapping[str, Any], run: Mapping[str, Any]) -> list[str]:
    """Return properties in which the first variant differs from the report's coding."""
    differences = []
    if first["codebook"].get("hash") != run["codebook"].get("hash"):
        differences.append("the codebook differs")
    if _model(first) != _model(run):
        files = (first["model"].get("file"), run["model"].get("file"))
        differences.append(f"the model is {files[0]}, but was {files[1]} for the labels")
    before, now = run["settings"], first["settings"]
    differences += [
        f"{name} is {now.get(name)!r}, and was {before.get(name)!r}"
        for name in dict.fromkeys((*before, *now))
        if before.get(name) != now.get(name)
    ]
    return differences


def _model(run: Mapping[str, Any]) -> tuple[Any, ...]:
    model = run["model"]
    loras = [
        (adapter.get("sha256"), adapter.get("scale"))
        for adapter in model.get("loras") or ()
    ]
    return (model.get("sha256"), model.get("file"), loras)


FORMAT = "llamaherd report"
JSON_ID = "llamaherd-report"  # of the element of a page with the content
VERSION = 1
Contents = dict[str, Any]


def contents_of(
    coded: Coded,
    *,
    title: str,
    texts: bool,
    n_examples: int,
    validation: Mapping[str, Any] | None,
    estimates: Sequence[Mapping[str, Any]],
    robustness: Mapping[str, Any] | None,
    evaluation: Mapping[str, Any] | None = None,
    original: Coded | None = None,
) -> Contents:
    """Return the content of a report as JSON types."""
    column = checked_texts(frames.column(coded.frame, coded.text, "text"), coded.text)
    unique, rows = unique_texts(column)
    first = _first_rows(rows, len(unique))
    model = original or coded
    model.check_frame()
    model.check_probs()
    _check_repeated(rows, len(unique), coded.run)
    _check_equal(model, rows, first)
    source = Source.of(column, coded.labels)
    if validation is not None:  # refers to texts by row
        check_source("validation", validation.get("source"), source, any_order=False)
    for place, part in enumerate(estimates):
        of_several = Argument("estimates", (place,) if len(estimates) > 1 else ())
        check_source(of_several, part.get("source"), source, any_order=True)
    if robustness is not None:
        check_variants(robustness, column, coded.run)
    if evaluation is not None:
        _check_evaluated(evaluation, coded.run)
    labels = [model.labels[i] for i in first]
    by_fields = coded.codebook.kind.is_generated
    data: dict[str, Any] = {
        "text": coded.text,
        "n_rows": len(column),
        "rows": [None if index < 0 else index for index in rows.tolist()],
        "sha256": hash_of_texts(column),
    }
    if texts:
        data["texts"] = unique
        data["blank"] = {str(i): text for i, text in enumerate(column) if is_blank(text)}
    else:
        data["texts_sha256"] = [sha256_of_text(text) for text in unique]
    is_hidden = by_fields and not texts  # fields may quote the text
    return {
        "format": FORMAT,
        "version": VERSION,
        "title": title,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "run": coded.run,
        "stats": {**dataclasses.asdict(coded.stats), "line": str(coded.stats)},
        "data": data,
        "source": source.to_dict(),
        "labels": {
            "names": list(coded.names),
            "are_hashes": is_hidden,
            "values": hashed_labels(labels) if is_hidden else labels,
        },
        "probs": _probs(model, first),
        "errors": {
            str(index): coded.errors[i]
            for index, i in enumerate(first)
            if coded.errors[i] is not None
        },
        "summary": summary_of(coded),
        "validation": _without_texts(validation),
        "estimates": plain(list(estimates)),
        "robustness": None if robustness is None else plain(robustness),
        "evaluation": None if evaluation is None else plain(evaluation),
        "examples": _examples(column, coded, validation, n_examples) if texts else [],
    }


def estimates_in(contents: Contents) -> list[dict[str, Any]]:
    """Return the estimates of a report; earlier versions have one object, or null."""
    estimates = contents.get("estimates") or []
    return [estimates] if isinstance(estimates, dict) else estimates


def evaluation_dict(evaluation: Evaluation) -> dict[str, Any]:
    """Return a selected codebook and its evaluation as JSON types."""
    choice, value = evaluation.choice, evaluation.value
    names = ("name", "measure", "n_candidates", "tied", "level")
    fields: dict[str, Any] = plain(
        {
            **{name: getattr(choice, name) for name in names},
            "choice_hash": choice.hash,
            "on_select": choice.value,
            **{name: getattr(value, name) for name in ("value", "low", "high")},
            "n": evaluation.n,
            "n_failed": evaluation.n_failed,
            "n_openings": len(evaluation.opened),
            "notes": evaluation.notes,
        }
    )
    return fields


def to_json(contents: Contents, *, indent: int | None = None) -> str:
    """Serialize the content; floats keep all digits."""
    return json.dumps(contents, ensure_ascii=False, allow_nan=False, indent=indent)


def sha256_of_text(text: str) -> str:
    """Return the SHA-256 of a text in UTF-8."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def hashed_labels(labels: Sequence[str | None]) -> list[str | None]:
    """Replace labels by their hashes."""
    return [None if label is None else sha256_of_text(label) for label in labels]


def _first_rows(rows: Ints, n_unique: int) -> list[int]:
    """Return the first row of each unique text."""
    first = np.full(n_unique, -1, dtype=np.int64)
    kept = np.flatnonzero(rows >= 0)[::-1]
    first[rows[kept]] = kept
    return list(map(int, first))


def _check_repeated(rows: Ints, n_unique: int, run: Mapping[str, Any]) -> None:
    """Check that there are texts, and no more rows of equal ones than were coded."""
    if not n_unique:
        raise ArgumentError(
            "has no texts: there is nothing to report", argument="coded", code="no_rows"
        )
    n_repeated = int((rows >= 0).sum()) - n_unique
    n_coded = run["n_rows"] - run["n_texts"] if "n_rows" in run else n_repeated
    if n_repeated > n_coded:
        raise ArgumentError(
            f"has {count_of(n_repeated, 'row')} that repeat the text of another row, but "
            f"{n_coded:,} of the coded rows did: rows were repeated after coding, "
            "perhaps by a join or by reshaping. Report each coded row once",
            argument="coded",
            code="repeated",
        )


def _check_equal(coded: Coded, rows: Ints, first: Sequence[int]) -> None:
    """Check that equal texts have equal labels, as after any coding."""
    for i, index in enumerate(rows.tolist()):
        if index >= 0 and coded.labels[i] != coded.labels[first[index]]:
            raise ArgumentError(
                f"rows {number_of(first[index])} and {number_of(i)} have the same text "
                f"and different labels, {checks.brief(coded.labels[first[index]])} and "
                f"{checks.brief(coded.labels[i])}: they were changed after coding",
                argument="coded",
                code="changed",
                form="{name}: {problem}",
            )


def _check_evaluated(evaluation: Mapping[str, Any], run: Mapping[str, Any]) -> None:
    """Check that the labels come from the evaluated codebook, settings and model."""
    coded_hash, chosen = hash_of(run), evaluation["choice_hash"]
    if coded_hash != chosen:
        raise ArgumentError(
            f"is for another codebook, settings or model ({chosen[:12]}) than the coding "
            f"of these texts ({coded_hash[:12]})",
            argument="evaluation",
            code="other_codebook",
        )


def _probs(coded: Coded, first: Sequence[int]) -> list[list[float | None] | None] | None:
    if coded.probs is None:
        return None
    probs = coded.probs[list(first)] if first else coded.probs[:0]
    missing: Any = np.isnan(probs).all(axis=1)
    return [
        None if gone else plain(row)
        for row, gone in zip(probs.tolist(), missing.tolist(), strict=True)
    ]


def _without_texts(validation: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a copy of the validation without texts; rows and "probs" remain."""
    if validation is None:
        return None
    result = {key: value for key, value in validation.items() if key != "confidence"}
    result["wrong"] = [
        {key: value for key, value in error.items() if key != "text"}
        for error in validation.get("wrong") or []
    ]
    copy: dict[str, Any] = plain(result)
    return copy


def _examples(
    column: Sequence[str | None],
    coded: Coded,
    validation: Mapping[str, Any] | None,
    n: int,
) -> list[dict[str, Any]]:
    """Select texts to show: errors of a validation, otherwise the first texts."""
    quotes = _quotes(coded)
    if validation is not None:
        return [
            {
                **plain(dict(error)),
                "text": column[int(error["row"])],
                "quote": quotes.get(int(error["row"])),
            }
            for error in (validation.get("wrong") or [])[:n]
        ]
    indices = [i for i, text in enumerate(column) if text is not None]
    return [
        {
            "row": i,
            "label": coded.labels[i],
            "truth": None,
            "prob": _prob(coded, i),
            "text": column[i],
            "quote": quotes.get(i),
        }
        for i in indices[:n]
    ]


def _quotes(coded: Coded) -> dict[int, list[int]]:
    """Return start and end of the quote that supports each label, by row."""
    is_generated = coded.codebook.kind.is_generated  # fields may have these names
    if is_generated or not {"start", "end"} <= coded.columns.keys():
        return {}
    columns = (
        frames.column(coded.frame, coded.columns[role], "coded")
        for role in ("start", "end")
    )
    return {
        i: [int(start), int(end)]
        for i, (start, end) in enumerate(zip(*columns, strict=True))
        if start is not None and end is not None
    }


def _prob(coded: Coded, row: int) -> float | None:
    label = coded.labels[row]
    if coded.probs is None or label not in coded.names:
        return None
    return float(coded.probs[row, coded.names.index(label)])


_SCRIPT = re.compile(rf"""<script\b[^>]*\bid=["']?{JSON_ID}\b[^>]*>""")
_PARTS: dict[str, type] = {"run": dict, "data": dict, "labels": dict, "errors": dict}
_RUN = ("codebook", "settings", "model", "context", "versions", "machine")


def read_report(path: Path) -> Contents:
    """Read the content of a report."""
    if path.suffix.lower() == ".docx" and path.exists():
        raise _refused_file(
            path,
            "is a document, which does not contain the data of the report: write the "
            "report as .html or .json, too",
        )
    text = text_of_file("path", path)
    if path.suffix.lower() != ".json":
        text = _embedded_data(text, path)
    try:
        contents = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _refused_file(path, f"is not a report, or is cut off: {error}") from None
    return _check_contents(contents, path)


@contextmanager
def errors_of_content(path: Path) -> Iterator[None]:
    """Convert errors of code that uses a report with unexpected content."""
    try:
        yield
    except (BadArgumentError, LlamaHerdError):
        raise
    except (*DAMAGED, TemplateError) as error:  # templates are strict about fields
        missing = f": {error} is missing" if isinstance(error, KeyError) else ""
        problem = f"does not have the form of a report{missing}"
        raise _damaged_file(path, problem) from error


def error_of_content(problem: str, code: str = "changed") -> ArgumentError:
    """Return the error of a report whose content was changed or cannot be repeated."""
    return ArgumentError(problem, argument="path", code=code, form="{name}: {problem}")


def _refused_file(path: Path, problem: str, code: str = "not_a_report") -> ArgumentError:
    return error_of_content(f"{path} {problem}", code)


def _damaged_file(path: Path, problem: str) -> ArgumentError:
    return _refused_file(path, f"is damaged: it {problem}", "damaged")


def _embedded_data(text: str, path: Path) -> str:
    """Return the content of the last script element with the report's id."""
    *_, start = [None, *_SCRIPT.finditer(text)]
    if start is None:
        raise _refused_file(path, f"is not a report: it has no element {JSON_ID!r}")
    content, _, _ = text[start.end() :].partition("</script>")
    return content


def _check_contents(contents: Any, path: Path) -> Contents:  # JSON
    if not isinstance(contents, dict) or contents.get("format") != FORMAT:
        raise _refused_file(path, f"is not a report: 'format' is not {FORMAT!r}")
    if contents.get("version") != VERSION:
        raise _refused_file(
            path,
            f"is a report of version {contents.get('version')!r}; this llamaherd reads "
            f"version {VERSION}",
            code="other_version",
        )
    for name, kind in _PARTS.items():
        if not isinstance(contents.get(name), kind):
            raise _damaged_file(path, f"has no object {name!r}")
    for name in _RUN:
        if not isinstance(contents["run"].get(name), dict):
            raise _damaged_file(path, f"has no object run.{name}")
    _check_data(contents, path)
    return contents


def _check_data(contents: Contents, path: Path) -> None:
    """Check lengths of lists, and that rows refer to existing texts."""
    data, values = contents["data"], contents["labels"].get("values")
    rows, probs = data.get("rows"), contents.get("probs")
    texts = data.get("texts", data.get("texts_sha256"))
    if not isinstance(rows, list) or not isinstance(texts, list):
        raise _damaged_file(path, "has no list data.rows or data.texts")
    if not all(isinstance(text, str) for text in texts):
        raise _damaged_file(path, "has values in data.texts that are not texts")
    n = len(texts)
    for name, column in (("labels.values", values), ("probs", probs)):
        optional = name == "probs" and column is None
        if not optional and (not isinstance(column, list) or len(column) != n):
            raise _damaged_file(path, f"must have {n} values in {name}")
    for row in rows:
        if row is not None and (type(row) is not int or not 0 <= row < n):
            raise _damaged_file(path, f"has {row!r} in data.rows: there is no such text")
