"""`/api/tags` and `/api/show` of Ollama's API, with which ellmer's `chat_ollama` begins.

Its chats then go to `/v1/chat/completions`.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from llamaherd.core import checks
from llamaherd.server.errors import ApiError, bad_field
from llamaherd.server.work_api import given_fields, other_model

if TYPE_CHECKING:
    from collections.abc import Iterable

    from llamaherd.model.model import Model
    from llamaherd.server.model_view import ShownModel
    from llamaherd.server.settings import ServerSettings

LATEST = ":latest"  # tag of a name without one
_BILLION = 1_000_000_000


def tags(shown: Iterable[ShownModel], created: int) -> dict[str, object]:
    """Return the names of models, as Ollama lists the models of a machine.

    Args:
        shown: Models of the server.
        created: Time of the start, in seconds since 1970.
    """
    when = datetime.fromtimestamp(created, timezone.utc).isoformat()
    models = [
        {
            "name": each.name,
            "model": each.name,
            "modified_at": when,
            "size": each.size_bytes if each.model is None else each.model.size_bytes,
            "digest": "",
            "details": _details(each.model, each.parent),
        }
        for each in shown
    ]
    return {"models": models}


class ShowApi:
    """Format of `/api/show`.

    Args:
        model: Model of the server.
        settings: Settings of the server.
    """

    fields = frozenset({"model", "name", "verbose", "system", "template", "options"})

    def __init__(self, model: Model, settings: ServerSettings) -> None:
        self._model = model
        self._settings = settings

    def prepare(self, fields: dict[str, object]) -> dict[str, object]:
        """See `WorkShape`."""
        given = given_fields(fields, self.fields)
        for name in ("system", "template", "options"):
            if given.get(name):
                raise bad_field(name, f"{name} cannot be set by a request")
        checks.flag("verbose", given.get("verbose", False))
        field = "model" if "model" in given else "name"
        if field not in given:
            raise ApiError(400, "model is missing", param="model", code="missing_field")
        asked = checks.text(field, given[field])
        if self._settings.name_of(asked.removesuffix(LATEST)) is None:
            raise other_model(asked, self._settings.names)
        kind = self._model.metadata.get("general.architecture", "")
        info: dict[str, Any] = {
            "general.architecture": kind,
            "general.parameter_count": self._model.info.n_params,
            f"{kind}.context_length": self._model.n_ctx_train,
            f"{kind}.embedding_length": self._model.info.n_embd,
        }
        capabilities = ["completion"]
        if self._model.chat_template is not None:
            capabilities.append("tools")  # forced calls need no template
        return {
            "license": self._model.metadata.get("general.license", ""),
            "modelfile": "",
            "parameters": "",
            "template": self._model.chat_template or "",
            "details": _details(self._model),
            "model_info": info,
            "capabilities": capabilities,
        }


def _details(model: Model | None, parent: str | None = None) -> dict[str, object]:
    """Return the details of a model, as far as they are known before it is loaded."""
    kind = size = ""
    if model is not None:
        kind = model.metadata.get("general.architecture", "")
        n = model.info.n_params
        size = f"{n / _BILLION:.1f}B" if n >= _BILLION else f"{n / 1e6:.0f}M"
    return {
        "parent_model": parent or "",
        "format": "gguf",
        "family": kind,
        "families": [kind] if kind else [],
        "parameter_size": size,
        "quantization_level": "unknown",
    }
