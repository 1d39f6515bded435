"""The key that a result is stored under, made of all that decides the result."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from llamaherd.core.request import decisive
from llamaherd.core.sampling import OF_REQUEST, changed_fields
from llamaherd.native import llguidance
from llamaherd.native.engine import uses_llguidance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.core.request import Request
    from llamaherd.core.sampling import SamplingParams

# Parts of a request that `journal_key` hashes as bytes, not as JSON.
_AS_BYTES = ("tokens", "tree", "seed")
# Marks the settings of scores. Earlier versions had "score" there, a hash of the
# continuations, but of any request of the call: two requests could share a key.
SCORES = "scores"
MIXED_UP = '"score": "'  # found only in the settings of such rows: JSON escapes quotes


def settings_of(request: Request) -> dict[str, Any]:
    """Decisive parts of a request beside its tokens, continuations and seed.

    Requests with equal settings have equal `settings_json` in the same context.
    """
    own: dict[str, Any] = {
        # Always there: keys of earlier versions have them.
        "stop": request.stop,
        "sampling": request.sampling,
        **{k: v for k, v in decisive(request).items() if k not in _AS_BYTES},
    }
    if request.tree is not None:
        own[SCORES] = True
    return own


def settings_json(request: Request, context: Mapping[str, object]) -> str:
    """Settings that decide the result, as a JSON object.

    Settings of sampling are in it where they differ from the defaults: a setting that a
    later version adds does not change the keys of stored results.

    Args:
        request: The request.
        context: Settings of the context that change what is computed.

    Raises:
        TypeError: A part of the request cannot be written as JSON.
    """
    own = settings_of(request)
    sampling = own.pop("sampling")
    return json.dumps(
        {**context, **_of_sampling(sampling), **own}, sort_keys=True, ensure_ascii=False
    )


def _of_sampling(sampling: SamplingParams) -> dict[str, object]:
    changed = {
        name: getattr(sampling, name)
        for name in changed_fields(sampling)
        if name not in OF_REQUEST
    }
    if uses_llguidance(sampling):
        changed["engine"] = f"llguidance {llguidance.load()}"
    return changed


def journal_key(model_sha256: bytes, settings: str, request: Request) -> bytes:
    """The key that a result is stored under, 32 bytes.

    Args:
        model_sha256: Hash of the model's file.
        settings: See `settings_json`.
        request: Its seed counts only where something is drawn.
    """
    tokens = request.tokens.tobytes()
    tree = b"" if request.tree is None else request.tree.to_bytes()
    seed = "greedy" if request.sampling.is_greedy else str(request.seed)
    # Lengths keep parts apart whatever is in them; tree's is the rest.
    head = json.dumps(["llamaherd", 1, model_sha256.hex(), settings, seed, len(tokens)])
    return hashlib.sha256(head.encode() + tokens + tree).digest()
