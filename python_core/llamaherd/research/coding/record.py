"""How labels came about, as data that a report can be written from."""

from __future__ import annotations

import platform
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from llamaherd.memory import hardware
from llamaherd.research.coding.prompts import prompt_preview

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.model.model import Model
    from llamaherd.research.coding.codebook import Codebook
    from llamaherd.research.coding.prompts import Frame
    from llamaherd.run.host import Host

_PACKAGES = ("llamaherd", "llama-cpp-python", "llguidance", "numpy")
_CPUINFO = Path("/proc/cpuinfo")
_MAX_METADATA = 4000  # characters of a value
# Hashes by the files' state: path, size and time tell whether it is the same content.
_HASHES: dict[str, str] = {}


def record_of(
    context: Host,
    codebook: Codebook,
    frame: Frame,
    settings: Mapping[str, Any],
    versions: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """All that was known before the first text was coded.

    Args:
        context: Where texts are coded.
        codebook: By which.
        frame: What stands around each text in prompts.
        settings: JSON-able.
        versions: Further ones, such as that of R.
    """
    preview = prompt_preview(codebook, "", context.model, chat=frame.chat)
    return {
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "codebook": {"hash": codebook.hash, "content": codebook.to_dict()},
        "settings": dict(settings),
        "prompts": {
            "shared": preview.shared,
            # That of a text without a character: what it goes on with ends all others.
            "empty": preview.prompt,
            "n_shared_tokens": preview.n_shared,
            # A prompt is before + text + after; with chat, the template of that.
            "before": frame.before,
            "after": list(frame.after),
            "system": frame.system,
            "chat": frame.chat,
            "chat_template": context.model.chat_template if frame.chat else None,
        },
        "model": model_record(context.model),
        "context": context.options,
        "versions": {**versions_here(), **dict(versions or {})},
        "machine": machine(),
    }


def model_record(model: Model) -> dict[str, Any]:
    """Name, size, SHA-256 and general metadata of a model's file, and where it is.

    The hash takes about a second for each GB, once for a file as it is.
    """
    file = model.file
    sha256 = None
    if file is not None:
        sha256 = _HASHES.get(file.state)
        if sha256 is None and file.is_unchanged:
            found = file.sha256()
            sha256 = None if found is None else found.hex()
            if sha256 is not None:
                _HASHES[file.state] = sha256
    metadata = {
        key: value[:_MAX_METADATA]
        for key, value in model.metadata.items()
        if key.startswith("general.")
    }
    return {
        "file": None if file is None else file.name,
        "size_bytes": None if model.path is None else model.path.stat().st_size,
        "sha256": sha256,
        "n_gpu_layers": model.n_gpu_layers,
        "loras": [
            {
                "file": None if lora.path is None else lora.path.name,
                "scale": lora.scale,
                "sha256": _hash_of_lora(lora.file),
            }
            for lora in model.loras
        ],
        "metadata": metadata,
    }


def _hash_of_lora(file: Any) -> str | None:  # noqa: ANN401 - ModelFile or None
    found = None if file is None else file.sha256()
    return None if found is None else str(found.hex())


def versions_here() -> dict[str, str]:
    """Versions of Python and of the packages that the results depend on."""
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
    """The computer: system, processor, cores, memory."""
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
