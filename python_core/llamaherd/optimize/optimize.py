"""Search for the quantization type that is fastest on this processor."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, ClassVar

from llamaherd.calls.api.running import run_to_end, start
from llamaherd.calls.run.context import MAX_THREADS
from llamaherd.calls.run.job import Job
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError, ModelLoadError
from llamaherd.engine.core.progress import JobProgress
from llamaherd.engine.memory import hardware
from llamaherd.engine.model.model import Model
from llamaherd.engine.native.models import Comparison
from llamaherd.optimize import requantize
from llamaherd.optimize.measure import Sample, Stop, Stopped, compare, race, sample_of
from llamaherd.optimize.report import (
    FileRow,
    OptimizeReport,
    choose,
    row_of_copy,
    row_of_original,
)
from llamaherd.optimize.requantize import Requantized

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence
    from pathlib import Path

    # True shows a progress bar; a function is called with each OptimizeProgress.
    ProgressOption = bool | Callable[["OptimizeProgress"], object]

DEFAULT_TYPES = ("Q8_0", "Q4_0", "Q4_K_M")
_STEPS = ("writing", "comparing", "timing")  # of each type


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimizeProgress(JobProgress):
    """Progress of `model_optimize`.

    Attributes:
        n_done: Number of finished steps.
        n_total: Total number of steps.
        step: Current step, such as "comparing Q8_0".
        elapsed_s: Seconds since the start.
    """

    n_done: int
    n_total: int
    step: str
    elapsed_s: float

    unit: ClassVar[str] = "steps"

    @property
    def line(self) -> str:
        """Return the current step."""
        return self.step


class OptimizeJob(Job[OptimizeReport | None]):
    """The `Job` of `start_optimize`; its result is an `OptimizeReport`.

    A cancelled job leaves no file, and its result is None.
    """


def model_optimize(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    types: Sequence[str] | None = None,
    max_kl: float = 0.01,
    text: str | None = None,
    n_threads: int | None = None,
    progress: ProgressOption = False,
) -> OptimizeReport:
    """Requantize a model to the type that is fastest on this processor.

    For each of `types`, the function writes the model in that type
    (`llama_model_quantize` of llama.h), measures both files alternately, and compares
    their predictions for a text. The function keeps the fastest file whose predictions
    are close enough, as `<name>.<type>.llamaherd.gguf`, and removes the other new files.
    The original is not changed, and no file is ever overwritten.

    Prefill speed is measured with one prompt of 512 tokens, decode speed with 8 answers
    generated together; both are medians of up to 5 rounds. Files are ranked by the
    geometric mean of the two speedups, which must be at least 1.05. KL divergence and
    perplexity are defined as in llama.cpp's perplexity program, with chunks of 256
    tokens.

    Ctrl-C ends the search and leaves no file. If a file is being written, Ctrl-C takes
    effect after some seconds per GB, because libllama cannot be interrupted there.

    Args:
        path: Path of a GGUF file.
        out: Folder for the new file; None for the folder of `path`.
        types: Types to try, from "F16", "BF16", "Q8_0", "Q6_K", "Q5_1", "Q5_0", "Q5_K_M",
            "Q5_K_S", "Q4_1", "Q4_0", "Q4_K_M", "Q4_K_S" and "IQ4_NL". None tries
            "Q8_0", "Q4_0" and "Q4_K_M", except the type of the model itself.
        max_kl: Maximum mean KL divergence of the kept file, in nats. For two small
            models, Q8_0 had a divergence of 0.005 and 0.006; see docs/decisions/0013.
        text: Sample text for the comparison, of at least 64 tokens; the first 4096 tokens
            are used. The sample should resemble the texts that the model will process.
            None for a novel in the public domain.
        n_threads: Number of threads; None for the number of physical cores.
        progress: True to show a progress bar, or a function that is called with each
            OptimizeProgress.

    Returns:
        The report of the measurements; its `path` is the file to use.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is invalid, for example a type that the model already has,
            or a type whose file exists.
        ModelLoadError: `path` is missing, is not a GGUF file, or does not predict text.
        QuantizeError: There is no disk space, no permission to write, or the model cannot
            have the type.
        ContextError: Memory is insufficient.
    """
    report = run_to_end(
        lambda: _prepare(path, out, types, max_kl, text, n_threads), progress
    )
    if report is None:  # the search was cancelled because the interpreter exits
        raise RuntimeError("model_optimize was cancelled")
    return report


def start_optimize(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    types: Sequence[str] | None = None,
    max_kl: float = 0.01,
    text: str | None = None,
    n_threads: int | None = None,
) -> OptimizeJob:
    """Start `model_optimize` in its own thread, with the same arguments.

    Invalid arguments raise an error here; the job's `results` raises all other errors.
    """
    return start(lambda: _prepare(path, out, types, max_kl, text, n_threads), OptimizeJob)


def _prepare(  # noqa: PLR0917 - arguments of start_optimize
    path: str | os.PathLike[str],
    out: str | os.PathLike[str] | None,
    types: Sequence[str] | None,
    max_kl: float,
    text: str | None,
    n_threads: int | None,
) -> OptimizeWork:
    """Check the arguments and create the work of the job."""
    limit = checks.real("max_kl", max_kl, 0, 1e6)
    if n_threads is not None:
        checks.integer("n_threads", n_threads, 1, MAX_THREADS)
    if text is not None:
        checks.text("text", text)
    chosen = None if types is None else _checked_types(types)
    with ExitStack() as stack:
        model = stack.enter_context(Model(path))
        work = OptimizeWork(
            model,
            model.path.parent if out is None else _checked_folder(out),
            _candidate_types(chosen, requantize.type_of(model.metadata)),
            limit,
            sample_of(model, text),
            n_threads or hardware.n_cores(),
        )
        stack.pop_all()  # from here on, the job closes the model
    return work


class OptimizeWork:
    """Search for the fastest type, as the work of an `OptimizeJob`."""

    problem = ""

    def __init__(  # noqa: PLR0917 - of one caller
        self,
        model: Model,
        folder: Path,
        types: tuple[str, ...],
        max_kl: float,
        sample: Sample,
        n_threads: int,
    ) -> None:
        self._model, self._folder, self._types = model, folder, types
        self._max_kl, self._sample, self._n_threads = max_kl, sample, n_threads
        for name in types:
            _check_free(requantize.target(model.path, folder, name))
        try:  # before any file is written
            Comparison(model.handle, model.handle, n_threads)
        except ModelLoadError as error:
            raise ModelLoadError(f"path: {str(model.path)!r}: {error}") from error
        self._stop = Stop()
        self._start = monotonic()
        self._step, self._n_done = "", 0
        self._rows: list[FileRow] = []

    @property
    def progress(self) -> OptimizeProgress:
        """Number of finished steps, and the current one."""
        return OptimizeProgress(
            n_done=self._n_done,
            n_total=len(_STEPS) * len(self._types),
            step=self._step,
            elapsed_s=monotonic() - self._start,
        )

    def cancel(self) -> None:
        """End the search in a fraction of a second, or after the current file."""
        self._stop.set()

    def run(self) -> OptimizeReport | None:
        """Run the search. A cancelled search leaves no file and returns None."""
        try:
            with self._model, ExitStack() as best_file:
                return self._search(best_file)
        except Stopped:
            return None

    def _search(self, best_file: ExitStack) -> OptimizeReport:
        """Try all types; at any time, keep only the best file so far."""
        source = self._model.path
        best: Requantized | None = None
        chosen: FileRow | None = None
        for name in self._types:
            self._stop.check()
            n_params = self._model.info.n_params
            new = Requantized(source, self._folder, name, n_params, self._n_threads)
            with ExitStack() as this_file:
                file = this_file.enter_context(new)
                row = self._try(name, file)
                if choose([*filter(None, [chosen]), row], self._max_kl) is row:
                    best_file.close()
                    best, chosen = file, row
                    best_file.enter_context(this_file.pop_all())
        return OptimizeReport(
            path=source if best is None else best.keep(),
            original=source,
            chosen=None if chosen is None else chosen.type,
            max_kl=self._max_kl,
            rows=tuple(self._rows),
        )

    def _try(self, name: str, file: Requantized) -> FileRow:
        """Write and measure a file, and return its row."""
        writing, comparing, timing = (f"{step} {name}" for step in _STEPS)
        self._step = writing
        file.quantize()
        measured = self._sample, self._n_threads, self._stop
        with Model(file.path) as other:
            self._next(comparing)
            near = compare(self._model, other, *measured)
            self._next(timing)
            speeds = race(self._model, other, *measured)
        self._n_done += 1
        if not self._rows:
            kind = requantize.type_of(self._model.metadata) or "original"
            size = self._model.path.stat().st_size
            self._rows.append(row_of_original(kind, size, near, speeds))
        self._rows.append(row_of_copy(name, file.path.stat().st_size, near, speeds))
        return self._rows[-1]

    def _next(self, step: str) -> None:
        self._step = step
        self._n_done += 1


def _checked_types(types: object) -> tuple[str, ...]:
    if isinstance(types, str) or not isinstance(types, (list, tuple)):
        raise ArgumentTypeError(
            f"must be a list of texts, not {checks.brief(types)}", argument="types"
        )
    if not types:
        raise ArgumentError("must not be empty", argument="types", code="empty")
    known = tuple(requantize.TYPES)
    names = tuple(
        checks.choice(Argument("types", (i,)), name, known)
        for i, name in enumerate(types)
    )
    for i, name in enumerate(names):
        if name in names[:i]:
            raise ArgumentError(
                f"is {name!r}, which is given twice", argument="types", place=(i,)
            )
    return names


def _candidate_types(
    types: tuple[str, ...] | None, original: str | None
) -> tuple[str, ...]:
    if types is None:
        return tuple(name for name in DEFAULT_TYPES if name != original)
    if original in types:
        i = types.index(original)
        raise ArgumentError(
            f"is {original!r}, the type of the model itself", argument="types", place=(i,)
        )
    return types


def _checked_folder(out: object) -> Path:
    folder = checks.path("out", out)
    if not folder.is_dir():
        raise ArgumentError(
            f"must be a folder that exists, not {str(folder)!r}", argument="out"
        )
    return folder.absolute()  # the working directory may change while the job runs


def _check_free(target: Path) -> None:
    if target.exists():
        raise ArgumentError(
            f"{str(target)!r} exists already, and no file is overwritten; "
            "remove it, or choose another folder or other types",
            argument="out",
            code="exists",
            form="{name}: {problem}",
        )
