"""Finding the type of a model that this processor computes fastest."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from llamaherd.core import checks
from llamaherd.core.errors import ModelLoadError
from llamaherd.memory import hardware
from llamaherd.model.model import Model
from llamaherd.native.quantize import Comparison
from llamaherd.optimize import requantize
from llamaherd.optimize.job import OptimizeJob, reporter
from llamaherd.optimize.measure import (
    Sample,
    Stop,
    compare,
    race,
    sample_of,
)
from llamaherd.optimize.report import Candidate, OptimizeReport, choose
from llamaherd.optimize.requantize import Requantized
from llamaherd.run.interrupts import Interrupts, wait_for_end

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from llamaherd.optimize.job import ProgressOption, Work

DEFAULT_TYPES = ("Q8_0", "Q4_0", "Q4_K_M")
_MAX_THREADS = 1024


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
    """Requantizes a model to the type that this processor computes fastest.

    Tries each of `types`: writes the model in that type (`llama_model_quantize` of
    llama.h), measures both files taking turns, and compares their predictions on a text.
    Keeps the fastest file whose answers move little enough, as
    `<name>.<type>.llamaherd.gguf`, and removes the others. The original is not touched,
    and no file is ever overwritten.

    The measures: prefill speed is that of one prompt of 512 tokens, decode speed that of
    8 answers generated together, both medians of up to 5 rounds; files are ranked by the
    geometric mean of the two speedups, and 1.05 is the least that is worth a file. KL
    divergence and perplexity are as llama.cpp's perplexity program defines them, in
    chunks of 256 tokens.

    Ctrl-C ends it and leaves no file, but waits for a file that is being written:
    libllama cannot be interrupted there, which takes some seconds per GB.

    Args:
        path: A GGUF file.
        out: Folder for the new file; None: that of `path`.
        types: Types to try, out of "F16", "BF16", "Q8_0", "Q6_K", "Q5_1", "Q5_0",
            "Q5_K_M", "Q5_K_S", "Q4_1", "Q4_0", "Q4_K_M", "Q4_K_S" and "IQ4_NL". None:
            "Q8_0", "Q4_0" and "Q4_K_M", but not the one that the model has.
        max_kl: Largest mean KL divergence, in nats, that the kept file may have. Q8_0 of
            two small models had 0.005 and 0.006; see docs/decisions/0013.
        text: Sample text to compare on, 64 tokens or more, of which up to 4096 are used;
            best such as the model will meet. None: from a novel in the public domain.
        n_threads: Threads; None: the physical cores.
        progress: True shows a progress bar; a function is called with each
            OptimizeProgress.

    Returns:
        What was measured, and in `path` the file to use.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument has a value that it cannot take, such as a type that the
            model has already, or one whose file exists.
        ModelLoadError: `path` is missing, is no GGUF file, or does not predict text.
        QuantizeError: There is no room, no right to write, or no such type of this model.
        ContextError: There is not enough memory.
    """
    with reporter(progress) as show, Interrupts() as interrupts:
        with interrupts.let_through():
            prepared = _prepare(path, out, types, max_kl, text, n_threads)
        job = OptimizeJob(*prepared)
        wait_for_end(job, show, interrupts)
        report = job.result()
    interrupts.deliver()
    if report is None:  # only interpreters that end cancel it
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
    """Starts `model_optimize` in a thread of its own; same arguments, same errors.

    What is wrong with the arguments is raised here, the rest by the job's `result`.
    """
    return OptimizeJob(*_prepare(path, out, types, max_kl, text, n_threads))


def _prepare(  # noqa: PLR0917 - those of `start_optimize`
    path: str | os.PathLike[str],
    out: str | os.PathLike[str] | None,
    types: Sequence[str] | None,
    max_kl: float,
    text: str | None,
    n_threads: int | None,
) -> tuple[Work, int]:
    """The arguments of the job."""
    limit = checks.real("max_kl", max_kl, 0, 1e6)
    threads = (
        hardware.n_cores()
        if n_threads is None
        else checks.integer("n_threads", n_threads, 1, _MAX_THREADS)
    )
    if text is not None:
        checks.text("text", text)
    chosen_types = None if types is None else _checked_types(types)
    with ExitStack() as stack:
        model = stack.enter_context(Model(path))
        source = model.path
        if source is None:  # only borrowed models have none
            raise RuntimeError("the model has no path")
        folder = _checked_folder(out, source)
        original_type = requantize.type_of(model.metadata)
        names = _candidate_types(chosen_types, original_type)
        for name in names:
            _check_free(requantize.target(source, folder, name))
        _check_predicts(model, source, threads)
        plan = _Plan(
            model=model,
            source=source,
            folder=folder,
            original_type=original_type,
            types=names,
            max_kl=limit,
            sample=sample_of(model, text),
            n_threads=threads,
        )
        # From here on the job closes the model.
        closing = stack.pop_all()
    return partial(_run, plan, closing), 3 * len(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """Checked arguments."""

    model: Model
    source: Path
    folder: Path
    original_type: str | None
    types: tuple[str, ...]
    max_kl: float
    sample: Sample
    n_threads: int


def _run(
    plan: _Plan, closing: ExitStack, stop: Stop, step: Callable[[str], None]
) -> OptimizeReport:
    """Tries all types. Of the files only the best one so far is there."""
    with closing, ExitStack() as best_file:
        tried: list[Candidate] = []
        best: Requantized | None = None
        for name in plan.types:
            stop.check()
            with ExitStack() as this_file:
                file = this_file.enter_context(
                    Requantized(
                        plan.source,
                        plan.folder,
                        name,
                        plan.model.info.n_params,
                        plan.n_threads,
                    )
                )
                tried.append(_try(plan, name, file, stop, step))
                if choose(tuple(tried), plan.max_kl) is tried[-1]:
                    best_file.close()
                    best = file
                    best_file.enter_context(this_file.pop_all())
        winner = choose(tuple(tried), plan.max_kl)
        return OptimizeReport(
            path=plan.source if best is None else best.keep(),
            original=plan.source,
            original_type=plan.original_type,
            chosen=None if winner is None else winner.type,
            max_kl=plan.max_kl,
            original_size_bytes=plan.source.stat().st_size,
            candidates=tuple(tried),
        )


def _try(
    plan: _Plan, name: str, file: Requantized, stop: Stop, step: Callable[[str], None]
) -> Candidate:
    step(f"writing {name}")
    file.quantize()
    with Model(file.path) as other:
        step(f"comparing {name}")
        closeness = compare(plan.model, other, plan.sample, plan.n_threads, stop)
        step(f"timing {name}")
        speeds = race(plan.model, other, plan.sample, plan.n_threads, stop)
    return Candidate(
        type=name,
        size_bytes=file.path.stat().st_size,
        closeness=closeness,
        speeds=speeds,
    )


# ---- arguments ------------------------------------------------------------------------


def _checked_types(types: object) -> tuple[str, ...]:
    if isinstance(types, str) or not isinstance(types, (list, tuple)):
        raise TypeError(f"types must be a list of str, not {types!r}")
    if not types:
        raise ValueError("types must not be empty")
    known = tuple(requantize.TYPES)
    names = tuple(
        checks.choice(f"types[{i}]", name, known) for i, name in enumerate(types)
    )
    for i, name in enumerate(names):
        if name in names[:i]:
            raise ValueError(f"types[{i}] is {name!r}, which is there already")
    return names


def _candidate_types(
    asked: tuple[str, ...] | None, original: str | None
) -> tuple[str, ...]:
    if asked is None:
        return tuple(name for name in DEFAULT_TYPES if name != original)
    if original in asked:
        i = asked.index(original)
        raise ValueError(f"types[{i}] is {original!r}, which the model has already")
    return asked


def _checked_folder(out: object, source: Path) -> Path:
    if out is None:
        return source.parent
    if not isinstance(out, (str, Path)) and not hasattr(out, "__fspath__"):
        raise TypeError(f"out must be a str or a path, not {out!r}")
    folder = Path(out)
    if not folder.is_dir():
        raise ValueError(f"out must be a folder that exists, not {str(folder)!r}")
    return folder


def _check_free(target: Path) -> None:
    if target.exists():
        raise ValueError(
            f"out: {str(target)!r} exists already, and no file is overwritten; "
            "remove it, or name another folder or other types"
        )


def _check_predicts(model: Model, source: Path, n_threads: int) -> None:
    """Models that predict no text are refused before anything is written."""
    try:
        Comparison(model.handle, model.handle, n_threads)
    except ModelLoadError as error:
        raise ModelLoadError(f"path: {str(source)!r}: {error}") from error
