"""A model file in memory."""

from __future__ import annotations

import inspect
import os
import warnings
from collections import Counter
from contextlib import contextmanager
from functools import cached_property
from threading import Condition, RLock, get_ident
from typing import TYPE_CHECKING, Any, Literal, Protocol
from weakref import WeakKeyDictionary, WeakSet

from llamaherd.engine.core.declaration import suggests_names
from llamaherd.engine.core.errors import ArgumentTypeError, ContextError, ModelClosedError
from llamaherd.engine.core.process import ClosedByWith
from llamaherd.engine.core.request import check_wanted
from llamaherd.engine.core.words import name_of, words
from llamaherd.engine.hub.fetch import model_path
from llamaherd.engine.memory.device import Placement, memory_of_model
from llamaherd.engine.model.file import Lora, LoraOption, ModelFile, checked_loras
from llamaherd.engine.model.loading import (
    SPLIT_MODES,
    LoadSettings,
    chat_of,
    check_llama,
    checked_loading,
    context_arguments,
    model_arguments,
    share_log,
)
from llamaherd.engine.native import models, shim

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path
    from types import TracebackType

    from llama_cpp import Llama

    from llamaherd.engine.native.models import LoadInterrupt, ModelInfo
    from llamaherd.engine.native.shim import Handle


_SLICE_S = 0.05  # an unlimited wait would ignore Ctrl-C on some platforms


class InUse:
    """Counter of the threads inside an object: `with in_use: ...`.

    A user enters before it checks that the object is open; close() marks, then waits.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._threads: Counter[int] = Counter()

    def wait_for_others(self) -> None:
        """Wait until no thread, except perhaps the calling one, is inside the object."""
        with self._changed:
            while self._threads.keys() - {get_ident()}:
                self._changed.wait(_SLICE_S)

    def __enter__(self) -> None:
        with self._changed:
            self._threads[get_ident()] += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._changed:
            me = get_ident()
            self._threads[me] -= 1
            if self._threads[me] == 0:
                del self._threads[me]
                self._changed.notify_all()


class Closable(Protocol):
    """Protocol of a context, which is closed together with its model."""

    @property
    def closed(self) -> bool:
        """Whether the context was closed."""

    def close(self) -> None:
        """Free the memory of the context."""


@suggests_names
class Model(ClosedByWith):
    """A GGUF model, loaded once and shared by its contexts.

    A model is a context manager. Closing it also closes its contexts.

    Args:
        path: Path of a GGUF file, or another source that `download_model` accepts:
            "hf:owner/repo", "https://...", "ollama:name" or the name of a cached file.
        lora: LoRA adapters of all contexts: the path of a GGUF file, a pair (path,
            scale), or a list of these.
        n_gpu_layers: Number of layers to keep in GPU memory; negative for all, "auto"
            for all if there is a usable GPU.
        split_mode: Use of several GPUs: "layer" divides the layers among them, "row"
            also splits matrices, "none" uses only `main_gpu`.
        main_gpu: Index of the GPU for "none", in the order in which `llamaherd doctor`
            lists GPUs.
        tensor_split: Share of the model for each GPU, in any unit; None for shares by
            free memory.
        use_mmap: Map the file into memory instead of reading it.
        use_mlock: Lock the model in memory to prevent swapping.
        check_tensors: Validate the data of all tensors while loading.
        check_memory: Refuse a model that, with its adapters, is larger than the
            available memory. The available memory is GPU memory if all layers are in GPU
            memory, and the sum of GPU and host memory if only some layers are.
        interrupt: Flag that stops loading when another thread sets it; the constructor
            then raises ModelLoadError.

    Attributes:
        path: Absolute path of the file.
        file: Identity of the file.
        loras: LoRA adapters of all contexts.
        context_defaults: Arguments of contexts that are None or "auto": those of the
            Llama from which the model was made.
        template: Chat template of that Llama; None uses the model's template.
        foreign_format: Chat format of that Llama that llamaherd cannot render.
        n_gpu_layers: Number of layers in GPU memory; negative for all; 0 if libllama
            cannot use a GPU.
        placement: Checked arguments for GPUs, including `n_gpu_layers`.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The scale of an adapter is not finite.
        ModelLoadError: A file is missing, is not a GGUF file, is cut off or damaged, does
            not fit into memory, or cannot be loaded for another reason; or an adapter
            belongs to another model.
        DownloadError: The download failed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        lora: LoraOption | Sequence[LoraOption] | None = None,
        n_gpu_layers: int | Literal["auto"] = 0,
        split_mode: Literal["layer", "row", "none"] = "layer",
        main_gpu: int = 0,
        tensor_split: Sequence[float] | None = None,
        use_mmap: bool = True,
        use_mlock: bool = False,
        check_tensors: bool = False,
        check_memory: bool = True,
        interrupt: LoadInterrupt | None = None,
    ) -> None:
        checked = checked_loading(
            {
                "n_gpu_layers": n_gpu_layers,
                "split_mode": split_mode,
                "main_gpu": main_gpu,
                "tensor_split": tensor_split,
                "use_mmap": use_mmap,
                "use_mlock": use_mlock,
                "check_tensors": check_tensors,
                "check_memory": check_memory,
            }
        )
        placement = checked.placement
        n_layers = placement.n_gpu_layers
        file = model_path(path, check_memory=checked.fits_file_to_memory).absolute()
        content = ModelFile(file)  # before loading
        loras = checked_loras(lora)
        if n_layers != 0 and not shim.supports_gpu():
            warnings.warn(
                f"{name_of('n_gpu_layers')} is {n_layers}, but this build of "
                "llama-cpp-python cannot use a GPU: the model runs on the processor",
                stacklevel=3,
            )
        handle = models.model_load(
            os.fsencode(file),
            loras,
            n_gpu_layers=n_layers,
            split_mode=SPLIT_MODES[placement.split_mode],
            main_gpu=placement.main_gpu,
            tensor_split=placement.tensor_split,
            use_mmap=checked.use_mmap,
            use_mlock=checked.use_mlock,
            check_tensors=checked.check_tensors,
            memory_bytes=memory_of_model(placement) if checked.check_memory else 0,
            interrupt=interrupt,
        )
        self._prepare(file, content, loras, handle)
        if shim.supports_gpu():
            self.placement = placement

    @classmethod
    def from_llama(cls, llama: Llama) -> Model:
        """Load the file of a `llama_cpp.Llama` again, with the settings of the Llama.

        Contexts of the model compute what the Llama computes: with its LoRA adapter,
        rotary position embeddings and types of the KV cache, unless arguments of the
        context set other values. Weights in host memory are shared with the Llama if
        both map the file; in GPU memory they need their space twice. What was set on the
        Llama's own context by low-level functions of llama_cpp is not seen.

        Raises:
            TypeError: `llama` is not a Llama.
            ContextError: llamaherd does not support a setting of the Llama.
            ModelLoadError: The file is gone, or does not fit into memory a second time.
        """
        loading, context = model_arguments(llama), context_arguments(llama)
        share_log()
        model = cls(**loading)
        model.context_defaults = context
        model.template, model.foreign_format = chat_of(llama)
        return model

    def adapted(self, lora: LoraOption) -> Model:
        """Return a model with the same weights and a LoRA adapter.

        The result equals `Model(path, lora=lora)`, but needs no second copy of the
        weights. The weights stay in memory until both models are closed. Call this
        while no context of these models is open: libllama reads the list of their
        adapters without a lock.

        Args:
            lora: Path of a GGUF file, or a pair (path, scale).

        Raises:
            ContextError: A context of a model with these weights is open.
            ModelLoadError: The file is missing, damaged, or belongs to another model.
            ModelClosedError: The model was closed.
        """
        contexts = [
            ctx
            for member in tuple(self._family)
            for ctx in tuple(member._contexts)  # noqa: SLF001
        ]
        if not all(ctx.closed for ctx in contexts):
            raise ContextError(
                f"{self!r} has an open context: load adapters before the first context"
            )
        loras = (*self.loras, *checked_loras(lora))
        with self.using() as handle:
            native = models.model_adapt(handle, loras)
        model = type(self).__new__(type(self))
        model._prepare(self.path, self.file, loras, native)  # noqa: SLF001 - as __init__
        model.placement = self.placement
        model._family = self._family  # noqa: SLF001
        self._family.add(model)
        return model

    def _prepare(
        self, path: Path, file: ModelFile, loras: tuple[Lora, ...], handle: Handle
    ) -> None:
        self.path = path
        self.file = file
        self.loras = loras
        self.placement = Placement()
        self.context_defaults: dict[str, Any] = {}
        self.template: str | None = None
        self.foreign_format: str | None = None
        self._native: Handle | None = handle
        self._in_use = InUse()
        self._contexts: WeakSet[Closable] = WeakSet()
        self._family: WeakSet[Model] = WeakSet((self,))  # models with the same weights
        self._contexts_lock = RLock()  # garbage collection may close a context here

    @contextmanager
    def using(self) -> Iterator[Handle]:
        """Handle of the native model, which is not freed within the block.

        Raises:
            ModelClosedError: The model was closed.
            AbandonedError: Nobody waits for the work, see `core.request`.
        """
        check_wanted()
        with self._in_use:
            yield self.handle

    @property
    def handle(self) -> Handle:
        """Handle of the native model; it keeps the model alive.

        Raises:
            ModelClosedError: The model was closed.
        """
        handle = self._native
        if handle is None:
            raise ModelClosedError(f"the model {self.path} is closed")
        return handle

    @property
    def n_gpu_layers(self) -> int:
        """Number of layers in GPU memory; negative for all."""
        return self.placement.n_gpu_layers

    @cached_property
    def info(self) -> ModelInfo:
        """Sizes, flags and special tokens."""
        with self.using() as handle:
            return models.model_info(handle)

    @cached_property
    def metadata(self) -> dict[str, str]:
        """Metadata of the file as text, by key."""
        with self.using() as handle:
            return models.model_metadata(handle)

    @cached_property
    def chat_template(self) -> str | None:
        """Jinja chat template of the model, or None.

        For a Llama with another `chat_format`, the template of that format.
        """
        with self.using() as handle:
            return self.template or models.chat_template(handle)

    @property
    def n_vocab(self) -> int:
        """Number of tokens in the vocabulary."""
        return self.info.n_vocab

    @property
    def n_ctx_train(self) -> int:
        """Context length of the training, in tokens."""
        return self.info.n_ctx_train

    @property
    def size_bytes(self) -> int:
        """Total size of all tensors in bytes."""
        return self.info.size_bytes

    @property
    def description(self) -> str:
        """Readable name, architecture and size."""
        name = self.metadata.get("general.name", "a model without a name")
        kind = self.metadata.get("general.architecture", "unknown")
        return (
            f"{name} ({kind}, {self.info.n_params / 1e6:.0f} M parameters, "
            f"{self.size_bytes / 1e6:.0f} MB)"
        )

    @property
    def closed(self) -> bool:
        """Whether the model was closed."""
        return self._native is None

    def check_generates(self) -> None:
        """Check that the model can generate text.

        Raises:
            ContextError: The model has an encoder, or computes embeddings only.
            ModelClosedError: The model was closed.
        """
        kind = self.metadata.get("general.architecture", "unknown")
        if self.info.has_encoder or not self.info.has_decoder:
            raise ContextError(
                f"{words().model(self)} has an encoder (architecture {kind!r}); only "
                "decoder-only models can generate text"
            )
        if self.metadata.get(f"{kind}.attention.causal") == "false":
            raise ContextError(
                f"{words().model(self)} reads a text in both directions, as embedding "
                f"models do ({kind}.attention.causal is false), so it cannot generate"
            )

    def register(self, context: Closable) -> None:
        """Register a context, which is closed with the model.

        Raises:
            ModelClosedError: The model was closed.
        """
        with self._contexts_lock:
            if self.handle:
                self._contexts.add(context)

    def close(self) -> None:
        """Close all contexts, then free the model. Idempotent.

        In a forked child this does nothing.
        """
        if shim.is_forked():
            return
        with self._contexts_lock:
            self._native, contexts = None, list(self._contexts)
        for context in contexts:
            context.close()
        self._in_use.wait_for_others()

    def __repr__(self) -> str:
        return f"<Model {self.path}{': closed' if self.closed else ''}>"


def model_metadata(model: Model) -> dict[str, str]:
    """Return the metadata of the GGUF file of a model as text, by key."""
    return dict(as_model(model).metadata)


def as_model(value: object) -> Model:
    """Return a model, or the model of a context."""
    model = getattr(value, "model", value)
    if not isinstance(model, Model):
        raise ArgumentTypeError(
            f"must be a llamaherd.Model, not {type(value).__name__}", argument="model"
        )
    return model


_models_of_llamas: WeakKeyDictionary[Llama, Model] = WeakKeyDictionary()
_llamas_lock = RLock()


def model_of_llama(llama: Llama) -> Model:
    """Return the model that the calls with a Llama share, see `Model.from_llama`."""
    check_llama(llama)
    with _llamas_lock:
        model = _models_of_llamas.get(llama)
        if model is None or model.closed:
            model = _models_of_llamas[llama] = Model.from_llama(llama)
        return model


_DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(Model).parameters.items()
}


def checked_load_options(options: Mapping[str, Any]) -> LoadSettings:
    """Check arguments of `Model` other than the path; missing ones get defaults."""
    return checked_loading({**_DEFAULTS, **options})
