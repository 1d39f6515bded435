"""Models, contexts, tokens, chat templates, and requantizing."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.boundary import boundary, clean, renamed
from llamaherd._r.forms import Part, vector
from llamaherd.calls.chat.chat import swap_date, template_date
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.native import shim

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@boundary
def backend_init() -> None:
    """Start libllama's backends."""
    shim.backend_init()


@boundary
def backend_free() -> None:
    """Free the memory that libllama shares among models."""
    shim.backend_free()


@boundary
def model_load(path: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Load a model and return it as `python`, with the fields that R prints.

    Args:
        path: Path of the model file.
        options: Arguments of `Model`; `lora`, if given, has one pair per adapter.
    """
    lora = [tuple(pair) for pair in options.get("lora", ())]
    model = lh.Model(path, **{**options, "lora": lora})
    return {
        "python": model,
        "description": clean(model.description),
        "size_bytes": float(model.size_bytes),
        "n_ctx_train": model.n_ctx_train,
        "n_vocab": model.n_vocab,
    }


@boundary
def model_metadata(model: lh.Model) -> Part:
    """Return the metadata as texts with names."""
    metadata = lh.model_metadata(model)
    return {**vector("text", metadata.values()), "names": list(map(clean, metadata))}


@boundary
def context_create(model: lh.Model, options: Mapping[str, Any]) -> dict[str, Any]:
    """Create a context and return it as `python`."""
    return {"python": lh.Context(model, **options)}


@boundary
def context_plan(context: lh.Context) -> str | None:
    """Return the plan of a context as text; None before its first call."""
    return None if context.plan is None else str(context.plan)


@boundary
def is_closed(thing: lh.Model | lh.Context) -> bool:
    """Check whether a model or context is closed."""
    return thing.closed


@boundary
def close(thing: lh.Model | lh.Context) -> None:
    """Close a model or context and free its memory."""
    thing.close()


@boundary
def tokenize(
    model: lh.Model, texts: Sequence[str], add_special: bool, parse_special: bool
) -> list[list[int]]:
    """Return the tokens of each text."""
    return [
        lh.tokenize(model, text, add_special=add_special, parse_special=parse_special)
        for text in texts
    ]


@boundary
def detokenize(
    model: lh.Model,
    tokens: Sequence[Sequence[int]],
    remove_special: bool,
    unparse_special: bool,
) -> list[str]:
    """Return the text of each sequence of tokens."""
    for i, ids in enumerate(tokens):
        for j, token in enumerate(ids):
            if not 0 <= token < model.n_vocab:
                raise ArgumentError(
                    f"is {token}, but the model's token ids are 0 to {model.n_vocab - 1}",
                    argument=Argument("tokens", (i, j) if len(tokens) > 1 else (j,)),
                    code="out_of_range",
                )
    return [
        clean(
            lh.detokenize(
                model, ids, remove_special=remove_special, unparse_special=unparse_special
            )
        )
        for ids in tokens
    ]


@boundary
def apply_chat_template(
    model: lh.Model,
    conversations: Sequence[Sequence[Mapping[str, object]]],
    template: str | None,
    add_assistant: bool,
    variables: Mapping[str, object],
) -> list[str]:
    """Format conversations as prompts with a model's chat template."""
    with renamed(add_generation_prompt="add_assistant"):
        return [
            clean(
                lh.apply_chat_template(
                    model,
                    messages,
                    add_generation_prompt=add_assistant,
                    template=template,
                    variables=dict(variables),
                )
            )
            for messages in conversations
        ]


@boundary
def chat_date_enter(date: str | None) -> str | None:
    """Set a fixed date for chat templates, see `chat_date`; return the previous date."""
    before = swap_date(template_date(date).date())
    return None if before is None else before.isoformat()


@boundary
def chat_date_leave(before: str | None) -> None:
    """Restore the date that `chat_date_enter` returned."""
    swap_date(before)


@boundary
def schema_prompt(schemas: Sequence[str]) -> list[str]:
    """Return an instruction for each JSON Schema."""
    return [clean(lh.structured.schema_prompt(schema)) for schema in schemas]


@boundary
def sha256(texts: Sequence[str | None]) -> list[str | None]:
    """Return the SHA-256 of the UTF-8 bytes of each text, in hexadecimal."""
    return [
        None if text is None else hashlib.sha256(text.encode()).hexdigest()
        for text in texts
    ]
