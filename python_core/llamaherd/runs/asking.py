"""Prompts of a block in, the new columns of their rows out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from llamaherd.api.classify import prepare_classify
from llamaherd.api.embed import embed_parallel
from llamaherd.api.generate import DEFAULT_RETRIES, prepare_generate
from llamaherd.api.running import none_answered, run_to_end
from llamaherd.core.errors import Interrupted
from llamaherd.run.embedding import CANCELLED
from llamaherd.run.labels import checked_labels, classified
from llamaherd.runs.columns import PROBABILITIES, fields_in, fields_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llamaherd.core.embeddings import Embeddings
    from llamaherd.core.results import Result, Results
    from llamaherd.core.scores import ClassifyResults
    from llamaherd.journal.journal import Journal
    from llamaherd.model.model import Model
    from llamaherd.run.host import Host
    from llamaherd.runs.spec import RunSpec

    # Called with what has n_done and n_failed.
    Report = Callable[[Any], object]
    # The values of a row's new columns, "error" last.
    Values = list[object]


class Asker(Protocol):
    """What answers the prompts of some rows."""

    def ask(
        self, prompts: Sequence[str], places: Sequence[int], report: Report
    ) -> list[Values]:
        """The new values of each row.

        Args:
            prompts: One for each row.
            places: Of the rows in the whole table.
            report: Called now and then.

        Raises:
            Unfinished: Ctrl-C.
        """
        ...


class Unfinished(KeyboardInterrupt):
    """Ctrl-C came, or SIGTERM.

    Attributes:
        values: What there is and no journal has; None for a row that has nothing.
    """

    def __init__(self, values: Sequence[Values | None] = ()) -> None:
        super().__init__("interrupted")
        self.values = values


class Generating:
    """Has answers generated.

    Args:
        context: Where.
        spec: What is asked, and how.
        journal: Where answers are kept; None: nowhere.
    """

    def __init__(self, context: Host, spec: RunSpec, journal: Journal | None) -> None:
        self._context = context
        self._spec = spec
        self._journal = journal
        self._settings: Any = spec.settings
        self._fields = fields_of(spec.schema)

    def ask(
        self, prompts: Sequence[str], places: Sequence[int], report: Report
    ) -> list[Values]:
        """The new values of each row."""
        sampling = self._spec.sampling
        try:
            results: Results = run_to_end(
                lambda: prepare_generate(
                    self._context,
                    prompts,
                    n=1,
                    params=None,
                    settings=self._settings,
                    parse_special="auto",
                    on_error="continue",
                    journal=self._journal,
                    chat=self._spec.chat,
                    system=self._spec.system,
                    strict=sampling.get("strict", False),
                    retries=sampling.get("retries", DEFAULT_RETRIES),
                    logprobs=None,
                    places=places,
                ),
                report,
                prompts,
                none_answered,
            )
        except Interrupted:
            raise Unfinished from None
        return [self._values(result) for result in results]

    def _values(self, result: Result) -> Values:
        fields, problem = fields_in(self._fields, result.parsed)
        error = result.error or problem
        return [*fields, result.text, result.finish_reason, error]


class Classifying:
    """Has labels judged. Arguments as those of `Generating`."""

    def __init__(self, context: Host, spec: RunSpec, journal: Journal | None) -> None:
        self._context = context
        self._spec = spec
        self._journal = journal
        self._known = checked_labels(spec.classify["labels"])

    def ask(
        self,
        prompts: Sequence[str],
        places: Sequence[int],  # noqa: ARG002 - nothing is drawn
        report: Report,
    ) -> list[Values]:
        """The new values of each row."""
        own = self._spec.classify

        def nothing(n: int) -> ClassifyResults:
            return classified(none_answered(n), [None] * n, [[]] * n, self._known, "sum")

        try:
            results: ClassifyResults = run_to_end(
                lambda: prepare_classify(
                    self._context,
                    prompts,
                    own["labels"],
                    normalize=own.get("normalize", "sum"),
                    pmi_prompt=own.get("pmi_prompt", ""),
                    space=own.get("space", "auto"),
                    parse_special="auto",
                    on_error="continue",
                    journal=self._journal,
                    chat=self._spec.chat,
                    system=self._spec.system,
                ),
                report,
                prompts,
                nothing,
            )
        except Interrupted:
            raise Unfinished from None
        numbers = [getattr(results, name) for name in PROBABILITIES]
        columns = [*numbers, *results.probs.T]
        rows = [_without_nan(row) for row in np.array(columns).T.tolist()]
        return [
            [label, *row, error]
            for label, row, error in zip(
                results.labels, rows, results.errors, strict=True
            )
        ]


class Embedding:
    """Has vectors made.

    Args:
        host: Where, or of which model.
        spec: How.
    """

    def __init__(self, host: Host | Model, spec: RunSpec) -> None:
        self._host = host
        self._settings: Any = dict(spec.embed)

    def ask(
        self,
        prompts: Sequence[str],
        places: Sequence[int],  # noqa: ARG002 - nothing is drawn
        report: Report,
    ) -> list[Values]:
        """The new values of each row."""
        try:
            found = embed_parallel(self._host, prompts, progress=report, **self._settings)
        except Interrupted as error:
            raise Unfinished(
                [None if v[-1] == CANCELLED else v for v in _vectors(error.results)]
            ) from None
        return _vectors(found)


def _vectors(found: Embeddings) -> list[Values]:
    return [
        [vector if error is None else None, error]
        for vector, error in zip(found.vectors, found.errors, strict=True)
    ]


def _without_nan(row: Sequence[float]) -> list[float | None]:
    """A row's numbers; None where a row that failed has none."""
    return [None if number != number else number for number in row]  # noqa: PLR0124
