"""Provenance of labels, as data for a report."""

from __future__ import annotations

import dataclasses
import math
import platform
from collections import Counter
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil

from llamaherd.calls.asks.calibration import coverage_cause, low_coverage, thought_opening
from llamaherd.calls.run.host import Elsewhere, Host
from llamaherd.coding.annotation.prompts import Frame, PromptPreview, prompt_preview
from llamaherd.coding.sentences import Notes
from llamaherd.engine.memory import hardware

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from llamaherd.coding.annotation.codebook import Codebook
    from llamaherd.coding.annotation.settings import Settings
    from llamaherd.engine.core.arrays import Floats
    from llamaherd.engine.core.stats import Stats
    from llamaherd.engine.model.file import ModelFile
    from llamaherd.engine.model.model import Model

note = Notes("llamaherd.coding.annotation")
_PACKAGES = ("llamaherd", "llama-cpp-python", "llguidance", "numpy")
_CPUINFO = Path("/proc/cpuinfo")
_MAX_METADATA = 4000  # maximum number of characters of a value
# Hashes cached by file state: path, size and modification time.
_HASHES: dict[str, str] = {}
_CALLERS: ContextVar[Mapping[str, str]] = ContextVar(
    "callers", default=MappingProxyType({})
)


@contextmanager
def called_from(**versions: str) -> Iterator[None]:
    """Record the version of the program, such as R, that makes the calls in a block."""
    token = _CALLERS.set(versions)
    try:
        yield
    finally:
        _CALLERS.reset(token)


def record_of(
    context: Host,
    codebook: Codebook,
    frame: Frame,
    settings: Settings,
    versions: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return the part of the provenance that is known before the first text is coded."""
    is_elsewhere = isinstance(context, Elsewhere)
    if is_elsewhere:  # the engine applies its own chat template
        preview = PromptPreview(
            prompt=frame.before + frame.after[0],
            n_prompts=len(frame.after),
            shared=frame.before,
            tokens=None,
            n_shared=None,
        )
    else:
        preview = prompt_preview(codebook, "", context.model, **settings.rendering)
    template = None
    if frame.chat and not is_elsewhere:
        template = settings.template or context.model.chat_template
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "codebook": {"hash": codebook.hash, "content": codebook.to_dict()},
        "settings": settings.to_dict(),
        "prompts": {
            "shared": preview.shared,
            # Prompt for an empty text; the part after the common prefix ends every
            # prompt.
            "empty": preview.prompt,
            "n_shared_tokens": preview.n_shared,
            # A prompt is before + text + after; with chat, the template formats it.
            "before": frame.before,
            "after": list(frame.after),
            "system": frame.system,
            "chat": frame.chat,
            "chat_template": template,
        },
        "model": _model_of(context),
        "context": context.options,
        "versions": {**versions_here(), **_CALLERS.get(), **dict(versions or {})},
        "machine": machine(),
    }


def _model_of(host: Host) -> dict[str, Any]:
    return host.record if isinstance(host, Elsewhere) else model_record(host.model)


def thinking_record(settings: Settings, stats: Stats) -> dict[str, Any]:
    """Describe the thoughts of a coding: counts, and a sentence for a methods section."""
    thinking = settings.thinking
    budget = thinking.budget if thinking else 0
    return {
        "budget": budget,
        "n_thoughts": stats.n_thoughts,
        "n_thoughts_closed": stats.n_thoughts_closed,
        "n_thinking_tokens": stats.n_thinking_tokens,
        "methods": note(
            "thoughts",
            n_each=settings.n_thoughts,
            budget=budget,
            n=stats.n_thoughts,
            n_closed=stats.n_thoughts_closed,
            n_tokens=stats.n_thinking_tokens,
        ),
    }


def model_record(model: Model) -> dict[str, Any]:
    """Return name, size, SHA-256, general metadata and LoRA adapters of a model.

    The hash takes a second per GB and is cached; None if the file changed since loading.
    """
    file = model.file
    metadata = {
        key: value[:_MAX_METADATA]
        for key, value in model.metadata.items()
        if key.startswith("general.")
    }
    return {
        "file": file.name,
        "size_bytes": file.size_bytes,
        "sha256": _hash_of(file),
        "n_gpu_layers": model.n_gpu_layers,
        "loras": [
            {"file": lora.path.name, "scale": lora.scale, "sha256": _hash_of(lora.file)}
            for lora in model.loras
        ],
        "metadata": metadata,
    }


def _hash_of(file: ModelFile) -> str | None:
    """Return the SHA-256 of a file as it was loaded; None if it is no longer known."""
    known = _HASHES.get(file.state)
    if known is not None:
        return known
    try:
        sha256 = file.sha256() if file.is_unchanged else None
    except OSError:  # it was removed meanwhile
        return None
    if sha256 is None or not file.is_unchanged:  # it was changed meanwhile
        return None
    return _HASHES.setdefault(file.state, sha256.hex())


def versions_here() -> dict[str, str]:
    """Return versions of Python and of the packages that affect results."""
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        number = _version(name)
        if number is not None:
            versions[name] = number
    return versions


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def machine() -> dict[str, Any]:
    """Describe the computer: system, processor, cores, memory."""
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "n_cores": hardware.n_cores(),
        "memory_bytes": psutil.virtual_memory().total,
    }


def _processor() -> str:
    try:
        lines = _CPUINFO.read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if "model name" in line)
    return next(names, platform.processor() or platform.machine())


_LEAST_TEXTS = 20  # least number of labelled texts for a note on their common label
_ALMOST_ALL = 0.98
_ONE_SIDED = 0.75  # share of a label of which batch calibration takes texts
_LEAST_MOVED = 10  # least number of texts for a note on calibrated labels
_MANY = 0.2  # share of the texts that it takes
_LEAST_FITTED = 5  # least number of texts for batch calibration without a note


def notes_of(  # noqa: PLR0917 - two callers, in this order
    labels: Sequence[str | None],
    coverage: Floats | None,
    codebook: Codebook,
    settings: Mapping[str, Any],
    prompt: str = "",
    raw: Floats | None = None,
) -> list[str]:
    """Return notes to read before labels are used; [] if nothing is unusual.

    Args:
        labels: n labels; None for missing labels.
        coverage: float[n], total probability of all labels, NaN without a label.
        prompt: A prompt that labels directly follow; "" if they follow a thought.
        raw: float64[n, k], probabilities before calibration.
    """
    known = [label for label in labels if label is not None]
    if codebook.kind.is_generated or not known:
        return []
    notes = []
    label, n = Counter(known).most_common(1)[0]
    is_same = len(known) >= _LEAST_TEXTS and n >= _ALMOST_ALL * len(known)
    if is_same and len(codebook.names) > 1:
        notes.append(note("same_label", n=n, n_known=len(known), label=label))
    low = "" if coverage is None else low_coverage(coverage)
    if low:
        marker = thought_opening(prompt)
        cause = f". {coverage_cause(prompt, chat=True)}" if marker else ""
        notes.append(f"{low}{cause}")
    return [
        *_of_calibration(len(known), settings),
        *_of_moved(labels, codebook, settings, raw),
        *notes[:-1],
        *(f"{last}. {_remedy(codebook, settings, is_same)}" for last in notes[-1:]),
    ]


def _of_calibration(n: int, settings: Mapping[str, Any]) -> list[str]:
    """Return a note on a batch calibration that was fitted to few texts."""
    if settings.get("calibrate") != "batch" or n >= _LEAST_FITTED:
        return []
    return [note("few_texts", n=n)]


def _of_moved(
    labels: Sequence[str | None],
    codebook: Codebook,
    settings: Mapping[str, Any],
    raw: Floats | None,
) -> list[str]:
    """Return a note on a batch calibration that took many texts from a common label."""
    if settings.get("calibrate") != "batch" or raw is None:
        return []
    before = [
        codebook.names[int(np.nanargmax(row))]
        for row, label in zip(raw, labels, strict=True)
        if label is not None and not np.isnan(row).all()
    ]
    after = [label for label in labels if label is not None]
    if len(before) != len(after) or len(before) < _LEAST_MOVED:
        return []
    common, n = Counter(before).most_common(1)[0]
    n_lost = sum(one == common != other for one, other in zip(before, after, strict=True))
    if n < _ONE_SIDED * len(before) or n_lost < _MANY * len(before):
        return []
    return [note("many_moved", n_lost=n_lost, n=n, common=common)]


def _remedy(codebook: Codebook, settings: Mapping[str, Any], is_same: bool) -> str:
    """Suggest settings that were not tried and may give more informative labels."""
    is_scored = settings.get("method") == "classify" and not codebook.kind.is_several
    return note(
        "remedy",
        thinks=bool(settings.get("thinking")),
        no_examples=not codebook.examples,
        no_chat=not settings.get("chat"),
        can_calibrate=is_scored and is_same and settings.get("calibrate") is None,
    )


def plain(value: Any) -> Any:
    """Convert a value to JSON types, with None for NaN."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
