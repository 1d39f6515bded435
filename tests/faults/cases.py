"""Random calls on a context, by one caller or several, with a fault; their checks."""

from __future__ import annotations

import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import llamaherd as lh
import numpy as np
import tiny_models
from faults import FOREVER, Fault
from hypothesis import strategies as st
from kinds import HERDS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from faults import Faults
    from kinds import Herd, Kind
    from properties import Tally, World


MOST_TOKENS = 40
POISON = "\a"  # token that selects the prompt of faults "of one prompt"
POISON_TOKEN = len(tiny_models.SPECIAL) + ord(POISON)
DOCUMENT = "A document that many questions are about, to be held. "
STEMS = ["", "Question ", DOCUMENT, DOCUMENT + "A second part, which fewer share. "]
TOO_LONG = "long " * 120  # more tokens than the models were trained for
GRAMMAR = 'root ::= [a-z]{2,4} " " root | [A-Z]'
RARE = {  # used in few prompts of a call
    "llama_memory_seq_cp",
    "llama_state_seq_get_data",
    "llama_state_seq_set_data",
}
SAMPLING = [
    *([lh.SamplingParams(ignore_eos=True)] * 3),
    lh.SamplingParams(temperature=0.9),
    lh.SamplingParams(temperature=1.5, top_k=0, min_p=0.1, top_p=0.9, ignore_eos=True),
    lh.SamplingParams(penalty_repeat=1.3, repeat_last_n=-1, ignore_eos=True),
    lh.SamplingParams(grammar=GRAMMAR),
    lh.SamplingParams(grammar=GRAMMAR, temperature=1.0, seed=7),
    lh.SamplingParams(dry_multiplier=0.8, temperature=0.7, ignore_eos=True),
    lh.SamplingParams(logit_bias={70: 5.0, 71: -5.0}, stop=["C", "zz"]),
    lh.SamplingParams(mirostat=2, temperature=1.0),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Prompts of one caller, cancelled in the decode number `cancel_at`."""

    herd: Herd
    prompts: tuple[str | tuple[int, ...], ...]
    params: tuple[lh.SamplingParams, ...]
    seed: int
    fault: Fault | None
    cancel_at: int | None
    on_error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """Several callers that use a context at the same time.

    Attributes:
        callers: Case of each caller, all with the same context and fault.
        ways: "call" for one call with all prompts; "submit" or "stream" for single
            prompts.
        delays_s: Seconds until each caller starts.
    """

    callers: tuple[Case, ...]
    ways: tuple[str, ...]
    delays_s: tuple[float, ...]


def prompts() -> st.SearchStrategy[str | tuple[int, ...]]:
    texts = st.builds(
        lambda stem, i, n: f"{stem}{i}" + "x" * n,
        st.sampled_from(STEMS),
        st.integers(0, 4),
        st.sampled_from([0, 0, 3, 17]),
    )
    # The token is only at the end, because faults change logits only in batches with it.
    characters = st.characters(codec="utf-8", exclude_characters=POISON)
    common = st.one_of(texts, texts, texts, st.text(characters, max_size=12))
    return st.one_of(
        *([common] * 20),
        *([texts.map(lambda text: text + POISON)] * 3),
        st.sampled_from([(), TOO_LONG, (1, 10, 9999), (-1,)]),
    )


@st.composite
def cases(draw: st.DrawFn, kind: Kind) -> Case:
    some = st.lists(prompts(), min_size=1, max_size=9)
    if kind.is_crowded:
        long = st.builds(lambda i, n: f"{i}" + "x" * n, _below(99), st.integers(20, 45))
        some = st.lists(long, min_size=8, max_size=9, unique=True)
    texts = draw(some)
    sampling = st.sampled_from(SAMPLING[: 3 if kind.is_crowded else None])
    lengths = st.just(MOST_TOKENS) if kind.is_crowded else st.sampled_from([1, 3, 8, 40])
    params = [replace(draw(sampling), max_tokens=draw(lengths)) for _ in texts]
    if kind.of_one:  # other prompts must not generate the token
        params = [
            replace(p, logit_bias={**dict(p.logit_bias), POISON_TOKEN: -math.inf})
            for p in params
        ]
    fault = None
    if kind.function:
        fault = Fault(
            function=kind.function,
            action=kind.action,
            value=kind.value,
            first=0 if kind.of_one else draw(_first(kind)),
            times=FOREVER if kind.of_one else draw(st.sampled_from([1, 1, 1, 2, 5])),
            token=POISON_TOKEN if kind.of_one else -1,
        )
    return Case(
        herd=draw(st.sampled_from(kind.herds)),
        prompts=tuple(texts),
        params=tuple(params),
        seed=draw(st.sampled_from([0, 1, 1234, 2**31 - 1, 2**32 - 1])),
        fault=fault,
        cancel_at=None
        if kind.is_crowded
        else draw(st.sampled_from([None] * 9 + [0, 2, 9])),
        on_error=draw(st.sampled_from(["continue"] * 9 + ["return"])),
    )


def _below(n: int) -> st.SearchStrategy[int]:
    return st.integers(0, n - 1)


def _first(kind: Kind) -> st.SearchStrategy[int]:
    if kind.function in RARE:
        return _below(2)
    if kind.function.startswith("new"):
        return st.integers(0, 400)
    if kind.function.startswith("llama_init"):
        return st.just(0)
    return st.one_of(st.integers(0, 6), st.integers(0, 30))


@st.composite
def crowds(draw: st.DrawFn, kind: Kind) -> Crowd:
    first, *others = draw(st.lists(cases(kind), min_size=2, max_size=5))
    cancel_at = draw(st.sampled_from([0, 1, 2, 4, 9]))
    callers = [
        replace(
            case,
            herd=first.herd,
            fault=first.fault,
            # All callers are cancelled in the same decode.
            cancel_at=None if case.cancel_at is None else cancel_at,
        )
        for case in (first, *others)
    ]
    n = len(callers)
    ways = draw(st.tuples(*[st.sampled_from(["call", "submit", "stream"])] * n))
    delays = draw(st.tuples(*[st.sampled_from([0.0, 0.0, 0.001, 0.004])] * n))
    return Crowd(callers=tuple(callers), ways=ways, delays_s=delays)


def is_impossible(prompt: object) -> bool:
    return prompt == TOO_LONG or not isinstance(prompt, str)


def check_number_failed(
    kind: Kind, cases: Sequence[Case], n_failed: int, errors: object
) -> None:
    fault = cases[0].fault
    if kind.fails is None or fault is None:
        return
    assert n_failed <= kind.fails * fault.times, errors
    # Next to an impossible prompt, the fault may occur at a prompt's second try.
    if kind.passes and fault.times == 1:
        every = [prompt for case in cases for prompt in case.prompts]
        assert not n_failed or any(map(is_impossible, every)), errors


_T = TypeVar("_T")
END_S = 60.0  # time after which a result is treated as lost


def run_case(
    faults: Faults, kind: Kind, case: Case, start: Callable[[], lh.Job[_T]]
) -> _T | None:
    """Return the results of a call; None: the call raised what it may."""
    caller = Caller(kind, case)
    hook: dict[str, Any] = {}
    if case.cancel_at is not None:
        hook = {"hook": caller.cancel, "hook_at": case.cancel_at}
    with faults.armed(case.fault, **hook):
        return caller.call(start)


def generates(case: Case, context: lh.Context) -> Callable[[], lh.Job[lh.Results]]:
    """Return a function that starts the call of a case."""
    return lambda: lh.start_parallel(
        context,
        case.prompts,
        params=case.params,
        seed=case.seed,
        on_error=case.on_error,
    )


def run_crowd(
    faults: Faults, kind: Kind, crowd: Crowd, context: lh.Context
) -> list[list[lh.Results] | None]:
    """Return each caller's results by call or submitted prompt; None as in `run_case`."""
    callers = [Caller(kind, case) for case in crowd.callers]
    leaving = [c for c in callers if c.case.cancel_at is not None]
    all_there = threading.Barrier(len(callers))

    def cancel() -> None:
        for caller in leaving:
            caller.cancel()

    def run(k: int) -> list[lh.Results] | None:
        all_there.wait()
        time.sleep(crowd.delays_s[k])
        way = crowd.ways[k]
        if way == "call":
            results = callers[k].call(generates(crowd.callers[k], context))
            return None if results is None else [results]
        return callers[k].submit(context, stream=way == "stream")

    hook: dict[str, Any] = {}
    if leaving:
        hook = {"hook": cancel, "hook_at": leaving[0].case.cancel_at}
    with (
        faults.armed(crowd.callers[0].fault, **hook),
        ThreadPoolExecutor(len(callers)) as pool,
    ):
        return list(pool.map(run, range(len(callers))))


class Caller:
    """Runs the prompts of a case, and can be cancelled from any thread."""

    def __init__(self, kind: Kind, case: Case) -> None:
        self.case = case
        self._kind = kind
        self._is_started = threading.Event()
        self._started: list[lh.Job[Any] | lh.types.Handle] = []

    def cancel(self) -> None:
        self._is_started.wait()
        for call in self._started:
            call.cancel()

    def call(self, start: Callable[[], lh.Job[_T]]) -> _T | None:
        try:
            job = start()
            self._started.append(job)
            self._is_started.set()
            assert job.wait(END_S), "a call is lost"
            return job.results()
        except self._kind.raises:
            return None
        finally:
            self._is_started.set()

    def submit(self, context: lh.Context, *, stream: bool) -> list[lh.Results] | None:
        case = self.case
        handles = []
        try:
            for prompt, params in zip(case.prompts, case.params, strict=True):
                handle = context.submit(
                    prompt, params=params, seed=case.seed, stream=stream
                )
                handles.append(handle)
                self._started.append(handle)
            self._is_started.set()
            return [_result(handle, stream=stream) for handle in handles]
        except self._kind.raises:
            return None
        finally:
            self._is_started.set()


def _result(handle: lh.types.Handle, *, stream: bool) -> lh.Results:
    """Return the results of one submitted prompt."""
    pieces = []
    try:
        if stream:
            pieces += handle
        result = handle.result(END_S)
    except lh.GenerationError as error:
        return error.results
    if stream:
        assert "".join(pieces) == (result.partial or result.text or "")
    return lh.Results([result], lh.Stats(n_prompts=1))


# Labels of one and of several tokens; one is the beginning of another.
LABELS = [" yes", " yes, but", " no", " n"]


def alone(world: World, herd: Herd, prompt: str) -> np.ndarray:
    """Return float64[n_labels]: log-probabilities of the labels of a single prompt."""
    context = world.context(HERDS[0] if herd.kind == "llama" else HERDS[1])
    return lh.classify_parallel(context, [prompt], LABELS, space=False).logprobs[0]


def check_scored(world: World, kind: Kind, tally: Tally, case: Case) -> None:
    """Check that each prompt has an error or the probabilities of a single prompt."""
    tally.scored += 1
    # Computed before the fault occurs, on contexts without a fault.
    known = {}
    for prompt in case.prompts if case.herd.is_exact else ():
        if not is_impossible(prompt):
            known[prompt] = alone(world, case.herd, prompt)
    with world.checked(kind, case.herd, []) as context:
        results = run_case(
            world.faults,
            kind,
            case,
            lambda: lh.start_classify(
                context, case.prompts, LABELS, space=False, on_error=case.on_error
            ),
        )
        n_struck = world.faults.n_struck if case.fault else 0
        tally.struck_scored += n_struck > 0
        if results is None:
            assert n_struck > 0
            return
        assert len(results) == len(case.prompts)
        failed = set()  # distinct prompts
        for i, prompt in enumerate(case.prompts):
            if _is_failed_by_fault(kind, case, results, i, n_struck):
                failed.add(prompt)
            if prompt in known and results.finish_reasons[i] == "stop":
                _check_equal(case.herd, known[prompt], results.logprobs[i])
        check_number_failed(kind, [case], len(failed), results.errors)


def _is_failed_by_fault(
    kind: Kind, case: Case, results: lh.types.ClassifyResults, i: int, n_struck: int
) -> bool:
    """Check a row."""
    prompt = case.prompts[i]
    is_hit = kind.of_one and isinstance(prompt, str) and POISON in prompt
    reason, row = results.finish_reasons[i], results.logprobs[i]
    if reason == "stop":
        assert results.errors[i] is None
        assert not is_impossible(prompt)
        assert not is_hit
        assert np.isfinite(row).all()
        assert abs(results.probs[i].sum() - 1) < 1e-9
        return False
    assert np.isnan(row).all()
    assert results.labels[i] is None
    if reason == "cancelled":
        assert case.cancel_at is not None or case.on_error == "return"
        return False
    assert reason == "error"
    assert results.errors[i]
    if is_impossible(prompt):
        return False
    assert n_struck > 0, results.errors[i]
    assert is_hit or not kind.of_one, results.errors[i]
    return True


def _check_equal(herd: Herd, one: np.ndarray, row: np.ndarray) -> None:
    """Compare log-probabilities; bit by bit if the context is deterministic."""
    if herd is HERDS[0]:
        assert row.tobytes() == one.tobytes()
    else:
        np.testing.assert_allclose(row, one, atol=1e-4)
