"""Requests to an engine elsewhere, and its forms: what it is sent, how it is read."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from array import array
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.outcome import Finish, Output
from llamaherd.engine.core.request import Request
from llamaherd.engine.core.sampling import OF_REQUEST, SamplingParams

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from llamaherd.calls.asks.options import (
        ClassifyOptions,
        EmbedOptions,
        GenerateOptions,
    )
    from llamaherd.engine.core.declaration import Options


GENERATE, CLASSIFY = "/generate", "/classify"  # llamaherd's own paths


class WrongAnswerError(Exception):
    """An answer that is not what the API promises; the request is sent again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentRequest(Request):
    """A request to an engine elsewhere. `tokens` is a hash of `path` and `content`."""

    path: str  # path of the request, after the address of the engine
    content: str  # JSON object of the fields that do not depend on the try
    # For a request that labels its prompt: names in the order of the scores.
    labels: tuple[str, ...] = ()
    n_inputs: int = 0  # for a request for vectors: number of its texts

    @property
    def changed(self) -> list[str]:
        """Sampling settings that differ from their defaults, without `OF_REQUEST`."""
        return [name for name in self.sampling.changed() if name not in OF_REQUEST]

    @property
    def is_generated(self) -> bool:
        """Whether the engine draws tokens, not only computes vectors or label scores."""
        return not self.n_inputs and self.path != CLASSIFY

    @property
    def n_prompt(self) -> int:
        """Number of tokens of the prompt, 0: only the engine can count them."""
        return 0


def content_hash(path: str, content: str) -> array[int]:
    """Return the `tokens` of a request: requests with equal hashes ask the same."""
    return array("i", hashlib.sha256(f"{path}\n{content}".encode()).digest())


def as_json(content: Mapping[str, object]) -> str:
    """Return the text of a JSON object; NaN and infinite numbers are refused."""
    return json.dumps(content, ensure_ascii=False, allow_nan=False)


class ApiForm(ABC):
    """Form of an API: converts options to requests, and answers to outputs."""

    limit = "max_tokens"  # field of the maximum number of tokens
    n_seeds: ClassVar[int] = 2**64

    @abstractmethod
    def check(self, options: GenerateOptions, params: Sequence[SamplingParams]) -> None:
        """Check that the engine can follow the options of a call."""

    @abstractmethod
    def prompt(
        self, i: int, prompt: object, options: GenerateOptions
    ) -> tuple[str, dict[str, Any]]:
        """Return path and fields of prompt i."""

    def body(self, request: SentRequest) -> dict[str, Any]:
        """Return the body of a request, for its present seed and temperature."""
        content: dict[str, Any] = json.loads(request.content)
        if not request.is_generated:
            return content
        content |= self.settings_of(request)
        content[self.limit] = request.max_tokens
        if request.stop:
            content["stop"] = list(request.stop)
        if not request.sampling.is_greedy:
            content["seed"] = request.seed % self.n_seeds
        return content

    @abstractmethod
    def settings_of(self, request: SentRequest) -> dict[str, Any]:
        """Return the fields of the sampling settings and of the constraint."""

    @abstractmethod
    def output(self, request: SentRequest, answer: Mapping[str, Any]) -> Output:
        """Read an answer."""

    @abstractmethod
    def check_labels(self, options: ClassifyOptions) -> None:
        """Check that the engine can follow the options of a classification."""

    @abstractmethod
    def label_prompt(
        self, i: int, prompt: object, options: ClassifyOptions
    ) -> tuple[str, dict[str, Any]]:
        """Return path and fields of prompt i, which gets a label."""

    @abstractmethod
    def embedding(self, options: EmbedOptions) -> dict[str, Any]:
        """Return the fields of requests for vectors, apart from the texts."""


def refuse(argument: str, kind: str, why: str = "") -> ArgumentError:
    """Return the error for an option that an engine elsewhere cannot follow."""
    because = f": {why}" if why else ""
    return ArgumentError(
        f"cannot be used with {kind}{because}", argument=argument, code="elsewhere"
    )


def refuse_others(options: Options, known: Container[str], kind: str) -> None:
    """Refuse options that differ from their defaults and that an engine does not know."""
    for name in options.changed():
        if name not in known:
            raise refuse(name, kind)


def sent_value(name: str, value: Any, least_bias: float) -> object:  # of any setting
    """Return a sampling setting in the form of JSON, with biases of at least a number."""
    if name == "temperature":
        return max(0.0, value)
    if name == "logit_bias":
        return {str(token): max(bias, least_bias) for token, bias in dict(value).items()}
    return value if isinstance(value, (str, int, float)) else list(value)


def failed_output(message: str, **more: Any) -> Output:  # fields of Output
    """Return the output of a prompt that failed."""
    return Output(finish=Finish.ERROR, message=message, **more)


def text_of(value: object) -> str:
    """Return a text of JSON as valid UTF-8, without lone surrogates."""
    if not isinstance(value, str):
        raise WrongAnswerError(f"has {type(value).__name__} in place of a text")
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def count_of_tokens(answer: Mapping[str, Any], *names: str) -> int | None:
    """Return a number of tokens from the usage of an answer; None if it has none."""
    usage = answer.get("usage")
    counts: dict[str, Any] = usage if isinstance(usage, dict) else {}
    for name in names:
        value = counts.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
    return None


def read_vectors(answer: Mapping[str, Any], n: int) -> Output:
    """Read the vectors of n texts, one after the other, as the scores of an output."""
    try:
        rows = sorted(answer["data"], key=lambda row: row["index"])
        vectors = [array("d", row["embedding"]) for row in rows]
        places = [row["index"] for row in rows]
    except (KeyError, TypeError, ValueError) as error:
        raise WrongAnswerError("has no vectors") from error
    if places != list(range(n)) or len({len(vector) for vector in vectors}) != 1:
        raise WrongAnswerError(f"has no {n} vectors of one size")
    n_tokens = count_of_tokens(answer, "prompt_tokens")
    flat = array("d", [value for vector in vectors for value in vector])
    return Output(finish=Finish.EOG, complete=True, scores=flat, n_prompt=n_tokens)
