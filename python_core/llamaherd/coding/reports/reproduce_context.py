"""Context with the model and the options of a report."""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llamaherd.calls.run.context import Context
from llamaherd.calls.run.host import Host
from llamaherd.coding.annotation.record import model_record
from llamaherd.coding.reports.report_data import Contents, error_of_content
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.hub.cache import list_cached_models, model_cache_dir
from llamaherd.engine.memory import hardware
from llamaherd.engine.model.file import ModelFile
from llamaherd.engine.model.model import Model
from llamaherd.engine.native import shim

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import ExitStack


def find_model(
    recorded: Mapping[str, Any], path: str | os.PathLike[str] | None, folder: Path
) -> tuple[Path, list[tuple[Path, float]]]:
    """Return the model file, and its adapter files with their scales."""
    if path is not None and not isinstance(path, (str, os.PathLike)):
        raise ArgumentTypeError(
            f"must be a path, a Model or a Context, not {checks.brief(path)}",
            argument="model",
        )
    folders = [folder, Path.cwd()]
    if path is None:
        file = _recorded_file("model", recorded, folders)
    else:
        file = Path(os.fsdecode(path)).expanduser()
        if not file.is_file():
            raise FileNotFoundError(f"there is no model file {file}")
        folders.insert(0, file.parent)
    loras = [
        (_recorded_file("LoRA adapter", adapter, folders), float(adapter["scale"]))
        for adapter in recorded.get("loras", [])
    ]
    return file, loras


def _recorded_file(
    what: str, recorded: Mapping[str, Any], folders: Sequence[Path]
) -> Path:
    """Find a file with the recorded name and content."""
    name = recorded.get("file")
    if not isinstance(name, str) or Path(name).name != name:
        raise ArgumentError(
            f"must be given: the report does not name the {what}'s file",
            argument="model",
            code="missing",
        )
    others: list[Path] = []
    for path in _candidates(name, folders):
        if _sha256(path) == recorded.get("sha256"):
            return path
        others.append(path)
    if others:
        raise _changed_since(
            f"the {what} was changed: {others[0]} has another SHA-256 than the report's "
            f"{name}"
        )
    looked = ", ".join(str(folder) for folder in [*folders, model_cache_dir()])
    remedy = "put the file into one of them"
    if what in {"model", "LoRA adapter"}:
        remedy = f"pass the {what}'s path as model"
    raise FileNotFoundError(f"there is no {name} in {looked}: {remedy}")


def _candidates(name: str, folders: Sequence[Path]) -> Iterator[Path]:
    for folder in folders:
        if (folder / name).is_file():
            yield folder / name
    yield from (model.path for model in list_cached_models() if model.name == name)


def _changed_since(problem: str) -> ArgumentError:
    return ArgumentError(
        problem, argument="model", code="changed", form="{name}: {problem}"
    )


def _sha256(path: Path) -> str:
    digest = ModelFile(path).sha256()
    return "" if digest is None else digest.hex()


def later_steps(
    steps: Mapping[str, Any] | None, folders: Sequence[Path], closing: ExitStack
) -> dict[str, Any]:
    """Return the arguments of `annotate` for the steps of a report."""
    if steps is None:
        return {}
    arguments = {
        "until": steps["until"],
        "unsure": steps["unsure"],
        "seed": steps["seed"],
    }
    if "embeddings" in steps:
        file = _file("model for embeddings", steps["embeddings"], folders)
        arguments["embeddings"] = closing.enter_context(Model(file))
    else:
        arguments["until"] = None  # there was no head
    if "larger" in steps:
        recorded = steps["larger"]
        file = _file("larger model", recorded, folders)
        model = closing.enter_context(Model(file))
        options = _on_this_machine(steps["larger_context"])
        arguments["larger"] = closing.enter_context(Context(model, **options))
    if arguments["until"] is None and "larger" not in arguments:
        return {"seed": steps["seed"]}  # the model labelled all texts
    return arguments


def _file(what: str, recorded: Mapping[str, Any], folders: Sequence[Path]) -> Path:
    if recorded.get("sha256") is None or recorded.get("loras"):
        raise ArgumentError(
            f"cannot be repeated: the report's {what} has adapters, or came from a Llama "
            "that differed from its file",
            argument="path",
            code="no_hash",
            form="{name}: the coding {problem}",
        )
    return _recorded_file(what, recorded, folders)


def context_of(
    contents: Contents,
    model: str | os.PathLike[str] | Model | Host | None,
    folder: Path,
    n_seq_max: int | None,
    n_threads: int | None,
    *,
    closing: ExitStack,
) -> Host:
    """Build a context with the report's options and model; `closing` closes it."""
    recorded = contents["run"]["model"]
    if isinstance(model, Host):
        if n_seq_max is not None or n_threads is not None:
            raise ArgumentError(
                "and n_threads are set by the given context: omit them",
                argument="n_seq_max",
            )
        _check_model(model.model, recorded)
        return model
    options = _options(contents, n_seq_max, n_threads)
    if not isinstance(model, Model):
        file, loras = find_model(recorded, model, folder)
        n_layers = recorded.get("n_gpu_layers", 0)  # old reports have none
        least = -checks.INT32_MAX
        n_layers = checks.integer("the report's n_gpu_layers", n_layers, least)
        n_layers = n_layers if shim.supports_gpu() else 0
        model = closing.enter_context(
            Model(file, lora=loras or None, n_gpu_layers=n_layers)
        )
    _check_model(model, recorded)
    return closing.enter_context(Context(model, **options))


def _options(
    contents: Contents, n_seq_max: int | None, n_threads: int | None
) -> dict[str, Any]:
    recorded = contents["run"]["context"]
    known = inspect.signature(Context).parameters
    unknown = [name for name in recorded if name not in known or name == "model"]
    if unknown:
        raise ArgumentError(
            f"must be a context with {', '.join(unknown)}, as in the report: these "
            "settings cannot be read from a report",
            argument="model",
            code="unknown_settings",
        )
    options = _on_this_machine(recorded, n_threads)
    if n_seq_max is not None:
        options["n_seq_max"] = n_seq_max
    return options


def _on_this_machine(
    recorded: Mapping[str, Any], n_threads: int | None = None
) -> dict[str, Any]:
    """Return options of a context with the threads given, or that the machine has."""
    options = dict(recorded)
    for name in ("n_threads", "n_threads_batch"):
        if isinstance(options.get(name), int):
            options[name] = n_threads or min(options[name], hardware.n_cores())
    return options


def _check_model(model: Model, recorded: Mapping[str, Any]) -> None:
    """Raise an error if the model or its adapters differ from the report."""
    record = model_record(model)
    if recorded.get("sha256") is None:
        raise error_of_content(
            "the report has no SHA-256 of the model, which came from a Llama that "
            "differed from its file",
            "no_hash",
        )
    if record["sha256"] != recorded["sha256"]:
        raise _changed_since(
            f"the model was changed: {record['file']} has the SHA-256 "
            f"{str(record['sha256'])[:12]}..., the report's {recorded.get('file')} has "
            f"{str(recorded['sha256'])[:12]}..."
        )
    adapters, others = (
        [(lora["sha256"], lora["scale"]) for lora in source.get("loras", [])]
        for source in (record, recorded)
    )
    if adapters != others:
        raise ArgumentError(
            "has other LoRA adapters than the report's model",
            argument="model",
            code="changed",
        )
