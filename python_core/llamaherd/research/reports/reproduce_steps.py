"""Returns the settings and models of the later steps of a report's coding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llamaherd.core.errors import ArgumentError
from llamaherd.memory import hardware
from llamaherd.model.model import Model
from llamaherd.research.reports.model_files import find_later
from llamaherd.run.context import Context

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import ExitStack
    from pathlib import Path


def later_steps(
    steps: Mapping[str, Any] | None, folders: Sequence[Path], own: ExitStack
) -> dict[str, Any]:
    """Return the arguments of `annotate` for the steps of a report.

    Args:
        steps: Record of the steps; None for a coding in one step.
        folders: Folders to search for model files.
        own: Exit stack that closes the models.

    Raises:
        ValueError: A model's hash is not recorded, or differs from the hash of its file.
        FileNotFoundError: A model's file does not exist.
    """
    if steps is None:
        return {}
    found = {"until": steps["until"], "unsure": steps["unsure"], "seed": steps["seed"]}
    if "embeddings" in steps:
        file = _file("model for embeddings", steps["embeddings"], folders)
        found["embeddings"] = own.enter_context(Model(file))
    else:
        found["until"] = None  # there was no head
    if "larger" in steps:
        recorded = steps["larger"]
        file = _file("larger model", recorded, folders)
        model = own.enter_context(Model(file))
        options = dict(steps["larger_context"])
        for name in ("n_threads", "n_threads_batch"):
            if isinstance(options.get(name), int):
                options[name] = min(options[name], hardware.n_cores())
        found["larger"] = own.enter_context(Context(model, **options))
    if found["until"] is None and "larger" not in found:
        return {"seed": steps["seed"]}  # the model labelled all texts
    return found


def _file(what: str, recorded: Mapping[str, Any], folders: Sequence[Path]) -> Path:
    if recorded.get("sha256") is None or recorded.get("loras"):
        raise ArgumentError(
            f"cannot be repeated: the report's {what} has adapters, or came from a Llama "
            "that differed from its file",
            argument="path",
            code="no_hash",
            form="{name}: the coding {problem}",
        )
    return find_later(what, recorded, folders)
