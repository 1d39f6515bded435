from __future__ import annotations

from array import array

from fake_engine import FakeEngine
from llamaherd.engine.core.outcome import Finish, RunOutcome, Status
from llamaherd.engine.core.request import Request
from llamaherd.engine.schedule.engine import is_guilty, isolate

REFUSAL = RunOutcome(status=Status.REFUSED, decode_code=-1, message="invalid batch")


def engine_with(guilty: set[int], n: int = 32) -> FakeEngine:
    engine = FakeEngine(1000, n, n_batch=1000)
    for i in range(n):
        tokens = array("i", [-5 if i in guilty else 5, i])
        engine.submit(i, Request(tokens=tokens, max_tokens=10), None)
    return engine


def test_only_the_guilty_are_ended() -> None:
    guilty = {3, 17, 18}
    engine = engine_with(guilty)
    assert set(isolate(engine, range(32))) == guilty
    for i in range(32):
        output = engine.get(i)
        assert (output.finish is Finish.ERROR) == (i in guilty)
        assert len(output.tokens) == (i not in guilty)


def test_it_takes_k_log_n_batches() -> None:
    engine = engine_with({7})
    isolate(engine, range(32))
    assert engine.numbers["n_failed_decodes"] == 5
    assert engine.numbers["n_batches"] == 5


def test_a_client_alone_ends_when_it_is_refused_again() -> None:
    engine = engine_with({0}, 1)
    assert isolate(engine, [0]) == [0]
    assert engine.get(0).finish is Finish.ERROR
    assert engine.numbers["n_failed_decodes"] == 1


def test_what_passes_costs_a_client_alone_nothing() -> None:
    engine = engine_with(set(), 1)
    assert isolate(engine, [0]) == []
    assert len(engine.get(0).tokens) == 1


def test_who_is_innocent_but_ends_is_reported() -> None:
    engine = FakeEngine(1000, 2)
    for i, token in enumerate([5, -5]):
        request = Request(tokens=array("i", [token]), max_tokens=1)
        engine.submit(i, request, None)
    assert isolate(engine, [0, 1]) == [0, 1]
    assert engine.get(0).finish is Finish.LENGTH


def test_want_of_cells_is_nobodys_guilt() -> None:
    full = RunOutcome(status=Status.REFUSED, decode_code=1)
    assert not is_guilty(full)
    assert is_guilty(REFUSAL)
    assert not is_guilty(RunOutcome(status=Status.OK))
    assert not is_guilty(RunOutcome(status=Status.ABORTED))
    engine = FakeEngine(3, 4)  # each half needs four cells
    for i in range(4):
        engine.submit(i, Request(tokens=array("i", [1, i]), max_tokens=5), None)
    assert isolate(engine, range(4)) == []
