"""One call: from requests to results."""

from __future__ import annotations

import time
from dataclasses import replace
from threading import Event
from typing import TYPE_CHECKING, Literal

from llamaherd.core.errors import GenerationError
from llamaherd.core.outcome import Finish, Output
from llamaherd.core.results import Results
from llamaherd.core.stats import Progress, Stats
from llamaherd.run.answers import CANCELLED, again, as_result, checked
from llamaherd.run.group import Group
from llamaherd.run.prefixes import call_tree
from llamaherd.run.statistics import make_stats
from llamaherd.structured.arrow import Layout

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from llamaherd.core.outcome import Piece
    from llamaherd.core.request import Request
    from llamaherd.core.results import Result
    from llamaherd.core.stats import RequestStats
    from llamaherd.run.group import GroupLoop

OnError = Literal["continue", "return", "stop"]
ON_ERROR: tuple[OnError, ...] = ("continue", "return", "stop")


class Call:
    """Requests on their way to results.

    Args:
        requests: One for each prompt, or n for each, one prompt's after the other's.
        seed: Base of their seeds, for the statistics.
        on_error: After a failure "continue" with all others; "return": let those that
            run finish; "stop": end at once.
        n: Samples a prompt.
        retries: How often to try for another answer where one does not follow its schema.

    Attributes:
        problem: What the caller must be warned of; never anything here, see `Runnable`.
    """

    problem = ""

    def __init__(
        self,
        requests: Sequence[Request],
        *,
        seed: int,
        on_error: OnError = "continue",
        n: int = 1,
        retries: int = 0,
    ) -> None:
        self._requests = requests
        self._n = n
        self._retries = retries
        self._n_tries: dict[int, int] = {}  # answers that were wrong
        self._wrong: list[int] = []  # to be tried again
        self._parsed: dict[int, object] = {}
        self._seed = seed
        self._on_error = on_error
        self._copy_of = find_copies(requests)
        self._outputs: dict[int, Output] = {}  # of all but copies
        self._stats: dict[int, RequestStats] = {}
        self._recalled: set[int] = set()  # those of them that were known before
        self._on_output: Callable[[int, Output], None] | None = None
        self._loop: GroupLoop | None = None  # while it runs
        self._group: Group | None = None
        self._groups: list[Group] = []  # that one and those before it
        self._open: list[int] = []  # the group's requests
        self._error: BaseException | None = None
        self._is_over = Event()
        self._is_cancelled = False
        self._n_done = 0
        self._n_failed = 0
        self._n_spared = 0  # prompt tokens, of what is done, that were not decoded for it
        self._n_prompt_tokens = sum(len(request.tokens) for request in requests)
        self._started_s = time.perf_counter()
        self._weights = dict.fromkeys(range(len(requests)), 1)  # with their copies
        for original in self._copy_of.values():
            self._weights[original] += 1

    @property
    def requests(self) -> Sequence[Request]:
        """One for each prompt and sample."""
        return self._requests

    @property
    def progress(self) -> Progress:
        """How far the call is. May be read from any thread."""
        group = self._group
        counts = None if group is None else group.counts
        # Shared beginnings are read once, which counts in addition at first.
        n_read = self._n_spared + (0 if counts is None else counts.n_prefill)
        return Progress(
            n_done=self._n_done,
            n_failed=self._n_failed,
            n_total=len(self._requests),
            n_prompt_tokens=min(n_read, self._n_prompt_tokens),
            n_prompt_tokens_total=self._n_prompt_tokens,
            n_generated_tokens=0 if counts is None else counts.n_generated,
            elapsed_s=time.perf_counter() - self._started_s,
        )

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._is_cancelled

    def cancel(self) -> None:
        """Ends the call soon; what has no result then is cancelled."""
        self._is_cancelled = True
        loop, group = self._loop, self._group
        if loop is not None and group is not None:
            loop.give_up(group)

    def run(
        self,
        loop: GroupLoop,
        *,
        known: Mapping[int, Output] | None = None,
        on_output: Callable[[int, Output], None] | None = None,
    ) -> Results:
        """Answers the prompts.

        Args:
            loop: Where they run.
            known: Outputs, by index, of prompts that need not be run.
            on_output: Called with each output that is new, of a failure as well, from
                one thread at a time.

        Raises:
            GenerationError: A prompt failed, and `on_error` is "stop".
            ContextClosedError: The context was closed.
            ContextError: There is not enough memory.
        """
        self._started_s = time.perf_counter()
        if not self._requests:
            return Results([], Stats(seed=self._seed))
        n_journal = self._take_known(known or {})
        self._on_output = on_output
        self._open = self._reject(
            [
                i
                for i in range(len(self._requests))
                if i not in self._copy_of and i not in self._outputs
            ]
        )
        while self._open and self._may_go_on:
            self._run_group(loop)
            self._open, self._wrong = sorted(self._wrong), []
        results = [self._result(i) for i in range(len(self._requests))]
        stats = make_stats(
            results,
            self._groups,
            n_copied=sum(i not in self._recalled for i in self._copy_of.values()),
            n_journal=n_journal,
            seed=self._seed,
            wall_s=time.perf_counter() - self._started_s,
            n=self._n,
        )
        return self._judged(
            Results(results, stats, self._n, layout=_layout(self._requests)), results
        )

    @property
    def _may_go_on(self) -> bool:
        is_stopped = self._n_failed and self._on_error != "continue"
        return not is_stopped and not self._is_cancelled

    def _take_known(self, known: Mapping[int, Output]) -> int:
        """Returns the number of prompts that are answered with that, copies included."""
        for i, output in known.items():
            answer = checked(self._requests[i], output)
            if i not in self._copy_of and answer.output is output:
                self._recalled.add(i)
                self._parsed[i] = answer.value
                self._finish(i, output)
        return self._n_done

    def _run_group(self, loop: GroupLoop) -> None:
        requests = [self._request(i) for i in self._open]
        self._group = Group(requests, self, tree=call_tree(requests), is_counted=True)
        self._groups.append(self._group)
        self._is_over.clear()
        # In this order: a `cancel` in between has set the flag that is looked at last.
        self._loop = loop
        loop.hand_in(self._group)
        if self._is_cancelled:
            loop.give_up(self._group)
        loop.wait_for(self._is_over)
        self._loop = None  # results must not keep the engine alive by way of it
        if self._error is not None:
            raise self._error

    def _judged(self, results: Results, every: Sequence[Result]) -> Results:
        failed = next((result for result in every if result.error is not None), None)
        if failed is None or self._on_error != "stop":
            return results
        which = f", sample {failed.sample}," if self._n > 1 else ""
        message = f"prompts[{failed.index}]{which} failed: {failed.error}"
        raise GenerationError(message, results)

    def _reject(self, indices: list[int]) -> list[int]:
        """Fails prompts that cannot be answered whatever happens; returns the others."""
        fitting: list[int] = []
        for i in indices:
            problem = self._requests[i].problem
            if problem:
                self._finish(i, Output(finish=Finish.ERROR, message=problem))
            else:
                fitting.append(i)
        return fitting

    # ---- the loop tells ----

    def on_output(self, i: int, output: Output, stats: RequestStats) -> None:
        """One of the group's requests has ended."""
        i = self._open[i]
        before = self._stats.get(i)
        self._stats[i] = stats if before is None else before + stats
        answer = checked(self._requests[i], output)
        if answer.is_wrong and self._n_tries.get(i, 0) < self._retries:
            self._n_tries[i] = self._n_tries.get(i, 0) + 1
            self._wrong.append(i)
            self._outputs[i] = answer.output  # unless there is a better one
            return
        self._parsed[i] = answer.value
        self._finish(i, answer.output)

    def on_piece(self, piece: Piece) -> None:
        """Nobody looks at answers before they end."""

    def on_end(self, error: BaseException | None) -> None:
        """All of them have."""
        self._error = error
        self._is_over.set()

    # ---- inside ----

    def _request(self, i: int) -> Request:
        """What is asked for prompt i now."""
        n_tries = self._n_tries.get(i, 0)
        return again(self._requests[i], n_tries) if n_tries else self._requests[i]

    def _finish(self, i: int, output: Output) -> None:
        self._outputs[i] = output
        if output.finish is Finish.CANCELLED:
            return
        if self._on_output is not None and i not in self._recalled:
            self._on_output(i, output)
        self._n_done += self._weights[i]
        n_prompt = len(self._requests[i].tokens)
        is_read = output.finish is not Finish.ERROR and i not in self._recalled
        n_own = n_prompt - output.n_reused if is_read else 0
        self._n_spared += self._weights[i] * n_prompt - n_own
        if output.finish is not Finish.ERROR:
            return
        self._n_failed += self._weights[i]
        if self._loop is None or self._group is None:
            return
        if self._on_error == "return":
            self._loop.stop(self._group)
        elif self._on_error == "stop":
            self._loop.give_up(self._group)

    def _result(self, i: int) -> Result:
        original = self._copy_of.get(i)
        source = i if original is None else original
        output = self._outputs.get(source, CANCELLED)
        request = self._request(source)
        is_copy = original is not None
        return as_result(
            i // self._n,
            replace(request, seed=self._requests[i].seed) if is_copy else request,
            output,
            None if is_copy else self._stats.get(i),
            sample=i % self._n,
            n_reused=len(request.tokens) if is_copy else None,
            parsed=self._parsed.get(source),
        )


def _layout(requests: Sequence[Request]) -> Layout | None:
    """The columns of the answers; None: they follow no schema."""
    schemas = dict.fromkeys(
        request.sampling.schema
        for request in requests
        if isinstance(request.sampling.schema, str)
    )
    return Layout(tuple(schemas)) if schemas else None


def find_copies(requests: Sequence[Request]) -> dict[int, int]:
    """Greedy requests that equal an earlier one, and will get its answer.

    Returns:
        Index of such a request: index of the first of its kind.
    """
    first: dict[object, int] = {}
    copy_of: dict[int, int] = {}
    for i, request in enumerate(requests):
        if not request.sampling.is_greedy:
            continue
        key = (
            request.tokens.tobytes(),
            request.max_tokens,
            request.stop,
            request.sampling,
            request.shape,
            request.problem,
            request.logprobs,
            request.paths,
            None if request.tree is None else request.tree.to_bytes(),
        )
        original = first.setdefault(key, i)
        if original != i:
            copy_of[i] = original
    return copy_of
