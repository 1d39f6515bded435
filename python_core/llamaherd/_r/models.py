"""Models, contexts, their texts, and requantizing."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.boundary import (
    boundary,
    clean,
)
from llamaherd.native import shim
from llamaherd.optimize.report import FileRow

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@boundary
def backend_init() -> None:
    """Starts libllama's backends."""
    shim.backend_init()


@boundary
def backend_free() -> None:
    """Frees what libllama keeps for all models."""
    shim.backend_free()


@boundary
def model_load(path: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Loads a model. Returns it as `python`, with what R prints about it.

    Args:
        path: Of its file.
        options: Arguments of `Model`; `lora`, if any, with a pair for each adapter.
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
def model_metadata(model: lh.Model) -> dict[str, list[str]]:
    """Keys and values: R takes the keys of a dict for names in its own encoding."""
    metadata = lh.model_metadata(model)
    return {
        "keys": [clean(key) for key in metadata],
        "values": [clean(value) for value in metadata.values()],
    }


@boundary
def context_create(model: lh.Model, options: Mapping[str, Any]) -> dict[str, Any]:
    """Creates a context, returned as `python`."""
    return {"python": lh.Context(model, **options)}


@boundary
def context_plan(context: lh.Context) -> str | None:
    """What the context was planned to be; None before its first call."""
    return None if context.plan is None else str(context.plan)


@boundary
def is_closed(thing: lh.Model | lh.Context) -> bool:
    """Whether it can be used no more."""
    return thing.closed


@boundary
def close(thing: lh.Model | lh.Context) -> None:
    """Gives the memory back."""
    thing.close()


@boundary
def tokenize(
    model: lh.Model, texts: Sequence[str], add_special: bool, parse_special: bool
) -> list[list[int]]:
    """Tokens of each text."""
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
    """Text of each sequence of tokens."""
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
    """The prompts that a model's template makes of conversations."""
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
def schema_prompt(schemas: Sequence[str]) -> list[str]:
    """An instruction for each JSON Schema."""
    return [clean(lh.structured.schema_prompt(schema)) for schema in schemas]


@boundary
def sha256(texts: Sequence[str | None]) -> list[str | None]:
    """SHA-256 of the UTF-8 bytes of each text, in hexadecimal."""
    return [
        None if text is None else hashlib.sha256(text.encode()).hexdigest()
        for text in texts
    ]


@boundary
def optimize_start(
    path: str, out: str | None, options: Mapping[str, Any]
) -> dict[str, lh.OptimizeJob]:
    """Starts to requantize a model; `job_wait` and `job_cancel` are for its job, too."""
    return {"job": lh.start_optimize(path, out, **options)}


@boundary
def optimize_result(job: lh.OptimizeJob) -> dict[str, Any] | None:
    """The report, with the files as columns, the original first. None: cancelled."""
    report = job.result()
    if report is None:
        return None
    return {
        "path": clean(str(report.path)),
        "chosen": report.chosen,
        "verdict": clean(report.verdict),
        "files": {
            name: [getattr(row, name) for row in report.rows]
            for name in FileRow.__annotations__
        },
    }
