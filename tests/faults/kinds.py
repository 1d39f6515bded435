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


HERDS = [
    Herd(
        kind="llama",
        options=(
            ("deterministic", True),
            ("n_seq_max", 4),
            ("n_batch", 64),
            ("n_ubatch", 32),
        ),
        is_exact=True,
    ),
    Herd(kind="mamba", options=(("n_seq_max", 3), ("n_batch", 40)), is_exact=True),
    Herd(
        kind="mamba",
        options=(("n_seq_max", 6), ("n_ctx", 256), ("kv_layout", "unified")),
        is_exact=True,
    ),
    Herd(
        kind="llama",
        options=(("n_seq_max", 8), ("n_ctx", 256), ("kv_layout", "unified")),
        is_exact=False,
    ),
    Herd(
        kind="jamba",
        options=(("n_seq_max", 4), ("n_ctx", 256), ("kv_layout", "unified")),
        is_exact=False,
    ),
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


def _decode_kinds() -> list[Kind]:
    kinds = []
    for value, meaning in (
        (-1, "invalid batch"),
        (-2, "no memory"),
        (-3, "failure"),
        (2, "aborted"),
    ):
        kinds += [
            Kind(
                name=f"llama_decode returns {value} ({meaning})",
                function="llama_decode",
                value=value,
                fails=1,
                passes=True,
            ),
            Kind(
                name=f"llama_decode returns {value} for one prompt's batches",
                function="llama_decode",
                value=value,
                of_one=True,
            ),
        ]
    kinds += [
        Kind(
            name="llama_decode returns 1 (no KV cells)",
            function="llama_decode",
            value=1,
            fails=1,
        ),
        Kind(
            name="llama_decode computes, then returns -3",
            function="llama_decode",
            action=Action.AFTER,
            value=-3,
            fails=1,
            passes=True,
        ),
        Kind(
            name="llama_decode computes, then returns 1",
            function="llama_decode",
            action=Action.AFTER,
            value=1,
            fails=1,
        ),
    ]
    throws = {
        Action.THROW: "a std::exception",
        Action.THROW_OTHER: "an int",
        Action.THROW_MEMORY: "std::bad_alloc",
    }
    for action, what in throws.items():
        kinds.append(
            Kind(
                name=f"llama_decode throws {what}",
                function="llama_decode",
                action=action,
                fails=1,
                passes=True,
            )
        )
    kinds.append(
        Kind(
            name="llama_decode throws for one prompt's batches",
            function="llama_decode",
            action=Action.THROW,
            of_one=True,
        )
    )
    return kinds


def _logits_kinds() -> list[Kind]:
    what = {
        Action.NAN: "NaN logits",
        Action.INFINITY: "infinite logits",
        Action.RETURN: "no logits",
        Action.THROW_OTHER: "an int thrown instead of logits",
    }
    return [
        Kind(
            name=name + (" of one prompt" if of_one else ""),
            function="llama_get_logits_ith",
            action=action,
            of_one=of_one,
            fails=None if of_one else 1,
        )
        for action, name in what.items()
        for of_one in (False, True)
    ]


def _other_kinds() -> list[Kind]:
    null, throw, memory = Action.RETURN, Action.THROW, Action.THROW_MEMORY
    pools = {"herds": tuple(POOLS), "is_crowded": True}
    rows: list[tuple[str, str, Action, dict[str, Any]]] = [
        ("a sampler cannot be created (NULL)", "llama_sampler_init", null,
         {"fails": 1, "scores": False}),
        ("creating a sampler throws", "llama_sampler_init", throw,
         {"fails": 1, "scores": False}),
        ("a sampler throws while it samples", "llama_sampler_apply", throw,
         {"fails": 1, "scores": False}),
        ("llama_tokenize throws", "llama_tokenize", throw, {"fails": 1}),
        ("llama_tokenize fails", "llama_tokenize", null, {"fails": 1, "value": -(2**31)}),
        ("llama_tokenize repeatedly requests a larger buffer", "llama_tokenize", null,
         {"fails": 1, "value": -9999}),
        ("llama_memory_seq_rm does nothing", "llama_memory_seq_rm", null,
         {"leaves_cells": True}),
        ("llama_memory_seq_cp copies nothing", "llama_memory_seq_cp", null, {}),
        ("llama_memory_seq_cp throws", "llama_memory_seq_cp", throw, {"fails": 1}),
        ("saving a paused prompt's cells saves nothing", "llama_state_seq_get_data", null,
         {"fails": 0, **pools}),
        ("saving a paused prompt's cells throws", "llama_state_seq_get_data", memory,
         {"fails": 0, **pools}),
        ("a paused prompt's cells cannot be restored", "llama_state_seq_set_data",
         null, {"fails": 1, **pools}),
        ("restoring a paused prompt's cells throws", "llama_state_seq_set_data",
         memory, {"fails": 1, **pools}),
        ("an allocation of the shim fails", "new", memory, {}),
        ("an allocation in llama_decode fails", "new in llama_decode", memory, {}),
        ("llama_init_from_model fails", "llama_init_from_model", null,
         {"raises": (lh.ContextError,)}),
        ("llama_init_from_model throws", "llama_init_from_model", memory,
         {"raises": (lh.LlamaHerdError,)}),
    ]  # fmt: skip
    return [
        Kind(name=name, function=function, action=action, **more)
        for name, function, action, more in rows
    ]


KINDS = [Kind(name="none", fails=0), *_decode_kinds(), *_logits_kinds(), *_other_kinds()]
