"""The work of Python code, counted without a clock."""

from __future__ import annotations

import gc
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType


def n_instructions(work: Callable[[], object]) -> int:
    """Return the number of bytecode instructions that a function runs on this thread.

    Loops inside C functions, such as a copy of a list, are one instruction. Functions
    that the garbage collector would call for objects of other tests are not counted.
    """
    n = 0

    def trace(frame: FrameType, event: str, _arg: object) -> Any:
        nonlocal n
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        n += event == "opcode"
        return trace

    before = sys.gettrace()
    # Python 3.12 counts nothing in the first function.
    for function in (lambda: None, work):
        n = 0
        gc.collect()
        gc.disable()
        sys.settrace(trace)
        try:
            function()
        finally:
            sys.settrace(before)
            gc.enable()
    return n
