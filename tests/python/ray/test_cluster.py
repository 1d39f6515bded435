"""A cluster of two actors of Ray has the results of one context, despite faults."""

from __future__ import annotations

import os
import signal
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import llamaherd as lh
import numpy as np
import psutil
import pytest
from llamaherd.ray import Cluster, Config, connect
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("cluster")

PROMPTS = [f"A beginning that is shared. No. {i * 37 % 90}: " for i in range(120)]
EXACT = {"deterministic": True}
_LONG = pytest.mark.long(reason="starts actors of Ray")


@pytest.fixture(scope="module")
def actors(cluster: None, tiny_path: Callable[[str], Path]) -> Iterator[Cluster]:  # noqa: ARG001
    config = Config(tiny_path("llama"), concurrency=2, num_cpus=1, context=EXACT)
    with Cluster(config) as actors:
        yield actors


@pytest.fixture(scope="module")
def context(tiny_path: Callable[[str], Path]) -> Iterator[lh.Context]:
    with (
        lh.Model(tiny_path("llama")) as model,
        lh.Context(model, n_threads=1, **EXACT) as context,
    ):
        yield context


@pytest.mark.more(reason="starts actors of Ray", cases=1)
@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 0.9, "n": 3, "logprobs": 2, "seed": 7},
        {},
        {"choices": ["yes", "no", "perhaps"]},
        {"schema": {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}}},
    ],
    ids=["samples", "greedy", "choices", "schema"],
)
def test_answers_are_those_of_one_context(
    actors: Cluster, context: lh.Context, settings: dict[str, object]
) -> None:
    here = lh.generate_parallel(context, PROMPTS, max_tokens=16, **settings)
    remote = lh.generate_parallel(actors, PROMPTS, max_tokens=16, **settings)
    assert [r.tokens for r in remote] == [r.tokens for r in here]
    assert remote.texts == here.texts
    assert [r.parsed for r in remote] == [r.parsed for r in here]
    if "n" in settings:
        samples = [[(r.text, r.logprobs) for r in s] for s in remote.samples]
        assert samples == [[(r.text, r.logprobs) for r in s] for s in here.samples]
    rows = remote.stats.actors
    assert [row.actor for row in rows] == [0, 1]
    assert all(row.n_done > 0 for row in rows)
    assert remote.stats.n_generated_tokens == here.stats.n_generated_tokens


def test_an_actor_that_is_killed_loses_nothing(
    actors: Cluster, context: lh.Context, tmp_path: Path
) -> None:
    prompts = [f"{i}: {PROMPTS[i % 90]}" for i in range(400)]
    settings = {"max_tokens": 60, "ignore_eos": True, "temperature": 1.0}
    expected = lh.generate_parallel(context, prompts, **settings)
    killed = psutil.Process(actors.actors[0].pid)
    journal = tmp_path / "a.journal"

    def kill(progress: lh.types.Progress) -> None:
        if progress.n_done > 20 and killed.is_running():
            killed.kill()
            killed.wait(60)

    results = lh.generate_parallel(
        actors, prompts, **settings, progress=kill, journal=journal
    )
    assert not killed.is_running()
    assert results.texts == expected.texts
    assert results.stats.n_failed == 0
    assert len(lh.journal_read(journal)) == 400
    again = lh.generate_parallel(context, prompts, **settings, journal=journal)
    assert again.stats.n_journal == 400
    assert again.texts == expected.texts


@_LONG
def test_scores_are_those_of_one_context(actors: Cluster, context: lh.Context) -> None:
    labels = ["good", "bad", "neither good nor bad"]
    here = lh.classify_parallel(context, PROMPTS, labels)
    remote = lh.classify_parallel(actors, PROMPTS, labels)
    assert np.array_equal(remote.probs, here.probs)
    texts = [[f" {i % 7}", " something else"] for i in range(len(PROMPTS))]
    of_here, of_there = (lh.score_parallel(c, PROMPTS, texts) for c in (context, actors))
    assert np.array_equal(of_there.logprob, of_here.logprob)
    perplexities = [lh.perplexity(c, PROMPTS[:20]).perplexity for c in (context, actors)]
    assert np.array_equal(*perplexities)
    book = lh.Codebook("Which?", ["a", "b"])
    frames = [lh.annotate({"t": PROMPTS}, "t", book, c).frame for c in (context, actors)]
    assert frames[0]["label"] == frames[1]["label"]


def test_vectors_are_those_of_one_model(actors: Cluster, context: lh.Context) -> None:
    texts = [*PROMPTS[:30], ""]
    here = lh.embed_parallel(context.model, texts, deterministic=True)
    remote = lh.embed_parallel(actors, texts, deterministic=True)
    assert np.array_equal(remote.vectors, here.vectors, equal_nan=True)
    assert remote.errors == here.errors
    assert remote.stats.n_batches == here.stats.n_batches


@_LONG
def test_an_encoder_makes_vectors_although_its_actor_dies(
    tiny_path: Callable[[str], Path],
) -> None:
    path = tiny_path("bert")
    with Cluster(Config(path, concurrency=1, num_cpus=0.5)) as encoders:
        os.kill(encoders.actors[0].pid, signal.SIGKILL)
        remote = lh.embed_parallel(encoders, PROMPTS, deterministic=True)
        here = lh.embed_parallel(lh.Model(path), PROMPTS, deterministic=True)
        assert np.array_equal(remote.vectors, here.vectors)
        with pytest.raises(lh.ContextError, match="cannot generate"):
            lh.generate_parallel(encoders, PROMPTS)
        with pytest.raises(lh.ContextError, match="cannot generate"):
            _ = encoders.options


def test_ctrl_c_keeps_what_is_finished(actors: Cluster) -> None:
    prompts = [f"{i}" for i in range(900)]

    def interrupt(progress: lh.types.Progress) -> None:
        if progress.n_done:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(lh.Interrupted) as caught:
        lh.generate_parallel(
            actors, prompts, max_tokens=60, ignore_eos=True, progress=interrupt
        )
    reasons = [r.finish_reason for r in caught.value.results]
    assert len(reasons) == 900
    assert reasons.count("length") > 0
    assert reasons.count("cancelled") > 10


@pytest.mark.parametrize("on_error", ["continue", "return", "stop"])
def test_a_prompt_that_fails_does_what_it_does_on_a_context(
    actors: Cluster, on_error: str
) -> None:
    prompts = [*PROMPTS[:90], "x" * 5000]
    if on_error == "stop":
        with pytest.raises(lh.GenerationError, match=r"prompts\[90\] failed: .*shorten"):
            lh.generate_parallel(actors, prompts, max_tokens=4, on_error="stop")
        return
    results = lh.generate_parallel(actors, prompts, max_tokens=4, on_error=on_error)
    assert results[90].finish_reason == "error"
    if on_error == "continue":
        assert all(r.text is not None for r in results[:90])


def test_one_prompt_is_a_call_and_a_stream_is_refused(
    actors: Cluster, context: lh.Context
) -> None:
    expected = lh.generate(context, PROMPTS[0], max_tokens=9).text
    assert lh.generate(actors, PROMPTS[0], max_tokens=9).text == expected
    assert actors.submit(PROMPTS[0], max_tokens=9).result(60).text == expected
    with pytest.raises(ValueError, match="stream cannot be used with a cluster"):
        next(iter(lh.generate(actors, PROMPTS[0], stream=True)))


@_LONG
def test_a_cluster_is_closed_with_its_actors(tiny_path: Callable[[str], Path]) -> None:
    with lh.Model(tiny_path("llama")) as model:
        config = Config(model, concurrency=1, num_cpus=0.5, context={"n_seq_max": 4})
        actors = Cluster(config)
        assert "1 actors" in repr(actors)
        assert actors.actors[0].n_threads == 1
        assert actors.options["n_seq_max"] == 4
        process = psutil.Process(actors.actors[0].pid)
        job = lh.start_parallel(actors, PROMPTS, max_tokens=400, ignore_eos=True)
        wait_until(lambda: actors.load.n_waiting > 0)
    # Closing the model closed the cluster.
    assert actors.closed
    with pytest.raises(lh.ContextClosedError):
        job.results()
    for call in (lh.generate_parallel, lh.perplexity):
        with pytest.raises(lh.ContextClosedError, match="closed, and so is its model"):
            call(actors, PROMPTS)
    with suppress(psutil.NoSuchProcess):
        process.wait(120)
    actors.close()
    assert "closed" in repr(actors)


@_LONG
def test_a_start_that_fails_says_why(
    tiny_path: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tiny_path("llama")
    options = {"num_gpus": 500, "resources": {"fast": 1}}
    config = Config(path, concurrency=1, num_cpus=500, actor_options=options)
    match = r"not ready after 1 s\. Each takes 500 CPU, 500 GPU, 1 fast, .* 0 fast in all"
    with pytest.raises(lh.ClusterError, match=match):
        Cluster(config, start_timeout_s=1)
    small = Config(path, concurrency=1, num_cpus=0.5)
    with pytest.raises(lh.ContextClosedError, match="while it was started"):
        Cluster(small, is_cancelled=lambda: True)
    monkeypatch.setattr("llamaherd.ray.cluster.versions", lambda: {"llamaherd": "0"})
    with pytest.raises(lh.ClusterError, match="install the same versions"):
        Cluster(small)


def test_arguments_that_cannot_be_are_refused(
    tiny_path: Callable[[str], Path], tmp_path: Path
) -> None:
    path = tiny_path("llama")
    for options, error, match in (
        ({"concurrency": 0}, ValueError, "concurrency must be .*not 0"),
        ({"concurrency": "many"}, TypeError, "concurrency"),
        ({"concurrency": (4, 2)}, ValueError, "concurrency must be .*not 2"),
        ({"concurrency": (1, 2, 3)}, ValueError, "concurrency must be a number or a pa"),
        ({"num_cpus": -1}, ValueError, "num_cpus"),
        ({"concurency": 1}, TypeError, "did you mean 'concurrency'"),
        ({"context": {"n_seqmax": 3}}, TypeError, "context has no 'n_seqmax'; did you"),
        ({"context": 3}, TypeError, "context must map"),
        ({"model_options": {"path": 3}}, TypeError, "model_options has no 'path'"),
        ({"actor_options": {"max_restarts": 3}}, ValueError, "actor_options .*'max_rest"),
    ):
        with pytest.raises(error, match=match):
            Config(path, **options)
    with pytest.raises(TypeError, match=r"config must be a lh\.ray\.Config"):
        Cluster(path)
    with pytest.raises(ValueError, match="concurrency must be one number"):
        Cluster(Config(path, concurrency=(1, 2)))
    with pytest.raises(ValueError, match="n_seq_max"):
        Cluster(Config(path, context={"n_seq_max": -3}))
    with pytest.raises(lh.ModelLoadError):
        Cluster(Config(tmp_path / "none.gguf"))
    with pytest.raises(ValueError, match="is connected to Ray at"):
        Cluster(Config(path), address="ray://nowhere:1")


@pytest.mark.parametrize(
    ("name", "instead"), [("Herd", r"lh\.ray\.Cluster"), ("Annotator", r"lh\.ray\.map")]
)
def test_what_was_removed_says_what_to_use(name: str, instead: str) -> None:
    with pytest.raises(AttributeError, match=f"{name} was removed: use .*{instead}"):
        getattr(lh.ray, name)


def test_without_ray_it_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tiny_path: Callable[[str], Path]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(lh.ClusterError, match=r'pip install "llamaherd\[ray\] @ git'):
        Cluster(Config(tiny_path("llama")))


def test_a_cluster_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, tiny_path: Callable[[str], Path]
) -> None:
    import ray  # takes a second

    def init(**_: object) -> None:
        raise ConnectionError("no answer")

    config = Config(tiny_path("llama"))
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", init)
    with socket.create_server(("127.0.0.1", 0)) as other:
        here = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(lh.ClusterError, match=f"no Ray at '{here}': no answer"):
            Cluster(config, address=here)
    with pytest.raises(lh.ClusterError, match=r"part of no cluster.*`ray start --head`"):
        Cluster(config, address="auto")
    # No process listens now; Ray would retry for minutes.
    monkeypatch.setattr(ray, "init", lambda **_: pytest.fail("it was asked"))
    for address in (here, f"ray://{here}"):
        with pytest.raises(lh.ClusterError, match=f"no Ray at '{address}'.*refused"):
            Cluster(config, address=address)


def test_ray_that_a_cluster_started_ends_with_the_last_one(
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
    monkeypatch.setattr(connect, "_clusters", type(connect._clusters)())
    connect.connect(a, None, 64)
    connect.connect(b, None, 1)
    connect.leave(a)
    assert fake.n_shutdowns == 0
    connect.leave(b)
    assert (fake.n_inits, fake.n_shutdowns) == (1, 1)
