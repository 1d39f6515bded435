"""`POST /v1/score` and `/v1/classify`: probabilities, without generated text."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from llamaherd.api.classify import prepare_classify
from llamaherd.api.score import prepare_score
from llamaherd.asks.options import ClassifyOptions, ScoreOptions
from llamaherd.core.declaration import options_of
from llamaherd.server.chats import with_defaults
from llamaherd.server.costs import check_items, check_pairs
from llamaherd.server.work_api import Prepared, check_model, given_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from llamaherd.asks.continuations import ScoreResults
    from llamaherd.asks.scored_thoughts import Thought
    from llamaherd.asks.scores import ClassifyResults
    from llamaherd.core.stats import Stats
    from llamaherd.run.context import Context
    from llamaherd.server.settings import ServerSettings

_OF_SCORES = frozenset(options_of(ScoreOptions, "http"))
_OF_LABELS = frozenset(options_of(ClassifyOptions, "http"))


class ScoreApi:
    """Format of `/v1/score`.

    Args:
        ctx: Context to run in.
        settings: Settings of the server.
    """

    fields = _OF_SCORES | {"model", "prompts", "continuations"}

    def __init__(self, ctx: Context, settings: ServerSettings) -> None:
        self._ctx = ctx
        self._settings = settings

    def prepare(self, fields: dict[str, object]) -> Prepared[ScoreResults]:
        """See `WorkShape`."""
        given = given_fields(fields, self.fields, ("prompts", "continuations"))
        check_model(given, self._settings)
        prompts = check_items("prompts", given["prompts"])
        check_pairs(prompts, given["continuations"], "continuations")
        options = ScoreOptions(
            **options_with_defaults(given, _OF_SCORES, self._settings),
            on_error="continue",
        )
        work = prepare_score(self._ctx, prompts, given["continuations"], options)
        return Prepared(work, self._render)

    def _render(self, found: ScoreResults) -> dict[str, object]:
        data = []
        for i, (each, failure) in enumerate(
            zip(found.continuations, failures(found), strict=True)
        ):
            rows = [
                {
                    "text": one.text,
                    "logprob": one.logprob,
                    "tokens": one.tokens,
                    "token_logprobs": one.token_logprobs.tolist(),
                }
                for one in each or ()
            ]
            thought = {}
            if found.thoughts is not None:
                thought = _thoughts([one for one in (found.thoughts[i],) if one])
            data.append({"index": i, "continuations": rows, **thought, "error": failure})
        return answer(self._settings, data, found.stats)


class ClassifyApi:
    """Format of `/v1/classify`.

    Args:
        ctx: Context to run in.
        settings: Settings of the server.
    """

    fields = _OF_LABELS | {"model", "prompts"}

    def __init__(self, ctx: Context, settings: ServerSettings) -> None:
        self._ctx = ctx
        self._settings = settings

    def prepare(self, fields: dict[str, object]) -> Prepared[ClassifyResults]:
        """See `WorkShape`."""
        given = given_fields(fields, self.fields, ("prompts", "labels"))
        check_model(given, self._settings)
        prompts = check_items("prompts", given["prompts"])
        check_pairs(prompts, given["labels"], "labels")
        options = ClassifyOptions(
            **options_with_defaults(given, _OF_LABELS, self._settings),
            on_error="continue",
        )
        return Prepared(prepare_classify(self._ctx, prompts, options), self._render)

    def _render(self, found: ClassifyResults) -> dict[str, object]:
        columns = {
            name: numbers(values)
            for name, values in (
                ("prob", found.prob),
                ("margin", found.margin),
                ("entropy", found.entropy),
                ("coverage", found.coverage),
            )
        }
        if found.label_between is not None:
            columns["between"] = numbers(found.label_between)
        data = []
        for i, failure in enumerate(failures(found)):
            thought = {} if found.thoughts is None else _thoughts(found.thoughts[i])
            data.append(
                {
                    "index": i,
                    "label": found.labels[i],
                    **{name: values[i] for name, values in columns.items()},
                    "probs": _by_name(found.names, found.probs[i]),
                    "logprobs": _by_name(found.names, found.logprobs[i]),
                    **thought,
                    "error": failure,
                }
            )
        body = answer(self._settings, data, found.stats)
        return {**body, "notes": list(found.notes)}


def options_with_defaults(
    given: dict[str, object], names: frozenset[str], settings: ServerSettings
) -> dict[str, Any]:
    """Return the options of a request, with the server's options for chats."""
    options = {name: given[name] for name in given if name in names}
    return with_defaults(options, settings) if options.get("chat") is True else options


def answer(
    settings: ServerSettings, data: Sequence[object], stats: Stats
) -> dict[str, object]:
    """Return the body of an answer with a row for each prompt."""
    n = stats.n_prompt_tokens
    usage = {
        "prompt_tokens": n,
        "total_tokens": n,
        "prompt_tokens_details": {"cached_tokens": stats.n_reused_tokens},
    }
    return {
        "object": "list",
        "model": settings.model_name,
        "data": list(data),
        "usage": usage,
    }


def failures(found: ScoreResults | ClassifyResults) -> list[dict[str, object] | None]:
    """Return the error of each row; None for a row without an error."""
    return [
        None if text is None else {"message": str(text), "code": code}
        for text, code in zip(found.errors, found.error_codes, strict=True)
    ]


def numbers(values: Iterable[float]) -> list[float | None]:
    """Return numbers that JSON can represent; None for NaN and infinite numbers."""
    return [float(value) if math.isfinite(value) else None for value in values]


def _by_name(names: Sequence[str], values: Iterable[float]) -> dict[str, float | None]:
    return dict(zip(names, numbers(values), strict=True))


def _thoughts(thoughts: Sequence[Thought]) -> dict[str, object]:
    return {
        "thinking": [each.text for each in thoughts],
        "thinking_complete": all(each.is_complete for each in thoughts),
        "n_thinking_tokens": sum(each.n_tokens for each in thoughts),
    }
