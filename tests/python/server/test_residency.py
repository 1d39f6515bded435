"""Requests for several models, whose loading the test controls."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AsyncExitStack
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from llamaherd.engine.core.errors import ModelLoadError
from llamaherd.engine.core.outcome import Counts
from llamaherd.engine.core.stats import Load
from llamaherd.server.errors import ApiError
from llamaherd.server.models.loading import stored_files
from llamaherd.server.models.spec import AdapterSpec, FileContents, ModelSpec
from llamaherd.server.models.store import ModelStore
from llamaherd.server.protocol import ClientGoneError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from llamaherd.engine.native.models import LoadInterrupt

SIZE = 800  # size of a file; ROOM holds one file with its cache, but not two
ROOM = 1000


class FakeServed:
    """Model without endpoints."""

    model = None
    load = Load(n_running=0, n_waiting=0, n_slots=2, n_prefixes=0, n_ctx=0)
    counts = Counts(n_generated=1)


class FakeFile:
    """Model file in memory."""

    def __init__(self, bench: Bench, spec: ModelSpec, n_cache: int) -> None:
        self._bench = bench
        self._name = spec.name
        self.n_cache = n_cache
        self.problems = {x.name: "is damaged" for x in spec.adapters if bench.damaged}
        names = [name for name in spec.names if name not in self.problems]
        self.served: dict[str, Any] = {name: FakeServed() for name in names}

    def close(self) -> None:
        with self._bench.lock:
            self._bench.in_memory.discard(self._name)
            self._bench.log.append(f"-{self._name}")


class Bench:
    """Controls and records the loading of models in a registry.

    Attributes:
        log: "+a" for each load of a that began, "-a" for each that was closed, "!a" for
            each that was interrupted.
        in_memory: Models in memory.
        gates: Events by model; loading the model waits until its event is set.
        slow: Models whose loading waits until it is interrupted.
        broken: Models that cannot be loaded.
        damaged: Whether adapters cannot be loaded.
        n_cache: Memory that caches really use; None uses the reserved memory.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.log: list[str] = []
        self.in_memory: set[str] = set()
        self.gates: dict[str, threading.Event] = {}
        self.slow: set[str] = set()
        self.broken: set[str] = set()
        self.damaged = False
        self.n_cache: int | None = None

    def load(self, spec: ModelSpec, n_cache: int, interrupt: LoadInterrupt) -> FakeFile:
        with self.lock:
            self.log.append(f"+{spec.name}")
            self.in_memory.add(spec.name)
        gate = self.gates.get(spec.name)
        while gate is not None and not gate.wait(0.001):
            if spec.name in self.slow and interrupt.is_set:
                with self.lock:
                    self.log.append(f"!{spec.name}")
                    self.in_memory.discard(spec.name)
                raise ModelLoadError("was cancelled")
        if spec.name in self.broken:
            with self.lock:
                self.in_memory.discard(spec.name)
            raise ModelLoadError("is broken")
        return FakeFile(self, spec, n_cache if self.n_cache is None else self.n_cache)


async def _connected() -> Any:
    await asyncio.Event().wait()


class Case:
    """Registry of the models a, b and c; only one fits into memory at a time."""

    def __init__(self, folder: Path, *, room: int = ROOM, **options: Any) -> None:
        self.bench = Bench()
        self.folder = folder
        specs = []
        for name in "abc":
            path = folder / f"{name}.gguf"
            path.write_bytes(bytes(SIZE))
            adapter = AdapterSpec(f"{name}-lora", folder / "none.gguf")
            specs.append(ModelSpec(name, path, (adapter,)))
        n_waiting = options.pop("n_waiting", 100)
        files = stored_files(
            specs,
            self.bench.load,
            FileContents(),
            n_bytes=room,
            n_waiting=n_waiting,
        )
        settings = {"wait_s": 600.0, **options}
        self.registry = ModelStore(files, n_bytes=room, **settings)

    async def send(self, name: str, **options: Any) -> Any:
        """Send a request that ends at once."""
        async with self.registry.lease(name, _connected, **options) as served:
            return served

    def start(self, name: str, **options: Any) -> asyncio.Task[Any]:
        return asyncio.get_running_loop().create_task(self.send(name, **options))

    async def until_log(self, *log: str) -> None:
        """Wait until the log consists of exactly these entries."""
        while self.bench.log[: len(log)] != list(log):
            assert len(self.bench.log) <= len(log), self.bench.log
            await asyncio.sleep(0.001)

    async def until_state(self, name: str, state: str) -> None:
        while self.state(name) != state:  # noqa: ASYNC110 - there is no event for it
            await asyncio.sleep(0.001)

    def state(self, name: str) -> str:
        return {model.name: model.state for model in self.registry.statuses()}[name]


def _resident(**options: Any) -> Callable[[Any], Any]:
    """Run a test with a `Case` of these options."""

    def decorated(test: Callable[..., Any]) -> Any:
        async def run(folder: Path, *arguments: Any) -> None:
            case = Case(folder, **options)
            try:
                await test(case, *arguments)
            finally:
                for gate in case.bench.gates.values():
                    gate.set()
                await case.registry.close()
                assert case.bench.in_memory == set()

        def test_in_loop(tmp_path: Path) -> None:
            asyncio.run(run(tmp_path))

        def seeded(tmp_path: Path, seed: int) -> None:
            asyncio.run(run(tmp_path, seed))

        return seeded if "seed" in test.__annotations__ else test_in_loop

    return decorated


async def _idle() -> None:
    """Run all tasks that can continue."""
    for _ in range(20):
        await asyncio.sleep(0.001)


@_resident()
async def test_concurrent_first_requests_load_once(case: Case) -> None:
    case.bench.gates["a"] = threading.Event()
    tasks = [case.start(name) for name in ["a", "a-lora"] * 10]
    await case.until_log("+a")
    await _idle()
    case.bench.gates["a"].set()
    models = await asyncio.gather(*tasks)
    assert len(set(map(id, models))) == 2
    assert case.bench.log == ["+a"]


@_resident(room=2 * ROOM)
async def test_loading_a_model_holds_no_request_of_another(case: Case) -> None:
    await case.send("a")
    case.bench.gates["b"] = threading.Event()
    second = case.start("b")
    await case.until_log("+a", "+b")
    for _ in range(50):
        await case.send("a")
    assert not second.done()
    case.bench.gates["b"].set()
    await second


@_resident()
async def test_a_broken_file_fails_its_own_requests_and_may_be_tried_again(
    case: Case,
) -> None:
    case.bench.broken.add("b")
    await case.send("a")
    for _ in range(2):
        with pytest.raises(ApiError, match="'b' cannot be loaded: is broken") as e:
            await case.send("b")
        assert (e.value.status, e.value.code) == (500, "model_not_loaded")
    case.bench.broken.clear()
    await case.send("b")
    await case.send("a")
    assert case.registry.statuses()[2].n_failures == 2


@_resident(room=2 * ROOM)
async def test_the_least_recently_used_makes_room_and_none_in_use(case: Case) -> None:
    await case.send("a")
    await case.send("b")
    await case.send("a")
    await case.send("c")
    assert case.bench.log == ["+a", "+b", "-b", "+c"]
    async with case.registry.lease("a", _connected):
        await case.send("b")
    assert case.bench.log[4:] == ["-c", "+b"]


@_resident(wait_s=0.01)
async def test_a_wait_for_memory_is_bounded(case: Case) -> None:
    async with case.registry.lease("a", _connected):
        with pytest.raises(ApiError, match="no memory for the model 'b'") as e:
            await case.send("b")
    assert (e.value.status, e.value.code) == (503, "no_memory_for_model")
    assert dict(e.value.headers)["retry-after"].isdigit()
    await case.send("b")  # the first model is completely removed


@_resident(wait_s=0.001)
async def test_loading_may_take_longer_than_the_wait_for_memory(case: Case) -> None:
    case.bench.gates["a"] = threading.Event()
    task = case.start("a")
    await asyncio.sleep(0.02)
    case.bench.gates["a"].set()
    await task


@_resident()
async def test_a_client_that_gives_up_too_early_finds_its_model_later(case: Case) -> None:
    gate = case.bench.gates["a"] = threading.Event()
    case.bench.slow.add("a")
    for _ in range(3):
        task = case.start("a")
        await case.until_log("+a")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    gate.set()
    await case.send("a")
    assert case.bench.log == ["+a"]


@_resident()
async def test_requests_that_wait_share_the_error_of_a_load(case: Case) -> None:
    case.bench.broken.add("a")
    gate = case.bench.gates["a"] = threading.Event()
    tasks = [case.start("a") for _ in range(5)]
    await case.until_log("+a")
    await _idle()
    gate.set()
    errors = await asyncio.gather(*tasks, return_exceptions=True)
    assert {str(error) for error in errors} == {
        "the model 'a' cannot be loaded: is broken"
    }
    assert case.bench.log == ["+a"]


@_resident()
async def test_the_end_of_a_server_interrupts_loads(case: Case) -> None:
    case.bench.gates["a"] = threading.Event()
    case.bench.slow.add("a")
    task = case.start("a")
    await case.until_log("+a")
    case.registry.stop_loading()  # at once after SIGTERM
    with pytest.raises(ApiError) as e:
        await task
    assert (e.value.status, e.value.code) == (503, "stopping")
    await case.until_log("+a", "!a")


@_resident()
async def test_a_model_in_use_makes_room(case: Case) -> None:
    """Otherwise one client could block the models of all other clients."""
    async with AsyncExitStack() as first:
        await first.enter_async_context(case.registry.lease("a", _connected))
        other = case.start("b")
        await case.until_state("a", "unloading")
        later = case.start("a")  # this request does not keep model a in memory
        await _idle()
        assert case.bench.log == ["+a"]
        assert not later.done()
        await first.aclose()
        await asyncio.gather(other, later)
        assert case.bench.log == ["+a", "-a", "+b", "-b", "+a"]


@_resident()
async def test_requests_in_turn_load_each_model_once(case: Case) -> None:
    await asyncio.gather(*(case.start(name) for name in "ab" * 12))
    assert case.bench.log == ["+a", "-a", "+b"]


@_resident()
async def test_requests_of_batches_hold_no_model(case: Case) -> None:
    async with case.registry.lease("a", _connected):
        patient = case.start("b", is_patient=True)
        await _idle()
        await case.send("a")
        assert not patient.done()
        waiting = [model.name for model in case.registry.statuses() if model.n_patient]
        assert waiting == ["b", "b-lora"]  # an adapter waits with its model
    await patient
    assert not any(model.n_patient for model in case.registry.statuses())


@_resident()
async def test_a_held_model_goes_on_if_nobody_waits_for_its_room(case: Case) -> None:
    async with case.registry.lease("a", _connected):
        other = case.start("b")
        await case.until_state("a", "unloading")
        later = case.start("a")
        await _idle()
        other.cancel()
        await later
    assert case.bench.log == ["+a"]


@_resident()
async def test_a_client_that_goes_leaves_nothing(case: Case) -> None:
    gone = asyncio.Event()

    async def receive() -> Any:
        await gone.wait()
        return {"type": "http.disconnect"}

    async def lease() -> None:
        async with case.registry.lease("a", receive):
            raise AssertionError

    case.bench.gates["a"] = threading.Event()
    task = asyncio.get_running_loop().create_task(lease())
    await case.until_log("+a")
    gone.set()
    with pytest.raises(ClientGoneError):
        await task
    case.bench.gates["a"].set()
    await case.send("b")  # model a is loaded and unused, so it is unloaded
    assert case.bench.log == ["+a", "-a", "+b"]


@_resident(room=SIZE)
async def test_a_model_that_can_never_fit_is_unknown(case: Case) -> None:
    with pytest.raises(ApiError, match=r"'a' needs 0\.1 MB .*--memory") as e:
        await case.send("a")
    assert (e.value.status, e.value.code) == (404, "model_not_found")
    assert e.value.param == "model"
    assert case.bench.log == []


@_resident(room=3 * ROOM)
async def test_a_replaced_file_counts_with_its_size(case: Case) -> None:
    await case.send("a")
    (case.folder / "b.gguf").write_bytes(bytes(2 * ROOM))
    await case.send("b")
    assert case.bench.log == ["+a", "-a", "+b"]
    (case.folder / "c.gguf").write_bytes(bytes(4 * ROOM))
    with pytest.raises(ApiError) as e:
        await case.send("c")
    assert e.value.status == 404


@_resident(room=2 * ROOM)
async def test_caches_larger_than_expected_unload_others(case: Case) -> None:
    await case.send("a")
    case.bench.n_cache = 600
    await case.send("b")
    assert case.bench.log == ["+a", "+b", "-a"]
    case.bench.n_cache = 2 * ROOM
    tasks = [case.start("c") for _ in range(3)]
    for error in await asyncio.gather(*tasks, return_exceptions=True):
        assert (error.status, error.code) == (404, "model_not_found")
    assert case.bench.log.count("+c") == 1


@_resident()
async def test_a_damaged_adapter_fails_alone(case: Case) -> None:
    case.bench.damaged = True
    await case.send("a")
    with pytest.raises(ApiError, match=r"'a-lora' cannot be .* is damaged"):
        await case.send("a-lora")
    assert case.bench.log == ["+a"]


@_resident(room=2 * ROOM, n_waiting=1)
async def test_a_full_queue_of_a_model_refuses_no_request_of_another(case: Case) -> None:
    await case.send("b")
    case.bench.gates["a"] = threading.Event()
    tasks = [case.start("a") for _ in range(2)]  # one waits, one runs
    await case.until_log("+b", "+a")
    with pytest.raises(ApiError) as e:
        await case.send("a")
    assert e.value.status == 429
    await case.send("b")
    case.bench.gates["a"].set()
    await asyncio.gather(*tasks)


@_resident()
async def test_the_end_refuses_who_waits(case: Case) -> None:
    case.bench.gates["a"] = threading.Event()
    task = case.start("a")
    await case.until_log("+a")
    closing = asyncio.get_running_loop().create_task(case.registry.close())
    with pytest.raises(ApiError, match="is stopping"):
        await task
    with pytest.raises(ApiError, match="is stopping"):
        await case.send("b")
    case.bench.gates["a"].set()
    await closing
    assert case.bench.log == ["+a", "-a"]
    assert case.registry.is_closed


@pytest.mark.parametrize("seed", range(4))
@_resident(room=2 * ROOM)
async def test_memory_is_never_exceeded_and_no_request_loses_its_model(
    case: Case, seed: int
) -> None:

    async def client(draw: Random) -> None:
        for _ in range(20):
            name = draw.choice("abc")
            is_patient = draw.random() < 0.3
            lease = case.registry.lease(name, _connected, is_patient=is_patient)
            async with lease:
                for _ in range(draw.randrange(3)):
                    await asyncio.sleep(0.001 * draw.random())
                    assert name in case.bench.in_memory
                    assert len(case.bench.in_memory) <= 2

    await asyncio.gather(*(client(Random(100 * seed + i)) for i in range(6)))


@_resident()
async def test_a_thousand_swaps_under_load(case: Case) -> None:

    async def client(names: str) -> None:
        for name in names * 10:
            async with case.registry.lease(name, _connected):
                assert case.bench.in_memory == {name}
                await asyncio.sleep(0)

    await asyncio.gather(*(client(x) for x in ["abc", "cab", "aab", "bca"] * 3))
    n_loads = sum(event.startswith("+") for event in case.bench.log)
    n_seen = case.registry.counts.n_generated
    assert n_seen == 2 * n_loads  # including counts of unloaded models
    assert [file.n_leases for file in case.registry._files] == [0] * 3
    assert case.registry._watchers == set()
