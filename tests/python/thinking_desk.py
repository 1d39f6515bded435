"""A model that thinks, in all its contexts, for the doors of the table."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import llamaherd as lh
import thinking_behaviours as data
from served import Client, served
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
    """The model in all its contexts, each made when it is first asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = data.write_model(folder / "model.gguf")
        self._open = ExitStack()
        self._contexts: dict[str, lh.Context] = {}
        self._clients: dict[str, Client] = {}
        self._n_files = 0

    @cached_property
    def model(self) -> lh.Model:
        return self._open.enter_context(lh.Model(self.path))

    def context(self, name: str) -> lh.Context:
        if name not in self._contexts:
            made = lh.Context(self.model, n_threads=1, **CONTEXTS[name])
            self._contexts[name] = self._open.enter_context(made)
        return self._contexts[name]

    def client(self, name: str) -> Client:
        """A server on the context."""
        if name not in self._clients:
            made = served(self.context(name))
            self._clients[name] = self._open.enter_context(made)
        return self._clients[name]

    @cached_property
    def herd(self) -> Any:
        made = lh.ray.Herd(self.path, n_actors=1, num_cpus=1, deterministic=True)
        return self._open.enter_context(made)

    def file(self, name: str) -> Path:
        """A new path."""
        self._n_files += 1
        return self.folder / f"{self._n_files}-{name}"

    def close(self) -> None:
        self._open.close()


Ability: TypeAlias = Callable[[Desk, Behaviour], list[Told]]


def has(door: str, behaviour: Behaviour) -> bool:
    """Whether a door has a behaviour; if not, it has a reason."""
    return door not in behaviour.lacks


# Another prompt, which is asked once a thought was cancelled.
AFTER_CANCELLED = Behaviour(name="after", texts=("A #!",), told=(), thinking=None)


def arguments(behaviour: Behaviour) -> dict[str, Any]:
    return {"chat": True, "thinking": behaviour.thinking, **behaviour.options}


def sure(probability: float) -> bool:
    """Whether the answer is at its place: inside a thought it has some 1e-5."""
    return probability > 0.9
