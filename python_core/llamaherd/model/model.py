"""A model file in memory."""

from __future__ import annotations

import os
import warnings
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, NoReturn, Protocol
from weakref import WeakMethod, WeakSet, ref

from llamaherd.core import checks
from llamaherd.core.errors import ContextError, ModelClosedError
from llamaherd.core.in_use import InUse
from llamaherd.hub.fetch import model_path
from llamaherd.memory import hardware
from llamaherd.model.adapters import checked_loras
from llamaherd.model.file import ModelFile
from llamaherd.model.of_llama import Told, told_of
from llamaherd.native import models, shim

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import ExitStack
    from types import TracebackType

    from llama_cpp import Llama

    from llamaherd.model.adapters import Lora, LoraOption
    from llamaherd.native.models import ModelInfo
    from llamaherd.native.shim import Handle


class Closable(Protocol):
    """A context, as its model sees it."""

    def close(self) -> None:
        """Gives its memory back."""


class Model:
    """A GGUF model, loaded once and shared by its contexts.

    A model is a context manager. Closing it closes its contexts, too.

    Args:
        path: A GGUF file, or what `download_model` takes for one: "hf:owner/repo",
            "https://...", "ollama:name" or the name of a file in the cache.
        lora: LoRA adapters that all contexts compute with: the path of a GGUF file, a
            pair (path, scale), or a list of those.
        n_gpu_layers: Layers to keep in video memory; negative: all.
        use_mmap: Map the file instead of reading it.
        use_mlock: Keep it from being swapped out.
        check_tensors: Validate every tensor's data while loading.
        check_memory: Refuse a model that is larger, with its adapters, than the memory
            that is available; not looked at with layers on a GPU.

    Attributes:
        path: The file; None for a model that a `llama_cpp.Llama` owns.
        file: Tells what is in the file; None for a model that differs from its file.
        told: Its adapters, and what else the Llama was told that it is of.
        n_gpu_layers: Layers in video memory that it was loaded with; negative: all; 0
            where libllama cannot use a GPU.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The scale of an adapter is not finite.
        ModelLoadError: A file is missing, is no GGUF file, is cut off or damaged, does
            not fit into memory, or cannot be loaded for another reason; an adapter was
            made for another model.
        DownloadError: It could not be downloaded.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        lora: LoraOption | Sequence[LoraOption] | None = None,
        n_gpu_layers: int = 0,
        use_mmap: bool = True,
        use_mlock: bool = False,
        check_tensors: bool = False,
        check_memory: bool = True,
    ) -> None:
        # Layers on a GPU do not count, and how much they are is not known here.
        is_limited = checks.flag("check_memory", check_memory) and n_gpu_layers == 0
        file = model_path(path, check_memory=is_limited)
        content = ModelFile(file)  # as it is now, not after loading
        loras = checked_loras(lora)
        n_layers = checks.integer("n_gpu_layers", n_gpu_layers, -checks.INT32_MAX)
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
            use_mmap=checks.flag("use_mmap", use_mmap),
            use_mlock=checks.flag("use_mlock", use_mlock),
            check_tensors=checks.flag("check_tensors", check_tensors),
            memory_bytes=hardware.available_memory() if is_limited else 0,
        )
        self._prepare(file, content)
        self.n_gpu_layers = n_layers if shim.supports_gpu() else 0
        self.told = Told(loras)
        self._open(handle)

    @classmethod
    def from_llama(cls, llama: Llama) -> Model:
        """Uses the model that a `llama_cpp.Llama` has loaded, and keeps that alive.

        Contexts on it compute what the Llama computes: its LoRA adapter and control
        vector, its settings of rotary embeddings, its types of the KV cache, unless the
        context is told otherwise. Closing the Llama closes this model first.

        Raises:
            TypeError: `llama` is no Llama.
            ModelClosedError: It is closed.
            ContextError: It computes in a way that llamaherd cannot.
        """
        model = cls.borrow(llama)
        model._owner = llama  # noqa: SLF001 - this is an alternative __init__
        return model

    @classmethod
    def borrow(cls, llama: Llama) -> Model:
        """As `from_llama`, but does not keep the Llama alive."""
        try:
            inner = llama._model  # noqa: SLF001 - there is no public way to it
            exit_stack = inner._exit_stack  # noqa: SLF001
        except AttributeError:
            raise TypeError(
                f"llama must be a llama_cpp.Llama, not {type(llama).__name__}"
            ) from None
        shim.backend_init(chain=True)  # if llama_cpp was imported after llamaherd
        model = cls.__new__(cls)
        model._prepare(None, _file_of_llama(llama))  # noqa: SLF001
        # Another thread may close the Llama at any moment. With the callbacks it waits
        # for this thread, and what follows them tells whether that was in time. The
        # Llama frees its adapter before its model.
        with model._in_use:  # noqa: SLF001
            for stack in (exit_stack, llama._stack):  # noqa: SLF001
                stack.callback(_call_if_alive, WeakMethod(model.close))
            if _is_being_freed(exit_stack) or _has_lost_its_adapter(llama):
                raise ModelClosedError("the Llama is closed")
            if shim.supports_gpu():
                model.n_gpu_layers = int(llama.model_params.n_gpu_layers)
            model.told = told = told_of(llama)
            handle = models.model_borrow(inner.model, told.loras, told.cvec)
            model._open(handle)  # noqa: SLF001
        return model

    def _prepare(self, path: Path | None, content: ModelFile | None) -> None:
        self.path = path
        self.file = content
        self.n_gpu_layers = 0
        self.told = Told()
        self._native: Handle | None = None
        self._was_closed = False
        self._owner: Llama | None = None
        self._in_use = InUse()
        self._contexts: WeakSet[Closable] = WeakSet()
        self._contexts_lock = RLock()  # garbage collection may close a Llama anywhere

    def _open(self, handle: Handle) -> None:
        with self._contexts_lock:
            if self._was_closed:
                raise ModelClosedError("the Llama is closed")
            self._native = handle

    @contextmanager
    def using(self) -> Iterator[Handle]:
        """The shim's model, which nobody frees within the block, not even a Llama.

        Raises:
            ModelClosedError: The model was closed.
        """
        with self._in_use:
            yield self.handle

    @property
    def handle(self) -> Handle:
        """The shim's model. Whoever holds it keeps it from being freed.

        Only a Llama frees its model all the same, when our contexts are closed and nobody
        is within `using`: what is neither takes that.

        Raises:
            ModelClosedError: The model was closed.
        """
        handle = self._native
        if handle is None:
            raise ModelClosedError(f"{self!r} is closed")
        return handle

    @cached_property
    def info(self) -> ModelInfo:
        """Sizes, flags and special tokens; see `llamaherd.native.models.ModelInfo`."""
        with self.using() as handle:
            return models.model_info(handle)

    @cached_property
    def metadata(self) -> dict[str, str]:
        """All metadata of the file as text, by key."""
        with self.using() as handle:
            return models.model_metadata(handle)

    @cached_property
    def chat_template(self) -> str | None:
        """The model's own Jinja chat template; None if it has none.

        Of a Llama with another `chat_format` that the model's file has, that one.
        """
        with self.using() as handle:
            return self.told.template or models.chat_template(handle)

    @property
    def loras(self) -> tuple[Lora, ...]:
        """The LoRA adapters that contexts on it compute with."""
        return self.told.loras

    @property
    def n_vocab(self) -> int:
        """Tokens in the vocabulary."""
        return self.info.n_vocab

    @property
    def n_ctx_train(self) -> int:
        """Tokens that the model was trained to look back on."""
        return self.info.n_ctx_train

    @property
    def size_bytes(self) -> int:
        """Size of all tensors."""
        return self.info.size_bytes

    @property
    def description(self) -> str:
        """Name, kind and size, for people."""
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
        """Tells a model that cannot continue a text.

        Raises:
            ContextError: The model has an encoder, or is one for embeddings.
            ModelClosedError: The model was closed.
        """
        kind = self.metadata.get("general.architecture", "unknown")
        if self.info.has_encoder or not self.info.has_decoder:
            raise ContextError(
                f"{self!r} has an encoder (architecture {kind!r}); only models that are "
                "decoders alone generate text here"
            )
        if self.metadata.get(f"{kind}.attention.causal") == "false":
            raise ContextError(
                f"{self!r} reads a text in both directions, as embedding models do "
                f"({kind}.attention.causal is false), so it cannot generate"
            )

    def register(self, context: Closable) -> None:
        """Has a context closed with the model.

        Raises:
            ModelClosedError: The model was closed.
        """
        with self._contexts_lock:
            if self.handle:
                self._contexts.add(context)

    def close(self) -> None:
        """Closes the model's contexts, then frees it. Closing it again does nothing."""
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
        checks.stays_here(self)

    def __repr__(self) -> str:
        return f"<Model {self.path or 'of a llama_cpp.Llama'}>"


def model_metadata(model: Model) -> dict[str, str]:
    """All metadata of a model's GGUF file as text, by key."""
    return dict(as_model(model).metadata)


def as_model(value: object) -> Model:
    """A model, or the model of a context.

    Raises:
        TypeError: `value` is neither.
    """
    model = getattr(value, "model", value)
    if not isinstance(model, Model):
        raise TypeError(f"model must be a llamaherd.Model, not {type(value).__name__}")
    return model


def _file_of_llama(llama: Llama) -> ModelFile | None:
    path = Path(llama.model_path)
    return None if llama.kv_overrides or not path.is_file() else ModelFile(path)


def _is_being_freed(stack: ExitStack) -> bool:
    """Whether a Llama's model is freed already, or at this moment.

    What frees it is the first thing on the stack. It is taken off before it is called, so
    that a callback of ours is the first one then.
    """
    first = next(iter(stack._exit_callbacks), None)  # type: ignore[attr-defined]  # noqa: SLF001
    return first is None or getattr(first[1], "__wrapped__", None) is _call_if_alive


def _has_lost_its_adapter(llama: Llama) -> bool:
    """Whether a Llama's adapter is freed already, or at this moment: see above."""
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
