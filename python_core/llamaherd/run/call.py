"""One call: from requests to results, on whatever engine it is given."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Literal

from llamaherd.core.errors import GenerationError
from llamaherd.core.outcome import Finish, Output
from llamaherd.core.results import FinishReason, Result, Results
from llamaherd.core.stats import Progress, Stats
from llamaherd.memory.plan import MAX_DEPTH
from llamaherd.native.shim import min_prefix_tokens
from llamaherd.run.prefixes import find_prefixes
from llamaherd.run.runner import Runner
from llamaherd.run.statistics import make_stats
from llamaherd.schedule.client import make_clients
from llamaherd.schedule.scheduler import Limits

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from llamaherd.core.request import Request
    from llamaherd.memory.plan import Plan
    from llamaherd.schedule.client import Client, Kept
    from llamaherd.schedule.engine import Engine
    from llamaherd.schedule.prefix_tree import PrefixTree

    # Makes ready for needs (cells of each prompt with its answer), so many prefixes, and
    # so many tokens that all prompts share.
    Prepare = Callable[[Sequence[int], int, int], tuple[Engine, Plan, Kept]]

_FIRST_PREFIX = 1 << 32  # ids of prefixes, which outlive calls, are above all prompts'

OnError = Literal["continue", "return", "stop"]
ON_ERROR: tuple[OnError, ...] = ("continue", "return", "stop")

_FINISH_REASON: dict[Finish, FinishReason] = {
    Finish.EOG: "stop",
    Finish.STOP: "stop",
    Finish.LENGTH: "length",
    Finish.CANCELLED: "cancelled",
    Finish.ERROR: "error",
}
_CANCELLED = Output(finish=Finish.CANCELLED)


class Call:
    """Requests on their way to results.

    Args:
        requests: One for each prompt.
        seed: Base of their seeds, for the statistics.
        n_ctx_train: Tokens that the model was trained to look back on.
        on_error: After a failure "continue" with all others; "return": let those that
            run finish; "stop": end at once.
        watch: Called from the thread that runs the call, after each step, with each
            running prompt's index and output so far.
    """

    problem = ""  # a journal may have one

    def __init__(
        self,
        requests: Sequence[Request],
        *,
        seed: int,
        n_ctx_train: int,
        on_error: OnError = "continue",
        watch: Callable[[int, Output], None] | None = None,
    ) -> None:
        self._requests = requests
        self._seed = seed
        self._n_ctx_train = n_ctx_train
        self._on_error = on_error
        self._watch = watch
        self._twin_of = find_twins(requests)
        self._outputs: dict[int, Output] = {}  # of all but twins
        self._recalled: set[int] = set()  # those of them that were known before
        self._on_output: Callable[[int, Output], None] | None = None
        self._runner: Runner | None = None  # while it runs
        self._n_prefill = 0
        self._n_generated = 0
        self._n_done = 0
        self._n_failed = 0
        self._n_spared = 0  # prompt tokens, of what is done, that were not decoded for it
        self._n_prompt_tokens = sum(len(request.tokens) for request in requests)
        self._started_s = time.perf_counter()
        self._weights = dict.fromkeys(range(len(requests)), 1)  # with their twins
        for original in self._twin_of.values():
            self._weights[original] += 1

    @property
    def requests(self) -> Sequence[Request]:
        """One for each prompt."""
        return self._requests

    @property
    def progress(self) -> Progress:
        """How far the call is. May be read from any thread."""
        runner = self._runner
        # Shared beginnings are read once, which counts in addition at first.
        n_read = self._n_spared + (
            self._n_prefill if runner is None else runner.n_prefill
        )
        return Progress(
            n_done=self._n_done,
            n_failed=self._n_failed,
            n_total=len(self._requests),
            n_prompt_tokens=min(n_read, self._n_prompt_tokens),
            n_prompt_tokens_total=self._n_prompt_tokens,
            n_generated_tokens=(
                self._n_generated if runner is None else runner.n_generated
            ),
            elapsed_s=time.perf_counter() - self._started_s,
        )

    def run(
        self,
        prepare: Prepare,
        is_cancelled: Callable[[], bool],
        *,
        known: Mapping[int, Output] | None = None,
        on_output: Callable[[int, Output], None] | None = None,
    ) -> Results:
        """Answers the prompts.

        Args:
            prepare: Makes an engine ready; its plan says what there is.
            is_cancelled: Asked again and again; True ends the call, and what has no
                result then is cancelled.
            known: Outputs, by index, of prompts that need not be run.
            on_output: Called from this thread with each output that is new, of a
                failure as well.

        Raises:
            GenerationError: A prompt failed, and `on_error` is "stop".
        """
        self._started_s = time.perf_counter()
        if not self._requests:
            return Results([], Stats(seed=self._seed))
        n_journal = self._take_known(known or {})
        self._on_output = on_output
        open_ = [
            i
            for i in range(len(self._requests))
            if i not in self._twin_of and i not in self._outputs
        ]
        open_ = self._reject(open_, self._n_ctx_train, "the model was trained for")
        tree = self._tree(open_)
        needs = [self._need(i) for i in open_]
        engine, plan, kept = prepare(needs, tree.n_nodes, tree.n_shared)
        fitting = self._reject(open_, plan.capacity, "one prompt may have (see n_ctx)")
        if len(fitting) < len(open_):
            tree = self._tree(fitting)
        engine.restart_high_water()
        before = engine.counts()
        n_fallbacks = 0
        if not self._n_failed or self._on_error == "continue":
            is_pool = plan.kv_layout == "unified"
            limits = Limits(
                n_slots=plan.n_seq_max,
                n_hold=plan.n_hold,
                n_cells=plan.n_ctx if is_pool else None,
                keeps=not is_pool or tree.n_shared > 0,
            )
            clients = make_clients(
                [self._requests[i] for i in fitting],
                fitting,
                tree.limited(plan.n_hold),
                max((prefix.id + 1 for prefix in kept.values()), default=_FIRST_PREFIX),
                kept=kept if limits.keeps else {},
                n_hold=plan.n_hold,
            )
            n_fallbacks = self._run_clients(engine, limits, clients, kept, is_cancelled)
        results = [self._result(i) for i in range(len(self._requests))]
        stats = make_stats(
            results,
            plan,
            (before, engine.counts()),
            n_copied=sum(i not in self._recalled for i in self._twin_of.values()),
            n_journal=n_journal,
            n_fallbacks=n_fallbacks,
            seed=self._seed,
            wall_s=time.perf_counter() - self._started_s,
        )
        return self._judged(Results(results, stats))

    def _take_known(self, known: Mapping[int, Output]) -> int:
        """Returns the number of prompts that are answered with that, twins included."""
        self._recalled = {i for i in known if i not in self._twin_of}
        for i in self._recalled:
            self._finish(i, known[i])
        return self._n_done

    def _run_clients(
        self,
        engine: Engine,
        limits: Limits,
        clients: list[Client],
        kept: Kept,
        is_cancelled: Callable[[], bool],
    ) -> int:
        """Returns the number of fallbacks."""
        self._runner = runner = Runner(
            engine,
            clients,
            limits,
            is_cancelled=lambda: is_cancelled() or self._is_stopped,
            on_finish=self._finish,
            watch=self._watch,
            kept=kept,
        )
        try:
            runner.run()
        finally:
            # Results must not keep the engine alive by way of the two.
            self._n_prefill = runner.n_prefill
            self._n_generated = runner.n_generated
            self._runner = None
        return runner.n_fallbacks

    def _judged(self, results: Results) -> Results:
        if self._on_error == "stop":
            for result in results:
                if result.error is not None:
                    message = f"prompts[{result.index}] failed: {result.error}"
                    raise GenerationError(message, results)
        return results

    @property
    def _is_stopped(self) -> bool:
        return self._n_failed > 0 and self._on_error == "stop"

    def _need(self, i: int) -> int:
        request = self._requests[i]
        return len(request.tokens) + request.max_tokens

    def _tree(self, indices: Sequence[int]) -> PrefixTree:
        tokens = [self._requests[i].tokens for i in indices]
        longest = max((self._need(i) for i in indices), default=0)
        return find_prefixes(tokens, min_prefix_tokens(longest)).limited(MAX_DEPTH)

    def _reject(self, indices: list[int], capacity: int, whose: str) -> list[int]:
        """Fails prompts that cannot be answered whatever happens; returns the others."""
        fitting: list[int] = []
        for i in indices:
            request = self._requests[i]
            n_prompt, n_answer = len(request.tokens), request.max_tokens
            if request.problem:
                self._fail(i, request.problem)
            elif n_prompt == 0:
                self._fail(i, "the prompt is empty: it has no tokens")
            elif n_prompt + n_answer > capacity:
                self._fail(
                    i,
                    f"the prompt has {n_prompt} tokens; with max_tokens ({n_answer}) "
                    f"that is {n_prompt + n_answer}, more than the {capacity} that "
                    f"{whose}: shorten the prompt or lower max_tokens",
                )
            else:
                fitting.append(i)
        return fitting

    def _fail(self, i: int, reason: str) -> None:
        self._finish(i, Output(finish=Finish.ERROR, message=reason))

    def _finish(self, i: int, output: Output) -> None:
        self._outputs[i] = output
        if output.finish is Finish.CANCELLED:
            return
        if self._on_output is not None:
            self._on_output(i, output)
        self._n_done += self._weights[i]
        n_prompt = len(self._requests[i].tokens)
        is_read = output.finish is not Finish.ERROR and i not in self._recalled
        n_own = n_prompt - output.n_reused if is_read else 0
        self._n_spared += self._weights[i] * n_prompt - n_own
        if output.finish is Finish.ERROR:
            self._n_failed += self._weights[i]
            if self._on_error == "return" and self._runner is not None:
                self._runner.scheduler.stop_admitting()

    def _result(self, i: int) -> Result:
        output = self._outputs.get(self._twin_of.get(i, i), _CANCELLED)
        request = self._requests[i]
        n_prompt = len(request.tokens)
        is_finished = output.finish not in (Finish.CANCELLED, Finish.ERROR)
        return Result(
            index=i,
            text=output.text if is_finished else None,
            partial=None if is_finished or not output.tokens else output.text,
            tokens=list(output.tokens),
            finish_reason=_FINISH_REASON[output.finish],
            complete=output.complete,
            error=output.message if output.finish is Finish.ERROR else None,
            n_prompt_tokens=n_prompt,
            n_reused_tokens=n_prompt if i in self._twin_of else output.n_reused,
            seed=request.seed,
        )


def find_twins(requests: Sequence[Request]) -> dict[int, int]:
    """Greedy requests that equal an earlier one, and will get its answer.

    Returns:
        Index of such a request: index of the first of its kind.
    """
    first: dict[object, int] = {}
    twin_of: dict[int, int] = {}
    for i, request in enumerate(requests):
        if not request.sampling.is_greedy:
            continue
        key = (
            request.tokens.tobytes(),
            request.max_tokens,
            request.stop,
            request.sampling,
            request.problem,
        )
        original = first.setdefault(key, i)
        if original != i:
            twin_of[i] = original
    return twin_of
