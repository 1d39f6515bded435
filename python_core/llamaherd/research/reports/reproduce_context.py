"""Context with the model and the options of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llamaherd.core import checks
from llamaherd.core.errors import ArgumentError
from llamaherd.memory import hardware
from llamaherd.model.model import Model
from llamaherd.native import shim
from llamaherd.research.coding.record import model_record
from llamaherd.research.reports.model_files import find_model
from llamaherd.research.reports.report_file import unlike
from llamaherd.run.context import Context
from llamaherd.run.host import Host

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping
    from contextlib import ExitStack
    from pathlib import Path

    from llamaherd.research.reports.report_data import Contents

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
    "keep_prefixes",
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


def context_of(
    contents: Contents,
    model: str | os.PathLike[str] | Model | Host | None,
    folder: Path,
    n_seq_max: int | None,
    n_threads: int | None,
    *,
    own: ExitStack,
) -> Host:
    """Build a context with the report's options and model; `own` closes it."""
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
        n_layers = n_gpu_layers_of(recorded)
        n_layers = n_layers if shim.supports_gpu() else 0
        model = own.enter_context(Model(file, lora=loras or None, n_gpu_layers=n_layers))
    _check_model(model, recorded)
    return own.enter_context(Context(model, **options))


def n_gpu_layers_of(recorded: Mapping[str, Any]) -> int:
    """Return the number of layers on the GPU in the report; 0 for old reports."""
    n_layers = recorded.get("n_gpu_layers", 0)
    return checks.integer("the report's n_gpu_layers", n_layers, -checks.INT32_MAX)


def _options(
    contents: Contents, n_seq_max: int | None, n_threads: int | None
) -> dict[str, Any]:
    recorded = contents["run"]["context"]
    unknown = [name for name in recorded if name not in _OF_CONTEXT]
    if unknown:
        raise ArgumentError(
            f"must be a context with {', '.join(unknown)}, as in the report: these "
            "settings cannot be read from a report",
            argument="model",
            code="unknown_settings",
        )
    options = dict(recorded)
    n_cores = hardware.n_cores()
    for name in ("n_threads", "n_threads_batch"):
        if isinstance(options.get(name), int):
            options[name] = n_threads or min(options[name], n_cores)
    if n_seq_max is not None:
        options["n_seq_max"] = n_seq_max
    return options


def _check_model(model: Model, recorded: Mapping[str, Any]) -> None:
    """Raise an error if the model or its adapters differ from the report."""
    found = model_record(model)
    if recorded.get("sha256") is None:
        raise unlike(
            "the report has no SHA-256 of the model, which came from a Llama that "
            "differed from its file",
            "no_hash",
        )
    if found["sha256"] != recorded["sha256"]:
        raise ArgumentError(
            f"the model was changed: {found['file']} has the SHA-256 "
            f"{str(found['sha256'])[:12]}..., the report's {recorded['file']} has "
            f"{recorded['sha256'][:12]}...",
            argument="model",
            code="changed",
            form="{name}: {problem}",
        )
    adapters = [(each["sha256"], each["scale"]) for each in found["loras"]]
    if adapters != [
        (each["sha256"], each["scale"]) for each in recorded.get("loras", [])
    ]:
        raise ArgumentError(
            "has other LoRA adapters than the report's model",
            argument="model",
            code="changed",
        )
