"""Gold samples and estimates of `fake_r`; exceptions are not converted here.

A sample contains the first texts, all coded "yes"; estimates are 0.5, 1.5 and so on.
"""

import json
import math

from fake_composites import object_of, vector

NAN = math.nan

__all__ = [
    "codes_in_one_form",
    "dawid_skene",
    "estimate_means",
    "estimate_regression",
    "gold_draw",
    "gold_read",
    "gold_rows",
    "gold_size",
    "gold_unlabelled",
    "gold_write",
]


def _gold(ids, texts, labels, n_texts, *, codes, kind="simple"):
    """Return a sample in the form for R, with the JSON that other functions need."""
    known = {"ids": ids, "texts": texts, "labels": labels, "n": n_texts, "kind": kind}
    coded = next(iter(codes.values()), [None] * len(ids))
    share = len(ids) / n_texts
    design = {"kind": kind, "seed": 7.0, "text": "text", "label": "label", "id": None}
    own = [vector("text", coder, each) for coder, each in codes.items()]
    n_coded = sum(code is not None for code in coded)
    return object_of(
        "gold",
        [
            f"<llamaherd_gold> {len(ids)} of {n_texts} texts, drawn simply",
            f"{n_coded} coded, by {len(codes)} coder",
        ],
        vector("integer", "rows", [float(each) for each in ids]),
        vector("text", "ids", ids),
        vector("text", "texts", texts),
        vector("text", "labels", labels),
        vector("number", "probs", [share] * len(ids)),
        vector("number", "all_probs", [share] * n_texts),
        vector("integer", "strata", [1.0] * len(ids)),
        vector("text", "names", ["no", "yes"]),
        {"type": "list", "name": "codes", "parts": own},
        vector("text", "gold", coded),
        {"type": "value", "name": "parts", "value": None},
        {"type": "value", "name": "design", "value": design},
        json=json.dumps({**known, "codes": codes}),
    )


def _stored(sample, codes):
    known = json.loads(sample)
    given = [known[name] for name in ("ids", "texts", "labels", "n")]
    return _gold(*given, codes={**known["codes"], **codes}, kind=known["kind"])


def dawid_skene(sample, one_coin):
    known = json.loads(sample)
    n, coders = len(known["ids"]), list(known["codes"])
    right = [0.9, 0.1, 0.1, 0.9]  # by columns
    return {
        "ids": known["ids"],
        "labels": ["yes"] * n,
        "names": ["no", "yes"],
        "coders": coders,
        "probs": [[0.25] * n, [0.75] * n],
        "shares": [0.25, 0.75],
        "accuracy": [0.9] * len(coders),
        "errors": [right] * len(coders),
        "line": f"{n} texts, {len(coders)} coders",
    }


def gold_size(width, options):
    if options["accuracy"] is not None and options["kappa"] is not None:
        raise ValueError("give accuracy or kappa, not both")
    known = options["accuracy"] is not None
    return {
        "gold": 385.0,
        "dsl": 154.0 if known else None,
        "ppi": 139.0 if known else None,
        "kappa": 0.8 if known else None,
        "line": f"+- {width}:\n  385 texts",
    }


def gold_draw(columns, n, options):
    size = len(next(iter(columns.values())))
    if n > size:
        raise ValueError(f"n must be between 1 and {size}, not {n}")
    ids = [str(i + 1) for i in range(n)]
    texts = columns.get(options["text"], [None] * size)[:n]
    labels = columns.get(options["label"], [None] * size)[:n]
    kind = options["prob"] or ("stratified" if options["by"] else "simple")
    kind = kind if isinstance(kind, str) else "given"
    return _gold(ids, texts, labels, size, codes={}, kind=kind)


def gold_rows(columns, sample, options):
    known = json.loads(sample)
    if columns and len(next(iter(columns.values()))) != known["n"]:
        raise ValueError("gold was drawn from other data: other rows")
    return [float(int(i) - 1) for i in known["ids"]]


def gold_unlabelled(sample):
    return sample


def gold_write(sample, path, options):
    known = json.loads(sample)
    with open(path, "w", encoding="utf-8") as file:
        file.write("id,code\n" + "".join(f"{i},yes\n" for i in known["ids"]))
    with open(path + ".json", "w", encoding="utf-8") as file:
        file.write(sample)


def gold_read(source, sample, coders, names=()):
    if isinstance(source, dict):
        return _of_frame(source, sample)
    if sample is None:
        with open(source[0] + ".json", encoding="utf-8") as file:
            sample = file.read()
    n = len(json.loads(sample)["ids"])
    return _stored(sample, {(coders or ["code"])[0]: ["yes"] * n})


def _of_frame(columns, sample):
    known = json.loads(sample)["ids"]
    ids = [each if isinstance(each, str) else f"{each:.0f}" for each in columns["id"]]
    at = {each: i for i, each in enumerate(ids)}
    for identifier in at:
        if identifier not in known:
            raise ValueError(f"id '{identifier}' is not in the sample")
    made = {
        coder: [values[at[i]] if i in at else None for i in known]
        for coder, values in columns.items()
        if coder != "id"
    }
    return _stored(sample, made)


def _estimates(outcome, terms, methods):
    rows = [(term, method) for method in methods for term in terms]
    n = len(rows)
    return {
        "rows": {
            "outcome": [outcome] * n,
            "term": ["share" if term in ("A", "B") else term for term, _ in rows],
            "group": [term if term in ("A", "B") else "" for term, _ in rows],
            "method": [method for _, method in rows],
            "estimate": [0.5 + i for i in range(n)],
            "std_error": [0.1] * n,
            "low": [0.3 + i for i in range(n)],
            "high": [0.7 + i for i in range(n)],
            "lam": [NAN] * n,
            "df": [10.0] * n,
        },
        "covariances": [
            {
                "outcome": outcome,
                "method": method,
                "values": [
                    [0.01 * (i == j) for j in range(len(terms))]
                    for i in range(len(terms))
                ],
            }
            for method in methods
        ],
        "n_texts": 6.0,
        "n_gold": 4.0,
        "design": "simple",
        "notes": ["few {codes}"],
        "line": "shares:\n  a line",
        "source": '{"n": 6}',
    }


def codes_in_one_form(columns, gold, options):
    labels = columns[options["label"]]
    codes = gold
    if isinstance(gold, str):
        known = json.loads(gold)
        codes = next(iter(known["codes"].values()))
    coded = [(i, code) for i, code in enumerate(codes) if code not in (None, "")]
    return {
        "labels": [None if each is None else f"{each}" for each in labels],
        "rows": [float(i) for i, _ in coded],
        "codes": [f"{code}" for _, code in coded],
        "gold": gold,
    }


def estimate_means(columns, gold, options):
    if not isinstance(gold, str) and options["prob"] is None:
        raise ValueError("gold has no inclusion probabilities")
    outcome = (options.get("outcome") or ["yes"])[0]
    terms = ["A", "B"] if options.get("by") else ["share"]
    value = _estimates(outcome, terms, options["methods"])
    return {**value, "warning": "few {codes}"}


def estimate_regression(columns, gold, matrices, options):
    return _estimates(matrices["outcome"], matrices["terms"], options["methods"])
