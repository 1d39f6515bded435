"""Statistics for R run in a thread, which ends soon after it is cancelled."""

from threading import Event

import llamaherd._r as r
import pytest
from llamaherd._r.slow import SlowCall


def test_status_of_a_call() -> None:
    arguments = [5.0, {}]
    call = r.slow_start("gold_size", arguments)
    assert call.wait(60)
    assert r.slow_status(call) == r.gold_size(*arguments)


def test_a_cancelled_call_ends() -> None:
    started = Event()

    def endless() -> dict[str, object]:
        started.set()
        while True:
            pass

    call = SlowCall(endless, [])
    assert started.wait(60)
    assert not r.slow_wait(call, 0)
    r.slow_cancel(call)
    assert r.slow_wait(call, 60)
    with pytest.raises(RuntimeError, match="cancelled"):
        call.status()
