"""Codebooks and coded texts of `fake_r`, without its boundary.

Every text gets the first label; "fail REASON" fails, "slow" waits until it is cancelled.
Codebooks are written as JSON, and refused if the question is "refused".
"""

import json
import math
from pathlib import Path

Job = None  # fake_r sets it
OWN = json.dumps({"type": "label", "question": "Own?", "labels": {"yes": "", "n": ""}})

__all__ = [
    "annotate_result",
    "annotate_roles",
    "annotate_start",
    "codebook_make",
    "codebook_preview",
    "codebook_read",
    "codebook_write",
    "robustness_compare",
    "robustness_plan",
]


def _described(book):
    labels = book.get("labels", {})
    return {
        "json": json.dumps(book),
        "hash": "0123456789abcdef",
        "page": ["<Codebook> (01234567)", "", book["question"]],
        "names": list(labels),
        "definitions": list(labels.values()),
        "type": book["type"],
        "schema": json.dumps(book["schema"]) if "schema" in book else None,
    }


def codebook_make(content):
    book = json.loads(content)
    if book["question"] == "refused":
        raise ValueError("question {is} refused")
    return _described(book)


def codebook_read(path):
    return codebook_make(Path(path).read_text(encoding="utf-8"))


def codebook_write(content, path):
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
    if book["type"] == "fields":
        return [*book["schema"]["properties"], "error"]
    if options["method"] == "generate":
        return ["label", "error"]
    each = [f"p_{name}" for name in book["labels"]]
    if book["type"] == "multiple":
        return ["label", "coverage", *each, "error"]
    return ["label", "prob", "margin", "entropy", "coverage", *each, "error"]


def annotate_start(context, texts, content, options):
    job = Job(texts, options)
    job.book = json.loads(content)
    journal = options.get("journal")
    if journal:
        journal = str(Path("0123.journal" if journal is True else journal).absolute())
    return {"job": job, "journal": journal or None}


def annotate_result(job):
    names = list(job.book.get("labels", {}))
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
    n = len(good)
    return {
        "columns": {**columns, "label": labels} if names else columns,
        "labels": labels,
        "errors": errors,
        "names": names,
        "run": json.dumps({"model": {"sha256": "abc"}, "n_rows": n}),
        "stats": {"n_prompts": float(n), "line": f"{n} texts in no time"},
        "notes": ["all {alike}"] if n >= 20 else [],
    }


def robustness_plan(codebooks, names, contexts, texts, options):
    if options["run"] is not None:
        codebooks = [OWN, *codebooks]
        names = ["coded", *names]
    if len(codebooks) < 2:
        raise ValueError("there is nothing to compare")
    return {
        "names": [f"codebook {name}" for name in names],
        "codebooks": list(codebooks),
        "contexts": [0] * len(names),
        "seeds": [None] * len(names),
        "rows": [i for i, there in enumerate(texts) if there],
        "settings": json.dumps(options["settings"] or {}),
    }


def robustness_compare(names, codebooks, labels, rows, texts):
    k, v, n = len(json.loads(codebooks[0])["labels"]), len(names), len(rows)
    return {
        "names": list(json.loads(codebooks[0])["labels"]),
        "flips": [0.25] * v,
        "pairwise": [[0.25] * v] * v,
        "agreement": 0.75,
        "alpha": None if v < 3 else 0.5,
        "shares": [[1 / k] * k] * v,
        "unstable": [0.0] * n,
        "source": json.dumps({"n": len(texts)}),
    }
