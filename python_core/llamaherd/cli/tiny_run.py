"""Run of a few prompts for `llamaherd doctor`, in a process that may crash.

libllama ends the process if it was compiled for another processor.
"""

from __future__ import annotations

import json
import sys
import tempfile
import warnings
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from llamaherd.calls.api.generate import generate_parallel
from llamaherd.calls.run.context import Context
from llamaherd.cli.tiny_model import write_tiny_model
from llamaherd.engine.core.errors import ContextError, CutOffWarning
from llamaherd.engine.model.model import Model

_PROMPTS = [f"Item {i} of the list is" for i in range(8)]
_N_ANSWER = 8
_N_ALONE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyRun:
    """Results of the run.

    Attributes:
        model: Name of the model file; "" for a model with random weights.
        is_same: Whether prompts got the same answers when they ran together and alone.
        prompts_per_s: Prompts per second when they run together.
    """

    model: str
    is_same: bool
    prompts_per_s: float


def tiny_run(paths: list[str]) -> TinyRun:
    """Run the first model that generates text; without such a model, run a tiny model."""
    for path in map(Path, paths):
        with suppress(ContextError):  # a model that only computes embeddings
            return _run(path, path.name)
    with tempfile.TemporaryDirectory(prefix="llamaherd-") as folder:
        return _run(write_tiny_model(Path(folder) / "tiny.gguf"), "")


def _run(path: Path, name: str) -> TinyRun:
    with (
        Model(path) as model,
        Context(model, deterministic=True) as context,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", CutOffWarning)  # short answers are enough
        together = generate_parallel(context, _PROMPTS, max_tokens=_N_ANSWER)
        alone = [
            generate_parallel(context, [prompt], max_tokens=_N_ANSWER).texts[0]
            for prompt in _PROMPTS[:_N_ALONE]
        ]
    failures = [result.error for result in together if result.error is not None]
    if failures:
        raise RuntimeError(failures[0])
    return TinyRun(
        model=name,
        is_same=together.texts[:_N_ALONE] == alone,
        prompts_per_s=len(_PROMPTS) / together.stats.wall_s,
    )


if __name__ == "__main__":
    print(json.dumps(asdict(tiny_run(sys.argv[1:]))))  # noqa: T201 - read by the parent process
