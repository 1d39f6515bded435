"""A model that thinks, with all its contexts, for the interfaces (doors) of the table."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import llamaherd as lh
import thinking_behaviours as data
from thinking_behaviours import CONTEXTS, Behaviour, Told

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = {
    "type": "object",
    "properties": {"kind": {"enum": ["yes", "no"]}},
    "required": ["kind"],
    "additionalProperties": False,
}
N_SAMPLES = 3
LABELS = ["yes", "no"]


TEXT: dict[str, Any] = {"max_tokens": 8}


class Desk:
    """The model with all its contexts, each created at its first use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = data.write_model(folder / "model.gguf")
        self._open = ExitStack()
        self._contexts: dict[str, lh.Context] = {}
        self._n_files = 0

    @cached_property
    def model(self) -> lh.Model:
        return self._open.enter_context(lh.Model(self.path))

    def context(self, name: str) -> lh.Context:
        if name not in self._contexts:
            made = lh.Context(self.model, n_threads=1, **CONTEXTS[name])
            self._contexts[name] = self._open.enter_context(made)
        return self._contexts[name]

    @cached_property
    def cluster(self) -> Any:
        context = {"deterministic": True}
        config = lh.ray.Config(self.path, concurrency=1, num_cpus=0.5, context=context)
        return self._open.enter_context(lh.ray.Cluster(config))

    def file(self, name: str) -> Path:
        """A new path."""
        self._n_files += 1
        return self.folder / f"{self._n_files}-{name}"

    def close(self) -> None:
        self._open.close()


Ability: TypeAlias = Callable[[Desk, Behaviour], list[Told]]


def has(door: str, behaviour: Behaviour) -> bool:
    """Return whether a door has a behaviour; if not, check that a reason is given."""
    return door not in behaviour.lacks


# Another prompt, which runs after a thought was cancelled.
AFTER_CANCELLED = Behaviour(name="after", texts=("A #!",), told=(), thinking=None)


def arguments(behaviour: Behaviour) -> dict[str, Any]:
    return {"chat": True, "thinking": behaviour.thinking, **behaviour.options}


def sure(probability: float) -> bool:
    """Return whether the answer follows the thought (inside one: about 1e-5)."""
    return probability > 0.9
