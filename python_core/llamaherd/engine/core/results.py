"""Result of a call: `Results`, with one `Result` per prompt and sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, overload

from llamaherd.engine.core.errors import CANCELLED, code_of
from llamaherd.engine.core.table import (
    Framed,
    Layout,
    columns,
    in_pandas,
    reasons,
    with_columns,
    with_index,
)

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from llamaherd.engine.core.stats import RequestStats, Stats

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # has defaults

    T_co = TypeVar("T_co", default=Any, covariant=True)
else:
    from typing import TypeVar

    T_co = TypeVar("T_co", covariant=True)

# Columns of thoughts and of reasons, with their kinds.
THOUGHT_COLUMNS = ("thinking", "n_thinking_tokens", "thinking_complete")
KINDS = dict(zip(THOUGHT_COLUMNS, ("string", "integer", "boolean"), strict=True))
KINDS["error"] = "string"

FinishReason = Literal["stop", "length", "cancelled", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result(Generic[T_co]):
    """Result of one prompt, or of one sample of a prompt.

    Attributes:
        index: Index of the prompt in the call.
        sample: Index of the sample of the prompt.
        text: Text of the answer, valid UTF-8; None unless `finish_reason` is "stop" or
            "length".
        partial: Text of an unfinished answer; None without an unfinished answer.
        tokens: Generated tokens, without an end-of-generation token. For a choice, the
            tokens that distinguish it from the other choices.
        finish_reason: "stop" (end of generation or of the grammar, or a stop text),
            "length" (max_tokens), "cancelled" (the call ended first) or "error".
        complete: Whether the answer ended by itself; False unless the finish reason is
            "stop". If a stop text ended an answer that has a grammar or choices, the
            answer is complete only if the part before the stop text satisfies the
            grammar or is one of the choices. An answer that `max_tokens` cut off is
            never complete, even if the grammar allows its end: the last digits of a
            number may be missing.
        error: Reason of the failure; None if the prompt did not fail. A program should
            test `error_code`, not this text.
        n_reused_tokens: Number of prompt tokens whose computation was shared with
            another prompt.
        seed: Seed of the random generator, a uint32.
        thinking: Text of the thought before the answer, without white space around it;
            None without a thought. `text`, `tokens` and all other fields describe only
            the answer. For an unfinished prompt, `thinking` contains the part of the
            thought generated so far.
        n_thinking_tokens: Number of tokens of the thought, including its markers.
        thinking_complete: Whether the model ended the thought itself. False if its budget
            was spent, or if the model ended its turn inside the thought; None without a
            thought, or if the thought has not ended.
        parsed: Value of an answer under a schema: parsed JSON, or an instance of the
            type given as schema; None without a schema or after a failure.
        stats: Statistics of the prompt; None if the result was copied or found in the
            journal.
        logprobs: With `logprobs=k`, the natural logarithm of the probability of each
            token, before bias, grammar, penalties and temperature. NaN for a token that
            was not sampled.
        top_logprobs: With `logprobs=k`, a map from token id to log-probability for each
            token. The map has the k most likely alternatives, most likely first.
        ranks: For a tree of tokens with `logprobs=k`, the rank of each token among all
            tokens, 1 for the most likely token; None for an answer.
        scores: Log-probabilities of a tree of tokens, used by `classify_parallel`,
            `score_parallel` and `perplexity`; None for an answer.
        n_counted: Number of generated tokens as an engine elsewhere counted them (see
            `connect`); None if `tokens` has the tokens.
    """

    index: int
    sample: int = 0
    text: str | None
    partial: str | None = None
    tokens: list[int]
    finish_reason: FinishReason
    complete: bool
    error: str | None
    n_prompt_tokens: int
    n_reused_tokens: int
    seed: int
    thinking: str | None = None
    n_thinking_tokens: int = 0
    thinking_complete: bool | None = None
    parsed: T_co | None = field(default=None, repr=False)
    stats: RequestStats | None = field(default=None, compare=False, repr=False)
    logprobs: list[float] | None = field(default=None, repr=False)
    top_logprobs: list[dict[int, float]] | None = field(default=None, repr=False)
    ranks: Sequence[int] | None = field(default=None, repr=False)
    scores: Sequence[float] | None = field(default=None, repr=False)
    n_counted: int | None = field(default=None, repr=False)

    @property
    def error_code(self) -> str | None:
        """Code of the failure, see `core.errors`; None for an answer."""
        if self.finish_reason == "cancelled":
            return CANCELLED.code
        return code_of(self.error)

    @property
    def n_generated_tokens(self) -> int:
        """Number of generated tokens."""
        return len(self.tokens) if self.n_counted is None else self.n_counted

    @property
    def is_finished(self) -> bool:
        """Whether the prompt has an answer."""
        return self.text is not None


class Results(Framed, Sequence[Result[T_co]]):
    """Results of a call, in the order of its prompts.

    `Results[T]` are the results of a call whose schema is a type T, such as a pydantic
    model.

    With several samples per prompt (`n`), the sequence has the first sample of each
    prompt. The first sample equals the result of a call with n = 1. `samples` has all
    samples.

    Args:
        results: Results of all samples, ordered by prompt.
        stats: Statistics of the call.
        n: Number of samples per prompt.
        layout: Columns of answers under schemas; None without schemas.
        has_thoughts: Whether thoughts could come before the answers.

    Attributes:
        samples: For each prompt the results of its n samples.
        stats: Statistics of the call.
        has_thoughts: Whether thoughts could come before the answers; tables then have
            columns for them.
        index_of_prompts: Index of the pandas Series of prompts; None for other prompts.
    """

    def __init__(
        self,
        results: Sequence[Result[T_co]],
        stats: Stats,
        n: int = 1,
        *,
        layout: Layout | None = None,
        has_thoughts: bool = False,
    ) -> None:
        self.samples = tuple(tuple(results[i : i + n]) for i in range(0, len(results), n))
        self._results = tuple(samples[0] for samples in self.samples)
        self.stats = stats
        self._layout = layout
        self.has_thoughts = has_thoughts
        self.index_of_prompts: Any = None

    @property
    def texts(self) -> list[str | None]:
        """Answer to each prompt; None for a prompt without an answer."""
        return [result.text for result in self._results]

    @property
    def thinking(self) -> list[str | None]:
        """Thought before each answer; None for a prompt without a thought."""
        return [result.thinking for result in self._results]

    @property
    def n_thinking_tokens(self) -> list[int]:
        """Number of tokens of each thought; 0 for a prompt without a thought."""
        return [result.n_thinking_tokens for result in self._results]

    @property
    def thinking_complete(self) -> list[bool | None]:
        """Whether the model ended each thought itself; None without a thought."""
        return [result.thinking_complete for result in self._results]

    @property
    def parsed(self) -> list[T_co | None]:
        """Parsed value of each answer under a schema; None for a missing value."""
        return [result.parsed for result in self._results]

    def to_pandas(self, *, dotted: bool = False) -> pd.DataFrame:
        """Return a data frame: a row per prompt, a column per field, and "error".

        If the model could think before the answers, "thinking", "n_thinking_tokens" and
        "thinking_complete" are columns before "error".

        The columns and their types depend only on the schema, not on the results. Without
        a schema there is a column "text". If a schema allows answers other than objects
        with known fields, the column "value" contains the whole answer. Columns can hold
        lists and objects. Integers have the type "Int64", booleans "boolean", which allow
        missing values. An integer of more than 64 bits is missing, with the reason in
        "error".

        If the prompts were a pandas Series, the data frame has its index, so that
        `frame["answer"] = results.to_pandas()["text"]` keeps rows together. Otherwise the
        index is 0 to n - 1.

        Args:
            dotted: Expand nested objects into columns such as "author.name".

        Raises:
            ImportError: pandas is not installed.
        """
        import pandas as pd  # optional dependency

        table: dict[str, Any] = {"text": self.texts}
        kinds: Mapping[str, str] = {"text": "string"}
        problems: dict[int, str] = {}
        if self._layout is not None:
            values = self._columns(dotted=dotted)
            table, problems = self._layout.held(values, dotted=dotted)
            kinds = self._layout.kinds(dotted=dotted)
        more = in_pandas(self._further(problems), KINDS)
        frame = pd.DataFrame(with_columns(in_pandas(table, kinds), more))
        indexed: pd.DataFrame = with_index(frame, self.index_of_prompts)
        return indexed

    def to_arrow(self, *, dotted: bool = False) -> pa.Table:
        """Return the results as a table of pyarrow, see `to_pandas`.

        The columns have the types of the schema. Values of several or unknown types are
        JSON text.

        Raises:
            ImportError: pyarrow is not installed.
            ValueError: A validator returned a value that does not fit the schema.
        """
        import pyarrow as pa  # optional dependency

        table: dict[str, Any] = {"text": pa.array(self.texts, pa.string())}
        problems: dict[int, str] = {}
        if self._layout is not None:
            values = self._columns(dotted=dotted)
            table, problems = self._layout.arrays(values, dotted=dotted)
        types = {"integer": pa.int64(), "boolean": pa.bool_(), "string": pa.string()}
        more = {
            name: pa.array(values, types[KINDS[name]])
            for name, values in self._further(problems).items()
        }
        return pa.table(with_columns(table, more))

    @property
    def errors(self) -> list[str | None]:
        """Reason why each prompt failed; None for an answered prompt."""
        return [result.error for result in self._results]

    @property
    def error_codes(self) -> list[str | None]:
        """Code of each failure, such as "too_long"; None for an answered prompt."""
        return [result.error_code for result in self._results]

    @property
    def finish_reasons(self) -> list[FinishReason]:
        """Finish reason per prompt."""
        return [result.finish_reason for result in self._results]

    @property
    def complete(self) -> list[bool]:
        """Whether each answer ended by itself."""
        return [result.complete for result in self._results]

    def _columns(self, *, dotted: bool) -> dict[str, list[object]]:
        if self._layout is None:
            return {"text": list(self.texts)}
        return columns(self.parsed, self._layout, dotted=dotted)

    def _further(self, problems: Mapping[int, str]) -> dict[str, list[Any]]:
        """Return the columns after the answers: thoughts and errors."""
        why = reasons(self.errors, self.finish_reasons)
        for i, problem in problems.items():
            why[i] = why[i] or problem
        thoughts = thought_cells(self) if self.has_thoughts else {}
        return {**thoughts, "error": why}

    def __len__(self) -> int:
        return len(self._results)

    @overload
    def __getitem__(self, index: int) -> Result: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Result, ...]: ...
    def __getitem__(self, index: int | slice) -> Result | tuple[Result, ...]:
        return self._results[index]

    def __repr__(self) -> str:
        n_finished = sum(r.is_finished for samples in self.samples for r in samples)
        n = len(self.samples[0]) if self.samples else 1
        what = "prompts" if n == 1 else f"samples ({n} for each of {len(self)} prompts)"
        return (
            f"<Results: {n_finished} of {n * len(self)} {what} answered, "
            f"{self.stats.n_failed} failed>"
        )


class _Thoughts(Protocol):
    """Results whose prompts may have thoughts."""

    @property
    def thinking(self) -> list[str | None]: ...
    @property
    def n_thinking_tokens(self) -> list[int]: ...
    @property
    def thinking_complete(self) -> list[bool | None]: ...
    @property
    def finish_reasons(self) -> list[FinishReason]: ...


def thought_cells(results: _Thoughts) -> dict[str, list[Any]]:
    """Return the columns about thoughts of a table; None where a prompt failed."""
    is_failed = [reason == "error" for reason in results.finish_reasons]
    known = zip(results.thinking, results.n_thinking_tokens, is_failed, strict=True)
    counts = [None if text is None and failed else n for text, n, failed in known]
    values = (results.thinking, counts, results.thinking_complete)
    return dict(zip(THOUGHT_COLUMNS, values, strict=True))
