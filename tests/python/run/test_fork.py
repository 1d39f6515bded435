"""A child that was forked after a model was loaded gets an error, and never hangs."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest
from programs import ended, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    TinyPath = Callable[[str], Path]

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


SCRIPT = """
import os, sys, warnings
import llamaherd as lh
warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
model = lh.Model(sys.argv[1])
context = lh.Context(model)
running = lh.start_parallel(
    context, ["a"] * 3, max_tokens=400, params=lh.SamplingParams(ignore_eos=True)
)
pid = os.fork()
if pid == 0:
    calls = [
        lambda: lh.tokenize(model, "a"),
        lambda: lh.generate(context, "a", max_tokens=3),
        lambda: lh.generate_parallel(context, ["a", "b"], max_tokens=3),
        lambda: lh.Model(sys.argv[1]),
        lambda: running.wait(),
        lambda: running.results(),
    ]
    for call in calls:
        try:
            call()
        except lh.ForkError as error:
            assert "was forked" in str(error), error
        else:
            os._exit(1)
    sys.exit(0)  # with destructors and exit handlers
_, status = os.waitpid(pid, 0)
assert os.waitstatus_to_exitcode(status) == 0, status
print(len(running.results()), lh.generate(context, "a", max_tokens=3).finish_reason)
"""


@pytest.mark.long(reason="a process or a thread for each case")
def test_a_child_is_refused_and_the_parent_goes_on(tiny_path: TinyPath) -> None:
    assert ended(SCRIPT, tiny_path("llama")).stdout.split()[0] == "3"


# A child that is forked while a chat answers: nothing returns a part of the conversation.
CHATTING = """
import os, signal, sys, threading, warnings
import llamaherd as lh
warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
model = lh.Model(sys.argv[1])
context = lh.Context(model)
chat = lh.chat(context, max_tokens=400, ignore_eos=True)
chat.ask("a", max_tokens=1)
loop, may_end = context.loop, threading.Event()
turn = loop._has_turned
def held():
    if loop._groups:  # the answer does not end before the last fork
        may_end.wait()
    return turn()
loop._has_turned = held
reply = chat.stream("b")
uses = [
    lambda: chat.ask("c"), lambda: chat.stream("c"), lambda: chat.retry(),
    lambda: chat.ask_all(["c"]), lambda: chat.fork(2), lambda: chat.turns,
    lambda: chat.last, lambda: chat.undo(), lambda: chat.forget(1), lambda: str(chat),
    lambda: list(reply), lambda: reply.result(), lambda: repr(chat),
]
for use in uses:
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)  # ends a child that hangs, with another status
        try:
            use()
        except lh.ForkError:
            os._exit(3)
        os._exit(4)
    _, status = os.waitpid(pid, 0)
    print(os.waitstatus_to_exitcode(status), end=" ")
reply.cancel()
may_end.set()
print(len(chat.turns))
"""


def test_a_child_of_a_process_whose_chat_answers_gets_errors(tiny_path: TinyPath) -> None:
    *statuses, n_turns = ended(CHATTING, tiny_path("chat")).stdout.split()
    assert statuses == ["3"] * 12 + ["4"]
    assert n_turns == "4"


# Code to run before the fork comes first.
CHILD = """
import os, sys
import llamaherd as lh
pid = os.fork()
if pid == 0:
    model = lh.Model(sys.argv[1])
    assert lh.generate(lh.Context(model), "a", max_tokens=3).error is None
    os._exit(7)
_, status = os.waitpid(pid, 0)
print(os.waitstatus_to_exitcode(status))
"""
# A thread that waits for work does not exist in the child.
COMPUTED = """
import sys, llama_cpp
llama_cpp.Llama(sys.argv[1], n_ctx=64, n_threads=2, verbose=False).eval([1, 2, 3])
"""


@pytest.mark.more(reason="a process or a thread for each case", cases=1)
@pytest.mark.parametrize("before", ["", COMPUTED], ids=["imported", "computed"])
def test_a_child_may_load_a_model_when_its_parent_has_none(
    tiny_path: TinyPath, before: str
) -> None:
    assert ended(before + CHILD, tiny_path("llama")).stdout.strip() == "7"


# Statistics need no model. R starts each such call as a job with a thread.
WITHOUT = """
import os, signal, sys, warnings
import llamaherd as lh
warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
class Agreement:
    progress = problem = None
    def cancel(self):
        pass
    def run(self):
        return lh.cohen_kappa(["a", "b", "a"], ["a", "b", "b"]).value
model = lh.Model(sys.argv[1])
finished = lh.Job(Agreement())
finished.wait()
pid = os.fork()
if pid == 0:
    signal.alarm(60)  # ends a child that hangs, with another status
    assert lh.Job(Agreement()).results() == finished.results()
    sys.exit(6)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_work_without_a_model_runs_in_a_child(tiny_path: TinyPath) -> None:
    done = ended(WITHOUT, tiny_path("llama"))
    assert (done.stdout.split(), done.stderr) == (["6"], "")


# Programs that fork within a `with` block: its end must not hide the child's own end.
INSIDE = """
import os, signal, sys, warnings
import llamaherd as lh
warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
with lh.Model(sys.argv[1]) as model, lh.Context(model) as context:
    with lh.chat(model) as chat:
        running = lh.start_parallel(context, ["a"] * 3, max_tokens=400, ignore_eos=True)
        pid = os.fork()
        if pid == 0:
            signal.alarm(60)  # ends a child that hangs, with another status
            model.close()
            context.close()
            chat.close()
            sys.exit(5)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        print(len(running.results()))
"""


def test_a_block_ends_in_a_child_without_an_error(tiny_path: TinyPath) -> None:
    done = ended(INSIDE, tiny_path("chat"))
    assert (done.stdout.split(), done.stderr) == (["5", "3"], "")


SPAWNED = """
import multiprocessing, sys
import llamaherd as lh
def answer(path, answers):
    with lh.Model(path) as model, lh.Context(model, n_threads=1) as context:
        answers.put(lh.generate(context, "a", max_tokens=3).tokens)
if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    answers = spawn.SimpleQueue()
    with lh.Model(sys.argv[1]) as model, lh.Context(model, n_threads=1) as context:
        child = spawn.Process(target=answer, args=(sys.argv[1], answers))
        child.start()
        expected = lh.generate(context, "a", max_tokens=3).tokens
        child.join()
        assert child.exitcode == 0
        print(answers.get() == expected)
"""


def test_processes_that_start_anew_load_models_of_their_own(
    tiny_path: TinyPath, tmp_path: Path
) -> None:
    # A separate program, because its child imports it again; a test cannot be imported.
    program = tmp_path / "spawned.py"
    program.write_text(SPAWNED)
    done = run([sys.executable, program, tiny_path("llama")])
    assert done.stdout == "True\n", done.stderr
