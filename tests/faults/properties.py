"""Checks properties of random calls with faults, on tiny models.

    python properties.py FOLDER CASES OUT.json [NAME]

Runs in separate processes with faults.cpp preloaded. Writes the number of cases for each
fault: single calls, several callers, and calls that score labels.
"""

from __future__ import annotations

import ctypes
import json
import signal
import subprocess
import sys
import zlib
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "python")]

import llamaherd as lh
import tiny_models
from cases import (
    DOCUMENT,
    MOST_TOKENS,
    POISON,
    POISON_TOKEN,
    STEMS,
    Case,
    cases,
    check_number_failed,
    check_scored,
    crowds,
    generates,
    is_impossible,
    run_case,
    run_crowd,
)
from faults import FOREVER, Action, Fault, Faults
from hypothesis import HealthCheck, Phase, given, seed, settings
from kinds import HERDS, KINDS, Herd, Kind
from llamaherd.engine.native import engine as native_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cases import Crowd
    from hypothesis import strategies as st

_T = TypeVar("_T")
CASES_PER_CROWD = 3
N_PROCESSES = 2  # each uses one core
PR_SET_PDEATHSIG = 1


@dataclass
class Tally:
    """Numbers of cases; `crowds` have several callers, `scored` score labels."""

    cases: int = 0
    struck: int = 0  # cases
    raised: int = 0  # cases
    crowds: int = 0
    struck_crowds: int = 0
    scored: int = 0
    struck_scored: int = 0


class World:
    """Models and contexts, and the answers to prompts that run alone."""

    def __init__(self, folder: Path) -> None:
        self.faults = Faults()
        self.models = {
            kind: lh.Model(tiny_models.write(folder / f"{kind}.gguf", kind))
            for kind in ("llama", "mamba", "jamba")
        }
        self.context = cache(self.new_context)
        self.alone = cache(self._alone)

    def new_context(self, herd: Herd, **more: object) -> lh.Context:
        options = {**dict(herd.options), **more}
        return lh.Context(self.models[herd.kind], n_threads=1, **options)

    def _alone(
        self, herd: Herd, i: int, prompt: str, params: lh.SamplingParams, seed: int
    ) -> lh.Result:
        """Return the answer to prompt i of a call whose other prompts are empty."""
        context = self.context(HERDS[0] if herd.kind == "llama" else HERDS[1])
        calls = [[]] * i + [prompt]
        return lh.generate_parallel(context, calls, params=params, seed=seed)[i]

    def expected(self, case: Case, i: int) -> lh.Result:
        params = replace(case.params[i], max_tokens=MOST_TOKENS)
        draws = case.params[i].temperature > 0
        place, seed = (i, case.seed) if draws else (0, 1)
        return self.alone(case.herd, place, case.prompts[i], params, seed)

    @contextmanager
    def checked(
        self, kind: Kind, herd: Herd, cases: Sequence[Case]
    ) -> Iterator[lh.Context]:
        """Yield a context for the cases; check the context afterwards."""
        is_new = kind.function == "llama_init_from_model"
        context = (self.new_context if is_new else self.context)(herd)
        # The answers of prompts that run alone are computed without the fault.
        for case in cases if herd.is_exact else ():
            for i, prompt in enumerate(case.prompts):
                if not is_impossible(prompt):
                    self.expected(case, i)
        if kind.of_one:  # a fault cannot change stored logits
            self.start_afresh(context)
        yield context
        if kind.leaves_cells:
            self.check_next_call(herd, context)
            self.start_afresh(context)
        self.check_clean(context)
        self.check_next_call(herd, context)
        self.check_clean(context)
        if is_new:
            context.close()

    def start_afresh(self, context: lh.Context) -> None:
        """Remove all stored prefixes."""
        context.loop.wait()
        if context.loop._runner is not None:
            context.loop._runner._start_afresh()

    def check_clean(self, context: lh.Context) -> None:
        """Check that only prefixes and ended prompts kept for the next call use cells."""
        context.loop.wait()
        runner = context.loop._runner
        if runner is None:
            return
        engine, held = runner.engine, runner._cache.held
        ended = list(runner._scheduler.kept._kept.values())
        ends = [
            native_engine.lib.lh_engine_seq_pos_max(engine._engine, i)
            for i in range(context.plan.n_sequences)
        ]
        lengths = Counter(end + 1 for end in ends if end >= 0)
        of_prefixes = Counter(prefix.n_tokens for prefix in held)
        assert of_prefixes <= lengths, ends
        # A score may have cells of a continuation behind its prompt.
        others = sorted((lengths - of_prefixes).elements())
        of_ended = sorted(len(kept.tokens) for kept in ended)
        assert all(n >= m for n, m in zip(others, of_ended, strict=True)), ends
        info = engine._engine_info()
        assert info.n_seq_used == lengths.total()
        most = sum(lengths.elements())
        # With a unified KV cache, prefixes with the same beginning may share cells.
        tokens = [*(p.request.tokens for p in held), *(k.tokens for k in ended)]
        least = len({t[: k + 1].tobytes() for t in tokens for k in range(len(t))})
        is_pool = context.plan.kv_layout == "unified"
        assert (least if is_pool else most) <= info.n_cells_used <= most
        assert info.n_cells_pending == 0

    def check_next_call(self, herd: Herd, context: lh.Context) -> None:
        texts = ["Question 1", DOCUMENT + "a", DOCUMENT + "b"]
        params = lh.SamplingParams(ignore_eos=True, max_tokens=MOST_TOKENS)
        results = lh.generate_parallel(context, texts, params=params)
        assert results.finish_reasons == ["length"] * 3, results.errors
        if herd.is_exact:
            for text, result in zip(texts, results, strict=True):
                assert result.tokens == self.alone(herd, 0, text, params, 1).tokens


def check_case(world: World, kind: Kind, tally: Tally, case: Case) -> None:
    tally.cases += 1
    with world.checked(kind, case.herd, [case]) as context:
        results = run_case(world.faults, kind, case, generates(case, context))
        n_struck = world.faults.n_struck if case.fault else 0
        tally.struck += n_struck > 0
        if results is None:
            tally.raised += 1
            assert n_struck > 0
            return
        failed = check_results(world, kind, case, results, n_struck)
        check_number_failed(kind, [case], failed, results.errors)


def check_crowd(world: World, kind: Kind, tally: Tally, crowd: Crowd) -> None:
    """Check that each caller gets its answers as if it ran alone, or its own error."""
    cases = crowd.callers
    tally.crowds += 1
    with world.checked(kind, cases[0].herd, cases) as context:
        outcomes = run_crowd(world.faults, kind, crowd, context)
        n_struck = world.faults.n_struck if cases[0].fault else 0
        tally.struck_crowds += n_struck > 0
        n_failed, errors = 0, []
        for case, results in zip(cases, outcomes, strict=True):
            if results is None:
                assert n_struck > 0
            elif len(results) == 1 and len(results[0]) == len(case.prompts):
                n_failed += check_results(world, kind, case, results[0], n_struck)
            else:
                for i, result in enumerate(results):
                    one = replace(
                        case, prompts=(case.prompts[i],), params=(case.params[i],)
                    )
                    n_failed += check_results(world, kind, one, result, n_struck)
            errors += [results and [result.errors for result in results]]
        check_number_failed(kind, cases, n_failed, errors)


def check_results(
    world: World, kind: Kind, case: Case, results: lh.Results, n_struck: int
) -> int:
    """Return the number of distinct prompts that failed because of the fault."""
    assert [result.index for result in results] == list(range(len(case.prompts)))
    failed = set()
    for i, (prompt, result) in enumerate(zip(case.prompts, results, strict=True)):
        assert result.finish_reason in {"stop", "length", "error", "cancelled"}
        is_hit = kind.of_one and isinstance(prompt, str) and POISON in prompt
        if result.finish_reason == "error":
            assert result.error
            assert result.text is None
            if not is_impossible(prompt):
                assert n_struck > 0, result.error
                assert is_hit or not kind.of_one, result.error
                is_greedy = case.params[i].temperature <= 0
                failed.add((prompt, case.params[i]) if is_greedy else i)
            continue
        assert result.error is None
        if result.finish_reason == "cancelled":
            assert case.cancel_at is not None or case.on_error == "return"
            assert result.text is None
        else:
            assert not is_impossible(prompt)
            assert not is_hit
            assert result.text is not None
            assert len(result.tokens) <= case.params[i].max_tokens
        if case.herd.is_exact and not is_impossible(prompt):
            check_text(world.expected(case, i), case.params[i].max_tokens, result)
    return len(failed)


def check_text(alone: lh.Result, max_tokens: int, result: lh.Result) -> None:
    most = alone.tokens[:max_tokens]
    if result.finish_reason == "cancelled":
        assert result.tokens == most[: len(result.tokens)]
        return
    assert result.tokens == most
    if len(most) == len(alone.tokens):
        assert result.text == alone.text


def check_property(
    name: str,
    n_cases: int,
    strategy: st.SearchStrategy[_T],
    check: Callable[[_T], None],
) -> None:
    @seed(zlib.crc32(name.encode()))
    @settings(
        max_examples=n_cases,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def holds(case: _T) -> None:
        check(case)

    holds()


def check_each_decode_cancelled(world: World) -> None:
    """Check that a call that is cancelled in any decode does not change the next call.

    libllama marks recurrent states as moved or cleared before it moves or clears them.
    """
    kind = next(kind for kind in KINDS if kind.of_one and kind.action is Action.NAN)
    fault = Fault(
        function=kind.function, action=kind.action, times=FOREVER, token=POISON_TOKEN
    )
    texts = (STEMS[3] + "0", "", "B", POISON, (1, 10, 9999), "0")
    params = [lh.SamplingParams(ignore_eos=True, max_tokens=n) for n in (1, 1, 1, 3, 3)]
    params.append(lh.SamplingParams(logit_bias={70: 5.0}, stop=["C"], max_tokens=8))
    for herd, cancel_at in product(HERDS, range(24)):
        case = Case(
            herd=herd,
            prompts=texts,
            params=tuple(params),
            seed=0,
            fault=fault,
            cancel_at=cancel_at,
            on_error="continue",
        )
        world.context.cache_clear()
        check_case(world, kind, Tally(), replace(case, cancel_at=None))
        check_case(world, kind, Tally(), case)


def try_kinds(folder: Path, n_cases: int, kinds: Sequence[Kind]) -> dict[str, Tally]:
    """Run all cases of some kinds of faults in this process."""
    world = World(folder)
    tallies = {}
    for kind in kinds:
        tallies[kind.name] = tally = Tally()
        print(kind.name, flush=True)  # the last line of output if the process ends here
        check_property(
            kind.name, n_cases, cases(kind), partial(check_case, world, kind, tally)
        )
        check_property(
            f"{kind.name}, several callers",
            n_cases // CASES_PER_CROWD,
            crowds(kind),
            partial(check_crowd, world, kind, tally),
        )
        if not kind.scores:
            continue
        check_property(
            f"{kind.name}, labels",
            n_cases // CASES_PER_CROWD,
            cases(kind),
            partial(check_scored, world, kind, tally),
        )
    return tallies


def try_share(i: int, folder: Path, n_cases: int, out: Path) -> None:
    """Run one of `N_PROCESSES` parts of all kinds; end with the parent process."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if i == N_PROCESSES - 1:
        check_each_decode_cancelled(World(folder))
    tallies = try_kinds(folder, n_cases, KINDS[i::N_PROCESSES])
    out.write_text(json.dumps({k: vars(t) for k, t in tallies.items()}))


def main() -> None:
    folder, n_cases, out = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    which = sys.argv[4] if len(sys.argv) > 4 else ""
    if which.isdigit():
        try_share(int(which), folder, n_cases, out)
        return
    if which:
        tallies = try_kinds(folder, n_cases, [k for k in KINDS if which in k.name])
        out.write_text(json.dumps({k: vars(t) for k, t in tallies.items()}, indent=1))
        return
    parts = [out.with_suffix(f".{i}.json") for i in range(N_PROCESSES)]
    processes = []
    for i, part in enumerate(parts):
        share = folder / f"share{i}"
        share.mkdir(exist_ok=True)
        command = [sys.executable, __file__, share, str(n_cases), part, str(i)]
        processes.append(subprocess.Popen(command))
    codes = [process.wait() for process in processes]
    if any(codes):
        sys.exit(1)
    sums = {}
    for part in parts:
        sums |= json.loads(part.read_text())
    out.write_text(json.dumps({kind.name: sums[kind.name] for kind in KINDS}, indent=1))


if __name__ == "__main__":
    main()
