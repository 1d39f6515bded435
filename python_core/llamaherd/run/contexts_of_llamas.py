"""A `llama_cpp.Llama` in place of a context: it gets one of its own."""

from __future__ import annotations

import sys
from threading import RLock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from llamaherd.model.model import Model
from llamaherd.model.of_llama import told_of
from llamaherd.run.context import Context
from llamaherd.run.host import Host

if TYPE_CHECKING:
    from llama_cpp import Llama

_contexts_of_llamas: WeakKeyDictionary[Llama, Context] = WeakKeyDictionary()
_contexts_lock = RLock()


def as_context(value: object) -> Host:
    """A context, a herd, or the context that belongs to a `llama_cpp.Llama`.

    Raises:
        TypeError: `value` is neither.
    """
    if isinstance(value, Host):
        return value
    llama_cpp = sys.modules.get("llama_cpp")
    if llama_cpp is None or not isinstance(value, llama_cpp.Llama):
        raise TypeError(
            "ctx must be a llamaherd.Context or a llama_cpp.Llama, not "
            f"{type(value).__name__}: llamaherd.Context(model) makes one of a model"
        )
    with _contexts_lock:
        context = _contexts_of_llamas.get(value)
        if context is None or context.closed or context.model.told != told_of(value):
            # Borrowed: one that kept its Llama alive would never leave the dictionary.
            model = Model.borrow(value)
            offload = dict(model.told.context).get("offload_kqv", True)
            context = Context(model, offload_kqv=offload)
            _contexts_of_llamas[value] = context
        return context
