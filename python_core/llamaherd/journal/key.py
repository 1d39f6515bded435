"""The name that an answer is stored under, made of all that its text depends on."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from llamaherd.core.sampling import OF_REQUEST, changed_fields
from llamaherd.native import llguidance
from llamaherd.native.engine import uses_llguidance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.core.request import Request


def settings_json(request: Request, context: Mapping[str, object]) -> str:
    """All that decides the answer beside the model, the prompt's tokens and the seed.

    Settings of sampling are in it where they differ from the defaults: a setting that a
    later version adds does not change the keys of what is stored.

    Args:
        request: Whose.
        context: Settings of the context that change what is computed.
    """
    sampling = request.sampling
    changed = {
        name: getattr(sampling, name)
        for name in changed_fields(sampling)
        if name not in OF_REQUEST
    }
    own: dict[str, object] = {"max_tokens": request.max_tokens, "stop": request.stop}
    if uses_llguidance(sampling):
        own["engine"] = f"llguidance {llguidance.load()}"
    if request.tree is not None:
        own["score"] = hashlib.sha256(request.tree.to_bytes()).hexdigest()
    if request.logprobs is not None:
        own["logprobs"] = request.logprobs
    return json.dumps({**context, **changed, **own}, sort_keys=True, ensure_ascii=False)


def journal_key(model_sha256: bytes, settings: str, request: Request) -> bytes:
    """The name that an answer is stored under, 32 bytes.

    Args:
        model_sha256: Hash of the model's file.
        settings: See `settings_json`.
        request: Its seed counts only where something is drawn.
    """
    tokens = request.tokens.tobytes()
    seed = "greedy" if request.sampling.is_greedy else str(request.seed)
    # Lengths keep parts apart whatever is in them.
    head = json.dumps(["llamaherd", 1, model_sha256.hex(), settings, seed, len(tokens)])
    return hashlib.sha256(head.encode() + tokens).digest()
