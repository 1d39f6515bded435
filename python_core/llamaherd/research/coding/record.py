"""Provenance of labels, as data for a report."""

from __future__ import annotations

import platform
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import psutil

from llamaherd.core.decimals import percents
from llamaherd.memory import hardware
from llamaherd.research.coding.prompts import PromptPreview, prompt_preview
from llamaherd.run.elsewhere import Elsewhere

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from llamaherd.core.stats import Stats
    from llamaherd.model.file import ModelFile
    from llamaherd.model.model import Model
    from llamaherd.research.coding.codebook import Codebook
    from llamaherd.research.coding.prompts import Frame
    from llamaherd.research.coding.settings import Settings
    from llamaherd.run.host import Host

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
    """Return the part of the provenance that is known before the first text is coded.

    Args:
        context: Context of the coding.
        codebook: Codebook of the coding.
        frame: Parts of the prompt before and after each text.
        settings: Settings of the coding.
        versions: Further versions by program, such as the version of R.
    """
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
        preview = prompt_preview(
            codebook,
            "",
            context.model,
            chat=frame.chat,
            thinking=settings.thinking,
            variables=settings.variables,
            template=settings.template,
            merge_system=settings.merge_system,
        )
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
    wanted = settings.thinking
    budget = wanted.budget if wanted else 0
    n, n_closed = stats.n_thoughts, stats.n_thoughts_closed
    each = "a thought" if settings.n_thoughts == 1 else f"{settings.n_thoughts} thoughts"
    told = f"Before each answer the model wrote {each} of at most {budget:,} tokens"
    if n:
        told += (
            f", {stats.n_thinking_tokens / n:,.0f} on average; "
            f"{percents(n_closed / n, 0)} of {n:,} were ended at this limit"
        )
    return {
        "budget": budget,
        "n_thoughts": n,
        "n_thoughts_closed": n_closed,
        "n_thinking_tokens": stats.n_thinking_tokens,
        "methods": f"{told}.",
    }


def model_record(model: Model) -> dict[str, Any]:
    """Return name, size, SHA-256, general metadata and LoRA adapters of a model.

    The hash takes about a second per GB and is cached. It is None for a file that was
    changed or removed after it was loaded.
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
            {
                "file": lora.path.name,
                "scale": lora.scale,
                "sha256": _hash_of(lora.file),
            }
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
        found = file.sha256() if file.is_unchanged else None
    except OSError:  # it was removed meanwhile
        return None
    if found is None or not file.is_unchanged:  # it was changed meanwhile
        return None
    return _HASHES.setdefault(file.state, found.hex())


def versions_here() -> dict[str, str]:
    """Return versions of Python and of the packages that affect results."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        number = _version(name)
        if number is not None:
            found[name] = number
    return found


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
