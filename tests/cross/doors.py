"""Tasks over texts, run by all interfaces: Python, the command line, Ray and R."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import llamaherd as lh
import pyarrow as pa
import pyarrow.parquet as pq
from ray_batches import BatchActor

# Types and values of columns by name, in order.
Columns = dict[str, tuple[str, list[Any]]]

TEXTS = ["The keeper saved it.", "Shares fell by 9 %.", "東京", "long " * 600, "Rien."]
BOOK = lh.Codebook("Which topic?", ["1", "2", "3"], type="ordinal")
SCALE = lh.Codebook("Pro or contra?", lh.number_scale(-1, 1, 0.5, ["contra", "pro"]))
SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "minimum": 0, "maximum": 9},
        "share": {"enum": [0.5, 0.25]},
        "kind": {"enum": ["u", "v"]},
        "sure": {"type": "boolean"},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "minItems": 1,
                 "maxItems": 2},
    },
    "required": ["n", "share", "kind", "sure", "tags"],
    "additionalProperties": False,
}  # fmt: skip
FIELDS = lh.Codebook("What does it say?", type="fields", schema=SCHEMA)
LABELS = ["good", "bad"]
CONTEXT = {"deterministic": True, "n_threads": 1}
# This template refuses a system role, and writes a variable into each prompt.
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "[{{ m.role }}]{{ mood }} {{ m.content }};{% endfor %}"
    "{% if add_generation_prompt %}[assistant]<think>\n"
    "{% if enable_thinking is defined and enable_thinking is false %}\n</think>\n\n"
    "{% endif %}{% endif %}"
)
CALM: dict[str, Any] = {
    "chat": True,
    "template": TEMPLATE,
    "variables": {"mood": "calm"},
    "merge_system": True,
}
GUIDED = lh.Codebook("Which topic?", ["1", "2", "3"], system="Be brief.")
ASIDE = lh.Codebook(
    "What does it say?",
    type="fields",
    schema={
        "type": "object",
        "properties": {"thinking": {"type": "boolean"}, "kind": {"enum": ["u", "v"]}},
        "required": ["thinking", "kind"],
        "additionalProperties": False,
    },
)
THOUGHTS = ["thinking", "n_thinking_tokens", "thinking_complete"]
TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "annotate": ("annotate", {"codebook": BOOK}),
    "scale": ("annotate", {"codebook": SCALE, "distribution": True}),
    "fields": ("annotate", {"codebook": FIELDS, "max_tokens": 80}),
    "generate": ("generate", {"schema": SCHEMA, "max_tokens": 80}),
    "classify": ("classify", {"labels": LABELS}),
    "embed": ("embed", {"deterministic": True, "n_threads": 1}),
    # The model is random: its thoughts differ, and each ends when its budget is used up.
    "random labels": ("annotate", {"codebook": GUIDED, "thinking": 6, **CALM}),
    "drawn labels": (
        "annotate",
        {"codebook": GUIDED, "thinking": 6, "n_thoughts": 2, "seed": 5, **CALM},
    ),
    "drawn classes": (
        "classify",
        {"labels": LABELS, "thinking": 6, "n_thoughts": 3, "seed": 5, **CALM},
    ),
    # The model follows a script: each thought is "Hmm", and the model ends the thought
    # itself.
    "scripted labels": ("annotate", {"codebook": BOOK, "thinking": 9, **CALM}),
    "scripted fields": (
        "annotate",
        {"codebook": ASIDE, "max_tokens": 80, "thinking": 9, **CALM},
    ),
    "scripted answers": (
        "generate",
        {"schema": SCHEMA, "max_tokens": 80, "thinking": 9, **CALM},
    ),
    "scripted classes": ("classify", {"labels": LABELS, "thinking": 9, **CALM}),
}
THINKING = [name for name, (_, settings) in TASKS.items() if "thinking" in settings]
DRAWN = [name for name, (_, settings) in TASKS.items() if "n_thoughts" in settings]


def is_prefixed(name: str) -> bool:
    """True if the columns of the task have a prefix in R and Python."""
    return TASKS[name][0] == "annotate"


def kind_of(of: pa.DataType) -> str:
    if pa.types.is_dictionary(of):
        return kind_of(of.value_type)
    if pa.types.is_list(of) and pa.types.is_float32(of.value_type):
        return "vector"
    if pa.types.is_list(of):
        return f"array of {kind_of(of.value_type)}"
    if pa.types.is_large_string(of):  # of pandas
        return "string"
    names = {pa.string(): "string", pa.int64(): "integer", pa.float64(): "number"}
    return {**names, pa.bool_(): "boolean"}[of]


def of_arrow(table: pa.Table) -> Columns:
    new = [name for name in table.column_names if name not in ("text", "prompt")]
    return {name: (kind_of(table[name].type), table[name].to_pylist()) for name in new}


def job_of_r(name: str, path: Path, folder: Path) -> dict[str, Any]:
    kind, settings = TASKS[name]
    more = dict(settings)
    if "codebook" in more:
        file = folder / f"{name}.yaml"
        lh.write_codebook(more["codebook"], file)
        more["codebook"] = str(file)
    if "schema" in more:
        more["schema"] = json.dumps(more["schema"])
    return {"model": str(path), "task": kind, "settings": more}


def from_python(name: str, path: Path) -> Columns:
    kind, settings = TASKS[name]
    with lh.Model(path) as model:
        if kind == "embed":
            vectors = lh.embed_parallel(model, TEXTS, **settings)
            rows = [None if e else v.tolist() for v, e in
                    zip(vectors.vectors, vectors.errors, strict=True)]  # fmt: skip
            return {"embedding": ("vector", rows), "error": ("string", vectors.errors)}
        with lh.Context(model, **CONTEXT) as context:
            if kind == "annotate":
                options = {k: v for k, v in settings.items() if k != "codebook"}
                table = pa.table({"text": TEXTS})
                coded = lh.annotate(
                    table, "text", settings["codebook"], context, columns="x_", **options
                )
                return of_arrow(coded.frame)
            if kind == "generate":
                out = lh.generate_parallel(context, TEXTS, **settings)
                return of_arrow(out.to_arrow())
            frame = lh.classify_parallel(context, TEXTS, **settings).to_pandas()
    return of_arrow(pa.Table.from_pandas(frame))


def command(name: str, path: Path) -> list[str]:
    kind, settings = TASKS[name]
    pq.write_table(pa.table({"text": TEXTS}), "in.parquet")
    run = [kind if kind != "generate" else "run", "in.parquet", "-o", "out.parquet"]
    run += ["-m", str(path), "--deterministic", "--n-threads", "1"]
    if is_prefixed(name):
        run += ["--prefix", "x_"]
    if "codebook" in settings:
        lh.write_codebook(settings["codebook"], "book.yaml")
        run += ["--codebook", "book.yaml"]
    if "distribution" in settings:
        run += ["--distribution"]
    if "schema" in settings:
        Path("schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
        run += ["--schema", "schema.json"]
    if "labels" in settings:
        run += ["--labels", ",".join(LABELS)]
    if "max_tokens" in settings:
        run += ["--max-tokens", "80"]
    if name in THINKING:
        Path("own.jinja").write_text(TEMPLATE, encoding="utf-8")
        run += ["--chat", "--template", "own.jinja", "--var", "mood=calm"]
        run += ["--merge-system", "--thinking", str(settings["thinking"])]
    for key in ("n_thoughts", "seed"):
        if key in settings:
            run += [f"--{key.replace('_', '-')}", str(settings[key])]
    return run


def from_ray(name: str, path: Path) -> Columns:
    kind, settings = TASKS[name]
    actor = BatchActor(
        path,
        task=kind,
        columns="x_" if is_prefixed(name) else None,
        context={} if kind == "embed" else CONTEXT,
        **settings,
    )
    column = "text" if kind in ("annotate", "embed") else "prompt"
    return of_arrow(actor(pa.table({column: TEXTS})))
