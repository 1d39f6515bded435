"""Checks the results and resources of many callers on shared contexts for a long time.

    python soak_callers.py MODEL MINUTES OUT.json

Threads call, submit, stream, cancel and close at random; Ctrl-C interrupts the main
thread. Each minute all threads pause, and the resources of the process are recorded.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import json
import os
import sys
import threading
import time
import traceback
from collections import Counter
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parent)]

import llamaherd as lh
from soak_actions import END_S, N_QUESTIONS, Caller, Shared, make_questions

N_THREADS = 7  # in addition to the main thread
ROUND_S = 60.0
_CHECK_S = 0.5


class Crowd:
    """Threads of callers, which work in rounds and pause in between."""

    def __init__(self, callers: list[Caller]) -> None:
        self.problems: list[str] = []
        self._callers = callers
        self._may_work = threading.Event()
        self._is_over = False
        self._n_working = 0
        self._changed = threading.Condition()
        self._threads = [
            threading.Thread(target=self._live, args=(c,), daemon=True) for c in callers
        ]
        for thread in self._threads:
            thread.start()

    def start_round(self) -> None:
        self._may_work.set()

    def end_round(self) -> None:
        """Wait until all threads pause."""
        self._may_work.clear()
        with self._changed:
            while not self._changed.wait_for(lambda: self._n_working == 0, _CHECK_S):
                self.check()

    def end(self) -> None:
        self._is_over = True
        self._may_work.set()
        for thread in self._threads:
            thread.join()

    def check(self) -> None:
        """End the program if a result is wrong or an action does not end."""
        now_s = time.monotonic()
        for caller in self._callers:
            since_s = caller.since_s
            if since_s is not None and now_s - since_s > 2 * END_S:
                self.problems.append(f"lost: {caller.doing}")
        if self.problems:
            faulthandler.dump_traceback()
            sys.stderr.write("\n".join(self.problems) + "\n")
            sys.stderr.flush()
            os._exit(1)

    def _live(self, caller: Caller) -> None:
        while not self._is_over:
            if not self._may_work.wait(_CHECK_S):
                continue
            with self._changed:
                self._n_working += 1
            try:
                while self._may_work.is_set() and not self._is_over:
                    caller.act()
            except BaseException:  # noqa: BLE001 - whatever it is, it is told
                self.problems.append(traceback.format_exc())
            with self._changed:
                self._n_working -= 1
                self._changed.notify_all()
            if self.problems:
                return


def at_rest(contexts: list[Shared]) -> dict[str, int]:
    """Return the resources of the process while no caller runs and no context is open."""
    for shared in contexts:
        assert shared.context.loop.wait(END_S), "a loop does not come to rest"
        load = shared.context.load
        assert load.n_running == load.n_waiting == 0, load
        shared.context.close()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    numbers = {
        "memory_bytes": int(fields["VmRSS"].split()[0]) * 1024,
        "threads": int(fields["Threads"]),
    }
    for shared in contexts:
        shared.reopen()
    return numbers


def main() -> None:
    model_path, minutes, out = Path(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])
    faulthandler.enable()
    with lh.Model(model_path) as model:
        questions = make_questions(model)
        contexts = [
            Shared(
                is_exact=True,
                make=lambda: lh.Context(model, n_threads=1, deterministic=True),
            ),
            Shared(is_exact=False, make=lambda: lh.Context(model, n_threads=2)),
        ]
        callers = [Caller(contexts, questions, seed) for seed in range(N_THREADS + 1)]
        crowd = Crowd(callers[1:])
        samples = []
        started_s = time.monotonic()
        while (left_s := 60 * minutes - (time.monotonic() - started_s)) > 0:
            crowd.start_round()
            end_s = time.monotonic() + min(ROUND_S, left_s)
            while time.monotonic() < end_s:
                callers[0].act_interrupted()
                crowd.check()
            crowd.end_round()
            crowd.check()
            samples.append(at_rest(contexts))
            print(json.dumps(samples[-1]), flush=True)
        crowd.end()
        for shared in contexts:
            shared.context.close()
    report = {
        "minutes": round((time.monotonic() - started_s) / 60, 1),
        "callers": len(callers),
        "questions": N_QUESTIONS,
        "did": sum((c.did for c in callers), Counter()),
        "got": sum((c.got for c in callers), Counter()),
        "samples": samples,
    }
    text = json.dumps(report, indent=1) + "\n"
    out.write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
