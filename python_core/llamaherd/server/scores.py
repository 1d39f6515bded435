"""`POST /v1/score`, `/v1/classify` and `/v1/annotate`: numbers and codes of texts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from llamaherd.calls.api.classify import prepare_classify
from llamaherd.calls.api.score import prepare_score
from llamaherd.calls.asks.annotate_options import AnnotateOptions
from llamaherd.calls.asks.options import ClassifyOptions, ScoreOptions
from llamaherd.coding.annotation.codebook import Codebook
from llamaherd.coding.annotation.codebook_file import codebook_of_yaml
from llamaherd.engine.core.declaration import options_of
from llamaherd.engine.core.errors import BadArgumentError, codes_of
from llamaherd.server import schemas
from llamaherd.server.chats import with_defaults
from llamaherd.server.errors import bad_field
from llamaherd.server.formats import Prepared, WorkFormat
from llamaherd.server.limits import check_pairs
from llamaherd.server.running import usage_of_reading
from llamaherd.server.schemas import either, list_schema, record, rows
from llamaherd.tasks.annotate import Annotate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llamaherd.calls.asks.continuations import ScoreResults
    from llamaherd.calls.asks.scores import ClassifyResults, Thought
    from llamaherd.coding.annotation.coded import Coded
    from llamaherd.engine.core.stats import Stats

_NUMBERS = {**schemas.OBJECT, "additionalProperties": schemas.NUMBER_OR_NULL}  # by label


class _RowsApi(WorkFormat):
    """Base class of formats whose answers have a row for each prompt or text."""

    in_batches = True

    def _items(self, fields: dict[str, object]) -> tuple[dict[str, Any], list[Any]]:
        """Return the fields of a request, and its prompts or texts."""
        request = self.effective_fields(fields)
        return request, request[self.needed[0]]

    def _options(self, request: dict[str, object]) -> dict[str, Any]:
        """Return the options of a request, with the server's options for chats."""
        names = options_of(*self.options or ())
        options = {name: request[name] for name in request if name in names}
        is_chat = options.get("chat") is True
        return with_defaults(options, self._settings) if is_chat else options

    def _body(self, data: Sequence[object], stats: Stats) -> dict[str, object]:
        """Return the body of an answer."""
        cached = {"cached_tokens": stats.n_reused_tokens}
        usage = usage_of_reading(stats.n_prompt_tokens, prompt_tokens_details=cached)
        name = self._settings.model_name
        return {"object": "list", "model": name, "data": list(data), "usage": usage}


class ScoreApi(_RowsApi):
    """Format of `/v1/score`."""

    path = "/score"
    summary = "Compute the log-probabilities of given continuations."
    options = (ScoreOptions, "http")
    field_schemas: ClassVar = {
        "model": schemas.TEXT,
        "prompts": {"type": "array", **schemas.ITEMS},
        "continuations": either(schemas.TEXT, {"type": "array", "minItems": 1}),
    }
    needed = ("prompts", "continuations")
    answers = rows(
        continuations=list_schema(
            record(
                text=schemas.TEXT,
                logprob=schemas.NUMBER,
                tokens=schemas.TOKENS,
                token_logprobs=list_schema(schemas.NUMBER),
            )
        )
    )

    def prepare(self, fields: dict[str, object]) -> Prepared[ScoreResults]:
        request, prompts = self._items(fields)
        check_pairs(prompts, request["continuations"], "continuations")
        options = ScoreOptions(**self._options(request), on_error="continue")
        work = prepare_score(self._ctx, prompts, request["continuations"], options)
        return Prepared(work, self._render)

    def _render(self, results: ScoreResults) -> dict[str, object]:
        data = []
        for i, (continuations, failure) in enumerate(
            zip(results.continuations, _failures(results), strict=True)
        ):
            rows = [
                {
                    "text": continuation.text,
                    "logprob": continuation.logprob,
                    "tokens": continuation.tokens,
                    "token_logprobs": continuation.token_logprobs.tolist(),
                }
                for continuation in continuations or ()
            ]
            thinking = {}
            if results.thoughts is not None:
                thought = results.thoughts[i]
                thinking = _thoughts([thought] if thought else [])
            data.append({"index": i, "continuations": rows, **thinking, "error": failure})
        return self._body(data, results.stats)


class ClassifyApi(_RowsApi):
    """Format of `/v1/classify`."""

    path = "/classify"
    summary = "Compute the probabilities of labels."
    options = (ClassifyOptions, "http")
    field_schemas: ClassVar = {
        "model": schemas.TEXT,
        "prompts": {"type": "array", **schemas.ITEMS},
    }
    needed = ("prompts", "labels")
    answers = rows(
        label=schemas.TEXT_OR_NULL,
        **dict.fromkeys(
            ("prob", "margin", "entropy", "coverage"), schemas.NUMBER_OR_NULL
        ),
        **dict.fromkeys(("probs", "logprobs"), _NUMBERS),
    )

    def prepare(self, fields: dict[str, object]) -> Prepared[ClassifyResults]:
        request, prompts = self._items(fields)
        check_pairs(prompts, request["labels"], "labels")
        options = ClassifyOptions(**self._options(request), on_error="continue")
        return Prepared(prepare_classify(self._ctx, prompts, options), self._render)

    def _render(self, results: ClassifyResults) -> dict[str, object]:
        columns = {
            name: _numbers(values)
            for name, values in (
                ("prob", results.prob),
                ("margin", results.margin),
                ("entropy", results.entropy),
                ("coverage", results.coverage),
            )
        }
        if results.label_between is not None:
            columns["between"] = _numbers(results.label_between)
        data = []
        for i, failure in enumerate(_failures(results)):
            thought = {} if results.thoughts is None else _thoughts(results.thoughts[i])
            data.append(
                {
                    "index": i,
                    "label": results.labels[i],
                    **{name: values[i] for name, values in columns.items()},
                    "probs": _by_name(results.names, results.probs[i]),
                    "logprobs": _by_name(results.names, results.logprobs[i]),
                    **thought,
                    "error": failure,
                }
            )
        body = self._body(data, results.stats)
        return {**body, "notes": list(results.notes)}


def _failures(results: ScoreResults | ClassifyResults) -> list[dict[str, object] | None]:
    """Return the error of each row; None for a row without an error."""
    return [
        None if text is None else {"message": str(text), "code": code}
        for text, code in zip(results.errors, results.error_codes, strict=True)
    ]


def _numbers(values: Iterable[float]) -> list[float | None]:
    """Return numbers that JSON can represent; None for NaN and infinite numbers."""
    return [float(value) if math.isfinite(value) else None for value in values]


def _by_name(names: Sequence[str], values: Iterable[float]) -> dict[str, float | None]:
    return dict(zip(names, _numbers(values), strict=True))


def _thoughts(thoughts: Sequence[Thought]) -> dict[str, object]:
    return {
        "thinking": [thought.text for thought in thoughts],
        "thinking_complete": all(thought.is_complete for thought in thoughts),
        "n_thinking_tokens": sum(thought.n_tokens for thought in thoughts),
    }


class AnnotateApi(_RowsApi):
    """Format of `/v1/annotate`."""

    path = "/annotate"
    summary = "Code texts with a codebook."
    options = (AnnotateOptions, "http")
    field_schemas: ClassVar = {
        "model": schemas.TEXT,
        "texts": list_schema(schemas.TEXT_OR_NULL, **schemas.ITEMS),
        "codebook": {"type": ["object", "string"]},
    }
    needed = ("texts", "codebook")
    answers = rows()

    def prepare(self, fields: dict[str, object]) -> Prepared[Coded]:
        request, texts = self._items(fields)
        options = self._options(request)
        codebook = _codebook(request["codebook"])
        check_pairs(texts, codebook.names, "codebook")
        task = Annotate(codebook, options)
        work = task.requests(self._ctx, texts, range(len(texts)), None)

        def render(coded: Coded) -> dict[str, object]:
            columns = {name: _cells(column) for name, column in task.rows(coded).items()}
            failed = zip(coded.errors, codes_of(coded.errors), strict=True)
            columns["error"] = [
                None if text is None else {"message": str(text), "code": code}
                for text, code in failed
            ]
            data = [
                {"index": i, **{name: cells[i] for name, cells in columns.items()}}
                for i in range(len(texts))
            ]
            body = self._body(data, coded.stats)
            notes = task.notes(task.rows(coded))
            return {**body, "codebook": task.codebook.hash, "notes": notes}

        return Prepared(work, render)


def _codebook(value: str | dict[str, Any]) -> Codebook:
    """Return a codebook: an object with its fields, or YAML in a string."""
    try:
        if isinstance(value, str):
            return codebook_of_yaml(value, "codebook")
        return Codebook.from_dict(value)
    except BadArgumentError as error:
        where = error.rendered(lambda argument: f"codebook.{argument.dotted()}")
        text = where if isinstance(value, dict) else str(error)
        raise bad_field("codebook", text) from None


def _cells(values: Any) -> list[object]:  # a column of any type
    return [_plain(value) for value in values]


def _plain(value: Any) -> object:  # a cell of any type
    """Return a value in JSON types; NaN becomes Ncontinuation."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
