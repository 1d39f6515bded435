"""Every task starts from the longest kept beginning, whoever computed it."""

from __future__ import annotations

import random
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
import tiny_models
from served import served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Ask = Callable[[lh.Context, str], Any]

RULES = "Say what the text is about, in one word, as a person would say it. " * 3
ENDS = ["1: the sea", "2: a horse and an answer", "3: no one", "4: yes, no", "5: story"]
LABELS = ["yes", "no"]
SHORT: dict[str, Any] = {"max_tokens": 3, "ignore_eos": True}
SAMPLED: dict[str, Any] = {**SHORT, "temperature": 1.0, "n": 3}
TEMPLATE = (
    "{% for m in messages %}<s>{{ m.role }}: {{ m.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}<s>assistant: <think>{% endif %}"
)
BOOK = lh.Codebook(RULES, {"Yes": RULES, "No": ""})


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lh.Model]:
    path = tmp_path_factory.mktemp("tiny") / "model.gguf"
    with lh.Model(tiny_models.write(path, "llama", chat_template=TEMPLATE)) as model:
        yield model


def post(path: str, **fields: Any) -> Ask:
    def send(context: lh.Context, text: str) -> None:
        body = {"prompts": [text]} if "labels" in fields else {"prompt": text}
        with served(context) as client:
            assert client.post(path, {**body, **fields})[0] == 200

    return send


TEXT_CALLS: dict[str, Ask] = {
    "generate": lambda c, t: lh.generate(c, t, **SHORT),
    "stream": lambda c, t: list(lh.generate(c, t, stream=True, **SHORT)),
    "submit": lambda c, t: c.submit(t, **SHORT).result(),
    "one": lambda c, t: lh.generate_parallel(c, [t], **SHORT),
    "few": lambda c, t: lh.generate_parallel(c, [t, f"{t}!", f"{t}?"], **SHORT),
    "samples": lambda c, t: lh.generate_parallel(c, [t], **SAMPLED),
    "choices": lambda c, t: lh.generate(c, t, choices=LABELS),
    "regex": lambda c, t: lh.generate(c, t, regex="yes|no", max_tokens=8),
    "schema": lambda c, t: lh.generate(c, t, schema={"enum": LABELS}, max_tokens=8),
    "classify": lambda c, t: lh.classify_parallel(c, [t], LABELS),
    "score": lambda c, t: lh.score_parallel(c, [t], [LABELS]),
    "/generate": post("/generate", max_tokens=2),
    "/v1/classify": post("/v1/classify", labels=LABELS),
    "/v1/completions": post("/v1/completions", max_tokens=2),
}
CHAT_CALLS: dict[str, Ask] = {
    "chat": lambda c, t: lh.chat(c, RULES, **SHORT).ask(t),
    "thinking": lambda c, t: lh.generate(
        c, t, chat=True, system=RULES, thinking=4, **SHORT
    ),
    "annotate": lambda c, t: lh.annotate({"text": [t]}, "text", BOOK, c),
}
pytestmark = pytest.mark.filterwarnings(
    "ignore:.*(max_tokens|coverage)", "ignore::llamaherd.CutOffWarning"
)


def n_computed(context: lh.Context, call: Ask, text: str) -> int:
    """Return the number of prompt tokens that a call computes."""

    def n_prefill() -> int:
        runner = context.loop._runner
        return 0 if runner is None else runner.engine.counts().n_prefill

    before = n_prefill()
    call(context, text)
    return n_prefill() - before


@pytest.mark.parametrize("name", [*TEXT_CALLS, *CHAT_CALLS])
def test_each_function_continues_prompts_of_another_and_of_itself(
    model: lh.Model, name: str
) -> None:
    if name in CHAT_CALLS:  # their prompts begin with another text than plain prompts
        rules, asks = "", [(CHAT_CALLS[name], CHAT_CALLS[name])]
    else:
        call, other = TEXT_CALLS[name], TEXT_CALLS["generate"]
        rules, asks = RULES, [(other, call), (call, other)]
    for first, then in asks:
        with lh.Context(model, n_threads=1) as context:
            assert n_computed(context, first, rules + ENDS[0]) > len(RULES) / 2
            first(context, rules + ENDS[1])  # shows what both share
            for end in ENDS[2:]:
                assert n_computed(context, then, rules + end) < len(RULES) / 2


# ---- nothing depends on what came before -----------------------------------------------

MIXED: dict[str, Ask] = {
    name: TEXT_CALLS[name] for name in ("generate", "submit", "few", "classify", "stream")
}


def numbers(context: lh.Context, text: str) -> list[object]:
    """Return every number of the answers to a text, without statistics."""
    answer = lh.generate(context, text, logprobs=2, **SHORT)
    sampled = lh.generate_parallel(context, [text], seed=5, logprobs=0, **SAMPLED)
    labels = lh.classify_parallel(context, [text], LABELS)
    scores = lh.score_parallel(context, [text], [LABELS])
    return [
        (answer.tokens, answer.logprobs, answer.top_logprobs),
        [(s.tokens, s.logprobs, s.seed) for s in sampled.samples[0]],
        labels.probs.tolist(),
        labels.coverage,
        [row.tolist() for row in scores.token_logprobs[0]],
    ]


def after_other_calls(context: lh.Context, draw: random.Random, n: int) -> None:
    for _ in range(n):
        call = draw.choice(list(MIXED.values()))
        n_rules = draw.randrange(len(RULES))
        call(context, RULES[:n_rules] + draw.choice(ENDS) * draw.randrange(1, 4))


@pytest.mark.parametrize("n_ctx", ["auto", 1536])
def test_deterministic_answers_are_equal_after_any_calls(
    model: lh.Model, n_ctx: int
) -> None:
    texts = [RULES + end for end in ENDS[:3]]
    expected = []
    for text in texts:
        with lh.Context(model, n_threads=1, deterministic=True) as context:
            expected.append(numbers(context, text))
    draw = random.Random(7)
    with lh.Context(model, n_ctx, n_threads=1, deterministic=True) as context:
        for i in [0, 1, 2, 1, 0, 2]:
            after_other_calls(context, draw, 6)
            assert numbers(context, texts[i]) == expected[i]


def check_conversation(model: lh.Model) -> None:
    """Compare the turns of a conversation with the same prompts in new contexts."""
    options: dict[str, Any] = {"logprobs": 2, "max_tokens": 9, "ignore_eos": True}
    talk = lh.tokenize(model, RULES)
    with lh.Context(model, n_threads=1, deterministic=True) as context:
        for end in ENDS[:4]:
            answer = lh.generate(context, talk, **options)
            with lh.Context(model, n_threads=1, deterministic=True) as other:
                alone = lh.generate(other, talk, **options)
            assert answer.tokens == alone.tokens
            assert answer.logprobs == alone.logprobs
            assert answer.top_logprobs == alone.top_logprobs
            n_known = len(talk) + len(answer.tokens) - 1  # the last token has no cell
            talk += [*answer.tokens, *lh.tokenize(model, end, add_special=False)]
        last = lh.generate(context, talk, **options)
        assert last.n_reused_tokens == n_known


def test_deterministic_conversations_equal_their_prompts_alone(model: lh.Model) -> None:
    check_conversation(model)


@pytest.mark.long(reason="a real model rounds otherwise than a tiny one")
def test_deterministic_conversations_of_a_real_model(smollm2: lh.Model) -> None:
    check_conversation(smollm2)


def test_without_kept_prefixes_all_tokens_are_computed_again(model: lh.Model) -> None:
    with lh.Context(model, n_threads=1, keep_prefixes=False) as context:
        assert context.options["keep_prefixes"] is False
        for kind in ("generate", "few", "classify", "generate"):
            n = n_computed(context, TEXT_CALLS[kind], RULES + ENDS[0])
            assert n > len(RULES) / 2
        assert context.load.n_prefixes == 0


@pytest.mark.parametrize("kind", ["mamba", "jamba"])
def test_recurrent_models_answer_the_same_after_any_calls(
    tiny_path: Callable[[str], Path], kind: str
) -> None:
    with lh.Model(tiny_path(kind)) as model:
        with lh.Context(model, n_threads=1) as context:
            first = lh.generate(context, RULES + ENDS[0], **SHORT).tokens
        with lh.Context(model, n_threads=1) as context:
            after_other_calls(context, random.Random(3), 8)
            for _ in range(3):
                result = lh.generate(context, RULES + ENDS[0], **SHORT)
                assert result.tokens == first
            assert result.n_reused_tokens > 0


def test_a_journal_is_the_same_after_any_calls(model: lh.Model, tmp_path: Path) -> None:
    prompts = [RULES + end for end in ENDS]
    tables = []
    for n_before in (0, 10):
        path = tmp_path / f"{n_before}.sqlite"
        with lh.Context(model, n_threads=1, deterministic=True) as context:
            after_other_calls(context, random.Random(n_before), n_before)
            lh.generate_parallel(context, prompts, seed=3, journal=path, **SAMPLED)
            again = lh.generate_parallel(
                context, prompts, seed=3, journal=path, **SAMPLED
            )
        assert again.stats.n_journal == 3 * len(prompts)
        entries = [{**asdict(entry), "created": None} for entry in lh.journal_read(path)]
        tables.append(sorted(entries, key=str))
    assert tables[0] == tables[1]


# ---- cells -----------------------------------------------------------------------------


@pytest.mark.parametrize("layout", ["unified", "per_sequence"])
def test_kept_cells_make_room_for_every_prompt(model: lh.Model, layout: Any) -> None:
    """A prompt that needs all cells runs, and the context does not grow."""
    n_ctx = 512
    with lh.Context(model, n_ctx, n_threads=1, kv_layout=layout) as context:
        for end in ENDS:
            lh.generate(context, RULES + end, **SHORT)
        whole = lh.tokenize(model, "the sea and " * 200)[: n_ctx - 4]
        result = lh.generate(context, whole, **SHORT)
        assert result.error is None
        assert result.stats.n_pauses == 0
        for end in ENDS:
            result = lh.generate(context, RULES + end, **SHORT)
        assert context.plan.n_ctx <= n_ctx
        assert context.load.n_prefixes <= context.plan.n_hold


def test_the_last_call_has_as_many_cells_as_the_first(model: lh.Model) -> None:
    with lh.Context(model, n_threads=1) as context:
        draw = random.Random(1)
        after_other_calls(context, draw, 20)
        plan = context.plan
        for _ in range(60):
            after_other_calls(context, draw, 1)
            runner = context.loop._runner
            ended = runner._scheduler.kept
            kept = sum(prefix.n_tokens for prefix in runner._cache.held)
            kept += sum(len(one.tokens) for one in ended._kept.values())
            assert runner.engine.n_cells_taken() <= kept
            assert len(ended) <= context.plan.n_seq_max
        assert context.plan.n_ctx <= 2 * plan.n_ctx


def test_a_cancelled_prompt_leaves_only_whole_beginnings(model: lh.Model) -> None:
    text = RULES + ENDS[0]
    with lh.Context(model, n_threads=1, deterministic=True, n_batch=64) as context:
        expected = numbers(context, text)
    with lh.Context(model, n_threads=1, deterministic=True, n_batch=64) as context:
        for i in range(6):
            handles = [
                context.submit(RULES * (1 + k % 2) + end, **SHORT)
                for k, end in enumerate(ENDS)
            ]
            handles[i % 5].cancel()
            del handles[: i % 3]
            assert numbers(context, text) == expected


def test_short_and_long_prompts_in_turns_have_one_cache(model: lh.Model) -> None:
    many = [f"{i}: {ENDS[i % 5]}" for i in range(20)]
    with lh.Context(model, n_threads=1) as context:
        plans = set()
        for i in range(6):
            lh.generate_parallel(context, many, max_tokens=4)
            plans.add(str(context.plan))
            lh.generate(context, RULES * 2 + ENDS[i % 5], max_tokens=4)
            plans.add(str(context.plan))
        assert len(plans) <= 2
        assert context.plan.n_seq_max >= 20
        result = lh.generate(context, RULES * 2 + "the last", max_tokens=4)
        assert result.n_reused_tokens > len(RULES)


@pytest.mark.parametrize("deterministic", [False, True])
def test_a_cache_that_grows_takes_a_conversation_along(
    model: lh.Model, *, deterministic: bool
) -> None:
    talk, n_computed, sizes = lh.tokenize(model, RULES[:60]), [], set()
    with (
        lh.Context(model, deterministic=deterministic) as context,
        lh.Context(model, deterministic=True, keep_prefixes=False) as alone,
    ):
        for k in range(12):
            talk += lh.tokenize(model, f"Turn {k}: {ENDS[k % 5]}. ", add_special=False)
            out = lh.generate(context, talk, **SHORT)
            n_computed.append(out.stats.n_prefill_tokens)
            sizes.add(context.plan.n_ctx)
            if deterministic:
                assert out.tokens == lh.generate(alone, talk, **SHORT).tokens
            talk += out.tokens
    assert len(sizes) > 1
    # The deterministic context grows beyond the context length of this model's training,
    # so that the state cannot be used (lh_engine_resize).
    if not deterministic:
        assert max(n_computed[1:]) < 60
