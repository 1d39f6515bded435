"""Kinds of faults, and the contexts on which they are tested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import llamaherd as lh
from faults import Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Herd:
    """Context for many cases; with `is_exact` texts do not depend on other prompts."""

    kind: str
    options: tuple[tuple[str, Any], ...]
    is_exact: bool


_POOL: dict[str, Any] = {"n_ctx": 256, "kv_layout": "unified"}


def _herd(kind: str, *, is_exact: bool = True, **options: object) -> Herd:
    return Herd(kind=kind, options=tuple(options.items()), is_exact=is_exact)


HERDS = [
    _herd("llama", deterministic=True, n_seq_max=4, n_batch=64, n_ubatch=32),
    _herd("mamba", n_seq_max=3, n_batch=40),
    _herd("mamba", n_seq_max=6, **_POOL),
    _herd("llama", n_seq_max=8, **_POOL, is_exact=False),
    _herd("jamba", n_seq_max=4, **_POOL, is_exact=False),
]
POOLS = HERDS[2:]  # contexts with too few cells for all prompts


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of fault.

    Attributes:
        of_one: The fault always occurs for prompts with the poison token, and only for
            them.
        fails: Maximum number of prompts that fail, per occurrence; None is no maximum.
        passes: After a single occurrence no prompt fails, because the work is repeated.
        raises: Exceptions that the call may raise instead of returning results.
        herds: Contexts on which the fault can occur.
        is_crowded: The fault requires prompts that compete for cells.
        leaves_cells: Cells stay in use until their sequence is used again or all are
            reset.
        scores: The fault can occur in calls that score labels.
    """

    name: str
    function: str = ""
    action: Action = Action.RETURN
    value: int = 0
    of_one: bool = False
    fails: int | None = None
    passes: bool = False
    raises: tuple[type[Exception], ...] = ()
    herds: tuple[Herd, ...] = tuple(HERDS)
    is_crowded: bool = False
    leaves_cells: bool = False
    scores: bool = True


_Row = tuple[str, str, Action, dict[str, Any]]
_NULL, _THROW, _OTHER, _MEMORY, _AFTER = (
    *(Action.RETURN, Action.THROW, Action.THROW_OTHER, Action.THROW_MEMORY),
    Action.AFTER,
)
_PASSES = {"fails": 1, "passes": True}
_OF_ONE = {"of_one": True}
_SAMPLER = {"fails": 1, "scores": False}
_CROWDED = {"herds": tuple(POOLS), "is_crowded": True}
_VALUES = {-1: "invalid batch", -2: "no memory", -3: "failure", 2: "aborted"}
_ROWS: list[_Row] = [
    *((f"llama_decode returns {value} ({meaning})", "llama_decode", _NULL,
       {"value": value, **_PASSES}) for value, meaning in _VALUES.items()),
    *((f"llama_decode returns {value} for one prompt's batches", "llama_decode", _NULL,
       {"value": value, **_OF_ONE}) for value in _VALUES),
    ("llama_decode returns 1 (no KV cells)", "llama_decode", _NULL,
     {"value": 1, "fails": 1}),
    ("llama_decode computes, then returns -3", "llama_decode", _AFTER,
     {"value": -3, **_PASSES}),
    ("llama_decode computes, then returns 1", "llama_decode", _AFTER,
     {"value": 1, "fails": 1}),
    ("llama_decode throws a std::exception", "llama_decode", _THROW, _PASSES),
    ("llama_decode throws an int", "llama_decode", _OTHER, _PASSES),
    ("llama_decode throws std::bad_alloc", "llama_decode", _MEMORY, _PASSES),
    ("llama_decode throws for one prompt's batches", "llama_decode", _THROW, _OF_ONE),
    *((f"{what}{of}", "llama_get_logits_ith", action, more)
      for action, what in (
          (Action.NAN, "NaN logits"),
          (Action.INFINITY, "infinite logits"),
          (_NULL, "no logits"),
          (_OTHER, "an int thrown instead of logits"),
      )
      for of, more in (("", {"fails": 1}), (" of one prompt", _OF_ONE))),
    ("a sampler cannot be created (NULL)", "llama_sampler_init", _NULL, _SAMPLER),
    ("creating a sampler throws", "llama_sampler_init", _THROW, _SAMPLER),
    ("a sampler throws while it samples", "llama_sampler_apply", _THROW, _SAMPLER),
    ("llama_tokenize throws", "llama_tokenize", _THROW, {"fails": 1}),
    ("llama_tokenize fails", "llama_tokenize", _NULL, {"fails": 1, "value": -(2**31)}),
    ("llama_tokenize repeatedly requests a larger buffer", "llama_tokenize", _NULL,
     {"fails": 1, "value": -9999}),
    ("llama_memory_seq_rm does nothing", "llama_memory_seq_rm", _NULL,
     {"leaves_cells": True}),
    ("llama_memory_seq_cp copies nothing", "llama_memory_seq_cp", _NULL, {}),
    ("llama_memory_seq_cp throws", "llama_memory_seq_cp", _THROW, {"fails": 1}),
    ("saving a paused prompt's cells saves nothing", "llama_state_seq_get_data", _NULL,
     {"fails": 0, **_CROWDED}),
    ("saving a paused prompt's cells throws", "llama_state_seq_get_data", _MEMORY,
     {"fails": 0, **_CROWDED}),
    ("a paused prompt's cells cannot be restored", "llama_state_seq_set_data", _NULL,
     {"fails": 1, **_CROWDED}),
    ("restoring a paused prompt's cells throws", "llama_state_seq_set_data", _MEMORY,
     {"fails": 1, **_CROWDED}),
    ("an allocation of the shim fails", "new", _MEMORY, {}),
    ("an allocation in llama_decode fails", "new in llama_decode", _MEMORY, {}),
    ("llama_init_from_model fails", "llama_init_from_model", _NULL,
     {"raises": (lh.ContextError,)}),
    ("llama_init_from_model throws", "llama_init_from_model", _MEMORY,
     {"raises": (lh.LlamaHerdError,)}),
]  # fmt: skip

KINDS = [
    Kind(name="none", fails=0),
    *(Kind(name=n, function=f, action=a, **more) for n, f, a, more in _ROWS),
]
