"""What is done with texts: for each task its columns, their types and what fills them."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Literal, get_args

import pyarrow as pa

from llamaherd.api.classify import classify_parallel
from llamaherd.api.embed import embed_parallel
from llamaherd.api.generate import generate_parallel, prepare_generate
from llamaherd.api.running import none_answered, run_to_end
from llamaherd.core import checks
from llamaherd.core.sampling import SamplingParams
from llamaherd.research.coding.annotate import annotate, prepare_coding
from llamaherd.research.coding.codebook import Codebook
from llamaherd.research.coding.columns import roles_of
from llamaherd.research.coding.settings import checked_settings
from llamaherd.run.labels import checked_labels
from llamaherd.structured.arrow import Column, columns_of, has_others
from llamaherd.structured.source import schema_text

if TYPE_CHECKING:
    from llamaherd.model.model import Model
    from llamaherd.run.context import Context

Name = Literal["generate", "classify", "annotate", "embed"]
NAMES: tuple[Name, ...] = get_args(Name)
Values = dict[str, Iterable[Any]]
# Of each call those of its arguments that rows and actors give.
_CALLS: dict[Name, tuple[Callable[..., object], set[str]]] = {
    "generate": (generate_parallel, {"ctx", "prompts"}),
    "classify": (classify_parallel, {"ctx", "prompts"}),
    "annotate": (annotate, {"frame", "text", "context", "columns"}),
    "embed": (embed_parallel, {"model", "texts"}),
}
_REFUSED = {
    "journal": "batches go to any actor; Ray Data's own checkpoints keep what is done",
    "progress": "Ray Data shows it",
    "on_error": "a row that fails has its reason in a column, and the others go on",
    "n": "a row has one answer",
    "params": "give its fields as arguments",
    "logprobs": "there are no columns for them",
    "versions": "there is no record",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What is done with texts.

    Attributes:
        types: Types of the new columns by role, the same for all batches.
        error: Role of the one that has reasons.
        answer: From n texts and their places to the n values of each column.
    """

    types: Mapping[str, pa.DataType]
    error: str
    answer: Callable[[list[str], list[int]], Values]


def check_settings(task: Name, settings: Mapping[str, object]) -> None:
    """Checks that there are such settings, before a model is loaded.

    Raises:
        TypeError: There is no such setting, or one that is needed is missing.
        ValueError: It does not go with batches.
    """
    call, given = _CALLS[task]
    parameters = inspect.signature(call).parameters
    allowed = [name for name in parameters if name not in given | _REFUSED.keys()]
    for name in settings:
        if name in _REFUSED and name in parameters:
            raise ValueError(f"{name} does not go with batches: {_REFUSED[name]}")
        if name not in allowed:
            close = get_close_matches(name, allowed, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise TypeError(f"task {task!r} has no argument {name!r}{hint}")
    for name in allowed:
        if parameters[name].default is inspect.Parameter.empty and name not in settings:
            raise TypeError(f"task {task!r} needs {name}")
    seed = settings.get("seed", 0)
    if seed is None or (isinstance(seed, int) and seed < 0):
        raise ValueError(
            f"seed must be at least 0, not {seed!r}: a batch that has to be answered "
            "again is to draw the same"
        )


def generating(context: Context, settings: Mapping[str, Any]) -> Task:
    """Texts, or what they say under a schema."""
    schema = settings.get("schema")
    text = None if schema is None else schema_text(schema)[0]
    of_sampling = {
        name: value
        for name, value in settings.items()
        if name in SamplingParams.__dataclass_fields__
    }
    SamplingParams(**{**of_sampling, "schema": text})  # one for all rows
    fields = {} if text is None else columns_of(text)
    others = text is None or has_others(text)
    of_text = _free("text", fields)
    error = _free("error", fields)
    types = {name: each.type for name, each in fields.items()}
    if others:
        types[of_text] = pa.string()
    if text is None:
        types["finish_reason"] = pa.string()
    types[error] = pa.string()
    options = {
        name: settings.get(name, parameter.default)
        for name, parameter in inspect.signature(generate_parallel).parameters.items()
        if name in ("parse_special", "chat", "system", "strict", "retries")
    }

    def answer(texts: list[str], places: list[int]) -> Values:
        results = run_to_end(
            lambda: prepare_generate(
                context,
                texts,
                n=1,
                params=None,
                settings=of_sampling,  # type: ignore[arg-type]
                on_error="continue",
                journal=None,
                logprobs=None,
                places=places,
                **options,
            ),
            False,
            texts,
            none_answered,
        )
        values: Values = {}
        errors = results.errors
        if fields:
            answers = [
                None if error is not None or text is None else json.loads(text)
                for text, error in zip(results.texts, errors, strict=True)
            ]
            values, errors = _converted(answers, errors, fields)
        if others:
            values[of_text] = results.texts
        if text is None:
            values["finish_reason"] = results.finish_reasons
        return {**values, error: errors}

    return Task(types=types, error=error, answer=answer)


def classifying(context: Context, settings: Mapping[str, Any]) -> Task:
    """Probabilities of labels."""
    names = checked_labels(settings["labels"]).names
    numbers = ["prob", "margin", "entropy", "coverage", *(f"p_{name}" for name in names)]
    types = {
        "label": pa.string(),
        **dict.fromkeys(numbers, pa.float64()),
        "error": pa.string(),
    }

    def answer(texts: list[str], _: list[int]) -> Values:
        found = classify_parallel(context, texts, **settings)
        return {
            "label": found.labels,
            "prob": found.prob,
            "margin": found.margin,
            "entropy": found.entropy,
            "coverage": found.coverage,
            **{f"p_{name}": found.probs[:, j] for j, name in enumerate(names)},
            "error": found.errors,
        }

    return Task(types=types, error="error", answer=answer)


def annotating(context: Context, settings: Mapping[str, Any]) -> Task:
    """Codes by a codebook.

    Raises:
        TypeError: `codebook` is none.
        ValueError: A setting is out of range, or needs all rows at once.
    """
    given = dict(settings)
    book = given.pop("codebook")
    if not isinstance(book, Codebook):
        raise TypeError(f"codebook must be a Codebook, not {checks.shown(book)}")
    if given.get("calibrate") == "batch":
        raise ValueError(
            "calibrate='batch' is fitted to all rows, which a batch has not; "
            "'contextual' needs none"
        )
    method = checked_settings(book, "model", given).method
    roles = roles_of(book, method)
    fields = columns_of(str(book.schema)) if book.type == "fields" else {}
    of_text = dict.fromkeys(("label", roles[-1]), pa.string())
    types = {
        role: fields[role].type if role in fields else of_text.get(role, pa.float64())
        for role in roles
    }

    def answer(texts: list[str], _: list[int]) -> Values:
        coding = prepare_coding(
            {"text": texts},
            "text",
            book,
            context,
            {**given, "columns": "coded_"},  # type: ignore[typeddict-item]
            is_piece=True,
        )
        coded = run_to_end(
            lambda: (context, coding, context), False, (), lambda _: coding.nothing()
        )
        values = {role: coded.frame[name] for role, name in coded.columns.items()}
        if fields:
            rows = [
                None if label is None else dict(zip(fields, row, strict=True))
                for label, row in zip(
                    coded.labels,
                    zip(*(values[name] for name in fields), strict=True),
                    strict=True,
                )
            ]
            converted, errors = _converted(rows, coded.errors, fields)
            return {**converted, roles[-1]: errors}
        return values

    return Task(types=types, error=roles[-1], answer=answer)


def embedding(model: Model, settings: Mapping[str, Any]) -> Task:
    """Vectors of texts."""
    n_embd = model.info.n_embd_out
    types = {"embedding": pa.list_(pa.float32(), n_embd), "error": pa.string()}

    def answer(texts: list[str], _: list[int]) -> Values:
        found = embed_parallel(model, texts, **settings)
        rows = [
            vector if error is None else None
            for vector, error in zip(found.vectors, found.errors, strict=True)
        ]
        return {"embedding": rows, "error": found.errors}

    return Task(types=types, error="error", answer=answer)


def _free(name: str, fields: Mapping[str, object]) -> str:
    """A name that no field has: fields may be called anything."""
    while name in fields:
        name = f".{name}"
    return name


def _converted(
    answers: Sequence[Mapping[str, Any] | None],
    errors: Sequence[str | None],
    fields: Mapping[str, Column],
) -> tuple[Values, list[str | None]]:
    """Answers by fields; one that has no room in a column fails with the reason."""
    rows: list[dict[str, Any]] = []
    reasons = list(errors)
    for i, answer in enumerate(answers):
        row: dict[str, Any] = {}
        try:
            if answer is not None:
                row = {
                    name: each.convert(answer.get(name)) for name, each in fields.items()
                }
        except ValueError as error:
            reasons[i] = str(error)
        rows.append(row)
    return {name: [row.get(name) for row in rows] for name in fields}, reasons
