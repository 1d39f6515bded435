"""`/api/tags` and `/api/show` of Ollama's API, which ellmer's `chat_ollama` calls first.

`chat_ollama` then sends its chats to `/v1/chat/completions`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from llamaherd.core import checks
from llamaherd.server import schemas
from llamaherd.server.errors import ApiError
from llamaherd.server.fields import OBJECT, OF_CLIENTS, TEXT, UnusedField
from llamaherd.server.schemas import listed, record
from llamaherd.server.shapes import WorkShape, other_model

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from llamaherd.server.model_view import ShownModel

LATEST = ":latest"  # tag added to a name without a tag
_BILLION = 1_000_000_000
_NOT_SET = "a request cannot set it"
_UNUSED = {
    "system": UnusedField(TEXT, ("",), _NOT_SET),
    "template": UnusedField(TEXT, ("",), _NOT_SET),
    "options": UnusedField(OBJECT, ({},), _NOT_SET),
}


def tags(shown: Iterable[ShownModel], created: int) -> dict[str, object]:
    """Return the names of models, as Ollama lists the models of a machine.

    Args:
        shown: Models of the server.
        created: Time of the start, in seconds since 1970.
    """
    when = datetime.fromtimestamp(created, UTC).isoformat()
    models = [
        {
            "name": each.name,
            "model": each.name,
            "modified_at": when,
            "size": each.size_bytes if each.model is None else each.model.size_bytes,
            "digest": "",
            "details": _details_of(each),
        }
        for each in shown
    ]
    return {"models": models}


def _details_of(shown: ShownModel) -> dict[str, object]:
    model = shown.model
    if model is None:
        return _details("", None, shown.parent)
    kind = model.metadata.get("general.architecture", "")
    return _details(kind, model.info.n_params, shown.parent)


class ShowApi(WorkShape):
    """Format of `/api/show`."""

    path = "/api/show"
    summary = "Describe a model in the format of Ollama."
    own: ClassVar = {"model": schemas.TEXT, "name": schemas.TEXT, "verbose": schemas.FLAG}
    unused: ClassVar = {**OF_CLIENTS, **_UNUSED}
    answers = record(details=schemas.OBJECT, capabilities=listed(schemas.TEXT))
    has_v1 = False
    needs_text = False

    def prepare(self, fields: dict[str, object]) -> dict[str, object]:
        """See `WorkShape`."""
        asked = asked_of_show(fields)
        if self._settings.name_of(asked.removesuffix(LATEST)) is None:
            raise other_model(asked, self._settings.names)
        model = self._model
        return described(model, model.info.n_params)


def asked_of_show(fields: Mapping[str, object]) -> str:
    """Return the name of the model of a request of `/api/show`.

    Raises:
        ApiError: A field is unknown, invalid or missing.
    """
    given = ShowApi.given(fields)
    checks.flag("verbose", given.get("verbose", False))
    field = "model" if "model" in given else "name"
    if field not in given:
        raise ApiError(400, "model is missing", param="model", code="missing_field")
    return checks.text(field, given[field])


class Described(Protocol):
    """Protocol of the metadata of a loaded model, or of the header of a model file."""

    @property
    def metadata(self) -> Mapping[str, str]:
        """Metadata as text, by key."""

    @property
    def chat_template(self) -> str | None:
        """Chat template; None without a template."""


def described(
    model: Described, n_params: int | None = None, parent: str | None = None
) -> dict[str, object]:
    """Return the answer of `/api/show`.

    Args:
        model: Model, or the header of its file.
        n_params: Number of parameters; None if it is not known.
        parent: Name of the model that an adapter belongs to; None for a model.
    """
    metadata = model.metadata
    kind = metadata.get("general.architecture", "")
    info: dict[str, Any] = {"general.architecture": kind}
    if n_params is not None:
        info["general.parameter_count"] = n_params
    for name in ("context_length", "embedding_length"):
        text = metadata.get(f"{kind}.{name}", "")
        number = checks.digits(text)
        if number is not None:
            info[f"{kind}.{name}"] = number
    capabilities = ["completion"]
    if metadata.get(f"{kind}.attention.causal") == "false":
        capabilities = ["embedding"]
    elif model.chat_template is not None:
        capabilities.append("tools")  # forced calls need no template
    return {
        "license": metadata.get("general.license", ""),
        "modelfile": "",
        "parameters": "",
        "template": model.chat_template or "",
        "details": _details(kind, n_params, parent),
        "model_info": info,
        "capabilities": capabilities,
    }


def _details(
    kind: str, n_params: int | None, parent: str | None = None
) -> dict[str, object]:
    """Return the details of a model, as far as they are known before it is loaded."""
    size = ""
    if n_params is not None:
        is_large = n_params >= _BILLION
        size = f"{n_params / _BILLION:.1f}B" if is_large else f"{n_params / 1e6:.0f}M"
    return {
        "parent_model": parent or "",
        "format": "gguf",
        "family": kind,
        "families": [kind] if kind else [],
        "parameter_size": size,
        "quantization_level": "unknown",
    }
