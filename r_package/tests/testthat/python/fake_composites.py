"""Calls by name of `fake_r`: robustness() and reproduce().

In robustness() a variant is a codebook, and every text gets the first label. `seen()` of
"call_start" returns the arguments of the last call.
"""

import json

__all__ = ["call_result", "call_start", "slow_start"]

functions = {}  # those of fake_r, which fills it


class _Called:
    """Call that has ended; `status` is what its function returned."""

    unit, line, messages, n_total, n_done, is_done = "calls", "", [], 1, 1, True

    def __init__(self, status):
        self.status = status

    def step(self):
        pass

    def cancel(self):
        pass


def slow_start(name, arguments):
    return {"job": _Called(functions[name](*arguments))}


def call_start(name, arguments, version):
    return {"job": _Called({"ok": True, "value": _MADE[name](**arguments)})}


def call_result(job):
    """Return the status itself, also of an error."""
    return job.status


def _drawn_rows(texts, n_texts, seed):
    return [i for i, text in enumerate(texts) if text is not None]


def vector(kind, name, values, **more):
    return {"type": kind, "name": name, "values": values, **more}


def table(name, n, *columns):
    return {"type": "table", "name": name, "n": n, "columns": list(columns)}


def object_of(cls, page, *parts, json=None):
    return {
        "type": "object",
        "class": f"llamaherd_{cls}",
        "parts": list(parts),
        "page": page,
        "json": json,
    }


def _robustness(frame, text, codebooks, **options):
    columns = frame.get("content") or frame["frame"]
    own = ["coded"] if frame[".class"] == "coded" else []
    names = [f"codebook {name}" for name in [*own, *(codebooks or {})]]
    book = next(iter((codebooks or {}).values()), None)
    labels = list(json.loads(book["content"])["labels"]) if book else ["yes", "n"]
    rows = [i for i, each in enumerate(columns[text]) if each is not None]
    n, v = len(rows), len(names)
    ones = [1] * n
    return object_of(
        "robustness",
        [f"<llamaherd_robustness> {n} texts, {v} variants"],
        table(
            "summary",
            v,
            vector("text", "variant", names),
            vector("number", "flips", [0.0] * v),
        ),
        table(
            "labels",
            n,
            vector("integer", "row", [float(i + 1) for i in rows]),
            vector("number", "unstable", [0.0] * n),
            *(vector("factor", name, ones, levels=labels) for name in names),
        ),
        {"type": "value", "name": "alpha", "value": None},
        json="{}",
    )


def _reproduced(path, **options):
    def texts(name, values):
        return vector("text", name, values)

    return object_of(
        "reproduction",
        ["2 of 3 labels and probabilities are the same", "more"],
        {"type": "value", "name": "same", "value": False},
        vector("integer", "n", [3.0]),
        table(
            "changed",
            1,
            vector("integer", "row", [2.0]),
            texts("then", [None]),
            texts("now", ["n"]),
        ),
    )


def _estimates_page(columns, notes):
    estimates = columns["content"]["estimate"]
    return [f"{estimates[0]:.3f} of {len(estimates)}"]


_MADE = {
    "drawn_rows": _drawn_rows,
    "estimates_page": _estimates_page,
    "reproduce": _reproduced,
    "robustness": _robustness,
}
