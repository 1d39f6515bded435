"""Models that Ollama has downloaded, read from its store."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from llamaherd.engine.core.errors import ModelLoadError
from llamaherd.engine.core.json_text import DAMAGED

_MODEL_LAYER = "application/vnd.ollama.image.model"
_REGISTRY = "registry.ollama.ai"
_DIGEST = re.compile(r"sha256[:-]([0-9a-f]{64})")


@dataclass(frozen=True, slots=True, kw_only=True)
class OllamaModel:
    """A model in the store of Ollama.

    Attributes:
        name: Name in Ollama's notation, such as "llama3.2:1b".
        path: Path of the GGUF file.
        size_bytes: Size of the file in bytes.
        sha256: SHA-256 of the content in hexadecimal, from the name of the file.
        modified: Time at which the model was pulled, in UTC.
    """

    name: str
    path: Path
    size_bytes: int
    sha256: str
    modified: datetime


def stores() -> list[Path]:
    """Return the possible folders of Ollama's store; only OLLAMA_MODELS if it is set."""
    named = os.environ.get("OLLAMA_MODELS")
    if named:
        return [Path(named).expanduser()]
    return [
        Path("~/.ollama/models").expanduser(),
        Path("/usr/share/ollama/.ollama/models"),
        Path("/var/lib/ollama/models"),
    ]


def list_ollama_models() -> list[OllamaModel]:
    """Return the GGUF models in the store of Ollama on this machine, sorted by name.

    Ollama does not have to run. The environment variable OLLAMA_MODELS sets another
    store.
    """
    models: dict[str, OllamaModel] = {}
    for store in stores():
        manifests = store / "manifests"
        try:
            paths = sorted(path for path in manifests.rglob("*") if path.is_file())
        except OSError:  # a service's store may be unreadable
            continue
        for path in paths:
            model = _read(store, path)
            if model is not None:
                models.setdefault(model.name, model)
    return sorted(models.values(), key=lambda model: model.name)


def ollama_path(name: str) -> Path:
    """Return the path of a model in the store of Ollama.

    Args:
        name: Name in Ollama's notation; the default tag is "latest".
    """
    models = list_ollama_models()
    asked = name.strip().lower()
    wanted = asked if ":" in asked.rsplit("/", 1)[-1] else f"{asked}:latest"
    for model in models:
        if model.name.lower() == wanted:
            return model.path
    same = [model for model in models if model.name.lower().split(":")[0] == asked]
    if len(same) == 1:  # the model has only one tag
        return same[0].path
    if not models:
        folders = " or ".join(str(store) for store in stores())
        raise ModelLoadError(
            f"ollama:{name}: no models of Ollama were found in {folders}; run "
            f"`ollama pull {name or 'llama3.2'}`, or set OLLAMA_MODELS to its folder"
        )
    known = ", ".join(model.name for model in models)
    raise ModelLoadError(
        f"ollama:{name}: Ollama has no such model; it has {known}. To get it: "
        f"`ollama pull {name}`"
    )


def _read(store: Path, manifest: Path) -> OllamaModel | None:
    """Return the model of a manifest; None if it is not a complete GGUF model."""
    try:
        layers = json.loads(manifest.read_text(encoding="utf-8"))["layers"]
        digest = next(x["digest"] for x in layers if x["mediaType"] == _MODEL_LAYER)
        match = _DIGEST.fullmatch(digest)
        if match is None:
            return None
        path = store / "blobs" / f"sha256-{match[1]}"
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                return None
        return OllamaModel(
            name=_name(manifest.relative_to(store / "manifests").parts),
            path=path,
            size_bytes=path.stat().st_size,
            sha256=match[1],
            modified=datetime.fromtimestamp(manifest.stat().st_mtime, tz=UTC),
        )
    except (OSError, StopIteration, *DAMAGED):
        return None


def _name(parts: tuple[str, ...]) -> str:
    """Return "llama3.2:1b" for registry.ollama.ai/library/llama3.2/1b."""
    *path, tag = parts
    if path and path[0] == _REGISTRY:
        path = path[1:]
    if path and path[0] == "library":
        path = path[1:]
    return f"{'/'.join(path)}:{tag}"
