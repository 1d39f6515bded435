"""What a call returns: one `Result` per prompt and sample, in `Results`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, overload

from llamaherd.core.table import columns, name_of_errors, nullable, reasons

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from llamaherd.core.stats import RequestStats, Stats
    from llamaherd.core.table import Layout

FinishReason = Literal["stop", "length", "cancelled", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of one prompt, or of one sample of it.

    Attributes:
        index: The prompt's place in the call.
        sample: Which of the prompt's samples it is, from 0.
        text: The answer, valid UTF-8; None unless `finish_reason` is "stop" or "length".
        partial: What there was of an answer that was not finished; None if nothing was.
        tokens: All tokens generated, without an end-of-generation token. Of a choice
            those that tell it from the others.
        finish_reason: "stop" (end of generation or of the grammar, or a stop text),
            "length" (max_tokens), "cancelled" (the call ended first) or "error".
        complete: Whether the answer came to its own end, rather than being cut off. So is
            one with "stop", and no other; under a grammar or choices one that a stop text
            ended only if what is before that is whole. An answer that `max_tokens` cut is
            not complete even where the grammar would have let it end: of a number the
            last digits may be missing.
        error: Why it failed; None if it did not.
        n_reused_tokens: Prompt tokens that were not computed for this prompt itself.
        seed: uint32, where its generator started.
        parsed: What an answer says that follows a schema: what JSON gives, or an instance
            of the type that was the schema; None without a schema, or if it failed.
        stats: What it took; None: it was not run, but copied or found in the journal.
        logprobs: With `logprobs=k` the natural logarithm of each token's probability, as
            the model has it: before bias, grammar, penalties and temperature. NaN where a
            token was not drawn.
        top_logprobs: With `logprobs=k` for each token the k most likely ones in its
            place, the most likely first: token id to the logarithm of its probability.
        scores: Log-probabilities of a tree of tokens: what `classify_parallel`,
            `score_parallel` and `perplexity` are made of; None: it was an answer.
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
    parsed: Any = field(default=None, repr=False)
    stats: RequestStats | None = field(default=None, compare=False, repr=False)
    logprobs: list[float] | None = field(default=None, repr=False)
    top_logprobs: list[dict[int, float]] | None = field(default=None, repr=False)
    scores: Sequence[float] | None = field(default=None, repr=False)

    @property
    def n_generated_tokens(self) -> int:
        """Number of `tokens`."""
        return len(self.tokens)

    @property
    def is_finished(self) -> bool:
        """Whether there is an answer."""
        return self.text is not None


class Results(Sequence[Result]):
    """The results of one call, in the order of its prompts.

    Of a call with several samples a prompt (`n`) it is what the call with one would have
    returned, the first sample of each; `samples` has all of them.

    Args:
        results: Those of the first prompt's samples, then of the next one's.
        stats: See below.
        n: Samples a prompt.
        layout: The columns of answers that follow schemas; None: there are no schemas.

    Attributes:
        samples: For each prompt the results of its n samples.
        stats: What the call did.
    """

    def __init__(
        self,
        results: Sequence[Result],
        stats: Stats,
        n: int = 1,
        *,
        layout: Layout | None = None,
    ) -> None:
        self.samples = tuple(tuple(results[i : i + n]) for i in range(0, len(results), n))
        self._results = tuple(samples[0] for samples in self.samples)
        self.stats = stats
        self._layout = layout

    @property
    def texts(self) -> list[str | None]:
        """One answer per prompt; None where there is none."""
        return [result.text for result in self._results]

    @property
    def parsed(self) -> list[Any]:
        """What each answer says under a schema; None where there is none."""
        return [result.parsed for result in self._results]

    def to_pandas(self, *, dotted: bool = False) -> pd.DataFrame:
        """A row for each prompt, a column for each field of the schema, and "error".

        Which columns there are the schema says, whatever became of the prompts: "value"
        has the whole answer where not all are objects with known fields, and without a
        schema there is "text". Fields that hold lists or objects keep them. Whole numbers
        are "Int64" and truth values "boolean", which keep what they are beside missing
        ones; a whole number of more than 64 bits is missing, and "error" has the reason.

        Args:
            dotted: Fields of objects within objects get columns of their own, such as
                "author.name".

        Raises:
            ImportError: There is no pandas.
        """
        import pandas as pd  # noqa: PLC0415 - optional

        if self._layout is None:
            return pd.DataFrame(self._with_reasons({"text": self.texts}, {}))
        table, problems = self._layout.held(self._columns(dotted=dotted), dotted=dotted)
        kinds = self._layout.kinds(dotted=dotted)
        typed = {name: nullable(each, kinds[name]) for name, each in table.items()}
        return pd.DataFrame(self._with_reasons(typed, problems))

    def to_arrow(self, *, dotted: bool = False) -> pa.Table:
        """As `to_pandas`, as a table of pyarrow.

        Types are those of the schema as well. What it leaves open, or what Arrow has no
        one type for, is JSON text.

        Raises:
            ImportError: There is no pyarrow.
            ValueError: A validator has made of a value what the schema does not say.
        """
        import pyarrow as pa  # noqa: PLC0415 - optional

        table: dict[str, Any] = {"text": pa.array(self.texts, pa.string())}
        problems: dict[int, str] = {}
        if self._layout is not None:
            values = self._columns(dotted=dotted)
            table, problems = self._layout.arrays(values, dotted=dotted)
        whole = self._with_reasons(table, problems)
        *_, name = whole
        return pa.table({**whole, name: pa.array(whole[name], pa.string())})

    @property
    def errors(self) -> list[str | None]:
        """One reason per prompt; None where nothing went wrong."""
        return [result.error for result in self._results]

    @property
    def finish_reasons(self) -> list[FinishReason]:
        """One finish reason per prompt."""
        return [result.finish_reason for result in self._results]

    @property
    def complete(self) -> list[bool]:
        """Whether each answer came to its own end."""
        return [result.complete for result in self._results]

    def _columns(self, *, dotted: bool) -> dict[str, list[object]]:
        if self._layout is None:
            return {"text": list(self.texts)}
        return columns(self.parsed, self._layout, dotted=dotted)

    def _with_reasons(
        self, table: Mapping[str, Any], problems: Mapping[int, str]
    ) -> dict[str, Any]:
        """A table with a last column of the reasons why a row misses something."""
        why = reasons(self.errors, self.finish_reasons)
        for i, problem in problems.items():
            why[i] = why[i] or problem
        return {**table, name_of_errors(table): why}

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
