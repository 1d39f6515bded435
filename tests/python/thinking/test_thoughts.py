"""Thoughts in a real engine, with a model that follows a script."""

from __future__ import annotations

import random
from array import array
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pytest
import scripted_model
import tiny_models
from llamaherd.calls.asks.options import GenerateOptions
from llamaherd.calls.asks.requests import make_requests
from llamaherd.calls.run.call import Call
from llamaherd.engine.core.request import Request, ThoughtStage
from llamaherd.engine.core.sampling import SamplingParams
from step_by_step import StepByStep
from thinking_behaviours import BEHAVIOURS, COLUMNS, TEMPLATE, Behaviour, codebook
from thinking_doors import DOORS, FORMS, Desk, Door, has
from thorough import sized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from llamaherd.engine.core.results import Result
    from scripted_model import Script


# Each test has another model with two layers of a few kilobytes.
BUDGET = 20


def scripted_stage(
    script: Script, budget: int = BUDGET, end: tuple[int, ...] = ()
) -> ThoughtStage:
    end = end or script.tokens("</think>")
    return ThoughtStage(
        budget=budget,
        is_open=True,
        end=end,
        after=script.tokens("\n"),
        closing=(*script.tokens("."), *end, *script.tokens("\n")),
    )


def run_stages(script: Script, *stages: ThoughtStage) -> list[Result]:
    """Return the results of one call with a prompt for each stage."""
    tokens = array("i", [1, *script.tokens("?")])
    requests = [Request(tokens=tokens, max_tokens=8, thought=stage) for stage in stages]
    model = lh.Model(script.path)
    with lh.Context(model, n_ctx=1024, n_seq_max=4) as context:
        results = Call(requests, seed=1).run(context.loop)
    model.close()
    return [result for samples in results.samples for result in samples]


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param(("Hm", "</", "think", ">", "yes"), id="pieces"),
        pytest.param(("Hm</", "think>", "yes"), id="text before it in a token"),
        pytest.param(("Hm", "</think>\n", "yes"), id="the blank line in it"),
        pytest.param(("Hm", "</think> x", "yes"), id="other text in it"),
        pytest.param(("H", "m</think>no", "yes"), id="text before and behind"),
    ],
)
def test_a_marker_in_plain_text_may_begin_and_end_inside_tokens(
    entries: tuple[str, ...], tmp_path: Path
) -> None:
    links = {"\n": "yes"}
    script = scripted_model.write(
        tmp_path / "m.gguf", *entries, links=links, is_plain=True
    )
    [result] = run_stages(script, scripted_stage(script, end=script.tokens(*"</think>")))
    assert result.error is None
    assert (result.thinking, result.thinking_complete) == ("Hm", True)
    assert result.text == "yes"


def test_a_budget_that_ends_inside_a_character_lasts_to_its_end(tmp_path: Path) -> None:
    links = {"\n": "yes", b"\xac": "and"}
    euro = (b"\xe2", b"\x82", b"\xac")
    script = scripted_model.write(
        tmp_path / "m.gguf", "Hm", *euro, "and", "</think>", "yes", links=links
    )
    results = run_stages(script, *(scripted_stage(script, n) for n in (1, 2, 3, 4, 5)))
    assert [(r.thinking, r.n_thinking_tokens) for r in results] == [
        ("Hm", 1),
        ("Hm€", 4),
        ("Hm€", 4),
        ("Hm€", 4),
        ("Hm€and", 5),
    ]
    assert all(r.text == "yes" and not r.thinking_complete for r in results)


def test_a_character_that_never_ends_is_cut_off(tmp_path: Path) -> None:
    links = {b"\x9f": b"\xf0", "\n": "yes"}
    script = scripted_model.write(
        tmp_path / "m.gguf", b"\xf0", b"\x9f", "</think>", "yes", links=links
    )
    [result] = run_stages(script, scripted_stage(script, 2))
    assert result.n_thinking_tokens == 5
    assert (result.text, result.thinking_complete) == ("yes", False)


# ---- thoughts that were not requested, in a context with few cells


# The prompt ends in an open thought, which the tiny model never closes.
FEW_CELLS = (
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: <think>\n{% endif %}"
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lh.Model]:
    path: Path = tmp_path_factory.mktemp("room") / "tiny.gguf"
    tiny_models.write(path, "llama", chat_template=FEW_CELLS)
    with lh.Model(path) as model:
        assert model.n_ctx_train <= 1024, "the default budget would fit"
        yield model


@pytest.mark.parametrize("sizes", [{}, {"n_ctx": 256}, {"n_ctx": 256, "n_seq_max": 1}])
def test_a_default_thought_leaves_room_for_the_answer(
    model: lh.Model, sizes: dict[str, int]
) -> None:
    with lh.Context(model, **sizes) as context:
        (result,) = lh.generate_parallel(
            context, ["Hello"], chat=True, max_tokens=8, ignore_eos=True
        )
        submitted = context.submit("Hello", chat=True, max_tokens=8, ignore_eos=True)
        again = submitted.result()
    assert result.error is None
    assert len(result.tokens) == 8
    assert 0 < result.n_thinking_tokens < 1024
    assert not result.thinking_complete
    assert (again.text, again.n_thinking_tokens) == (
        result.text,
        result.n_thinking_tokens,
    )


def test_a_budget_that_was_asked_for_is_not_cut(model: lh.Model) -> None:
    with lh.Context(model, n_ctx=256) as context:
        (result,) = lh.generate_parallel(
            context, ["Hello"], chat=True, thinking=1024, max_tokens=8
        )
    assert result.error_code == "too_long"
    assert "lower the limit of its thought" in (result.error or "")


# ---- thoughts are the same alone and together with those of other prompts


def stage(model: lh.Model, budget: int, **changes: object) -> ThoughtStage:
    """Return a thought stage that ends at a full stop, for a model without markers."""

    def tokens(text: str) -> tuple[int, ...]:
        return tuple(lh.tokenize(model, text, add_special=False))

    thought = ThoughtStage(
        budget=budget,
        is_open=True,
        end=tokens("."),
        after=tokens("\nAnswer:"),
        closing=tokens("... enough.\nAnswer:"),
    )
    return replace(thought, **changes)


def run(context: lh.Context, requests: Sequence[Request]) -> list[Result]:
    results = Call(requests, seed=1).run(context.loop)
    answers = [result for samples in results.samples for result in samples]
    assert all(result.error is None for result in answers), answers
    return answers


@pytest.mark.more(reason="many prompts with random budgets")
def test_thoughts_of_any_budget_are_as_alone(tiny_path: Callable[[str], Path]) -> None:
    draw = random.Random(1)
    with lh.Model(tiny_path("llama")) as model:
        requests = []
        for i in range(sized(40, 1000)):
            words = " ".join(draw.choices(["the", "answer", "yes", "no"], k=1 + i % 9))
            sampling = SamplingParams(temperature=0.8)
            thought = stage(
                model, draw.randrange(25), sampling=sampling, seed=draw.randrange(2**32)
            )
            request = Request(
                tokens=array("i", lh.tokenize(model, words)),
                max_tokens=1 + i % 7,
                sampling=sampling,
                seed=i,
                thought=thought if i % 3 else None,
            )
            requests.append(request)
        with lh.Context(model, deterministic=True, n_seq_max=8) as context:
            together = run(context, requests)
        with lh.Context(model, deterministic=True, n_seq_max=1) as context:
            alone = [run(context, [request])[0] for request in requests]
    for a, b in zip(together, alone, strict=True):
        assert (a.text, a.thinking, a.n_thinking_tokens) == (
            b.text,
            b.thinking,
            b.n_thinking_tokens,
        )
    assert {a.thinking_complete for a in together} >= {False, None}


# ---- thoughts and the text after them equal two separate calls of llama-cpp-python


_BF16 = 30  # values of a deterministic context, for which attention has one kernel
# SmolLM2's own format. A thought ends at a full stop, which the model itself writes.
PLAIN_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\nLet me think:{% endif %}"
)
PROMPTS = [
    "Is grass green? Answer yes or no.",
    "Which is larger, the sun or the moon?",
    "Name a colour.",
    "Does it snow in July in Norway?",
]
LABELS = [" Yes", " No", " Maybe"]  # separate tokens after "Answer:"
BUDGETS = (0, 1, 6, 48)


def chat(budget: int) -> dict[str, Any]:
    how = lh.Thinking(budget=budget, start="Let me think:", end=".")
    return {
        "chat": True,
        "template": PLAIN_TEMPLATE,
        "thinking": how,
        "prefix": "\nAnswer:",
    }


@pytest.fixture(scope="module")
def context(smollm2: lh.Model) -> Iterator[lh.Context]:
    with lh.Context(smollm2, deterministic=True, n_seq_max=4) as context:
        yield context


@pytest.fixture(scope="module")
def steps(smollm2_path: Path) -> Iterator[StepByStep]:
    with StepByStep(smollm2_path, n_threads=1, type_v=_BF16) as steps:
        yield steps


def requests(model: lh.Model, budget: int) -> list[Request]:
    """Return the prompts that llamaherd renders, with the ends of their thoughts."""
    return make_requests(model, PROMPTS, GenerateOptions(**chat(budget)))[0]


def second_prompt(request: Request, steps: StepByStep) -> tuple[list[int], int, bool]:
    """Return prompt with thought, the thought's tokens, and whether it ended itself."""
    stage, prompt = request.thought, list(request.tokens)
    assert stage is not None
    thought = steps.greedy(prompt, stage.budget, end=stage.end)
    is_own = bool(thought) and tuple(thought[-len(stage.end) :]) == stage.end
    behind = stage.after if is_own else stage.closing
    return [*prompt, *thought, *behind], len(thought), is_own


def n_computed(stats: lh.Stats) -> int:
    return stats.n_prefill_tokens + stats.n_decode_tokens


def n_given(stats: lh.Stats, n_forced: int) -> int:
    """Count the tokens of prompts, thoughts and following tokens, each once."""
    return (
        stats.n_prompt_tokens - stats.n_reused_tokens + stats.n_thinking_tokens + n_forced
    )


@pytest.mark.model
@pytest.mark.more(reason="several calls of a real model", cases=1)
@pytest.mark.parametrize("budget", BUDGETS)
def test_answers_are_those_of_two_calls_by_hand(
    budget: int, context: lh.Context, steps: StepByStep
) -> None:
    results = lh.generate_parallel(
        context, PROMPTS, max_tokens=5, logprobs=0, **chat(budget)
    )
    n_forced = 0
    for request, result in zip(requests(context.model, budget), results, strict=True):
        prompt, n_thought, is_own = second_prompt(request, steps)
        assert result.error is None
        assert (result.n_thinking_tokens, result.thinking_complete) == (n_thought, is_own)
        tokens = steps.greedy(prompt, 5)
        assert result.tokens == tokens
        logprobs = steps.token_logprobs(prompt, [tokens])[0] if tokens else []
        assert result.logprobs is not None
        np.testing.assert_allclose(result.logprobs, logprobs, atol=1e-6)
        n_forced += len(prompt) - len(request.tokens) - n_thought
    assert any(result.tokens for result in results)
    n_answer = sum(len(result.tokens) for result in results)
    stats = results.stats
    # The last token of an answer is not computed.
    n_left = n_computed(stats) - n_given(stats, n_forced) - n_answer
    assert -len(PROMPTS) <= n_left <= 0


@pytest.mark.model
@pytest.mark.more(reason="several calls of a real model", cases=1)
@pytest.mark.parametrize("budget", BUDGETS)
def test_labels_are_those_of_two_calls_by_hand(
    budget: int, context: lh.Context, steps: StepByStep
) -> None:
    model = context.model
    labelled = lh.classify_parallel(context, PROMPTS, LABELS, **chat(budget))
    behind = [list(lh.tokenize(model, label, add_special=False)) for label in LABELS]
    assert {len(tokens) for tokens in behind} == {1}
    n_forced = 0
    for i, request in enumerate(requests(model, budget)):
        prompt, n_thought, is_own = second_prompt(request, steps)
        assert labelled.n_thinking_tokens[i] == n_thought
        assert labelled.thinking_complete[i] is is_own
        logprobs = [row[0] for row in steps.token_logprobs(prompt, behind)]
        np.testing.assert_allclose(labelled.logprobs[i], logprobs, atol=1e-6)
        n_forced += len(prompt) - len(request.tokens) - n_thought
    # There is one prefill: prompt and thought are not computed again for the labels.
    assert n_computed(labelled.stats) == n_given(labelled.stats, n_forced)


@pytest.mark.model
@pytest.mark.long(reason="several calls of a real model")
def test_some_thoughts_end_themselves_and_some_are_ended(context: lh.Context) -> None:
    """The cases above include both kinds."""
    labelled = lh.classify_parallel(context, PROMPTS, LABELS, **chat(BUDGETS[-1]))
    assert True in labelled.thinking_complete
    labelled = lh.classify_parallel(context, PROMPTS, LABELS, **chat(6))
    assert False in labelled.thinking_complete


# ---- every behaviour of a model that thinks, in each kind of call


ROOT = Path(__file__).parents[3]
CELLS = [
    pytest.param(
        behaviour,
        door,
        id=f"{behaviour.name}-{door.name}",
    )
    for door in DOORS
    for behaviour in BEHAVIOURS
    if door.name != "Ray" and has(door.name, behaviour)
]


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    desk = Desk(tmp_path_factory.mktemp("doors"))
    yield desk
    desk.close()


# The warning that a model would think is issued once, in the first cell.
@pytest.mark.filterwarnings("ignore::llamaherd.ThinkingWarning")
@pytest.mark.parametrize(("behaviour", "door"), CELLS)
def test_a_behaviour_is_right_through_a_door(
    behaviour: Behaviour, door: Door, desk: Desk
) -> None:
    expected = behaviour.results
    if door.is_held and behaviour.scored is not None:
        expected = behaviour.scored
    results = door.abilities[behaviour.does](desk, behaviour)
    assert tuple(results) == expected


@pytest.mark.parametrize("texts", [["refused #0"], [], ["A #0", "refused #0"]])
def test_columns_of_thoughts_do_not_depend_on_what_fails(
    texts: list[str], desk: Desk
) -> None:
    refuses = "{%- if 'refused' in m.content -%}{{ raise_exception('no') }}{%- endif -%}"
    loop = "{%- for m in messages -%}"
    how: dict[str, Any] = {"chat": True, "thinking": 9}
    how["template"] = TEMPLATE.replace(loop, loop + refuses)
    context = desk.context("plain")
    n_failed = sum("refused" in text for text in texts)
    columns = [*COLUMNS, "error"]
    for settings in FORMS.values():
        results = lh.generate_parallel(context, texts, **settings, **how)
        assert list(results.to_pandas())[-4:] == columns
        assert sum(error is not None for error in results.errors) == n_failed
    frame = {"text": texts}
    for method in ("generate", "classify"):
        coded = lh.annotate(frame, "text", codebook(), context, method=method, **how)
        assert list(coded.frame)[-4:] == columns
        assert sum(error is not None for error in coded.errors) == n_failed


def test_every_cell_without_a_meaning_has_a_reason() -> None:
    names = {door.name for door in DOORS}
    for behaviour in BEHAVIOURS:
        assert set(behaviour.lacks) <= names
        assert all(behaviour.lacks.values())
        for door in DOORS:
            if has(door.name, behaviour):
                assert behaviour.does in door.abilities, (behaviour.name, door.name)
    assert len(BEHAVIOURS) >= 20
