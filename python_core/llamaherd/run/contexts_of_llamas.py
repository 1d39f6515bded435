"""Contexts for the models of `llama_cpp.Llama` objects."""

from __future__ import annotations

import sys
from threading import RLock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from llamaherd.core.errors import ArgumentTypeError
from llamaherd.model.model import Model
from llamaherd.model.of_llama import told_of
from llamaherd.run.context import Context
from llamaherd.run.host import Host

if TYPE_CHECKING:
    from llama_cpp import Llama

_contexts_of_llamas: WeakKeyDictionary[Llama, Context] = WeakKeyDictionary()
_contexts_lock = RLock()


def as_context(value: object) -> Host:
    """Return a host unchanged, or the context of a `llama_cpp.Llama`.

    Raises:
        TypeError: `value` is neither a context, a cluster nor a Llama.
    """
    if isinstance(value, Host):
        return value
    llama_cpp = sys.modules.get("llama_cpp")
    if llama_cpp is None or not isinstance(value, llama_cpp.Llama):
        raise ArgumentTypeError(
            "must be a llamaherd.Context or a llama_cpp.Llama, not "
            f"{type(value).__name__}: llamaherd.Context(model) creates a context",
            argument="ctx",
        )
    with _contexts_lock:
        context = _contexts_of_llamas.get(value)
        if context is None or context.closed or context.model.told != told_of(value):
            # The model is borrowed: if it kept its Llama alive, it would remain in the
            # dictionary.
            model = Model.borrow(value)
            offload = dict(model.told.context).get("offload_kqv", True)
            context = Context(model, offload_kqv=offload)
            _contexts_of_llamas[value] = context
        return context
