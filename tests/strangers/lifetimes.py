"""Tests closing, Ctrl-C and pickling, with a real model."""

from __future__ import annotations

import itertools
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

import psutil
from rows import tell

MODEL = os.environ["LLAMAHERD_TEST_SMOLLM2"]
N_CONTEXTS = 600
N_INTERRUPTS = 160


def contexts() -> None:
    import llamaherd as lh  # not where a Llama is loaded

    model = lh.Model(MODEL)
    chance = random.Random(1)
    kept, sizes, peak = [], [], 0.0
    for _ in range(N_CONTEXTS):
        context = lh.Context(
            model, n_ctx=chance.choice([512, 2048, 8192, 32768]), kv_layout="unified"
        )
        kept.append(lh.generate_parallel(context, ["One", "Two"], max_tokens=2))
        peak = max(peak, resident())
        context.close()
        sizes.append(resident())
    early, late = max(sizes[20:120]), max(sizes[-100:])
    tell(
        4,
        "contexts created, used and closed, results kept: resident memory does not grow",
        N_CONTEXTS,
        N_CONTEXTS if late < early + 20 else 0,
        f"at most {early:.0f} MB after the first contexts, {late:.0f} MB after the last; "
        f"up to {peak:.0f} MB while contexts are open",
    )


def resident() -> float:
    return psutil.Process().memory_info().rss / 1e6


def interrupts() -> None:
    import llamaherd as lh

    chance = random.Random(1)
    n_held = 0
    with lh.Model(MODEL) as model, lh.Context(model) as context:
        for k in range(N_INTERRUPTS):
            delays = [0.03 * chance.random() ** 2]
            delays += [delays[0] + 0.01 * chance.random()] * (k % 2)
            armed = threading.Event()
            presser = threading.Thread(target=press, args=(armed, delays))
            presser.start()
            has_results = False
            try:
                armed.set()
                lh.generate_parallel(context, [f"{i} is" for i in range(200)])
            except lh.Interrupted as error:
                has_results = len(error.results) == 200
            except KeyboardInterrupt:  # interrupted before the call
                has_results = not is_any_running()
            try:
                presser.join()
            except KeyboardInterrupt:  # the second interrupt arrived after the call
                presser.join()
            n_held += has_results
            start = time.perf_counter()
            lh.generate(context, "One", max_tokens=1)
            if time.perf_counter() - start > 5:
                raise SystemExit("a call waits behind one that was interrupted")
    tell(
        8,
        "Ctrl-C in the first 30 ms of a call of 200 prompts, once or twice: results, "
        "and no call remains running",
        N_INTERRUPTS,
        n_held,
        "pressed twice in every second try",
    )


def is_any_running() -> bool:
    """Return True if a job still runs, or a loop does not become idle soon."""
    from llamaherd.engine.loop import loop, threads

    every = set(threads._jobs)
    return any(not e.wait(5 if isinstance(e, loop.Loop) else 0) for e in every)


def press(armed: threading.Event, delays: list[float]) -> None:
    armed.wait()
    for before, delay in itertools.pairwise([0.0, *delays]):
        time.sleep(delay - before)
        os.kill(os.getpid(), signal.SIGINT)


def pickles() -> None:
    python = Path(__file__).parents[1] / "python"
    sys.path[:0] = [str(python), str(python / "whole")]
    import test_pickle

    test_pickle.test_all_of_it_goes_to_a_new_process_and_back()
    n = len(test_pickle.TRAVELLERS)
    tell(
        9,
        "public classes pickled, sent to a new process and back: equal objects",
        n,
        n,
        "",
    )


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for story in (contexts, interrupts, pickles):
        story()
