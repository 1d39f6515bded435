"""Codebooks and coded texts of `fake_r`; exceptions are not converted here.

Every text gets the first label. The text "fail REASON" fails, and "slow" waits until it
is cancelled. Codebooks are written as JSON; a codebook with the question "refused" is an
error.
"""

import json
import math
from pathlib import Path

Job = None  # fake_r sets it
THOUGHTS = ("thinking", "n_thinking_tokens", "thinking_complete")

__all__ = [
    "annotate_result",
    "annotate_roles",
    "annotate_start",
    "codebook_make",
    "codebook_preview",
    "codebook_read",
    "codebook_write",
    "column_names",
    "scale_make",
]


def scale_make(low, high, step, names):
    values = [low + i * step for i in range(int((high - low) / step) + 1)]
    content = {"from": low, "to": high, "step": step}
    if names is not None:
        ends = [f"{low:g}", f"{high:g}"]
        content["names"] = names if isinstance(names, dict) else dict(zip(ends, names))
    return {"json": json.dumps(content), "values": values}


def _labels_of(book):
    if "scale" not in book:
        return book.get("labels", {})
    scale = book["scale"]
    made = scale_make(scale["from"], scale["to"], scale["step"], None)
    return {f"{each:g}": "" for each in made["values"]}


def _described(book):
    labels = _labels_of(book)
    is_ordered = book["type"] in ("ordinal", "scale")
    return {
        "json": json.dumps(book),
        "hash": "0123456789abcdef",
        "page": ["<Codebook> (01234567)", "", book["question"]],
        "names": list(labels),
        "definitions": list(labels.values()),
        "type": book["type"],
        "measured": {"ordinal": "ordinal", "scale": "interval"}.get(
            book["type"], "nominal"
        ),
        "is_numeric": is_ordered and all(_is_number(each) for each in labels),
        "schema": json.dumps(book["schema"]) if "schema" in book else None,
    }


def _is_number(text):
    return text.removeprefix("-").replace(".", "", 1).isdecimal()


def codebook_make(content):
    book = json.loads(content)
    if book["question"] == "refused":
        raise ValueError("question {is} refused")
    return _described(book)


def codebook_read(path):
    return codebook_make(Path(path).read_text(encoding="utf-8"))


def codebook_write(content, path, overwrite):
    Path(path).write_text(content, encoding="utf-8")


def codebook_preview(content, text, model, chat):
    shared = json.loads(content)["question"] + "\n"
    return {
        "prompt": f"<{shared}{text}" if chat else shared + text,
        "shared": f"<{shared}" if chat else shared,
        "n_prompts": 1,
        "tokens": None if model is None else [1, 2, 3],
        "n_shared": None if model is None else 2,
    }


def annotate_roles(content, options):
    book = json.loads(content)
    more = [*_thought_roles(book, options), "error"]
    if options.get("n_thoughts", 1) > 1:
        more.insert(0, "between")
    if book["type"] == "fields":
        return [*book["schema"]["properties"], *more]
    if options["method"] == "generate":
        return ["label", *more]
    each = [f"p_{name}" for name in _labels_of(book)]
    if book["type"] == "scale":
        scored = ["prob", "margin", "entropy", "coverage"]
        return ["label", "mean", "sd", *scored, *more]
    if book["type"] == "multiple":
        return ["label", "coverage", *each, *more]
    return ["label", "prob", "margin", "entropy", "coverage", *each, *more]


def _thought_roles(book, options):
    """Return columns of thoughts by role; a field of the schema may have such a name."""
    if not options.get("thinking"):
        return []
    fields = book.get("schema", {}).get("properties", {})
    return [f".{name}" if name in fields else name for name in THOUGHTS]


def column_names(roles, columns, existing):
    """Accept all values: tests of the checks use the real package."""
    if columns is None or isinstance(columns, str):
        return {role: (columns or "") + role for role in roles}

    def name_of(role):
        if role in columns or not role.startswith("p_") or "p_" not in columns:
            return columns.get(role, role)
        return columns["p_"] and columns["p_"] + role[2:]

    return {role: name_of(role) for role in roles if name_of(role) is not None}


def annotate_start(context, texts, content, options):
    job = Job(texts, options)
    job.book = json.loads(content)
    journal = options.get("journal")
    if journal:
        journal = str(Path("0123.journal" if journal is True else journal).absolute())
    return {"job": job, "journal": journal or None}


def annotate_result(job):
    names = list(_labels_of(job.book))
    errors, good = [], []
    for i, text in enumerate(job.prompts):
        is_done = i < job.n_done
        fails = is_done and text is not None and text.startswith("fail")
        errors.append(
            text[5:] if fails else None if is_done else "not computed: the call ended"
        )
        good.append(is_done and text is not None and not fails)
    label = names[0] if names else '{"a": 1}'
    labels = [label if each else None for each in good]
    roles = annotate_roles(json.dumps(job.book), {"method": "auto", **job.options})
    columns = {role: [0.5 if each else math.nan for each in good] for role in roles}
    thought_roles = _thought_roles(job.book, job.options)
    columns |= {role: [] for role in thought_roles}
    thoughts = zip(THOUGHTS, ("Hm.", 3, True), strict=True)
    n = len(good)
    return {
        "columns": {**columns, "label": labels} if names else columns,
        "labels": labels,
        "thoughts": (
            {name: [value if each else None for each in good] for name, value in thoughts}
            if thought_roles
            else None
        ),
        "thought_roles": thought_roles,
        "numbers": [math.nan if x is None else float(x) for x in labels]
        if _described(job.book)["is_numeric"]
        else None,
        "errors": errors,
        "error_codes": [
            None if error is None else "failed" if i < job.n_done else "cancelled"
            for i, error in enumerate(errors)
        ],
        "names": names,
        "run": json.dumps({"model": {"sha256": "abc"}, "n_rows": n}),
        "stats": {"n_prompts": float(n), "line": f"{n} texts in no time"},
        "notes": ["all {alike}"] if n >= 20 else [],
    }
