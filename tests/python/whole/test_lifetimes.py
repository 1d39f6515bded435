"""Closing, garbage collection and the interpreter's end, in any order.

Each story (sequence of calls) runs in a separate process, because a failure is a crash
or a hanging process. There glibc overwrites freed memory, so that its use is detected.
"""

from __future__ import annotations

import _thread
import itertools
from typing import TYPE_CHECKING

import pytest
from llamaherd.engine.loop import threads
from programs import ended

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    TinyPath = Callable[[str], Path]

START = """
import atexit, gc, sys, threading, time
def early():
    early_call()
early_call = lambda: None
atexit.register(early)  # runs after llamaherd's own
import llamaherd as lh
LONG = {"max_tokens": 400, "params": lh.SamplingParams(ignore_eos=True)}
SHORT = {"max_tokens": 3, "params": lh.SamplingParams(ignore_eos=True)}
def started(job):
    while job.progress.n_generated_tokens < 2:
        job.wait(0.001)
    return job
def endless(context):
    return lh.start_parallel(context, [f"{i} is" for i in range(2000)], **LONG)
def quit_5(_):
    sys.exit(5)
def fail(_):
    1 / 0
model = lh.Model(sys.argv[1])
context = lh.Context(model, n_seq_max=4, n_threads=1)
"""


def run(
    story: str, path: Path, *arguments: object, code: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run a story that must end with exit status `code`."""
    return ended(START + story, path, *arguments, status=code, MALLOC_PERTURB_="165")


# ---- closing ---------------------------------------------------------------------------

CLOSED = """
jobs = [started(endless(context)), endless(context)]
ends = {"job": jobs[0].cancel, "context": context.close, "model": model.close}
ready = threading.Barrier(4)
def end(name):
    ready.wait()
    if sys.argv[2] == "in turn":
        time.sleep(0.02 * sys.argv.index(name))
    ends[name]()
threads = [threading.Thread(target=end, args=(name,)) for name in ends]
for thread in threads:
    thread.start()
ready.wait()
for thread in threads:
    thread.join()
for job in jobs:
    try:
        print(job.results().finish_reasons[-1])
    except (lh.ContextClosedError, lh.ModelClosedError) as error:
        print(type(error).__name__)
assert context.closed and model.closed
for use in (lambda: lh.generate(context, "a"), lambda: lh.tokenize(model, "a")):
    try:
        use()
    except (lh.ContextClosedError, lh.ModelClosedError):
        print("closed")
"""
ORDERS = [
    *(
        ("in turn", *order)
        for order in itertools.permutations(["job", "context", "model"])
    ),
    ("at once", "job", "context", "model"),
]


@pytest.mark.more(reason="a process for each story", cases=1)
@pytest.mark.parametrize("order", ORDERS)
def test_closing_in_any_order_ends_the_calls(
    tiny_path: TinyPath, order: tuple[str, ...]
) -> None:
    first, second, *uses = run(CLOSED, tiny_path("llama"), *order).stdout.split()
    # Cancelled, unless the context was closed before it noticed.
    assert first in {"cancelled", "ContextClosedError", "ModelClosedError"}
    assert second in {"ContextClosedError", "ModelClosedError"}
    assert uses == ["closed", "closed"]


CLOSED_WHILE_MADE = """
sys.setswitchinterval(1e-6)
for _ in range(60):
    model = lh.Model(sys.argv[1])
    made, errors = [], []
    def make():
        try:
            while True:
                made.append(lh.Context(model, n_threads=1))
        except lh.ModelClosedError:
            pass
        except BaseException as error:
            errors.append(error)
    threads = [threading.Thread(target=make) for _ in range(3)]
    for thread in threads:
        thread.start()
    while len(made) < 20 and not errors:
        time.sleep(0)
    model.close()
    for thread in threads:
        thread.join()
    assert not errors, errors
    assert all(context.closed for context in made)
"""


@pytest.mark.long(reason="a process for each story")
def test_a_model_closes_contexts_that_are_being_made(tiny_path: TinyPath) -> None:
    run(CLOSED_WHILE_MADE, tiny_path("llama"))


FREED_AT_ONCE = """
import psutil
gc.disable()
def resident_mb():
    return psutil.Process().memory_info().rss / 1e6
def used(n_ctx):
    context = lh.Context(model, n_ctx=n_ctx, kv_layout="unified", n_threads=1)
    return context, lh.generate_parallel(context, list("abcd"), **SHORT)
used(256)[0].close()
before = resident_mb()
context, results = used(1 << 18)
taken = resident_mb() - before
context.close()
print(taken, resident_mb() - before, results.texts is not None)
"""


def test_closing_gives_the_memory_back_at_once(tiny_path: TinyPath) -> None:
    printed = run(FREED_AT_ONCE, tiny_path("llama")).stdout.split()
    taken, left = float(printed[0]), float(printed[1])
    assert taken - left > 60  # the KV cache has 67 MB


MANY_CONTEXTS = """
import psutil
sizes = []
for i in range(200):
    context = lh.Context(model, n_ctx=1024 * (1 + i % 7), n_seq_max=4, n_threads=1)
    lh.generate_parallel(context, list("abcd"), **SHORT)
    context.close()
    if i % 50 == 49:
        sizes.append(psutil.Process().memory_info().rss / 1e6)
print(*sizes)
"""


@pytest.mark.long(reason="a process for each story")
def test_contexts_one_after_the_other_take_no_more_memory(tiny_path: TinyPath) -> None:
    printed = run(MANY_CONTEXTS, tiny_path("llama")).stdout.split()
    sizes = [float(size) for size in printed]
    assert sizes[-1] - sizes[1] < 5


# ---- garbage ---------------------------------------------------------------------------

FREED = """
from llamaherd.engine.native import engine, models, shim
del model, context
order = []
class Recorded:
    def __getattr__(self, name):
        function = getattr(lib, name)
        if not name.endswith("_free"):
            return function
        def free(pointer):
            order.append(name)
            return function(pointer)
        return free
lib = models.lib
engine.lib = models.lib = shim.lib = Recorded()
def pair():
    model = lh.Model(sys.argv[1])
    context = lh.Context(model, n_threads=1)
    lh.generate(context, "a", **SHORT)
    return model, context
"""
# A thread that has just ended may keep its job alive for a moment.
COLLECTED = """
deadline = time.monotonic() + 100
while len(order) < 2 and time.monotonic() < deadline:
    gc.collect()
    time.sleep(0.01)
print(*order)
"""
GARBAGE = {
    "the model is dropped first": """
model, context = pair()
del model
gc.collect()
assert not order
assert lh.generate(context, "a", **SHORT).finish_reason == "length"
del context
""",
    "a context in a cycle": """
model, context = pair()
context.myself = context
del model, context
""",
    "a model in a cycle": """
model, context = pair()
model.newest = context
del model, context
""",
    "all in a list that holds itself": """
everything = list(pair())
everything.append(everything)
del everything
""",
    "the job is the last that holds them": """
model, context = pair()
job = started(endless(context))
order.clear()  # of the smaller engine that there was before
del model, context
gc.collect()
assert not order
job.cancel()
del job
""",
    "nobody holds the job": """
model, context = pair()
started(endless(context)).cancel()
order.clear()
del model, context
""",
}


@pytest.mark.more(reason="a process for each story", cases=1)
@pytest.mark.parametrize("story", GARBAGE)
def test_a_model_outlives_what_runs_on_it(tiny_path: TinyPath, story: str) -> None:
    printed = run(FREED + GARBAGE[story] + COLLECTED, tiny_path("llama")).stdout
    assert printed.split() == ["lh_engine_free", "lh_model_free"]


MODEL_FREED_FIRST = """
from llamaherd.engine.native.shim import ffi
expected = lh.generate(context, "a", **SHORT).tokens
with model.using() as native:
    ffi.release(native)
assert lh.generate(context, "a", **SHORT).tokens == expected
"""


def test_a_model_may_be_freed_before_what_runs_on_it(tiny_path: TinyPath) -> None:
    # As the interpreter does at exit, with objects of a thread that still runs: it
    # collects models and engines together, in the order of their creation.
    run(MODEL_FREED_FIRST, tiny_path("llama"))


COLLECTED_ELSEWHERE = """
stop = threading.Event()
def collect():
    while not stop.is_set():
        gc.collect()
collector = threading.Thread(target=collect)
collector.start()
expected = lh.generate(context, "a", **SHORT).tokens
for _ in range(15):
    other = lh.Context(lh.Model(sys.argv[1]), n_threads=1)
    other.myself = other
    assert lh.generate(other, "a", **SHORT).tokens == expected
    assert lh.generate(context, "a", **SHORT).tokens == expected
stop.set()
collector.join()
"""


@pytest.mark.long(reason="a process for each story")
def test_another_thread_may_collect_garbage(tiny_path: TinyPath) -> None:
    run(COLLECTED_ELSEWHERE, tiny_path("llama"))


LLAMA = """
import llama_cpp
from llamaherd.calls.run.context import as_context
llama = llama_cpp.Llama(sys.argv[1], n_ctx=64, verbose=False)
if sys.argv[2] == "owned":
    of_llama = lh.Context(lh.Model.from_llama(llama), n_threads=1)
else:
    lh.generate(llama, "a", **SHORT)
    of_llama = as_context(llama)
print(lh.generate(of_llama, "a", **SHORT).finish_reason)
llama.contexts = [of_llama, llama]
if sys.argv[3] == "dropped":
    del llama, of_llama
    gc.collect()
elif sys.argv[3] == "closed":
    job = started(endless(of_llama))
    llama.close()
    job.cancel()
    print(job.results().finish_reasons[-1])
"""


@pytest.mark.more(reason="a process for each story", cases=1)
@pytest.mark.parametrize("owner", ["owned", "shared"])
@pytest.mark.parametrize("end", ["dropped", "closed", "left"])
def test_a_llama_may_go_in_any_way(tiny_path: TinyPath, owner: str, end: str) -> None:
    printed = run(LLAMA, tiny_path("llama"), owner, end).stdout.split()
    assert printed == (["length", "cancelled"] if end == "closed" else ["length"])


LLAMA_CLOSED_EARLY = """
import random
import llama_cpp
sys.setswitchinterval(1e-6)
chance = random.Random(int(sys.argv[2]))
for _ in range(20):
    llama = llama_cpp.Llama(sys.argv[1], n_ctx=64, verbose=False)
    ends = []
    def call():
        try:
            lh.generate_parallel(llama, ["abc " * 10] * 20, **SHORT)
            ends.append("answered")
        except BaseException as error:
            ends.append(repr(error))
    thread = threading.Thread(target=call)
    thread.start()
    time.sleep(chance.choice([0, 0, 1e-5, 1e-4, 1e-3, 3e-3]) * chance.random())
    llama.close()
    thread.join()
    print(*ends)
"""


@pytest.mark.more(reason="a process for each story", cases=1)
@pytest.mark.parametrize("seed", range(3))
def test_a_llama_may_be_closed_while_its_first_call_starts(
    tiny_path: TinyPath, seed: int
) -> None:
    printed = run(LLAMA_CLOSED_EARLY, tiny_path("llama"), seed).stdout.splitlines()
    assert printed == ["answered"] * 20


LLAMA_DROPPED = """
import llama_cpp
from llamaherd.calls.run.context import as_context
llama = llama_cpp.Llama(sys.argv[1], n_ctx=64, verbose=False)
llama.myself = llama
context = as_context(llama)
job = endless(llama)
del llama
while job.progress.n_generated_tokens < 2:
    job.wait(0.001)
threads = [threading.Thread(target=gc.collect) for _ in range(4)]
for thread in threads:
    thread.start()
    thread.join()
print(context.closed)
job.cancel()
print(job.results().finish_reasons[-1])
"""


def test_a_job_keeps_its_llama(tiny_path: TinyPath) -> None:
    # Otherwise the loop's own thread might collect it and wait for its own end.
    printed = run(LLAMA_DROPPED, tiny_path("llama")).stdout.split()
    assert printed == ["False", "cancelled"]


# ---- the interpreter's end -------------------------------------------------------------

EXITS = {
    "contexts are open": ("lh.generate(context, 'a', **SHORT)", 0),
    "a job runs": ("job = started(endless(context))", 0),
    "jobs run and wait": (
        "jobs = [started(endless(context)), endless(context), endless(context)]",
        0,
    ),
    "a job runs, in a cycle": ("context.job = started(endless(context))", 0),
    "the main thread fails": ("job = started(endless(context)); 1 / 0", 1),
    "sys.exit while a job runs": ("job = started(endless(context)); sys.exit(7)", 7),
    "sys.exit in a callback": (
        "lh.generate_parallel(context, list('abc'), progress=quit_5, **LONG)",
        5,
    ),
    "an error in a callback": (
        "lh.generate_parallel(context, list('abc'), progress=fail, **LONG)",
        1,
    ),
    "a stream is left open": (
        "stream = lh.generate(context, 'a', stream=True, **LONG); print(next(stream))",
        0,
    ),
    "a thread that is no daemon is at it": (
        "threading.Thread(target=lh.generate, args=(context, 'a'), kwargs=SHORT).start()",
        0,
    ),
    "a call in an exit handler": (
        "atexit.register(lambda: print(lh.generate(context, 'a', **SHORT).error))",
        0,
    ),
    "coding in an exit handler": (
        (
            "book = lh.Codebook('Is it good?', {'yes': 'It is.', 'no': 'It is not.'})\n"
            "def code():\n"
            "    table = {'text': ['a']}\n"
            "    print(lh.annotate(table, 'text', book, context).errors[0])\n"
            "atexit.register(code)"
        ),
        0,
    ),
}


@pytest.mark.more(reason="a process for each story", cases=1)
@pytest.mark.parametrize("story", EXITS)
def test_the_interpreter_may_end_when(tiny_path: TinyPath, story: str) -> None:
    code, expected = EXITS[story]
    done = run(code, tiny_path("llama"), code=expected)
    if "exit handler" in story:
        assert done.stdout == "None\n"
    if expected in {0, 5, 7}:
        assert "Traceback" not in done.stderr


DAEMONS = """
n_calls = 0
def again_and_again():
    global n_calls
    while True:
        lh.generate(context, "a", **SHORT)
        n_calls += 1
threading.excepthook = lambda args: errors.append(args.exc_value)
errors = []
for _ in range(3):
    threading.Thread(target=again_and_again, daemon=True).start()
while n_calls < 5:
    time.sleep(0.001)
def early_call():
    deadline = time.monotonic() + 100
    while len(errors) < 3 and time.monotonic() < deadline:
        time.sleep(0.001)
    print(*{str(error) for error in errors}, sep="; ")
"""


def test_no_daemon_starts_a_call_once_the_interpreter_ends(tiny_path: TinyPath) -> None:
    printed = run(DAEMONS, tiny_path("llama")).stdout
    assert printed == "the interpreter is ending: no new call can start\n"


@pytest.mark.long(reason="a process for each story")
def test_daemons_may_generate_at_the_end(tiny_path: TinyPath) -> None:
    without_waiting = DAEMONS[: DAEMONS.index("def early_call")]
    for _ in range(3):
        run(without_waiting, tiny_path("llama"))


def test_a_job_without_a_thread_does_not_keep_the_interpreter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Stuck:
        def cancel(self) -> None:
            pass

        def wait(self) -> bool:
            raise AssertionError("waited for a call that never started")

    def fail(*_args: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", fail)
    stuck = Stuck()
    with pytest.raises(RuntimeError, match="can't start new thread"):
        threads.start_thread(stuck, lambda: None)
    assert stuck not in set(threads._jobs)
