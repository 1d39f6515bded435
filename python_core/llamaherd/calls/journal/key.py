"""Keys of results: hashes of everything that affects a result."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from llamaherd.engine.core.request import decisive
from llamaherd.engine.core.sampling import OF_REQUEST, changed_fields
from llamaherd.engine.native import llguidance
from llamaherd.engine.native.request import uses_llguidance

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.engine.core.request import Request, ThoughtStage
    from llamaherd.engine.core.sampling import SamplingParams

# Parts of a request that `journal_key` hashes as bytes instead of JSON.
_AS_BYTES = ("tokens", "tree", "seed")
SCORES = "scores"  # key that marks the settings of scores


def settings_of(request: Request) -> dict[str, Any]:
    """Return the settings that make the same `settings_json` in the same context."""
    thought = request.thought
    if thought is not None and thought.seed:
        request = replace(request, thought=replace(thought, seed=0))
    settings: dict[str, Any] = {
        "stop": request.stop,
        "sampling": request.sampling,
        **{k: v for k, v in decisive(request).items() if k not in _AS_BYTES},
    }
    if request.tree is not None:
        settings[SCORES] = True
    return settings


def settings_json(request: Request, context: Mapping[str, object]) -> str:
    """Return the changed settings as JSON: a new setting keeps the old keys."""
    settings = settings_of(request)
    sampling = settings.pop("sampling")
    if request.thought is not None:
        settings["thought"] = _of_thought(request.thought)
    return json.dumps(
        # Settings of a host replace settings of this process, such as its llguidance.
        {**_of_sampling(sampling), **settings, **context},
        sort_keys=True,
        ensure_ascii=False,
    )


def _of_thought(thought: ThoughtStage) -> dict[str, object]:
    """Return the settings of a thought, without the seed, which differs among prompts."""
    values = {
        field.name: getattr(thought, field.name)
        for field in fields(thought)
        if field.name not in ("sampling", "seed")
    }
    return {**values, "sampling": _of_sampling(thought.sampling)}


def _of_sampling(sampling: SamplingParams) -> dict[str, object]:
    changed = {
        name: getattr(sampling, name)
        for name in changed_fields(sampling)
        if name not in OF_REQUEST
    }
    if sampling.quote_from is not None:  # can be as long as the prompt
        changed["quote_from"] = hashlib.sha256(sampling.quote_from.encode()).hexdigest()
    if uses_llguidance(sampling):
        changed["engine"] = f"llguidance {llguidance.load()}"
    return changed


def journal_key(model_sha256: bytes, settings: str, request: Request) -> bytes:
    """Return the key of a result, 32 bytes; seeds count only if tokens are sampled."""
    tokens = request.tokens.tobytes()
    tree = b"" if request.tree is None else request.tree.to_bytes()
    seed = "greedy" if request.sampling.is_greedy else str(request.seed)
    if request.thought is not None and not request.thought.sampling.is_greedy:
        seed += f" {request.thought.seed}"
    # The lengths of the parts come first, so that the parts are unambiguous. The tree
    # is last.
    head = json.dumps(["llamaherd", 1, model_sha256.hex(), settings, seed, len(tokens)])
    return hashlib.sha256(head.encode() + tokens + tree).digest()
