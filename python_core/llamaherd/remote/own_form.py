"""Form of llamaherd's own servers, which take the options of the library."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from llamaherd.calls.asks.options import (
    ClassifyOptions,
    EmbedOptions,
    GenerateOptions,
)
from llamaherd.engine.core.declaration import Options, options_of
from llamaherd.engine.core.errors import NO_CODE, Failure
from llamaherd.engine.core.outcome import Finish, Output
from llamaherd.engine.core.sampling import SamplingParams
from llamaherd.engine.core.thinking import Thinking
from llamaherd.remote.request import (
    CLASSIFY,
    GENERATE,
    ApiForm,
    SentRequest,
    WrongAnswerError,
    count_of_tokens,
    failed_output,
    read_vectors,
    refuse,
    refuse_others,
    sent_value,
    text_of,
)

_KIND = "a server of llamaherd"
_SAMPLING = frozenset(SamplingParams.declared)
# Options that this process follows itself.
_HERE = {"n", "params", "retries", "strict", "show_schema", "journal", "on_error"} | {
    *("progress", "labels", "sampling")
}
_FINISH = {"stop": Finish.STOP, "length": Finish.LENGTH}


class OwnForm(ApiForm):
    """Form of llamaherd's own servers."""

    def check(self, options: GenerateOptions, params: Sequence[SamplingParams]) -> None:
        del params  # the server knows every setting
        refuse_others(options, {*options_of(GenerateOptions, "http"), *_HERE}, _KIND)

    def prompt(
        self, i: int, prompt: object, options: GenerateOptions
    ) -> tuple[str, dict[str, Any]]:
        del i  # the server checks the prompt
        # This process has described the schema.
        content = {"prompt": prompt, **_fields(options), "show_schema": False}
        return GENERATE, content

    def settings_of(self, request: SentRequest) -> dict[str, Any]:
        values = {name: getattr(request.sampling, name) for name in request.changed}
        fields = {name: sent_value(name, value, -1e30) for name, value in values.items()}
        return fields | {n: json.loads(v) for n, v in values.items() if n == "schema"}

    def output(self, request: SentRequest, answer: Mapping[str, Any]) -> Output:
        if request.n_inputs:
            return read_vectors(answer, request.n_inputs)
        if request.tree is not None:
            return _scores(request, answer)
        thinking = answer.get("thinking")
        more: dict[str, Any] = {
            "n_prompt": count_of_tokens(answer, "prompt_tokens"),
            "n_generated": count_of_tokens(answer, "completion_tokens"),
            "thinking": None if thinking is None else text_of(thinking),
            "thinking_complete": answer.get("thinking_complete"),
        }
        error = answer.get("error")
        if error is not None:
            return failed_output(
                _failure(error), text=str(answer.get("text") or ""), **more
            )
        reason = answer.get("finish_reason")
        if reason not in _FINISH:
            raise WrongAnswerError(f"has the finish_reason {reason!r}")
        return Output(
            finish=_FINISH[reason],
            text=text_of(answer.get("text")),
            complete=reason == "stop",
            **more,
        )

    def check_labels(self, options: ClassifyOptions) -> None:
        refuse_others(options, {*options_of(ClassifyOptions, "http"), *_HERE}, _KIND)
        if isinstance(options.thinking, Thinking):
            raise refuse("thinking", _KIND, "labels are scored without thoughts there")

    def label_prompt(
        self, i: int, prompt: object, options: ClassifyOptions
    ) -> tuple[str, dict[str, Any]]:
        del i  # the server checks the prompt
        label_set: Any = options.labels
        sent_labels = (
            dict(label_set) if isinstance(label_set, Mapping) else list(label_set)
        )
        return CLASSIFY, {
            "prompts": [prompt],
            "labels": sent_labels,
            **_fields(options),
        }

    def embedding(self, options: EmbedOptions) -> dict[str, Any]:
        if "n_threads" in options.changed():
            raise refuse("n_threads", _KIND, "its owner sets the number of threads")
        return _fields(options)


def _fields(options: Options) -> dict[str, Any]:
    """Return the fields of the options that differ from their defaults."""
    names = [name for name in options.changed() if name not in _HERE | _SAMPLING]
    fields = {name: getattr(options, name) for name in names}
    if isinstance(fields.get("thinking"), Thinking):
        thinking = fields["thinking"]
        named = ("budget", "start", "end", "message")
        values = {name: getattr(thinking, name) for name in named}
        fields["thinking"] = {name: v for name, v in values.items() if v is not None}
    if isinstance(options, ClassifyOptions) and "seed" in options.changed():
        fields["seed"] = options.seed
    return fields


def _failure(error: object) -> Failure:
    fields = error if isinstance(error, dict) else {"message": error}
    code = fields.get("code")
    text = str(fields.get("message"))
    return Failure(text, code if isinstance(code, str) else NO_CODE)


def _scores(request: SentRequest, answer: Mapping[str, Any]) -> Output:
    """Read a row of `/v1/classify`: log-probabilities, then probabilities."""
    try:
        (row,) = answer["data"]
        error = row.get("error")
        if error is not None:
            return failed_output(_failure(error))
        parts = ("logprobs", "probs")
        numbers = [row[part][name] for part in parts for name in request.labels]
        scores = array(
            "d", [math.nan if number is None else number for number in numbers]
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WrongAnswerError("has no row of probabilities") from error
    return Output(
        finish=Finish.EOG,
        complete=True,
        scores=scores,
        n_prompt=count_of_tokens(answer, "prompt_tokens"),
    )
