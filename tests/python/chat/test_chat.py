"""Chat templates in a process that has not imported jinja2."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

TWO_THREADS = """
import sys
import threading
import llamaherd as lh

model = lh.Model(sys.argv[1])
assert "llama_cpp" not in sys.modules
both = threading.Barrier(2)

def render(role):
    both.wait()
    text = lh.apply_chat_template(model, [{"role": "user", "content": role}])
    assert role in text

threads = [threading.Thread(target=render, args=(f"word {i}",)) for i in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert "llama_cpp" not in sys.modules
with lh.Context(model, n_ctx=256) as context:
    lh.generate(context, "Hello", max_tokens=1)
"""


@pytest.mark.model
def test_the_first_chats_of_two_threads_leave_the_log_silent(smollm2_path: Path) -> None:
    ignored = "ignore:the answer ended at max_tokens"
    done = subprocess.run(
        [sys.executable, "-W", ignored, "-c", TWO_THREADS, str(smollm2_path)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
