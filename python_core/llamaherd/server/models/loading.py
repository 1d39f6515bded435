"""Loads a model file with its adapters, and closes it."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from llamaherd.core.errors import LlamaHerdError
from llamaherd.memory.buffers import buffers_of_encoder
from llamaherd.model.model import Model
from llamaherd.run.context import Context
from llamaherd.run.embedders import reads_at_once
from llamaherd.server.models.spec import file_state
from llamaherd.server.served_model import LoadedModel, ServedModel

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from llamaherd.native.models import LoadInterrupt
    from llamaherd.server.file_contents import FileContents
    from llamaherd.server.models.spec import ModelSpec
    from llamaherd.server.settings import ServerSettings
    from llamaherd.server.shared_state import SharedState


def load_files(
    spec: ModelSpec,
    n_cache: int,
    interrupt: LoadInterrupt,
    *,
    shared: SharedState,
    settings: ServerSettings,
    options: Mapping[str, Any],
    loading: Mapping[str, Any],
    contents: FileContents,
) -> ModelFiles:
    """Load a model with its adapters, on any thread.

    An adapter that cannot be loaded does not affect the others.

    Args:
        spec: Files and names.
        n_cache: Memory for all KV caches and buffers in bytes; ignored if `n_ctx` is
            fixed.
        interrupt: Flag that stops loading when another thread sets it.
        shared: State shared by all requests.
        settings: Settings of the server.
        options: Arguments of `Context` other than the model.
        loading: Arguments of `Model` for GPUs.
        contents: Files that the server has loaded.

    Raises:
        ModelLoadError: The model cannot be loaded, or was replaced since it was loaded.
        LlamaHerdError: The settings do not suit the model.
    """
    problems: dict[str, _LoadProblem] = {}
    contents.check(spec.path)
    with ExitStack() as stack:
        base = stack.enter_context(Model(spec.path, interrupt=interrupt, **loading))
        contents.keep(spec.path, base.file)
        models = {spec.name: base}
        for each in spec.adapters:  # before the first context
            state = file_state(each.path)
            try:
                contents.check(each.path)
                models[each.name] = stack.enter_context(base.adapted(each.path))
                contents.keep(each.path, models[each.name].loras[-1].file)
            except LlamaHerdError as error:
                problems[each.name] = _LoadProblem(str(error), each.path, state)
        served = {}
        n_needed = 0
        for name, model in models.items():
            ctx = context_of(model, options)
            if ctx is not None:
                stack.enter_context(ctx)
                n_needed += ctx.limit_memory(n_cache // len(models))
            else:
                n_needed += buffers_of_encoder(model.metadata, model.info)
            own = replace(settings, model_name=name, aliases=())
            served[name] = ServedModel(shared, LoadedModel(model, ctx), own)
        stack.pop_all()
    return ModelFiles(served, problems, n_needed)


def context_of(model: Model, options: Mapping[str, Any]) -> Context | None:
    """Return a context for a model; None for a model that only computes embeddings.

    Raises:
        ContextError: The model neither generates text nor computes embeddings.
    """
    is_both = model.info.has_encoder and model.info.has_decoder  # no answers here
    only_embeds = reads_at_once(model) and not is_both
    return None if only_embeds else Context(model, **options)


class _LoadProblem:
    """Reason why an adapter could not be loaded.

    Args:
        reason: Message.
        path: Path of the adapter.
        state: `file_state` of the file before it was read.
    """

    def __init__(self, reason: str, path: Path, state: object) -> None:
        self.reason = reason
        self.path = path
        self.state = state


class ModelFiles:
    """A model and its adapters in memory.

    Args:
        served: The model and the loaded adapters by name, the model first.
        problems: Adapters that could not be loaded, by name.
        n_cache: Memory of all KV caches and buffers in bytes.
    """

    def __init__(
        self,
        served: dict[str, ServedModel],
        problems: Mapping[str, _LoadProblem],
        n_cache: int,
    ) -> None:
        self.served = served
        self.n_cache = n_cache
        self._problems = problems

    @property
    def problems(self) -> dict[str, str]:
        """Reasons why adapters could not be loaded, by name of the adapter."""
        return {name: each.reason for name, each in self._problems.items()}

    def has_changed(self, name: str) -> bool:
        """Whether the file of an adapter that could not be loaded has changed."""
        problem = self._problems[name]
        return file_state(problem.path) != problem.state

    def close(self) -> None:
        """End all requests and free the memory."""
        for each in reversed(self.served.values()):  # close the adapters before the model
            each.close()
