"""A herd of two actors on a Ray cluster has the results of one context despite faults."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import psutil
import pytest
from llamaherd.ray import connect
from llamaherd.ray.actor import Actor, Outbox
from llamaherd.ray.loop import HerdLoop
from llamaherd.ray.member import ActorState
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from llamaherd.ray.tracked_actor import Tracked
    from llamaherd.ray.wire import ActorInfo, Change, HandIn, Report

pytestmark = pytest.mark.usefixtures("cluster")

PROMPTS = [f"A beginning that is shared. No. {i * 37 % 90}: " for i in range(120)]
BAD = "ZZZZ"  # bytes in the tiny vocabulary


class Poisoned(Actor):
    """Actor that dies when a prompt contains a word (token of a byte: byte + 3)."""

    def orders(self, orders: Sequence[HandIn | Change]) -> None:
        for order in orders:
            for request in getattr(order, "requests", ()):
                text = bytes(token - 3 for token in request.tokens if 3 <= token < 259)
                if BAD.encode() in text:
                    os.kill(os.getpid(), signal.SIGKILL)
        super().orders(orders)


class HaltingOutbox(Outbox):
    """Outbox that stops its loop after an answer, until a call is cancelled.

    A cancel therefore arrives while other answers are written. Otherwise the actor might
    have finished all prompts that it has received, if this process gets no processor.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_cancelled = threading.Event()

    def put_output(self, *answer: Any) -> None:
        super().put_output(*answer)
        self.is_cancelled.wait(300)


class Halting(Actor):
    """Actor with a `HaltingOutbox`."""

    def __init__(self) -> None:
        super().__init__()
        self._outbox = HaltingOutbox()

    def orders(self, orders: Sequence[HandIn | Change]) -> None:
        super().orders(orders)
        if any(getattr(order, "kind", "") == "give_up" for order in orders):
            self._outbox.is_cancelled.set()


def when_answering(
    monkeypatch: pytest.MonkeyPatch,
    act: Callable[[HerdLoop], None],
    number: int | None = 0,
) -> threading.Event:
    """Call a function once, when an actor has answered and receives further prompts.

    None as the number means the first that answers: on a busy machine, one actor may
    answer nearly all prompts before another answers its first.

    The function runs on the thread of the herd's loop, so no answer is received
    meanwhile, and the call cannot end before. A progress report may come too late: the
    caller's thread takes it, and the call may have ended by then.

    Returns:
        Event that is set after the function was called.
    """
    has_answered, is_done = threading.Event(), threading.Event()
    take_report, send = HerdLoop._take_report, HerdLoop._send

    def taken(loop: HerdLoop, actor: Tracked, generation: int, report: Report) -> None:
        take_report(loop, actor, generation, report)
        if number in (None, actor.link.number) and report.outputs:
            has_answered.set()

    def sent(loop: HerdLoop, actor: Tracked) -> None:
        is_it = number in (None, actor.link.number) and has_answered.is_set()
        if is_it and actor.chunks and not is_done.is_set():
            is_done.set()
            act(loop)
        send(loop, actor)

    monkeypatch.setattr(HerdLoop, "_take_report", taken)
    monkeypatch.setattr(HerdLoop, "_send", sent)
    return is_done


@pytest.fixture(scope="module")
def herd(cluster: None, tiny_path: Callable[[str], Path]) -> Iterator[lh.ray.Herd]:  # noqa: ARG001
    with lh.ray.Herd(
        tiny_path("llama"), n_actors=2, num_cpus=1, deterministic=True
    ) as herd:
        yield herd


@pytest.fixture(scope="module")
def context(tiny_path: Callable[[str], Path]) -> Iterator[lh.Context]:
    with (
        lh.Model(tiny_path("llama")) as model,
        lh.Context(model, deterministic=True, n_threads=1) as context,
    ):
        yield context


# This test is first: an actor that is restarted after later tests may find its
# processor claimed by another herd.
@pytest.mark.long(reason="starts actors of Ray or runs very many prompts")
def test_actors_on_each_node_and_processors_of_their_own(
    herd: lh.ray.Herd, tiny_path: Callable[[str], Path]
) -> None:
    cores = [info.cores for info in herd.actors]
    if len(os.sched_getaffinity(0)) >= 2:
        assert {len(own) for own in cores} == {1}
        assert cores[0] != cores[1]
    with lh.ray.Herd(tiny_path("llama"), n_actors="nodes", num_cpus=1) as one:
        assert len(one.actors) == 1
    with lh.ray.Herd(tiny_path("llama"), n_actors="numa", num_cpus=0.5) as some:
        assert len(some.actors) >= 1


@pytest.mark.more(reason="starts actors of Ray or runs very many prompts", cases=1)
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"temperature": 1.0, "seed": 7},
        {"temperature": 0.9, "n": 3, "logprobs": 2},
        {"choices": ["yes", "no", "perhaps"]},
        {"schema": {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}}},
    ],
    ids=["greedy", "drawn", "samples", "choices", "schema"],
)
def test_answers_are_those_of_one_context(
    herd: lh.ray.Herd, context: lh.Context, settings: dict[str, object]
) -> None:
    here = lh.generate_parallel(context, PROMPTS, max_tokens=16, **settings)
    there = lh.generate_parallel(herd, PROMPTS, max_tokens=16, **settings)
    assert [r.tokens for r in there] == [r.tokens for r in here]
    assert there.texts == here.texts
    assert [r.parsed for r in there] == [r.parsed for r in here]
    if "logprobs" in settings:
        assert [r.logprobs for r in there] == [r.logprobs for r in here]
    if "n" in settings:
        each = [[r.text for r in samples] for samples in there.samples]
        assert each == [[r.text for r in samples] for samples in here.samples]
    rows = there.stats.actors
    assert [row.actor for row in rows] == [0, 1]
    assert all(row.n_done > 0 for row in rows)
    assert there.stats.n_generated_tokens == here.stats.n_generated_tokens


@pytest.mark.long(reason="starts actors of Ray or runs very many prompts")
def test_scores_are_those_of_one_context(herd: lh.ray.Herd, context: lh.Context) -> None:
    labels = ["good", "bad", "neither good nor bad"]
    here = lh.classify_parallel(context, PROMPTS, labels)
    there = lh.classify_parallel(herd, PROMPTS, labels)
    assert np.array_equal(there.probs, here.probs)
    texts = [[f" {i % 7}", " something else"] for i in range(len(PROMPTS))]
    of_here, of_there = (lh.score_parallel(c, PROMPTS, texts) for c in (context, herd))
    assert np.array_equal(of_there.logprob, of_here.logprob)
    found = [lh.perplexity(c, PROMPTS[:20]).perplexity for c in (context, herd)]
    assert np.array_equal(*found)


@pytest.mark.long(reason="starts actors of Ray or runs very many prompts")
def test_vectors_are_those_of_one_model(herd: lh.ray.Herd, context: lh.Context) -> None:
    texts = [*PROMPTS, ""]
    here = lh.embed_parallel(context.model, texts, deterministic=True)
    there = lh.embed_parallel(herd, texts, deterministic=True)
    assert np.array_equal(there.vectors, here.vectors, equal_nan=True)
    assert there.errors == here.errors
    assert there.stats.n_batches == here.stats.n_batches
    together = lh.embed_parallel(herd, texts)
    assert np.allclose(together.vectors[:-1], here.vectors[:-1], atol=1e-3)


@pytest.mark.long(reason="starts actors of Ray or runs very many prompts")
def test_each_actor_puts_layers_where_its_machine_has_a_gpu(
    herd: lh.ray.Herd, tiny_path: Callable[[str], Path]
) -> None:
    expected = lh.generate_parallel(herd, PROMPTS[:4], max_tokens=4).texts
    with lh.ray.Herd(
        tiny_path("llama"),
        n_actors=1,
        num_cpus=0.1,
        n_gpu_layers="auto",
        deterministic=True,
    ) as own:
        assert lh.generate_parallel(own, PROMPTS[:4], max_tokens=4).texts == expected


@pytest.mark.long(reason="starts actors of Ray or runs very many prompts")
def test_an_encoder_makes_vectors_and_nothing_else(
    tiny_path: Callable[[str], Path],
) -> None:
    path = tiny_path("bert")
    with lh.ray.Herd(path, n_actors=1, num_cpus=1) as encoders:
        there = lh.embed_parallel(encoders, PROMPTS, deterministic=True)
        here = lh.embed_parallel(lh.Model(path), PROMPTS, deterministic=True)
        assert np.array_equal(there.vectors, here.vectors)
        with pytest.raises(lh.ContextError, match="cannot generate"):
            lh.generate_parallel(encoders, PROMPTS)
        with pytest.raises(lh.ContextError, match="cannot generate"):
            _ = encoders.options


@pytest.mark.long(reason="starts actors of Ray or runs very many prompts")
def test_single_prompts_and_streams(herd: lh.ray.Herd, context: lh.Context) -> None:
    prompt = PROMPTS[0]
    expected = lh.generate(context, prompt, max_tokens=40, ignore_eos=True).text
    assert lh.generate(herd, prompt, max_tokens=40, ignore_eos=True).text == expected
    pieces = lh.generate(herd, prompt, max_tokens=40, ignore_eos=True, stream=True)
    assert "".join(pieces) == expected
    handles = [
        herd.submit(prompt, max_tokens=40, ignore_eos=True, priority=i % 3, stream=i == 0)
        for i in range(12)
    ]
    assert {handle.result(60).text for handle in handles} == {expected}
    assert "".join(handles[0]) == expected
    long = herd.submit(prompt, max_tokens=400, ignore_eos=True)
    long.cancel()
    assert long.result(120).finish_reason == "cancelled"


@pytest.mark.long(reason="starts actors of Ray or runs very many prompts")
def test_a_journal_goes_on_here_and_there(
    herd: lh.ray.Herd, context: lh.Context, tmp_path: Path
) -> None:
    journal = tmp_path / "a.journal"
    settings = {"max_tokens": 12, "temperature": 1.0, "seed": 5, "journal": journal}
    lh.generate_parallel(herd, PROMPTS[:50], **settings)
    here = lh.generate_parallel(context, PROMPTS[:90], **settings)
    assert here.stats.n_journal == 50
    there = lh.generate_parallel(herd, PROMPTS, **settings)
    assert there.stats.n_journal == 90
    assert sum(row.n_done for row in there.stats.actors) == 30
    settings.pop("journal")
    assert there.texts == lh.generate_parallel(context, PROMPTS, **settings).texts


def test_a_worker_that_is_killed_loses_nothing(
    herd: lh.ray.Herd, context: lh.Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = [f"{i}: {PROMPTS[i % 90]}" for i in range(400)]
    settings = {"max_tokens": 60, "ignore_eos": True, "temperature": 1.0}
    expected = lh.generate_parallel(context, prompts, **settings)
    pid, other = herd.actors[0].pid, psutil.Process(herd.actors[1].pid)

    def kill(_loop: HerdLoop) -> None:
        os.kill(pid, signal.SIGKILL)
        other.resume()

    is_killed = when_answering(monkeypatch, kill)
    other.suspend()  # otherwise it might answer all prompts before the first one answers
    results = lh.generate_parallel(herd, prompts, **settings)
    assert is_killed.is_set()
    assert results.texts == expected.texts
    assert results.stats.n_failed == 0
    assert [row.n_deaths for row in results.stats.actors] == [1, 0]
    wait_until(lambda: herd.actors[0].pid != pid)
    assert herd.actors[0].n_starts == 2
    assert lh.generate_parallel(herd, PROMPTS[:9], max_tokens=3).stats.n_failed == 0


@pytest.mark.long(reason="starts actors of Ray or runs very many prompts")
def test_workers_that_are_frozen_lose_nothing(
    tiny_path: Callable[[str], Path],
    context: lh.Context,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    prompts = [f"{i}: {PROMPTS[i % 90]}" for i in range(300)]
    settings = {"max_tokens": 60, "ignore_eos": True}
    expected = lh.generate_parallel(context, prompts, **settings)
    vectors = lh.embed_parallel(context.model, PROMPTS, deterministic=True).vectors
    frozen: list[psutil.Process] = []

    def freeze(info: ActorInfo) -> None:
        frozen.append(psutil.Process(info.pid))
        frozen[-1].suspend()

    with lh.ray.Herd(
        tiny_path("llama"),
        n_actors=1,
        num_cpus=1,
        deterministic=True,
        silence_timeout_s=5,
    ) as herd:
        when_answering(monkeypatch, lambda _: freeze(herd.actors[0]))
        results = lh.generate_parallel(herd, prompts, **settings)
        assert frozen
        assert results.texts == expected.texts
        assert [row.n_deaths for row in results.stats.actors] == [1]
        freeze(herd.actors[0])
        there = lh.embed_parallel(herd, PROMPTS, deterministic=True)
        assert np.array_equal(there.vectors, vectors)
        assert herd.actors[0].n_starts == 3
    for process in frozen:  # nothing stays behind
        with suppress(psutil.NoSuchProcess):
            process.wait(120)


class Homeless(Actor):
    """Actor that has too little memory, unless it is the first."""

    def open(self, number: int, **options: Any) -> ActorInfo:
        if number > 0:
            raise lh.ContextError("no memory here")
        return super().open(number, **options)


@pytest.mark.long(reason="starts actors of Ray or runs very many prompts")
def test_one_actor_that_cannot_be_started_is_told_of(
    monkeypatch: pytest.MonkeyPatch,
    tiny_path: Callable[[str], Path],
    context: lh.Context,
) -> None:
    import ray  # noqa: PLC0415 - takes a second

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    monkeypatch.setattr("llamaherd.ray.member.Actor", Homeless)
    match = rf"actor 1 on node '{socket.gethostname()}' cannot be .*: no memory here$"
    with pytest.warns(UserWarning, match=match):
        herd = lh.ray.Herd(
            tiny_path("llama"), n_actors=2, num_cpus=0.5, deterministic=True
        )
    with herd:
        assert [info.actor for info in herd.actors] == [0]
        results = lh.generate_parallel(herd, PROMPTS, max_tokens=8)
        assert results.texts == lh.generate_parallel(context, PROMPTS, max_tokens=8).texts
        there = lh.embed_parallel(herd, PROMPTS[:9], deterministic=True)
        assert there.errors == [None] * 9


class Slow(Actor):
    """Actor that is slow, unless it is the first."""

    def open(self, number: int, **options: Any) -> ActorInfo:
        if number > 0:
            time.sleep(60)
        return super().open(number, **options)


@pytest.mark.long(reason="starts actors of Ray or runs very many prompts")
def test_a_herd_that_is_closed_while_it_starts_warns_of_nobody(
    monkeypatch: pytest.MonkeyPatch, tiny_path: Callable[[str], Path]
) -> None:
    import ray  # noqa: PLC0415 - takes a second

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    monkeypatch.setattr("llamaherd.ray.member.Actor", Slow)
    herd = lh.ray.Herd.__new__(lh.ray.Herd)  # as in R before the start
    found: list[Exception | None] = []

    def start() -> None:
        try:
            herd.__init__(tiny_path("llama"), n_actors=2, num_cpus=0.5)  # type: ignore[misc]
            found.append(None)
        except lh.ContextClosedError as error:
            found.append(error)

    thread = threading.Thread(target=start)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        thread.start()
        wait_until(lambda: bool(getattr(herd, "_members", ())))
        wait_until(lambda: herd._members[0].state is ActorState.READY)
        herd.close()
        thread.join(120)
    assert isinstance(found[0], lh.ContextClosedError)
    assert not caught


@pytest.mark.long(reason="starts actors of Ray or runs very many prompts")
def test_a_worker_that_is_killed_loses_no_vectors(
    herd: lh.ray.Herd, context: lh.Context
) -> None:
    here = lh.embed_parallel(context.model, PROMPTS, deterministic=True)
    os.kill(herd.actors[1].pid, signal.SIGKILL)
    there = lh.embed_parallel(herd, PROMPTS, deterministic=True)
    assert np.array_equal(there.vectors, here.vectors)


@pytest.mark.long(reason="starts actors of Ray or runs very many prompts")
def test_a_poisoned_prompt_fails_alone(
    monkeypatch: pytest.MonkeyPatch,
    tiny_path: Callable[[str], Path],
    context: lh.Context,
) -> None:
    import ray  # noqa: PLC0415 - takes a second

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    monkeypatch.setattr("llamaherd.ray.member.Actor", Poisoned)
    prompts = PROMPTS[:16]
    prompts[5] = f"This is {BAD}, "
    with lh.ray.Herd(
        tiny_path("llama"), n_actors=1, num_cpus=1, deterministic=True
    ) as herd:
        results = lh.generate_parallel(herd, prompts, max_tokens=8)
        good = lh.generate_parallel(herd, PROMPTS[:3], max_tokens=8)
    expected = lh.generate_parallel(context, prompts, max_tokens=8).texts
    assert "died twice" in results[5].error
    assert results.texts == [*expected[:5], None, *expected[6:]]
    assert good.texts == expected[:3]


@pytest.mark.long(reason="starts actors of Ray or runs very many prompts")
def test_a_call_is_cancelled_and_the_next_one_runs(
    monkeypatch: pytest.MonkeyPatch,
    tiny_path: Callable[[str], Path],
    context: lh.Context,
) -> None:
    import ray  # noqa: PLC0415 - takes a second

    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    monkeypatch.setattr("llamaherd.ray.member.Actor", Halting)
    prompts = [f"No. {i}: " for i in range(300)]
    settings = {"temperature": 1.0, "ignore_eos": True}
    params = [lh.SamplingParams(max_tokens=10 + i, **settings) for i in range(300)]
    with lh.ray.Herd(
        tiny_path("llama"), n_actors=1, num_cpus=1, deterministic=True
    ) as herd:
        job = lh.start_parallel(herd, prompts, params=params)
        wait_until(lambda: job.progress.n_done > 0)
        job.cancel()
        results = job.results()
        after = lh.generate_parallel(herd, PROMPTS[:5], max_tokens=3)
    begun = [r for r in results if r.finish_reason == "cancelled" and r.tokens]
    told = (job.progress, results.stats.actors, [len(r.tokens) for r in begun])
    assert any(r.partial for r in begun), told
    first = begun[0]
    n = first.index + 1
    expected = lh.generate_parallel(context, prompts[:n], params=params[:n])[-1]
    assert first.tokens == expected.tokens[: len(first.tokens)]
    assert after.stats.n_failed == 0


@pytest.mark.long(reason="starts actors of Ray or runs very many prompts")
def test_ctrl_c_keeps_what_is_finished(
    herd: lh.ray.Herd, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = [f"{i}" for i in range(300)]

    def interrupt(loop: HerdLoop) -> None:
        signal.raise_signal(signal.SIGINT)
        wait_until(lambda: all(work.group.is_cancelled for work in loop._works))

    when_answering(monkeypatch, interrupt, number=None)
    with pytest.raises(lh.Interrupted) as caught:
        lh.generate_parallel(herd, prompts, max_tokens=60, ignore_eos=True)
    reasons = [r.finish_reason for r in caught.value.results]
    assert len(reasons) == 300
    assert reasons.count("length") > 0
    assert reasons.count("cancelled") > 10


@pytest.mark.long(reason="starts actors of Ray or runs very many prompts")
@pytest.mark.parametrize("on_error", ["continue", "return", "stop"])
def test_a_prompt_that_fails_does_what_it_does_on_a_context(
    herd: lh.ray.Herd, on_error: str
) -> None:
    prompts = [*PROMPTS[:90], "x" * 5000]
    if on_error == "stop":
        with pytest.raises(lh.GenerationError, match=r"prompts\[90\] failed: .*shorten"):
            lh.generate_parallel(herd, prompts, max_tokens=4, on_error="stop")
        return
    results = lh.generate_parallel(herd, prompts, max_tokens=4, on_error=on_error)
    assert results[90].finish_reason == "error"
    if on_error == "continue":
        assert all(r.text is not None for r in results[:90])


@pytest.mark.long(reason="starts actors of Ray or runs very many prompts")
def test_several_callers_at_once(herd: lh.ray.Herd, context: lh.Context) -> None:
    found: dict[int, list[str | None]] = {}

    def ask(k: int) -> None:
        own = [f"{k}/{i}: " for i in range(40)]
        found[k] = lh.generate_parallel(herd, own, max_tokens=8).texts

    threads = [threading.Thread(target=ask, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for k in range(4):
        own = [f"{k}/{i}: " for i in range(40)]
        expected = lh.generate_parallel(context, own, max_tokens=8).texts
        assert found[k] == expected


@pytest.mark.long(reason="starts actors of Ray or runs very many prompts")
def test_a_herd_is_closed_with_its_actors(tiny_path: Callable[[str], Path]) -> None:
    with lh.Model(tiny_path("llama")) as model:
        herd = lh.ray.Herd(model, n_actors=1, num_cpus=1, n_seq_max=4)
        assert "1 actors" in repr(herd)
        assert herd.actors[0].n_threads == 1
        assert herd.options["n_seq_max"] == 4
        process = psutil.Process(herd.actors[0].pid)
        job = lh.start_parallel(herd, PROMPTS, max_tokens=400, ignore_eos=True)
        wait_until(lambda: job.progress.n_generated_tokens > 0)
    # Closing the model closed the herd.
    assert herd.closed
    with pytest.raises(lh.ContextClosedError):
        job.results()
    with pytest.raises(lh.ContextClosedError, match="closed, and so is its model"):
        lh.generate_parallel(herd, PROMPTS)
    with pytest.raises(lh.ContextClosedError, match="closed, and so is its model"):
        lh.perplexity(herd, PROMPTS)
    with pytest.raises(lh.ContextClosedError, match="closed, and so is its model"):
        herd.submit("a")
    with suppress(psutil.NoSuchProcess):
        process.wait(120)
    herd.close()
    assert "closed" in repr(herd)


def test_arguments_that_cannot_be_are_refused(
    tiny_path: Callable[[str], Path], tmp_path: Path
) -> None:
    path = tiny_path("llama")
    with pytest.raises(ValueError, match=r"n_actors must be .*not 0"):
        lh.ray.Herd(path, n_actors=0)
    with pytest.raises(ValueError, match="n_actors"):
        lh.ray.Herd(path, n_actors="many")
    with pytest.raises(TypeError, match=r"Herd has no .* 'n_seqmax'; .* 'n_seq_max'"):
        lh.ray.Herd(path, n_seqmax=3)
    with pytest.raises(TypeError, match=r"Herd has no .* 'n_actor'; .* 'n_actors'"):
        lh.ray.Herd(path, n_actor=2)
    with pytest.raises(ValueError, match="n_seq_max"):
        lh.ray.Herd(path, n_seq_max=-3)
    with pytest.raises(lh.ModelLoadError):
        lh.ray.Herd(tmp_path / "none.gguf")
    with pytest.raises(ValueError, match=r"actor_options .* 'max_restarts'"):
        lh.ray.Herd(path, actor_options={"max_restarts": 3})
    with pytest.raises(ValueError, match="is connected to Ray at"):
        lh.ray.Herd(path, address="ray://nowhere:1")
    with pytest.raises(
        lh.ClusterError, match=r"not ready after 1 s\. Each takes 500 CPUs"
    ):
        lh.ray.Herd(path, n_actors=1, num_cpus=500, start_timeout_s=1)


def test_without_ray_it_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tiny_path: Callable[[str], Path]
) -> None:
    def is_starting(thread: threading.Thread) -> bool:
        return thread.name.startswith("llamaherd-actor")

    # Herds of earlier tests need Ray to end.
    wait_until(lambda: not any(map(is_starting, threading.enumerate())))
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(lh.ClusterError, match=r'pip install "llamaherd\[ray\] @ git'):
        lh.ray.Herd(tiny_path("llama"))


def test_a_cluster_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, tiny_path: Callable[[str], Path]
) -> None:
    import ray  # noqa: PLC0415 - takes a second

    def init(**_: object) -> None:
        raise ConnectionError("no answer")

    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    with socket.create_server(("127.0.0.1", 0)) as other:
        here = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(lh.ClusterError, match=f"no Ray at '{here}': no answer"):
            lh.ray.Herd(tiny_path("llama"), address=here)
    with pytest.raises(lh.ClusterError, match=r"part of no cluster.*`ray start --head`"):
        lh.ray.Herd(tiny_path("llama"), address="auto")
    # No process listens now; Ray would retry for minutes.
    monkeypatch.setattr(ray, "init", lambda **_: pytest.fail("it was asked"))
    for address in (here, f"ray://{here}"):
        with pytest.raises(lh.ClusterError, match=f"no Ray at '{address}'.*refused"):
            lh.ray.Herd(tiny_path("llama"), address=address)


@pytest.mark.long(reason="starts actors of Ray or runs very many prompts")
def test_ray_that_a_herd_started_ends_with_the_last_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Fake:
        n_inits = n_shutdowns = 0

        def is_initialized(self) -> bool:
            return self.n_inits > self.n_shutdowns

        def init(self, **options: object) -> None:
            assert options["num_cpus"] >= 64
            self.n_inits += 1

        def shutdown(self) -> None:
            self.n_shutdowns += 1

    class Some:
        def close(self) -> None:
            pass

    fake, a, b = Fake(), Some(), Some()
    monkeypatch.setattr(connect, "import_ray", lambda: fake)
    monkeypatch.setattr(connect, "_herds", type(connect._herds)())
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    with pytest.warns(UserWarning, match=r"64 CPUs in total.* this machine has 2"):
        connect.connect(a, None, 64)
    connect.connect(b, None, 1)
    connect.leave(a)
    assert fake.n_shutdowns == 0
    connect.leave(b)
    assert (fake.n_inits, fake.n_shutdowns) == (1, 1)
