"""Conversion of thoughts to `lh_thinking`, and of the native output of thoughts."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from llamaherd.engine.native.shim import ffi, lib, sized

if TYPE_CHECKING:
    from llamaherd.engine.core.request import ThoughtStage
    from llamaherd.engine.native._shim import CData


class ThoughtFields(TypedDict, total=False):
    """Fields of an `Output` that describe its thought."""

    thinking: str | None
    n_thinking_tokens: int
    thinking_complete: bool | None


def native_thinking(thought: ThoughtStage, sampling: CData) -> tuple[CData, list[CData]]:
    """Return an `lh_thinking`, and the memory to which it points.

    Args:
        sampling: An `lh_sampling_params *`. The settings are not changed, because other
            requests may use the same settings with another seed.
    """
    native = sized("lh_thinking")
    settings = ffi.new("lh_sampling_params *", sampling[0])
    settings.seed = thought.seed
    native.sampling = settings
    native.budget = thought.budget
    native.is_open = thought.is_open
    kept = [native, settings]
    for name in ("start", "end", "after", "closing"):
        tokens = getattr(thought, name)
        values = ffi.new("int32_t[]", list(tokens))
        setattr(native, name, values)
        setattr(native, f"n_{name}", len(tokens))
        kept.append(values)
    return native, kept


def thought_fields(info: CData) -> ThoughtFields:
    """Return the fields of an `lh_client_info` that describe its thought."""
    if info.thinking == ffi.NULL:
        return {}
    closed = info.thinking_closed
    text = ffi.buffer(info.thinking, info.n_thinking)[:]
    return {
        "thinking": text.decode(errors="replace"),
        "n_thinking_tokens": info.n_thinking_tokens,
        "thinking_complete": (
            None if closed == lib.LH_THINKING_OPEN else closed == lib.LH_THINKING_BY_MODEL
        ),
    }
