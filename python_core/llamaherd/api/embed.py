"""The public calls for embeddings: `embed_parallel`, and as a job."""

from __future__ import annotations

from functools import partial
from threading import Event
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from llamaherd.api.progress import reporting
from llamaherd.core import checks
from llamaherd.core.embeddings import Embeddings, EmbedProgress
from llamaherd.core.errors import (
    Interrupted,
    ModelClosedError,
    ModelLoadError,
)
from llamaherd.memory import hardware
from llamaherd.model.model import Model
from llamaherd.native.embedder import POOLING
from llamaherd.run.embedders import EmbedSpec, make_embedder, reads_at_once
from llamaherd.run.embedding import EmbedCall, Sizes
from llamaherd.run.host import Host
from llamaherd.run.interrupts import Interrupts, wait_for_end
from llamaherd.run.texts import make_texts
from llamaherd.run.threads import start_thread, wait_for, warn_of_foreign

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llama_cpp import Llama

    from llamaherd.model.tokens import Prompt
    from llamaherd.native.embedder import Pooling
    from llamaherd.run.embedding import Embedder
    from llamaherd.run.threads import Worker

    # True: a progress bar; a function is called with each EmbedProgress.
    EmbedProgressOption = bool | Callable[[EmbedProgress], object]
    PoolingOption = Pooling | Literal["auto"]

_MAX_THREADS = 1024
_MAX_TEXTS = 64  # of a run
# Tokens computed at once. In an encoder each looks at all of them, other texts' included,
# before it is told which are its own: docs/decisions/0039.
_BATCH_ENCODER = 256
_BATCH_DECODER = 512
_ROW_BYTES = 128 << 20  # of logits, which libllama makes room for at each token
_OF_FILE: dict[str, Pooling] = {"1": "mean", "2": "cls", "3": "last"}
_RANK = "4"


def embed_parallel(
    model: Model | Host | Llama,
    texts: Sequence[Prompt],
    *,
    pooling: PoolingOption = "auto",
    normalize: bool = True,
    truncate: bool = False,
    deterministic: bool = False,
    n_threads: int | None = None,
    progress: EmbedProgressOption = False,
) -> Embeddings:
    """Makes a vector of each text, many at once.

    A text that fails has a reason in `errors` and a row of NaN; the others get vectors.
    Equal texts are computed once.

    Args:
        model: One made for embeddings (BERT and the like, which have an encoder only), or
            any decoder. A context or a `llama_cpp.Llama` stands for its model.
        texts: Texts or token ids, any number of them. The texts of special tokens in them
            mean nothing special; the special tokens that the model wants at the ends of a
            text are added.
        pooling: What becomes of the vectors of a text's tokens: "mean", that of the first
            ("cls") or of the "last" one. "auto": what the model's file says, and "mean"
            where it says nothing.
        normalize: Vectors of length 1, so that products are cosines.
        truncate: Cut texts that are longer than the model was trained for, keeping the
            special tokens at their ends; else these fail.
        deterministic: Compute each text by itself: its vector then is the same to the
            last bit, whatever else is asked for. Otherwise it depends on what it is
            computed with by its rounding, to about 1e-6 of its length (1e-3 with K-quants
            and other types whose kernels round by the shape of a batch).
        n_threads: Threads; None: the physical cores.
        progress: True shows a bar; a function is called with an `EmbedProgress` now and
            then, on the calling thread.

    Returns:
        `vectors`, float32[n, n_embd], in the order of the texts, `errors` and `stats`.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range.
        Interrupted: Ctrl-C; its `results` has what was finished.
        ModelLoadError: The model has no vectors for texts: it ranks texts, or has an
            encoder and a decoder.
        ModelClosedError: The model was closed.
        ContextError: There is not enough memory.

    Source: llama_encode, llama_decode and llama_get_embeddings_ith of llama.h; pooling as
    sentence-transformers does it (arXiv 1908.10084).
    """
    with (
        reporting(progress, " texts", _show_speed) as report,
        Interrupts() as interrupts,
    ):
        with interrupts.let_through():
            job = start_embed(
                model,
                texts,
                pooling=pooling,
                normalize=normalize,
                truncate=truncate,
                deterministic=deterministic,
                n_threads=n_threads,
            )
        try:
            wait_for_end(job, report, interrupts)
        except KeyboardInterrupt:
            raise Interrupted(job.results()) from None
        results = job.results()
    interrupts.deliver()
    return results


def start_embed(
    model: Model | Host | Llama,
    texts: Sequence[Prompt],
    *,
    pooling: PoolingOption = "auto",
    normalize: bool = True,
    truncate: bool = False,
    deterministic: bool = False,
    n_threads: int | None = None,
) -> EmbedJob:
    """Starts what `embed_parallel` does and returns at once; same arguments.

    Wrong arguments raise here, before anything runs.
    """
    host, model = model if isinstance(model, Host) else None, _as_model(model)
    chosen = _pooling(model, pooling)
    if n_threads is not None:
        checks.integer("n_threads", n_threads, 1, _MAX_THREADS)
    is_alone = checks.flag("deterministic", deterministic)
    unit = checks.flag("normalize", normalize)
    given = make_texts(model, texts, truncate=checks.flag("truncate", truncate))
    warn_of_foreign(n_threads or hardware.n_cores())
    call = EmbedCall(given, chosen)
    sizes = _sizes(model, call.longest, is_alone=is_alone)
    spec = EmbedSpec(pooling=chosen, normalize=unit, sizes=sizes, n_threads=n_threads)
    make = partial(make_embedder, model, spec) if host is None else host.embedder(spec)
    return EmbedJob(model, call, make, sizes)


class EmbedJob:
    """`embed_parallel` under way, in a thread of its own.

    Raises:
        RuntimeError: The interpreter is ending, or no thread can be started.
    """

    def __init__(
        self, model: Model, call: EmbedCall, make: Callable[[], Embedder], sizes: Sizes
    ) -> None:
        self._model = model
        self._call = call
        self._make = make
        self._sizes = sizes
        self._is_done = Event()
        self._error: BaseException | None = None
        self._was_closed = False
        self._worker: Worker | None = None
        model.register(self)
        self._worker = start_thread(self, self._run)

    @property
    def progress(self) -> EmbedProgress:
        """How far it is."""
        return self._call.progress

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until it is over; Ctrl-C ends the wait, not the work.

        Args:
            timeout_s: Longest time to wait, in seconds; None: as long as it takes.

        Returns:
            Whether it is over.

        Raises:
            ForkError: This process was forked; the work runs in its parent.
        """
        return wait_for(self._is_done, timeout_s, self._worker)

    def cancel(self) -> None:
        """Ends it within a fraction of a second; vectors that are there are kept."""
        self._call.cancel()

    def close(self) -> None:
        """The model is closed: as `cancel`, but that there are no results."""
        self._was_closed = True
        self._call.cancel()

    def results(self) -> Embeddings:
        """Waits for the end and returns the vectors.

        Raises:
            ModelLoadError: The model has no vectors for texts.
            ModelClosedError: The model was closed.
            ContextError: There is not enough memory.
            ForkError: This process was forked; the work runs in its parent.
        """
        import numpy as np  # noqa: PLC0415 - what generates text does without it

        self.wait()
        if self._error is not None:
            raise self._error
        if not self._is_done.is_set():
            raise MemoryError("the thread of embed_parallel ended for want of memory")
        vectors, n_embd = self._call.vectors()
        rows = np.frombuffer(vectors, dtype=np.float32).reshape(-1, n_embd)
        return Embeddings(rows, self._call.errors, self._call.stats)

    def __reduce__(self) -> NoReturn:
        checks.stays_here(self)

    def _run(self) -> None:
        try:
            with self._model.using():  # a Llama that is closed waits for this
                n_embd = self._model.info.n_embd_out
                self._call.run(n_embd, self._make, self._sizes)
            if self._was_closed:
                self._error = ModelClosedError("the model was closed during the call")
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error
        finally:
            self._is_done.set()


def _as_model(value: object) -> Model:
    if isinstance(value, Model):
        return value
    if isinstance(value, Host):
        return value.model
    try:
        return Model.from_llama(value)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            "model must be a llamaherd.Model, a llamaherd.Context or a llama_cpp.Llama, "
            f"not {type(value).__name__}"
        ) from None


def _pooling(model: Model, pooling: object) -> Pooling:
    """What was asked for, or what the model's file says."""
    kind = model.metadata.get("general.architecture", "")
    of_file = model.metadata.get(f"{kind}.pooling_type", "")
    if of_file == _RANK:
        raise ModelLoadError(
            f"{model!r} ranks texts (its {kind}.pooling_type is {of_file}); it has no "
            "vectors for them"
        )
    names: tuple[PoolingOption, ...] = ("auto", *POOLING)
    chosen = checks.choice("pooling", pooling, names)
    return _OF_FILE.get(of_file, "mean") if chosen == "auto" else chosen


def _sizes(model: Model, longest: int, *, is_alone: bool) -> Sizes:
    """How much is computed together, where the longest text has so many tokens."""
    most = max(32, _ROW_BYTES // (4 * model.n_vocab))
    n_texts = 1 if is_alone else _MAX_TEXTS
    if reads_at_once(model):
        n = max(longest, 1 if is_alone else min(_BATCH_ENCODER, most))
        return Sizes(n_batch=n, n_ctx=n, n_texts=n_texts)
    if model.info.is_recurrent or model.info.is_hybrid:
        n_texts = min(n_texts, 16)
    n_ctx = max(longest, 1 if is_alone else _BATCH_DECODER)
    return Sizes(n_batch=min(_BATCH_DECODER, most, n_ctx), n_ctx=n_ctx, n_texts=n_texts)


def speed(progress: EmbedProgress) -> str:
    """How fast it is, in a few words."""
    per_s = 1 / max(progress.elapsed_s, 0.001)
    text = (
        f"{progress.n_done * per_s:.0f} texts/s, {progress.n_tokens * per_s:.0f} tokens/s"
    )
    return f"{text}, {progress.n_failed} failed" if progress.n_failed else text


def _show_speed(bar: Any, progress: EmbedProgress) -> None:  # noqa: ANN401 - untyped
    bar.set_postfix_str(speed(progress), refresh=False)
