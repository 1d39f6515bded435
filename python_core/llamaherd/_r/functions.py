"""Functions that R calls: those of these files, and the public ones of llamaherd.

A public function needs no counterpart here, if R's arguments are those of Python after
`arguments.read_argument`, and its result has a form (`boundary.form_of`) or is in
`_TABLES`.
"""

from __future__ import annotations

import functools
from importlib import import_module
from inspect import isfunction
from operator import attrgetter, methodcaller
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd import remote
from llamaherd._r.arguments import codebook, integer64_texts, read_argument, unreadable
from llamaherd._r.boundary import Status, boundary
from llamaherd._r.forms import table_of
from llamaherd.calls.api.classify import check_contextual
from llamaherd.calls.chat.chat import swap_date
from llamaherd.coding.annotation.codebook_file import ready_dicts
from llamaherd.coding.annotation.columns import names_of_columns
from llamaherd.coding.estimation.estimate import estimate_of_matrices
from llamaherd.coding.estimation.estimates import limits_at
from llamaherd.coding.validation.reliability import compare_models
from llamaherd.engine.core.caller import cut_note
from llamaherd.engine.native import shim
from llamaherd.ray import connect
from llamaherd.remote.engine import connect_with_key

if TYPE_CHECKING:
    from collections.abc import Callable


_FILES = (
    "calls",
    "coding",
    "composites",
    "estimation",
    "files",
    "hosts",
    "plots",
    "results",
    "validation",
)
# Functions without a public name, and methods.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "backend_free": shim.backend_free,
    "backend_init": shim.backend_init,
    "chat_cancel": methodcaller("cancel"),
    "chat_date_leave": swap_date,
    "check_contextual": check_contextual,
    "close": methodcaller("close"),
    "clusters_end": connect.end,
    "codebook_make": codebook,
    "column_names": names_of_columns,
    "compare_models": compare_models,
    "cut_note": cut_note,
    "engine_connect": connect_with_key,
    "estimate_limits": limits_at,
    "estimate_regression": estimate_of_matrices,
    "integer64_texts": integer64_texts,
    "is_closed": attrgetter("closed"),
    "list_ready_codebooks": ready_dicts,
    "remote_server": remote.server_named,
    "supports_gpu": shim.supports_gpu,
    "unreadable": unreadable,
    "write_gold": lh.GoldSample.write,
}
# Columns of public functions that return a list of objects.
_TABLES = {
    "journal_read": "prompt text finish_reason complete error n_prompt_tokens "
    "n_generated_tokens seed thinking n_thinking_tokens thinking_complete model "
    "model_sha256 settings created version",
    "list_cached_models": "name path size_bytes modified source",
    "list_ollama_models": "name path size_bytes sha256 modified",
    "list_ready_codebooks": "name about type n_labels needs_target sources measured",
    "recommended_models": "source memory_gb size_bytes fits measured published",
}
_CLASSES = {"journal_read": "journal"}


def function_of(name: str) -> Callable[..., Any]:
    """Return a function by the name that R knows: one of these files, or a public one."""
    function = _bridge_functions().get(name) or FUNCTIONS.get(name) or getattr(lh, name)
    if name not in _TABLES:
        return function

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return table_of(function(*args, **kwargs), _TABLES[name], _CLASSES.get(name, ""))

    return call


@functools.cache
def _bridge_functions() -> dict[str, Callable[..., Any]]:
    modules = [import_module(f"llamaherd._r.{file}") for file in _FILES]
    return {
        name: value
        for module in modules
        for name, value in vars(module).items()
        if isfunction(value) and value.__module__ == module.__name__ and name[0] != "_"
    }


def door(name: str) -> Callable[..., Status]:
    """Return a function for R, which is looked up when it is called."""
    function_of(name)  # raises the error of an unknown name

    def call(*args: Any, **kwargs: Any) -> Any:
        return function_of(name)(*map(read_argument, args), **read_argument(kwargs))

    return boundary(call)
