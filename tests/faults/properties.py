"""Random calls with faults, on tiny models: what must hold whatever happens.

    python properties.py FOLDER CASES OUT.json [NAME]

Runs in a process of its own with faults.cpp loaded in front of libllama. Writes, for each
fault, how many cases there were and what became of the prompts.
"""

from __future__ import annotations

import json
import math
import sys
import threading
import zlib
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "python")]

import llamaherd as lh
import tiny_models
from faults import FOREVER, Action, Fault, Faults
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from kinds import HERDS, KINDS, Herd, Kind
from llamaherd.native import engine as native_engine

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_TOKENS = 40
POISON = "\a"  # the token that faults "of one prompt" are for
POISON_TOKEN = len(tiny_models.SPECIAL) + ord(POISON)
DOCUMENT = "A document that many questions are about, to be held. "
STEMS = ["", "Question ", DOCUMENT, DOCUMENT + "A second part, which fewer share. "]
TOO_LONG = "long " * 120  # more tokens than the models were trained for
GRAMMAR = 'root ::= [a-z]{2,4} " " root | [A-Z]'
RARE = {  # a call has few of them
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
    """One call."""

    herd: Herd
    prompts: tuple[str | tuple[int, ...], ...]
    params: tuple[lh.SamplingParams, ...]
    seed: int
    fault: Fault | None
    cancel_at: int | None
    on_error: str


@dataclass
class Tally:
    """What became of the prompts of all cases with one fault."""

    cases: int = 0
    struck: int = 0  # cases
    raised: int = 0  # cases
    prompts: Counter[str] = field(default_factory=Counter)  # by finish reason


def prompts() -> st.SearchStrategy[str | tuple[int, ...]]:
    texts = st.builds(
        lambda stem, i, n: f"{stem}{i}" + "x" * n,
        st.sampled_from(STEMS),
        st.integers(0, 4),
        st.sampled_from([0, 0, 3, 17]),
    )
    common = st.one_of(texts, texts, texts, st.text(max_size=12))
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
    if kind.of_one:  # others must not come to generate it
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


class World:
    """Models and contexts, and the answers that prompts get alone."""

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
        """As prompt number i of a call whose other prompts are empty."""
        context = self.context(HERDS[0] if herd.kind == "llama" else HERDS[1])
        calls = [[]] * i + [prompt]
        return lh.generate_parallel(context, calls, params=params, seed=seed)[i]

    def expected(self, case: Case, i: int) -> lh.Result:
        params = replace(case.params[i], max_tokens=MOST_TOKENS)
        draws = case.params[i].temperature > 0
        place, seed = (i, case.seed) if draws else (0, 1)
        return self.alone(case.herd, place, case.prompts[i], params, seed)

    def check_clean(self, context: lh.Context) -> None:
        """Nothing is left but the prefixes that are kept for the next call."""
        engine, kept = context._engine, context._kept.values()
        if engine is None:
            return
        ends = [
            native_engine.lib.lh_engine_seq_pos_max(engine._engine, i)
            for i in range(context.plan.n_sequences)
        ]
        lengths = sorted(prefix.n_tokens for prefix in kept)
        assert sorted(end + 1 for end in ends if end >= 0) == lengths, ends
        info = engine._engine_info()
        assert info.n_seq_used == len(lengths)
        assert info.n_cells_used == sum(lengths)
        assert info.n_cells_pending == 0

    def check_next_call(self, herd: Herd, context: lh.Context) -> None:
        texts = ["Question 1", DOCUMENT + "a", DOCUMENT + "b"]
        params = lh.SamplingParams(ignore_eos=True, max_tokens=MOST_TOKENS)
        results = lh.generate_parallel(context, texts, params=params)
        assert results.finish_reasons == ["length"] * 3, results.errors
        if herd.is_exact:
            for text, result in zip(texts, results, strict=True):
                assert result.tokens == self.alone(herd, 0, text, params, 1).tokens


def is_impossible(prompt: str | tuple[int, ...]) -> bool:
    return prompt == TOO_LONG or not isinstance(prompt, str)


def check_case(world: World, kind: Kind, case: Case, tally: Tally) -> None:
    is_new = kind.function == "llama_init_from_model"
    context = (world.new_context if is_new else world.context)(case.herd)
    tally.cases += 1
    results = run_case(world, kind, case, context)
    n_struck = world.faults.n_struck if case.fault else 0
    tally.struck += n_struck > 0
    if results is None:
        tally.raised += 1
        assert n_struck > 0
    else:
        check_results(world, kind, case, results, n_struck)
        tally.prompts.update(results.finish_reasons)
    if kind.leaves_cells:
        world.check_next_call(case.herd, context)
        context._kept.clear()
        context._engine.reset()
    world.check_clean(context)
    world.check_next_call(case.herd, context)
    world.check_clean(context)
    if is_new:
        context.close()


def run_case(
    world: World, kind: Kind, case: Case, context: lh.Context
) -> lh.Results | None:
    """None: the call raised what it may."""
    # Not under the fault: what a prompt gets alone.
    if case.herd.is_exact:
        for i, prompt in enumerate(case.prompts):
            if not is_impossible(prompt):
                world.expected(case, i)
    job: list[lh.Job] = []
    is_started = threading.Event()

    def cancel() -> None:
        is_started.wait()
        job[0].cancel()

    hook: dict[str, Any] = {}
    if case.cancel_at is not None:
        hook = {"hook": cancel, "hook_at": case.cancel_at}
    with world.faults.armed(case.fault, **hook):
        try:
            job.append(
                lh.start_parallel(
                    context,
                    case.prompts,
                    params=case.params,
                    seed=case.seed,
                    on_error=case.on_error,
                )
            )
            is_started.set()
            return job[0].results()
        except kind.raises:
            return None


def check_results(
    world: World, kind: Kind, case: Case, results: lh.Results, n_struck: int
) -> None:
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
    if kind.fails is not None and case.fault is not None:
        assert len(failed) <= kind.fails * case.fault.times, results.errors
        # Beside a prompt that is impossible, what is struck may be at its second try.
        if kind.passes and case.fault.times == 1:
            assert not failed or any(map(is_impossible, case.prompts)), results.errors


def check_text(alone: lh.Result, max_tokens: int, result: lh.Result) -> None:
    most = alone.tokens[:max_tokens]
    if result.finish_reason == "cancelled":
        assert result.tokens == most[: len(result.tokens)]
        return
    assert result.tokens == most
    if len(most) == len(alone.tokens):
        assert result.text == alone.text


def property_of(
    world: World, kind: Kind, n_cases: int, tally: Tally
) -> Callable[[], None]:
    @seed(zlib.crc32(kind.name.encode()))
    @settings(
        max_examples=n_cases,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(cases(kind))
    def holds(case: Case) -> None:
        check_case(world, kind, case, tally)

    return holds


def check_each_decode_cancelled(world: World) -> None:
    """A call that is cancelled in any of its decodes does not change the next one.

    libllama marks recurrent states as moved or cleared before it computes that.
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
        check_case(world, kind, replace(case, cancel_at=None), Tally())
        check_case(world, kind, case, Tally())


def main() -> None:
    folder, n_cases, out = Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    only = sys.argv[4] if len(sys.argv) > 4 else ""
    world = World(folder)
    tallies = {}
    if not only:
        check_each_decode_cancelled(world)
    for kind in KINDS:
        if only not in kind.name:
            continue
        tallies[kind.name] = tally = Tally()
        print(kind.name, flush=True)  # the last line, if the process ends here
        property_of(world, kind, n_cases, tally)()
    out.write_text(json.dumps({k: vars(t) for k, t in tallies.items()}, indent=1))


if __name__ == "__main__":
    main()
