"""Model of a `llama_cpp.Llama`: its file, and whether the Llama is freeing it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from llamaherd.model.file import ModelFile

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack
    from weakref import ref

    from llama_cpp import Llama


def file_of_llama(llama: Llama) -> ModelFile | None:
    """Return the file of a Llama; None if its model differs from the file."""
    path = Path(llama.model_path)
    return None if llama.kv_overrides or not path.is_file() else ModelFile(path)


def is_being_freed(stack: ExitStack) -> bool:
    """Return whether the model of a Llama is freed, or is being freed.

    The first entry of the exit stack is the function that frees the model. The stack
    removes this entry before it calls the function; the next entry is a callback of
    llamaherd.
    """
    first = next(iter(stack._exit_callbacks), None)  # type: ignore[attr-defined]  # noqa: SLF001
    return first is None or getattr(first[1], "__wrapped__", None) is call_if_alive


def has_lost_its_adapter(llama: Llama) -> bool:
    """Return whether the adapter of a Llama is freed, see `is_being_freed`."""
    callbacks = list(llama._stack._exit_callbacks)  # type: ignore[attr-defined]  # noqa: SLF001
    names = (
        getattr(getattr(callback, "__wrapped__", None), "__name__", "")
        for _, callback in callbacks
    )
    return llama.lora_path is not None and "free_lora_adapter" not in names


def call_if_alive(method: ref[Callable[[], None]]) -> None:
    """Call a method, unless its object was garbage-collected."""
    function = method()
    if function is not None:
        function()
