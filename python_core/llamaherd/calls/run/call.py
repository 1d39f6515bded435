"""A call: runs requests and returns their results with statistics."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from llamaherd.calls.asks.answers import again, as_result, check_answer
from llamaherd.calls.run.hosted import GroupEnd, Steps, run_steps
from llamaherd.calls.structured.columns import SchemaLayout
from llamaherd.engine.core.errors import GenerationError
from llamaherd.engine.core.keeping import keep_made
from llamaherd.engine.core.outcome import CANCELLED, Finish, Output, Piece
from llamaherd.engine.core.results import Result, Results
from llamaherd.engine.core.stats import ActorStats, Progress, RequestStats, Stats
from llamaherd.engine.loop.group import Group, call_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from llamaherd.calls.asks.options import OnError
    from llamaherd.engine.core.request import Request
    from llamaherd.engine.loop.threaded import ThreadedLoop


def add_up(rows: Iterable[ActorStats]) -> tuple[ActorStats, ...]:
    """Add up the rows of each actor; return one row per actor, ordered by actor."""
    by_actor: dict[int, ActorStats] = {}
    for row in rows:
        by_actor[row.actor] = by_actor[row.actor] + row if row.actor in by_actor else row
    return tuple(by_actor[actor] for actor in sorted(by_actor))


def _rate(count: float, per: float) -> float:
    return count / per if per > 0 else 0.0


class Call:
    """A call: runs requests in a loop and collects their results.

    `thinks`: whether the caller requested thoughts, even if no request has one. `schemas`
    give the columns of answers if there are no requests. For `problem` and `is_stepped`
    see `LoopCall`.
    """

    problem = ""
    is_stepped = True

    def __init__(
        self,
        requests: Sequence[Request],
        *,
        seed: int,
        on_error: OnError = "continue",
        n: int = 1,
        retries: int = 0,
        thinks: bool = False,
        schemas: tuple[str, ...] = (),
    ) -> None:
        self._requests = requests
        self._schemas = schemas
        self._thinks = thinks or any(request.thought is not None for request in requests)
        self._n = n
        self._retries = retries
        self._n_tries: dict[int, int] = {}  # number of rejected answers, by request
        self._wrong: list[int] = []  # requests to retry
        self._parsed: dict[int, object] = {}
        self._seed = seed
        self._on_error = on_error
        self._copy_of = find_copies(requests)
        self._outputs: dict[int, Output] = {}  # without copied outputs
        self._stats: dict[int, RequestStats] = {}
        self._recalled: set[int] = set()  # outputs known before the run
        self._on_output: Callable[[int, Output], None] | None = None
        self._loop: ThreadedLoop | None = None  # None if the call is not running
        self._group: Group | None = None
        self._groups: list[Group] = []  # current and earlier groups
        self._open: list[int] = []  # requests of the current group
        self._error: BaseException | None = None
        self._end: GroupEnd | None = None  # of the current group
        self._is_cancelled = False
        self._n_done = 0
        self._n_failed = 0
        self._n_spared = 0  # number of shared prompt tokens of finished requests
        self._n_prompt_tokens = sum(request.n_prompt for request in requests)
        self._started_s = time.perf_counter()
        self._weights = dict.fromkeys(range(len(requests)), 1)  # prompts per request
        for original in self._copy_of.values():
            self._weights[original] += 1

    @property
    def requests(self) -> Sequence[Request]:
        """Requests: one for each sample of each prompt."""
        return self._requests

    @property
    def progress(self) -> Progress:
        """Progress of the call. Thread-safe."""
        group = self._group
        counts = None if group is None else group.counts
        # For a while the tokens of a shared prefix may be counted twice; `min` limits
        # the sum.
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
        """End the call soon; cancel prompts without a result."""
        self._is_cancelled = True
        loop, group = self._loop, self._group
        if loop is not None and group is not None:
            loop.give_up(group)

    def run(
        self,
        loop: ThreadedLoop,
        *,
        known: Mapping[int, Output] | None = None,
        on_output: Callable[[int, Output], None] | None = None,
    ) -> Results:
        """Answer the prompts; one thread at a time calls `on_output` with outputs."""
        return run_steps(self.steps(loop, known=known, on_output=on_output))

    def steps(
        self,
        loop: ThreadedLoop,
        *,
        known: Mapping[int, Output] | None = None,
        on_output: Callable[[int, Output], None] | None = None,
    ) -> Steps[Results]:
        """Answer the prompts in steps, with the arguments and errors of `run`."""
        self._started_s = time.perf_counter()
        if not self._requests:
            return Results(
                [],
                Stats(seed=self._seed),
                layout=SchemaLayout(self._schemas) if self._schemas else None,
                has_thoughts=self._thinks,
            )
        n_journal = self._take_known(known or {})
        self._on_output = on_output
        self._open = self._reject(
            [
                i
                for i in range(len(self._requests))
                if i not in self._copy_of and i not in self._outputs
            ]
        )
        try:
            while self._open and self._may_go_on:
                yield from self._run_group(loop)
                self._open, self._wrong = sorted(self._wrong), []
        except Exception as error:
            if self._n_done:
                keep_made(error, lambda: self._collect_results(n_journal))
            raise
        return self._judge_results(self._collect_results(n_journal))

    def _collect_results(self, n_journal: int) -> Results:
        """Return the results so far; requests without an output are cancelled."""
        results = [self._result(i) for i in range(len(self._requests))]
        return Results(
            results,
            self._make_stats(results, n_journal),
            self._n,
            layout=_layout(self._requests),
            has_thoughts=self._thinks,
        )

    def _make_stats(self, results: Sequence[Result], n_journal: int) -> Stats:
        """Compute the statistics: sums over the prompts, and counts of batches."""
        groups, n = self._groups, self._n
        run = [(result, result.stats) for result in results if result.stats is not None]
        n_prefill = sum(stats.n_prefill_tokens for _, stats in run)
        n_decode = sum(stats.n_decode_tokens for _, stats in run)
        prefill_s = sum(stats.prefill_s for _, stats in run)
        decode_s = sum(stats.decode_s for _, stats in run)
        thoughts = [result for result, _ in run if result.n_thinking_tokens]
        plan = groups[0].plan if groups else None
        n_slots = 0 if plan is None else plan.n_seq_max
        n_batches = sum(group.counts.n_batches for group in groups)
        n_clients = sum(group.counts.n_clients for group in groups)
        actors = add_up(row for group in groups for row in group.actors)
        n_slots_all = (
            sum(row.n_batches * row.n_slots for row in actors) or n_batches * n_slots
        )
        return Stats(
            n_prompts=len(results) // n,
            n_samples=len(results),
            n_failed=sum(result.error is not None for result in results),
            n_prompt_tokens=sum(result.n_prompt_tokens for result in results[::n]),
            n_reused_tokens=sum(result.n_reused_tokens for result in results[::n]),
            n_prefill_tokens=n_prefill,
            n_generated_tokens=sum(result.n_generated_tokens for result, _ in run),
            n_decode_tokens=n_decode,
            n_draft_tokens=sum(stats.n_draft_tokens for _, stats in run),
            n_thinking_tokens=sum(result.n_thinking_tokens for result in thoughts),
            n_thoughts=len(thoughts),
            n_thoughts_closed=sum(one.thinking_complete is False for one in thoughts),
            n_copied=sum(i not in self._recalled for i in self._copy_of.values()),
            n_journal=n_journal,
            n_batches=n_batches,
            n_slots=n_slots,
            mean_batch_occupancy=_rate(n_clients, n_slots_all),
            kv_cells_max=max((group.counts.n_cells_max for group in groups), default=0),
            n_ctx=0 if plan is None else plan.n_ctx,
            n_fallbacks=sum(group.n_fallbacks for group in groups),
            n_pauses=sum(stats.n_pauses for _, stats in run),
            seed=self._seed,
            wall_s=time.perf_counter() - self._started_s,
            prefill_s=prefill_s,
            decode_s=decode_s,
            prefill_tokens_per_s=_rate(n_prefill, prefill_s),
            decode_tokens_per_s=_rate(n_decode, decode_s),
            actors=actors,
        )

    @property
    def _may_go_on(self) -> bool:
        is_stopped = self._n_failed and self._on_error != "continue"
        return not is_stopped and not self._is_cancelled

    def _take_known(self, known: Mapping[int, Output]) -> int:
        """Store known outputs; return the number of answered prompts, with copies."""
        for i, output in known.items():
            answer = check_answer(self._requests[i], output)
            if i not in self._copy_of and answer.output is output:
                self._recalled.add(i)
                self._parsed[i] = answer.value
                self._finish(i, output)
        return self._n_done

    def _run_group(self, loop: ThreadedLoop) -> Steps[None]:
        requests = [self._request(i) for i in self._open]
        self._group = Group(requests, self, tree=call_tree(requests), is_counted=True)
        self._groups.append(self._group)
        self._end = GroupEnd(loop, self._group)
        # The order of these two lines ensures that a `cancel` between them is noticed.
        self._loop = loop
        loop.hand_in(self._group)
        if self._is_cancelled:
            loop.give_up(self._group)
        yield self._end
        self._loop = self._end = None  # so that results do not keep the engine alive
        if self._error is not None:
            raise self._error

    def _judge_results(self, results: Results) -> Results:
        every = (result for samples in results.samples for result in samples)
        failed = next((result for result in every if result.error is not None), None)
        if failed is None or self._on_error != "stop":
            return results
        which = f", sample {failed.sample}," if self._n > 1 else ""
        message = f"prompts[{failed.index}]{which} failed: {failed.error}"
        raise GenerationError(message, results)

    def _reject(self, indices: list[int]) -> list[int]:
        """Fail the prompts that cannot be answered; return the indices of the others."""
        fitting: list[int] = []
        for i in indices:
            problem = self._requests[i].problem
            if problem:
                self._finish(i, Output(finish=Finish.ERROR, message=problem))
            else:
                fitting.append(i)
        return fitting

    # ---- called by the loop ----

    def on_output(self, i: int, output: Output, stats: RequestStats) -> None:
        """Record the output of a finished request of the group."""
        i = self._open[i]
        before = self._stats.get(i)
        self._stats[i] = stats if before is None else before + stats
        answer = check_answer(self._requests[i], output)
        if answer.is_wrong and self._n_tries.get(i, 0) < self._retries:
            self._n_tries[i] = self._n_tries.get(i, 0) + 1
            self._wrong.append(i)
            self._outputs[i] = answer.output  # a retry may replace this output
            return
        self._parsed[i] = answer.value
        self._finish(i, answer.output)

    def on_piece(self, piece: Piece) -> None:
        """Ignore parts of answers."""

    def on_end(self, error: BaseException | None) -> None:
        """Handle the end of the group."""
        self._error = error
        if self._end is not None:
            self._end.set()

    # ---- internal ----

    def _request(self, i: int) -> Request:
        """Return request i in the form of its current attempt."""
        n_tries = self._n_tries.get(i, 0)
        return again(self._requests[i], n_tries) if n_tries else self._requests[i]

    def _finish(self, i: int, output: Output) -> None:
        self._outputs[i] = output
        if output.finish is Finish.CANCELLED:
            return
        if self._on_output is not None and i not in self._recalled:
            self._on_output(i, output)
        self._n_done += self._weights[i]
        n_prompt = self._requests[i].n_prompt
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
            n_reused=request.n_prompt if is_copy else None,
            parsed=self._parsed.get(source),
        )


def _layout(requests: Sequence[Request]) -> SchemaLayout | None:
    """Return the columns of the answers; None without a schema."""
    schemas = dict.fromkeys(
        request.sampling.schema
        for request in requests
        if isinstance(request.sampling.schema, str)
    )
    return SchemaLayout(tuple(schemas)) if schemas else None


def find_copies(requests: Sequence[Request]) -> dict[int, int]:
    """Map greedy requests to the first equal request, whose answer they can share."""
    first: dict[object, int] = {}
    copy_of: dict[int, int] = {}
    for i, request in enumerate(requests):
        if not request.is_greedy:
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
            request.thought,
        )
        original = first.setdefault(key, i)
        if original != i:
            copy_of[i] = original
    return copy_of
