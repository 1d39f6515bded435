"""Constraints of answers: quotes, schemas in prompts, and settings without effect."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from llamaherd.calls.chat.conversations import refused
from llamaherd.calls.structured.prompt import schema_prompt
from llamaherd.calls.structured.quoting import text_has_quotes
from llamaherd.calls.structured.shape import Shape, schema_text, shape_of
from llamaherd.calls.structured.subschemas import costly_rule
from llamaherd.engine.core import checks
from llamaherd.engine.core.caller import warn_caller
from llamaherd.engine.core.errors import ArgumentError, Failure
from llamaherd.engine.core.sampling import OF_CHOICES, PER_PROMPT, SamplingParams
from llamaherd.engine.core.words import name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def idle_settings(params: SamplingParams) -> dict[str, str]:
    """Return a reason for each changed setting that has no effect, by name."""
    reasons: dict[str, str] = {}
    for name in params.changed():
        if getattr(params, name) != ():
            for idle in SamplingParams.declared[name].idle:
                if idle.holds(params):
                    reasons.setdefault(name, idle.why)
    return reasons


def warn_idle(settings: Iterable[SamplingParams], stop: object = None) -> None:
    """Warn of settings without effect, once per setting and reason."""
    different = {id(params): params for params in settings}.values()
    reasons = {
        pair: None for params in different for pair in idle_settings(params).items()
    }
    if stop and any(params.choices is not None for params in different):
        reasons["stop", OF_CHOICES.why] = None
    for name, why in reasons:
        warn_caller(f"{name_of(name)} has no effect: {why}")


@lru_cache(maxsize=64)
def stop_problem(stop: tuple[str, ...], choices: tuple[str, ...]) -> str:
    """Return an error message if a stop text is part of a choice; "" otherwise."""
    for text in stop:
        choice = next((choice for choice in choices if text in choice), None)
        if choice is not None:
            return Failure(
                f"{name_of('stop')} has {checks.quoted(text)}, which is part of the "
                f"choice {checks.quoted(choice)} and would cut it: leave it out, an "
                "answer with choices ends with its choice",
                "constraint",
                "stop",
            )
    return ""


def with_sources(
    params: Sequence[SamplingParams], prompts: Sequence[object]
) -> Sequence[SamplingParams]:
    """Return the settings of prompts, with the text to quote from for quotes."""
    wanted = [
        isinstance(settings.schema, str) and text_has_quotes(settings.schema)
        for settings in params
    ]
    if not any(wanted) and any(settings.quote_from is not None for settings in params):
        raise ArgumentError(
            "needs a schema with a quote", argument="quote_from", code="conflict"
        )
    if not any(wanted):
        return params
    return [
        replace(settings, quote_from=_words_of(prompt, i))
        if is_wanted and settings.quote_from is None
        else settings
        for i, (settings, prompt, is_wanted) in enumerate(
            zip(params, prompts, wanted, strict=True)
        )
    ]


def _words_of(prompt: Any, i: int) -> str:  # noqa: ANN401 - it is checked later
    """Return the text of a prompt, or of the user's last message; fail without a text."""
    if isinstance(prompt, str):
        return prompt
    messages = prompt if isinstance(prompt, Sequence) else ()
    if not messages or isinstance(messages[0], Mapping):
        said = [turn for turn in messages if turn.get("role") == "user"]
        return _text_of(said[-1].get("content")) if said else ""  # which fails alone
    raise ArgumentError(
        f"has no text to quote from: give its text in {name_of('quote_from')}",
        argument="prompts",
        place=(i,),
        code="missing",
    )


def _text_of(content: object) -> str:
    """Return the text of a message, whose content may be a list of parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, Sequence) else ()
    texts = [part.get("text") for part in parts if isinstance(part, Mapping)]
    return "\n".join(text for text in texts if isinstance(text, str))


_PLAIN = {"type", "additionalProperties", "$schema"}  # keywords that describe no field


def with_schemas(prompts: Sequence[object], schemas: Sequence[object]) -> list[object]:
    """Describe the schema of each answer before the text of the last user message."""
    known: dict[str, str] = {}
    completed = []
    for prompt, schema in zip(prompts, schemas, strict=True):
        if not isinstance(schema, str):
            completed.append(prompt)
            continue
        if schema not in known:
            known[schema] = _described(schema)
        completed.append(_with_text(prompt, known[schema]))
    return completed


def _described(schema: str) -> str:
    """Return the description; "" for a schema without any field, such as any object."""
    read = json.loads(schema)
    return (
        "" if not isinstance(read, dict) or set(read) <= _PLAIN else schema_prompt(read)
    )


def _with_text(prompt: object, text: str) -> object:
    if not text:
        return prompt
    if isinstance(prompt, str):
        return prompt if text in prompt else f"{text}\n\n{prompt}"
    if not isinstance(prompt, Sequence) or not all(
        isinstance(message, Mapping) for message in prompt
    ):
        return prompt
    contents = [message.get("content") for message in prompt]
    if any(isinstance(content, str) and text in content for content in contents):
        return prompt
    at = [i for i, message in enumerate(prompt) if message.get("role") == "user"]
    if not at or not isinstance(contents[at[-1]], str):
        return prompt
    messages = list(prompt)
    messages[at[-1]] = {**messages[at[-1]], "content": f"{text}\n\n{contents[at[-1]]}"}
    return messages


if TYPE_CHECKING:
    Make = Callable[[str], object]


class Constraints:
    """Constraints of a call, separated from the other `settings`.

    `refused` has the prompts whose source of quotes cannot be used, by index.
    """

    def __init__(self, settings: Mapping[str, Any], *, strict: bool = False) -> None:
        left = dict(settings)
        self._strict = strict
        self._each = {
            name: cast("Sequence[object]", left.pop(name))
            for name in PER_PROMPT
            if _is_each(name, left.get(name))
        }
        self._makers: list[Make | None] = []  # one element per prompt, or a single
        # element for all prompts
        self._shapes: dict[tuple[str, Make | None], Shape] = {}
        if left.get("schema") is not None:
            left["schema"], make = schema_text(left["schema"])
            self._makers = [make]
        if "schema" in self._each:
            self._read_each(self._each["schema"])
        sources = self._each.get("quote_from", ())
        self.refused = {
            i: refusal
            for i, source in enumerate(sources)
            if source is not None and (refusal := refused(source, "quote_from"))
        }
        if self.refused:
            self._each["quote_from"] = [
                None if i in self.refused else source for i, source in enumerate(sources)
            ]
        self.settings = left

    def shape(self, params: SamplingParams, i: int = 0) -> Shape | None:
        """Return the prepared schema of prompt i, which may have its own Python type."""
        text = params.schema
        if params.grammar and costly_rule(params.grammar):
            raise ArgumentError(
                "a %json rule has too many patterns for one text: leave out patterns, or "
                "write them as one pattern",
                argument="grammar",
                code="too_many",
                form="{name}: {problem}",
            )
        if not isinstance(text, str):
            return None
        make = self._makers[i % len(self._makers)] if self._makers else None
        if (text, make) not in self._shapes:
            shape = shape_of(text, closes=True)
            if self._strict and shape.unenforced:
                raise ArgumentError(
                    f"masks cannot enforce {', '.join(shape.unenforced)} of the schema",
                    argument="strict",
                    code="conflict",
                    form="{name}: {problem}",
                )
            self._shapes[text, make] = replace(shape, make=make)
        prepared = self._shapes[text, make]
        if not prepared.has_quotes or params.quote_from is None:
            return prepared
        return prepared.quoting(params.quote_from)

    def of_prompts(self, params: Sequence[SamplingParams]) -> Sequence[SamplingParams]:
        """Return the settings of all prompts, with the constraints of each."""
        for name, values in self._each.items():
            if len(values) != len(params):
                raise ArgumentError(
                    f"must have one element per prompt ({len(params)}), not "
                    f"{len(values)}",
                    argument=name,
                    code="wrong_length",
                )
            merged: dict[tuple[int, int], SamplingParams] = {}
            for settings, value in zip(params, values, strict=True):
                key = (id(settings), id(value))  # usually few distinct objects
                if key not in merged:
                    merged[key] = replace(settings, **{name: value})  # type: ignore[arg-type]
            params = [
                merged[id(settings), id(value)]
                for settings, value in zip(params, values, strict=True)
            ]
        return params

    def _read_each(self, schemas: Sequence[object]) -> None:
        read: dict[int, tuple[str | None, Make | None]] = {id(None): (None, None)}
        for schema in schemas:
            if id(schema) not in read:  # usually few distinct objects
                read[id(schema)] = schema_text(schema)
        self._each["schema"] = [read[id(schema)][0] for schema in schemas]
        self._makers = [read[id(schema)][1] for schema in schemas]


def _is_each(name: str, value: object) -> bool:
    """Check whether a constraint is a list with one element per prompt."""
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes, bytearray)):
        return False
    if name != "choices":
        return True
    return any(
        one is None or (isinstance(one, Sequence) and not isinstance(one, str))
        for one in value
    )
