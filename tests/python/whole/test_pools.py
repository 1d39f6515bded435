"""Single prompts get the same answers while the layout of their cells changes."""

from __future__ import annotations

import json
import random
from array import array
from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
import scripted_model
import tiny_loras
import tiny_models
from llamaherd.calls.run.handle import Handle
from llamaherd.engine.core.request import Request, ThoughtStage
from llamaherd.engine.loop.open_groups import WatchedAnswers
from llamaherd.engine.loop.runner import Runner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from llamaherd.engine.core.results import Result
    from llamaherd.engine.loop.loop import Loop


CODEBOOK = "The answer is yes, or the answer is no. " * 8
# Layouts round differently: by at most 0.05 in these log-probabilities. The first tokens
# of two prompts differ by 0.46 (median). Where two tokens are about equally probable, the
# answers of this model with random weights may differ.
NEAR = 0.1


def coding(i: int) -> str:
    return f"{CODEBOOK}{i}, {i * 7 % 13}"


def other(i: int) -> str:
    return f"{i} another text " + "then " * (i * 5 % 40)


def assert_near(result: Result, expected: Result) -> None:
    """Compare the log-probabilities of tokens up to a difference by rounding.

    The answers may differ from a token on that is as probable as another after
    penalties; the log-probabilities are those before penalties.
    """
    assert result.error is None
    for i, (token, right) in enumerate(zip(result.tokens, expected.tokens, strict=True)):
        if token != right:
            best, others = (
                sorted(one.top_logprobs[i].values()) for one in (result, expected)
            )
            assert best == pytest.approx(others, abs=NEAR)
            return
        assert result.logprobs[i] == pytest.approx(expected.logprobs[i], abs=NEAR)


def run_all(context: lh.Context, prompts: list[str], **options: object) -> list[Result]:
    """Submit prompts at the same time; cancel another prompt, and return the results."""
    params = lh.SamplingParams(ignore_eos=True)
    with context.loop._lock:
        cancelled = context.submit(prompts[0], max_tokens=60)
        handles = [
            context.submit(prompt, max_tokens=6, params=params, logprobs=3, **options)
            for prompt in prompts
        ]
    cancelled.cancel()
    return [handle.result(120) for handle in handles]


def test_answers_stay_the_same_while_the_layout_changes(model: lh.Model) -> None:
    rng = random.Random(5)
    phases = [
        [one(100 * k + i) for i in range(60)]
        for k, one in enumerate((coding, coding, other, coding, coding))
    ]
    for prompts in phases:
        prompts[rng.randrange(26)] = "x" * rng.randrange(300, 480)  # a long prompt
    with lh.Context(model, n_threads=1, kv_layout="per_sequence") as context:
        expected = [run_all(context, prompts) for prompts in phases]
        assert context.plan.kv_layout == "per_sequence"
    layouts = []
    with lh.Context(model, n_threads=1) as context:
        for prompts, results in zip(phases, expected, strict=True):
            for result, right in zip(run_all(context, prompts), results, strict=True):
                assert_near(result, right)
            layouts.append(context.plan.kv_layout)
    # After a pool, the next one needs 64 prompts.
    pool, single = "unified", "per_sequence"
    assert layouts == [pool, pool, single, single, pool]


@pytest.mark.parametrize("kind", ["mamba", "jamba"])
def test_recurrent_states_are_never_put_into_a_pool(
    tiny_path: Callable[[str], Path], kind: str
) -> None:
    with lh.Model(tiny_path(kind)) as model, lh.Context(model, n_threads=1) as context:
        for _ in range(2):
            run_all(context, [coding(i) for i in range(40)])
            assert context.plan.kv_layout == "per_sequence"


def test_a_deterministic_context_never_uses_a_pool(model: lh.Model) -> None:
    options = {"n_threads": 1, "deterministic": True}
    with lh.Context(model, **options) as context:
        for _ in range(2):
            run_all(context, [coding(i) for i in range(40)])
            assert context.plan.kv_layout == "per_sequence"


def test_choices_and_scores_work_beside_single_prompts_in_a_pool(model: lh.Model) -> None:
    words = [" yes", " no"]
    with lh.Context(model, n_threads=1) as context:
        first = lh.classify_parallel(context, [coding(0)], words)
        for _ in range(2):
            run_all(context, [coding(i) for i in range(40)])
        assert context.plan.kv_layout == "unified"
        running = [
            context.submit(coding(i), max_tokens=6, choices=words) for i in range(10)
        ]
        second = lh.classify_parallel(context, [coding(0)], words)
        for handle in running:
            assert handle.result(120).text in words
    assert second.logprobs == pytest.approx(first.logprobs, abs=NEAR)


N = tiny_models.N_EMBD
LORA = {"blk.0.attn_q.weight": (N, N), "blk.1.ffn_up.weight": (N, tiny_models.N_FF)}
LONG = 300  # tokens of an answer that still runs when the layout changes
SCHEMA = {
    "type": "array",
    "items": {"type": "integer", "maximum": 999},
    "minItems": 12,
    "maxItems": 12,
}
KINDS: list[dict[str, object]] = [
    {"logprobs": 3, "params": lh.SamplingParams(ignore_eos=True, penalty_repeat=1.1)},
    {"logprobs": 3, "stream": True, "params": lh.SamplingParams(ignore_eos=True)},
    {"schema": SCHEMA},
    {"schema": SCHEMA, "stream": True},
    {"regex": "([a-z]{3} ){25}"},
    {"temperature": 0.9, "seed": 5, "top_k": 2, "logprobs": 0},
]


@pytest.fixture(scope="module")
def plain(tiny_path: Callable[[str], Path]) -> Iterator[lh.Model]:
    with lh.Model(tiny_path("llama")) as model:
        yield model


@pytest.fixture(scope="module")
def adapted(
    tiny_path: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[lh.Model]:
    path = tmp_path_factory.mktemp("lora") / "tiny.gguf"
    lora = tiny_loras.write(path, LORA, size=0.5)
    with lh.Model(tiny_path("llama"), lora=lora) as model:
        yield model


@pytest.fixture
def when_running(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """Return a list of functions, each called once after a millisecond of work.

    Their results are kept until the end of the test, because a handle that nobody holds
    is cancelled.
    """
    functions: list[Callable[[], object]] = []
    results: list[object] = []
    run_slice = Runner.run_slice

    def run(runner: Runner) -> None:
        run_slice(runner)
        if functions:
            results.append(functions.pop()())

    monkeypatch.setattr(Runner, "run_slice", run)
    monkeypatch.setattr(WatchedAnswers, "slice_ms", lambda _answers, _n_running: 1)
    return functions


def run_beside(
    context: lh.Context,
    settings: list[dict[str, object]],
    when_running: list[Callable[[], object]],
) -> list[Handle]:
    """Run long answers together with prompts with a codebook, which then use a pool."""
    when_running.append(lambda: submit_coding(context))
    with context.loop._lock:
        handles = [
            context.submit(other(i), **{"max_tokens": LONG, **options})
            for i, options in enumerate(settings)
        ]
    for handle in handles:
        handle.result(120)
    return handles


def submit_coding(context: lh.Context) -> list[Handle]:
    with context.loop._lock:
        return [context.submit(coding(i), max_tokens=4) for i in range(60)]


@pytest.mark.parametrize("kind", ["plain", "adapted"])
def test_answers_of_every_kind_continue_in_another_layout(
    kind: str, request: pytest.FixtureRequest, when_running: list[Callable[[], object]]
) -> None:
    model: lh.Model = request.getfixturevalue(kind)
    with lh.Context(model, n_threads=1, kv_layout="per_sequence") as context:
        expected = run_beside(context, KINDS, when_running)
    with lh.Context(model, n_threads=1) as context:
        handles = run_beside(context, KINDS, when_running)
        assert context.plan.kv_layout == "unified"
    n_pauses = 0
    for handle, right, options in zip(handles, expected, KINDS, strict=True):
        result = handle.result()
        n_pauses += result.stats.n_pauses
        if "logprobs" in options:
            assert_near(result, right.result())
            assert len(result.logprobs) == len(result.tokens) == LONG
        if "schema" in options:
            assert len(json.loads(result.text)) == 12
        if "regex" in options:
            assert len(result.text) == 100
        assert "".join(handle) == result.text
    assert n_pauses > 0


def first_logprobs(model: lh.Model, **options: object) -> list[float]:
    with lh.Context(model, n_threads=1, **options) as context:
        for _ in range(2):
            with context.loop._lock:
                handles = [
                    context.submit(coding(i), max_tokens=1, logprobs=0) for i in range(40)
                ]
            results = [handle.result(120) for handle in handles]
        if not options:
            assert context.plan.kv_layout == "unified"
        return [result.logprobs[0] for result in results]


def test_an_adapter_stays_in_a_pool(adapted: lh.Model, plain: lh.Model) -> None:
    logprobs = first_logprobs(adapted)
    assert logprobs == pytest.approx(
        first_logprobs(adapted, kv_layout="per_sequence"), abs=NEAR
    )
    assert logprobs != pytest.approx(
        first_logprobs(plain, kv_layout="per_sequence"), abs=NEAR
    )


def test_scores_continue_when_their_call_leaves_a_pool(
    plain: lh.Model, when_running: list[Callable[[], object]]
) -> None:
    words = [" yes and no", " no", " neither of them"]
    prompts = [f"{i} of them " + "and then " * (40 + i % 7) for i in range(40)]
    with lh.Context(plain, n_threads=1, kv_layout="per_sequence") as context:
        expected = lh.classify_parallel(context, prompts, words)
    jobs: list[lh.Job[lh.types.ClassifyResults]] = []
    with lh.Context(plain, n_threads=1) as context:
        for _ in range(2):
            for handle in submit_coding(context):
                handle.result(120)
        assert context.plan.kv_layout == "unified"
        when_running.append(
            lambda: jobs.append(lh.start_classify(context, prompts, words))
        )
        single = context.submit(other(1), max_tokens=LONG)
        assert single.result(120).error is None
        scores = jobs[0].results()
        assert context.plan.kv_layout == "per_sequence"
    assert scores.logprobs == pytest.approx(expected.logprobs, abs=NEAR)


def test_thoughts_continue_in_another_layout(
    tmp_path: Path, when_running: list[Callable[[], object]]
) -> None:
    """The model of a script computes the same in all layouts."""
    entries = ("<think>", "Hm", "h", "m", "!", "</think>", "yes", "y", "?")
    loops = {"!": "Hm"}  # until the budget is spent
    script = scripted_model.write(tmp_path / "m.gguf", *entries, links=loops)
    end = script.tokens("</think>")
    closing = (*script.tokens("."), *end)
    stage = ThoughtStage(budget=300, is_open=True, end=end, closing=closing)
    codebook = script.tokens("?", "h") * 100

    def request(i: int, tokens: tuple[int, ...], *, thinks: bool) -> Request:
        number = script.tokens(*str(1000 + i))
        return Request(
            tokens=array("i", [1, *tokens, *number]),
            max_tokens=6,
            thought=stage if thinks else None,
        )

    results, layouts = [], []
    with lh.Model(script.path) as model:
        for options in ({"kv_layout": "per_sequence"}, {}):
            with lh.Context(model, n_threads=1, **options) as context:
                loop = context.loop

                def submit_others(loop: Loop = context.loop) -> list[Handle]:
                    others = [request(i, codebook, thinks=False) for i in range(60)]
                    return [Handle(loop, other, None) for other in others]

                when_running.append(submit_others)
                with loop._lock:
                    thoughts = [
                        Handle(loop, request(i, (), thinks=True), None, stream=i > 2)
                        for i in range(5)
                    ]
                results.append([handle.result(120) for handle in thoughts])
                pieces = ["".join(handle.pieces()) for handle in thoughts]
                layouts.append(context.plan.kv_layout)
    assert layouts == ["per_sequence", "unified"]
    assert sum(result.stats.n_pauses for result in results[1]) > 0
    for result, right, text in zip(results[1], results[0], pieces, strict=True):
        assert result.error is None
        assert (result.text, result.thinking) == (right.text, right.thinking)
        assert len(result.thinking) > 50
        assert text == result.thinking + result.text
