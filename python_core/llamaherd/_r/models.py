"""Models and their files, contexts, tokens, chat templates, and the hardware profile."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import llamaherd as lh
from llamaherd._r.boundary import clean, form_of
from llamaherd._r.forms import Part, fields, parts, r_object, table_of, vector
from llamaherd.calls.chat.chat import swap_date, template_date
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.core.errors import ArgumentError, renamed
from llamaherd.engine.hub.cache import cache_folder
from llamaherd.engine.hub.fetch import FetchWork
from llamaherd.engine.hub.progress import FetchOptions
from llamaherd.engine.hub.repository import checked_token
from llamaherd.engine.native import abi

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def model_load(path: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Load a model and return it as `python`, with the fields that R prints."""
    lora = [tuple(pair) for pair in options.get("lora", ())]
    model = lh.Model(path, **{**options, "lora": lora})
    return {
        "python": model,
        "description": clean(model.description),
        "size_bytes": float(model.size_bytes),
        "n_ctx_train": model.n_ctx_train,
        "n_vocab": model.n_vocab,
    }


def model_metadata(model: lh.Model) -> Part:
    """Return the metadata as texts with names."""
    metadata = lh.model_metadata(model)
    return {**vector("text", metadata.values()), "names": list(map(clean, metadata))}


def context_create(model: lh.Model, options: Mapping[str, Any]) -> dict[str, Any]:
    """Create a context and return it as `python`."""
    of_cluster = options.keys() & {"n_actors", "num_cpus"}
    if of_cluster:
        text = "needs `cluster`, such as 'local'"
        raise ArgumentError(text, argument=min(of_cluster), code="conflict")
    return {"python": lh.Context(model, **options)}


def context_plan(context: lh.Context) -> str | None:
    """Return the plan of a context as text; None before its first call."""
    return None if context.plan is None else str(context.plan)


def tokenize(
    model: lh.Model, texts: Sequence[str], add_special: bool, parse_special: bool
) -> list[list[int]]:
    """Return the tokens of each text."""
    return [
        lh.tokenize(model, text, add_special=add_special, parse_special=parse_special)
        for text in texts
    ]


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
    options = {"remove_special": remove_special, "unparse_special": unparse_special}
    return [clean(lh.detokenize(model, ids, **options)) for ids in tokens]


def apply_chat_template(
    model: lh.Model,
    conversations: Sequence[Sequence[Mapping[str, object]]],
    template: str | None,
    add_assistant: bool,
    variables: Mapping[str, object],
) -> list[str]:
    """Format conversations as prompts with a model's chat template."""
    options: dict[str, Any] = {
        "add_generation_prompt": add_assistant,
        "template": template,
        "variables": dict(variables),
    }
    with renamed(add_generation_prompt="add_assistant"):
        return [
            clean(lh.apply_chat_template(model, messages, **options))
            for messages in conversations
        ]


def chat_date_enter(date: str | None) -> str | None:
    """Set a fixed date for chat templates, see `chat_date`; return the previous date."""
    before = swap_date(template_date(date).date())
    return None if before is None else before.isoformat()


def schema_prompt(schemas: Sequence[str]) -> list[str]:
    """Return an instruction for each JSON Schema."""
    return [clean(lh.structured.schema_prompt(schema)) for schema in schemas]


def lib_path() -> str:
    """Return the path of libllama."""
    return str(abi.libllama_path(abi.libllama_folder()))


def fetch_start(source: str, options: Mapping[str, Any]) -> lh.Job[Path | None]:
    """Start to search for a model's file and, if necessary, to download it."""
    checked = FetchOptions(
        cache=cache_folder(options.get("cache_dir")),
        token=checked_token(options.get("token")),
        force=options["force"],
        check_memory=options["check_memory"],
    )
    return lh.Job(FetchWork(source, checked, "model_path"))


@form_of.register
def _(profile: lh.types.HardwareProfile) -> Part:
    gpu: Any = profile.gpus[0] if profile.gpus else None
    numbers = {
        "ram_total": profile.memory_bytes,
        "ram_available": profile.available_bytes,
        "bandwidth_bytes_per_s": profile.bandwidth_bytes_per_s,
        "flops": profile.flops,
    }
    elements = {
        **fields(profile, "os release cpu"),
        **{name: vector("number", [number]) for name, number in numbers.items()},
        **fields(profile, "cpu_cores cpu_features"),
        "gpu": parts(
            name=vector("text", [gpu and gpu.name]),
            vram_bytes=vector("number", [gpu and gpu.memory_bytes]),
            cores=vector("integer", [None]),
            source=gpu.source if gpu else "undetected",
        ),
        "uses_gpu": profile.uses_gpu,
        "detected_at": vector("time", [datetime.now(UTC)]),
        "sizes": table_of(
            profile.sizes,
            "billions quantization size_bytes fits decode_per_s prefill_per_s",
        ),
    }
    return r_object("hardware", elements, page=profile)
