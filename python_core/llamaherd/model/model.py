"""A model file in memory."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Literal, NoReturn, Protocol
from weakref import WeakMethod, WeakSet, ref

from llamaherd.core import checks
from llamaherd.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    ContextError,
    ModelClosedError,
)
from llamaherd.core.in_use import InUse
from llamaherd.hub.fetch import model_path
from llamaherd.memory.device import Placement, memory_of_model
from llamaherd.model.adapters import checked_loras
from llamaherd.model.file import ModelFile
from llamaherd.model.of_llama import Told, told_of
from llamaherd.native import devices, models, shim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import ExitStack
    from types import TracebackType

    from llama_cpp import Llama

    from llamaherd.model.adapters import Lora, LoraOption
    from llamaherd.native.models import LoadInterrupt, ModelInfo
    from llamaherd.native.shim import Handle

_SPLIT_MODES = {"none": 0, "layer": 1, "row": 2}  # of libllama


class Closable(Protocol):
    """A context of a model, which is closed with the model."""

    @property
    def closed(self) -> bool:
        """Whether the context was closed."""

    def close(self) -> None:
        """Free the memory of the context."""


class Model:
    """A GGUF model, loaded once and shared by its contexts.

    A model is a context manager. Closing it also closes its contexts.

    Args:
        path: Path of a GGUF file, or another source that `download_model` accepts:
            "hf:owner/repo", "https://...", "ollama:name" or the name of a cached file.
        lora: LoRA adapters of all contexts: the path of a GGUF file, a pair (path,
            scale), or a list of these.
        n_gpu_layers: Number of layers to keep in GPU memory; negative for all.
        split_mode: Use of several GPUs: "layer" gives each a part of the layers, "row"
            also splits matrices, "none" uses `main_gpu` alone.
        main_gpu: Index of the GPU for "none", in the order of `llamaherd doctor`.
        tensor_split: Share of the model of each GPU, in any unit; None for shares by
            their free memory.
        use_mmap: Map the file into memory instead of reading it.
        use_mlock: Lock the model in memory to prevent swapping.
        check_tensors: Validate the data of all tensors while loading.
        check_memory: Refuse a model that, with its adapters, is larger than the available
            memory: GPU memory if all layers are there, GPU and host memory together if
            some are.
        interrupt: Flag that stops loading when another thread sets it; the constructor
            then raises ModelLoadError.

    Attributes:
        path: Path of the file; None for a model of a `llama_cpp.Llama`.
        file: Identity of the file; None for a model that differs from its file.
        told: Adapters, and other settings of the Llama that owns the model.
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
        n_gpu_layers: int = 0,
        split_mode: Literal["layer", "row", "none"] = "layer",
        main_gpu: int = 0,
        tensor_split: Sequence[float] | None = None,
        use_mmap: bool = True,
        use_mlock: bool = False,
        check_tensors: bool = False,
        check_memory: bool = True,
        interrupt: LoadInterrupt | None = None,
    ) -> None:
        n_layers = checks.integer("n_gpu_layers", n_gpu_layers, -checks.INT32_MAX)
        placement = _checked_placement(n_layers, split_mode, main_gpu, tensor_split)
        is_limited = checks.flag("check_memory", check_memory)
        # Which file of a repository fits is decided for host memory only.
        file = model_path(path, check_memory=is_limited and n_layers == 0)
        content = ModelFile(file)  # before loading
        loras = checked_loras(lora)
        if n_layers != 0 and not shim.supports_gpu():
            warnings.warn(
                f"n_gpu_layers is {n_layers}, but this build of llama-cpp-python cannot "
                "use a GPU: the model runs on the processor",
                stacklevel=2,
            )
        handle = models.model_load(
            os.fsencode(file),
            loras,
            n_gpu_layers=n_layers,
            split_mode=_SPLIT_MODES[placement.split_mode],
            main_gpu=placement.main_gpu,
            tensor_split=placement.tensor_split,
            use_mmap=checks.flag("use_mmap", use_mmap),
            use_mlock=checks.flag("use_mlock", use_mlock),
            check_tensors=checks.flag("check_tensors", check_tensors),
            memory_bytes=memory_of_model(placement) if is_limited else 0,
            interrupt=interrupt,
        )
        self._prepare(file, content)
        if shim.supports_gpu():
            self.placement = placement
        self.told = Told(loras)
        self._open(handle)

    @classmethod
    def from_llama(cls, llama: Llama) -> Model:
        """Return the model of a `llama_cpp.Llama`, which is kept alive.

        Its contexts compute what the Llama computes: with its LoRA adapter, control
        vector, rotary position embeddings and types of the KV cache, unless arguments of
        the context set others. Closing the Llama closes this model first.

        Raises:
            TypeError: `llama` is not a Llama.
            ModelClosedError: The Llama is closed.
            ContextError: llamaherd does not support a setting of the Llama.
        """
        model = cls.borrow(llama)
        model._owner = llama  # noqa: SLF001 - this is an alternative __init__
        return model

    @classmethod
    def borrow(cls, llama: Llama) -> Model:
        """Return the model of a Llama without keeping it alive, see `from_llama`."""
        try:
            inner = llama._model  # noqa: SLF001 - there is no public way to it
            exit_stack = inner._exit_stack  # noqa: SLF001
        except AttributeError:
            raise ArgumentTypeError(
                f"must be a llama_cpp.Llama, not {type(llama).__name__}", argument="llama"
            ) from None
        shim.backend_init(chain=True)  # needed if llama_cpp was imported after llamaherd
        model = cls.__new__(cls)
        model._prepare(None, _file_of_llama(llama))  # noqa: SLF001
        # Another thread may close the Llama at any moment. The callbacks make it wait for
        # this thread; the checks after them show whether they came in time. The Llama
        # frees its adapter before its model.
        with model._in_use:  # noqa: SLF001
            for stack in (exit_stack, llama._stack):  # noqa: SLF001
                stack.callback(_call_if_alive, WeakMethod(model.close))
            if _is_being_freed(exit_stack) or _has_lost_its_adapter(llama):
                raise ModelClosedError("the Llama is closed")
            if shim.supports_gpu():
                model.placement = _placement_of(llama)
            model.told = told = told_of(llama)
            handle = models.model_borrow(inner.model, told.loras, told.cvec)
            model._open(handle)  # noqa: SLF001
        return model

    def adapted(self, lora: LoraOption) -> Model:
        """Return a model with the same weights and a LoRA adapter.

        It equals `Model(path, lora=lora)` and takes no second copy of the weights, which
        stay in memory until both are closed. Call this while no context of these models
        is open: libllama reads the list of their adapters without a lock.

        Args:
            lora: Path of a GGUF file, or a pair (path, scale).

        Raises:
            ContextError: A context of a model with these weights is open.
            ModelLoadError: The file is missing, damaged, or belongs to another model.
            ModelClosedError: The model was closed.
        """
        contexts = [ctx for each in tuple(self._family) for ctx in tuple(each._contexts)]  # noqa: SLF001
        if not all(ctx.closed for ctx in contexts):
            raise ContextError(
                f"{self!r} has an open context: load adapters before the first one"
            )
        loras = (*self.loras, *checked_loras(lora))
        model = type(self).__new__(type(self))
        model._prepare(self.path, self.file)  # noqa: SLF001 - an alternative __init__
        with self.using() as handle:
            native = models.model_adapt(handle, loras)
        model.placement = self.placement
        model.told = Told(loras)
        model._open(native)  # noqa: SLF001
        model._family = self._family  # noqa: SLF001
        self._family.add(model)
        return model

    def _prepare(self, path: Path | None, content: ModelFile | None) -> None:
        self.path = path
        self.file = content
        self.placement = Placement()
        self.told = Told()
        self._native: Handle | None = None
        self._was_closed = False
        self._owner: Llama | None = None
        self._in_use = InUse()
        self._contexts: WeakSet[Closable] = WeakSet()
        self._family: WeakSet[Model] = WeakSet((self,))  # models with the same weights
        self._contexts_lock = RLock()  # garbage collection may close a Llama at any point

    def _open(self, handle: Handle) -> None:
        with self._contexts_lock:
            if self._was_closed:
                raise ModelClosedError("the Llama is closed")
            self._native = handle

    @contextmanager
    def using(self) -> Iterator[Handle]:
        """Handle of the native model, which is not freed within the block.

        Raises:
            ModelClosedError: The model was closed.
        """
        with self._in_use:
            yield self.handle

    @property
    def handle(self) -> Handle:
        """Handle of the native model, which keeps the model alive.

        A Llama frees its model nevertheless, after all contexts of this model are closed
        and no thread is within `using`.

        Raises:
            ModelClosedError: The model was closed.
        """
        handle = self._native
        if handle is None:
            raise ModelClosedError(f"{self!r} is closed")
        return handle

    @property
    def n_gpu_layers(self) -> int:
        """Number of layers in GPU memory; negative for all."""
        return self.placement.n_gpu_layers

    @cached_property
    def info(self) -> ModelInfo:
        """Sizes, flags and special tokens, see `llamaherd.native.models.ModelInfo`."""
        with self.using() as handle:
            return models.model_info(handle)

    @cached_property
    def metadata(self) -> dict[str, str]:
        """Metadata of the file as text, by key."""
        with self.using() as handle:
            return models.model_metadata(handle)

    @cached_property
    def chat_template(self) -> str | None:
        """Jinja chat template of the model; None if it has none.

        For a Llama with another `chat_format`, the template of that format.
        """
        with self.using() as handle:
            return self.told.template or models.chat_template(handle)

    @property
    def loras(self) -> tuple[Lora, ...]:
        """LoRA adapters of all contexts of the model."""
        return self.told.loras

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
                f"{self!r} has an encoder (architecture {kind!r}); only decoder-only "
                "models can generate text"
            )
        if self.metadata.get(f"{kind}.attention.causal") == "false":
            raise ContextError(
                f"{self!r} reads a text in both directions, as embedding models do "
                f"({kind}.attention.causal is false), so it cannot generate"
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
        """Close all contexts, then free the model. Idempotent."""
        with self._contexts_lock:
            self._was_closed = True
            self._native, contexts = None, list(self._contexts)
        for context in contexts:
            context.close()
        self._in_use.wait_for_others()
        self._owner = None

    def __enter__(self) -> Model:  # noqa: PYI034 - typing.Self is of Python 3.11
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        checks.refuse_copy(self)

    def __repr__(self) -> str:
        return f"<Model {self.path or 'of a llama_cpp.Llama'}>"


def model_metadata(model: Model) -> dict[str, str]:
    """Return the metadata of the GGUF file of a model as text, by key."""
    return dict(as_model(model).metadata)


def as_model(value: object) -> Model:
    """Return a model, or the model of a context.

    Raises:
        TypeError: `value` is neither a model nor a context.
    """
    model = getattr(value, "model", value)
    if not isinstance(model, Model):
        raise ArgumentTypeError(
            f"must be a llamaherd.Model, not {type(value).__name__}", argument="model"
        )
    return model


def _file_of_llama(llama: Llama) -> ModelFile | None:
    path = Path(llama.model_path)
    return None if llama.kv_overrides or not path.is_file() else ModelFile(path)


def _is_being_freed(stack: ExitStack) -> bool:
    """Whether the model of a Llama is freed, or is being freed.

    The function that frees it is the first entry of the exit stack, and is removed before
    it runs. Afterwards the first entry is a callback of llamaherd.
    """
    first = next(iter(stack._exit_callbacks), None)  # type: ignore[attr-defined]  # noqa: SLF001
    return first is None or getattr(first[1], "__wrapped__", None) is _call_if_alive


def _has_lost_its_adapter(llama: Llama) -> bool:
    """Whether the adapter of a Llama is freed or being freed, see `_is_being_freed`."""
    callbacks = list(llama._stack._exit_callbacks)  # type: ignore[attr-defined]  # noqa: SLF001
    names = (
        getattr(getattr(callback, "__wrapped__", None), "__name__", "")
        for _, callback in callbacks
    )
    return llama.lora_path is not None and "free_lora_adapter" not in names


def _call_if_alive(method: ref[Callable[[], None]]) -> None:
    function = method()
    if function is not None:
        function()


def _checked_placement(
    n_gpu_layers: int,
    split_mode: str,
    main_gpu: int,
    tensor_split: object,
) -> Placement:
    """Return the arguments for GPUs, checked."""
    mode = checks.choice("split_mode", split_mode, tuple(_SPLIT_MODES))
    shares = None
    if tensor_split is not None:
        if isinstance(tensor_split, str) or not isinstance(tensor_split, Sequence):
            raise ArgumentTypeError(
                f"must be a list of numbers, not {type(tensor_split).__name__}",
                argument="tensor_split",
            )
        shares = tuple(checks.real("tensor_split", x, 0, 1e9) for x in tensor_split)
        if not any(shares):
            raise ArgumentError(
                f"must have a share above 0, not {list(shares)}", argument="tensor_split"
            )
    gpu = checks.integer("main_gpu", main_gpu, 0)
    n_gpus = len(devices.gpus()) if n_gpu_layers != 0 else 0
    if n_gpus and gpu >= n_gpus:
        raise ArgumentError(
            f"must be less than the number of GPUs ({n_gpus}), not {gpu}",
            argument="main_gpu",
        )
    if n_gpus and shares is not None and len(shares) > n_gpus:
        raise ArgumentError(
            f"must have a share for each of the {n_gpus} GPUs, not {len(shares)} shares",
            argument="tensor_split",
        )
    return Placement(
        n_gpu_layers=n_gpu_layers, split_mode=mode, main_gpu=gpu, tensor_split=shares
    )


def _placement_of(llama: Llama) -> Placement:
    """Return the arguments for GPUs of a Llama."""
    params = llama.model_params
    modes = {number: name for name, number in _SPLIT_MODES.items()}
    return Placement(
        n_gpu_layers=int(params.n_gpu_layers),
        split_mode=modes.get(int(params.split_mode), "layer"),
        main_gpu=max(0, int(params.main_gpu)),
        tensor_split=None if llama.tensor_split is None else tuple(llama.tensor_split),
    )
