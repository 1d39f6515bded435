"""Running a report again, and saying whether everything came out the same."""

from __future__ import annotations

import math
import os
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core import checks
from llamaherd.core.table import CANCELLED
from llamaherd.memory import hardware
from llamaherd.model.model import Model
from llamaherd.native import shim
from llamaherd.research import frames
from llamaherd.research.coding.annotate import annotated
from llamaherd.research.coding.codebook import Codebook
from llamaherd.research.coding.record import machine, model_record, versions_here
from llamaherd.research.coding.texts import checked_texts, hash_of_texts
from llamaherd.research.reports.model_files import find_model
from llamaherd.research.reports.report_data import hidden, sha256_of
from llamaherd.research.reports.report_file import read_report
from llamaherd.research.reports.reproduction import Reproduction, Then, compared
from llamaherd.run.context import Context
from llamaherd.run.host import Host

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.api.progress import ProgressOption
    from llamaherd.research.coding.coded import Coded
    from llamaherd.research.reports.report_data import Contents

_TEXT = ".text"  # the column that texts of a report are put in: no field is called so
_OF_CONTEXT = (
    "n_ctx",
    "n_seq_max",
    "kv_layout",
    "n_threads",
    "n_threads_batch",
    "n_batch",
    "n_ubatch",
    "offload_kqv",
    "swa_full",
    "type_k",
    "type_v",
    "flash_attn",
    "deterministic",
    "rope_scaling_type",
    "rope_freq_base",
    "rope_freq_scale",
    "yarn_ext_factor",
    "yarn_attn_factor",
    "yarn_beta_fast",
    "yarn_beta_slow",
    "yarn_orig_ctx",
)
_OF_ANNOTATE = (
    "method",
    "chat",
    "date",
    "split",
    "part_tokens",
    "normalize",
    "calibrate",
    "seed",
    "temperature",
    "max_tokens",
)
# What a deterministic context's answers do not depend on.
_FREE = ("n_ctx", "n_seq_max", "n_threads", "n_threads_batch")


def reproduce(
    path: str | os.PathLike[str],
    model: str | os.PathLike[str] | Model | Host | None = None,
    *,
    data: Any = None,  # noqa: ANN401 - a data frame of any kind
    text: str | None = None,
    n_seq_max: int | None = None,
    n_threads: int | None = None,
    progress: ProgressOption = False,
) -> Reproduction:
    """Codes the texts of a report again and compares each label and each probability.

    Model, codebook and texts must be those of then; versions and machines that differ are
    told. As many layers are on the GPU as then, if one can be used here. Where the
    context was deterministic, everything is the same with the same versions, whatever
    `n_seq_max` and `n_threads` are.

    Args:
        path: The report's page, or its JSON.
        model: The model's file; or a model, or a context, to use. None: a file of that
            name beside the report, in the working directory, or in the models' cache.
        data: A data frame with the texts, for a report without them; otherwise they are
            compared with the report's.
        text: Name of its column of texts; None: as then.
        n_seq_max: Prompts that may run at once; None: as then.
        n_threads: None: as then, but not more than this machine has cores.
        progress: As in `generate_parallel`.

    Returns:
        What is the same, and what is not. `print` says it.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: It is no report; model, codebook or data have changed, or are not
            given; an argument is out of range.
        FileNotFoundError: There is no such model file.
        OSError: The report cannot be read.
        ModelLoadError: The model cannot be loaded.
        Interrupted: Ctrl-C; its `results` is the `Coded` of what was finished.
    """
    with Replay.of(
        path, model, data=data, text=text, n_seq_max=n_seq_max, n_threads=n_threads
    ) as replay:
        coded = annotated(
            *replay.arguments, replay.context, progress=progress, **replay.settings
        )
        return replay.compared(coded)


@dataclass(frozen=True, kw_only=True, eq=False)
class Replay:
    """A report that is about to run again; a context manager, which closes what it made.

    Attributes:
        contents: Of the report.
        arguments: The first three of `annotate`: data frame, column, codebook.
        settings: Its further ones.
        context: Where to run.
        own: What is closed at the end.
    """

    contents: Contents
    arguments: tuple[Any, str, Codebook]
    settings: dict[str, Any]
    context: Host
    own: ExitStack

    @classmethod
    def of(
        cls,
        path: str | os.PathLike[str],
        model: str | os.PathLike[str] | Model | Host | None,
        *,
        data: Any = None,  # noqa: ANN401 - a data frame of any kind
        text: str | None = None,
        n_seq_max: int | None = None,
        n_threads: int | None = None,
    ) -> Replay:
        """Reads and checks the report, and loads its model; arguments of `reproduce`."""
        if not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"path must be a str or a path, not {checks.shown(path)}")
        file = Path(os.fsdecode(path)).expanduser()
        contents = read_report(file)
        codebook = _codebook(contents)
        settings = _settings(contents)
        frame, name = _frame(contents, data, text)
        _check_calibration(contents)
        with ExitStack() as own:
            context = _context(
                contents, model, file.parent, n_seq_max, n_threads, own=own
            )
            return cls(
                contents=contents,
                arguments=(frame, name, codebook),
                settings=settings,
                context=context,
                own=own.pop_all(),
            )

    def compared(self, coded: Coded) -> Reproduction:
        """Compares labels of now with those of the report."""
        return _compared(self.contents, coded)

    def close(self) -> None:
        """Closes the model and the context that were made for it."""
        self.own.close()

    def __enter__(self) -> Replay:  # noqa: PYI034 - typing.Self is of Python 3.11
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _codebook(contents: Contents) -> Codebook:
    told = contents["run"]["codebook"]
    try:
        codebook = Codebook.from_dict(told["content"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the report's codebook is damaged: {error}") from None
    if codebook.hash != told.get("hash"):
        raise ValueError(
            f"the report's codebook was changed: its content has the hash "
            f"{codebook.hash[:12]}..., not {str(told.get('hash'))[:12]}..."
        )
    return codebook


def _frame(
    contents: Contents,
    data: Any,  # noqa: ANN401 - a data frame of any kind
    text: str | None,
) -> tuple[Any, str]:
    """A data frame with the texts of then, and the name of its column."""
    told = contents["data"]
    if "texts" in told:
        known = told["texts"]
        found = [None if place is None else known[place] for place in told["rows"]]
        if hash_of_texts(found) != told.get("sha256"):
            raise ValueError("the report's texts were changed: their hash is another one")
        if data is None:
            return {_TEXT: found}, _TEXT
    elif data is None:
        raise ValueError(
            "data must be given: this report holds no texts, only their hashes"
        )
    name = text or str(told["text"])
    given = checked_texts(frames.column(data, name, "text"), name)
    if len(given) != len(told["rows"]):
        raise ValueError(
            f"data has {len(given):,} rows; the report is of {len(told['rows']):,}"
        )
    hashes = told.get("texts_sha256") or [sha256_of(each) for each in told["texts"]]
    for i, (value, place) in enumerate(zip(given, told["rows"], strict=True)):
        expected = None if place is None else hashes[place]
        if (None if value is None else sha256_of(value)) != expected:
            raise ValueError(f"data, row {i}: the text is not the one that was coded")
    return {_TEXT: given}, _TEXT


def _settings(contents: Contents) -> dict[str, Any]:
    """Arguments of `annotate` that labels depend on, and no others."""
    told = contents["run"]["settings"]
    unknown = [name for name in told if name not in _OF_ANNOTATE]
    if unknown:
        raise ValueError(
            f"the report has settings that are unknown: {', '.join(unknown)}"
        )
    return dict(told)


def _check_calibration(contents: Contents) -> None:
    run = contents["run"]
    is_all = run.get("texts_sha256") == contents["data"].get("sha256")
    if run["settings"].get("calibrate") == "batch" and not is_all:
        raise ValueError(
            "the report holds other rows than were coded: with calibrate='batch' their "
            "probabilities cannot come out the same"
        )


def _context(
    contents: Contents,
    model: str | os.PathLike[str] | Model | Host | None,
    folder: Path,
    n_seq_max: int | None,
    n_threads: int | None,
    *,
    own: ExitStack,
) -> Host:
    """A context with the options of then on the model of then; `own` closes it."""
    told = contents["run"]["model"]
    if isinstance(model, Host):
        if n_seq_max is not None or n_threads is not None:
            raise ValueError("n_seq_max and n_threads are the context's that was given")
        _check_model(model.model, told)
        return model
    options = _options(contents, n_seq_max, n_threads)
    if not isinstance(model, Model):
        file, loras = find_model(told, model, folder)
        n_layers = _n_gpu_layers(told)
        n_layers = n_layers if shim.supports_gpu() else 0
        model = own.enter_context(Model(file, lora=loras or None, n_gpu_layers=n_layers))
    _check_model(model, told)
    return own.enter_context(Context(model, **options))


def _n_gpu_layers(told: Mapping[str, Any]) -> int:
    """Layers that were in video memory then; reports of before did not tell."""
    n_layers = told.get("n_gpu_layers", 0)
    return checks.integer("the report's n_gpu_layers", n_layers, -checks.INT32_MAX)


def _options(
    contents: Contents, n_seq_max: int | None, n_threads: int | None
) -> dict[str, Any]:
    told = contents["run"]["context"]
    unknown = [name for name in told if name not in _OF_CONTEXT]
    if unknown:
        raise ValueError(
            f"the context of then had {', '.join(unknown)}, which cannot be set from a "
            "report: give a context that has it"
        )
    options = dict(told)
    n_cores = hardware.n_cores()
    for name in ("n_threads", "n_threads_batch"):
        if isinstance(options.get(name), int):
            options[name] = n_threads or min(options[name], n_cores)
    if n_seq_max is not None:
        options["n_seq_max"] = n_seq_max
    return options


def _check_model(model: Model, told: Mapping[str, Any]) -> None:
    """Refuses a model that is another one, by name."""
    found = model_record(model)
    if told.get("sha256") is None:
        raise ValueError(
            "the report does not know its model's SHA-256: it was one of a Llama that "
            "differs from its file"
        )
    if found["sha256"] != told["sha256"]:
        raise ValueError(
            f"the model was changed: {found['file']} has the SHA-256 "
            f"{str(found['sha256'])[:12]}..., the report's {told['file']} has "
            f"{told['sha256'][:12]}..."
        )
    adapters = [(each["sha256"], each["scale"]) for each in found["loras"]]
    if adapters != [(each["sha256"], each["scale"]) for each in told.get("loras", [])]:
        raise ValueError("the model's LoRA adapters are others than in the report")


def _compared(contents: Contents, coded: Coded) -> Reproduction:
    told = contents["labels"]
    values = told["values"]
    labels = hidden(coded.labels) if told.get("are_hashes") else coded.labels
    errors = contents["errors"]
    k = len(coded.names)
    probs = contents.get("probs")
    then = Then(
        rows=contents["data"]["rows"],
        labels=values,
        probs=None if probs is None else _array(probs, k),
        computed=[errors.get(str(i)) != CANCELLED for i in range(len(values))],
    )
    run = contents["run"]
    return compared(
        then,
        coded,
        labels,
        is_deterministic=bool(
            run["context"].get("deterministic")
            and coded.run["context"].get("deterministic")
        ),
        versions=_differences(run, coded.run),
    )


def _array(probs: list[list[float | None] | None], k: int) -> Any:  # noqa: ANN401
    rows = [
        [math.nan] * k
        if row is None
        else [math.nan if value is None else value for value in row]
        for row in probs
    ]
    try:
        return np.array(rows, dtype=np.float64).reshape(len(rows), k)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the report's probabilities are damaged: {error}") from None


def _differences(
    run: Mapping[str, Any], again: Mapping[str, Any]
) -> dict[str, tuple[str, str]]:
    """What was otherwise then, by name: versions, machine, options that may matter."""
    context = again["context"]
    pairs = [(run["versions"], versions_here()), (run["machine"], machine())]
    exact = run["context"].get("deterministic") and context.get("deterministic")
    free = _FREE if exact else ()
    pairs.append(
        (
            {name: v for name, v in run["context"].items() if name not in free},
            dict(context),
        )
    )
    found = {}
    for before, now in pairs:
        for name, value in before.items():
            if name in now and now[name] != value:
                found[name] = (str(value), str(now[name]))
    before, after = _n_gpu_layers(run["model"]), again["model"]["n_gpu_layers"]
    if before != after:
        missing = "" if shim.supports_gpu() else " (no GPU can be used here)"
        found["n_gpu_layers"] = (str(before), f"{after}{missing}")
    return found
