"""Random calls on a context, by one or several callers at the same time, with a fault."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import llamaherd as lh
import tiny_models
from faults import FOREVER, Fault
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kinds import Herd, Kind

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
