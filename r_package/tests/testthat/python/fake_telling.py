"""Reports of `fake_r`, and their reproduction."""

import json

Job = None  # fake_r's

__all__ = [
    "report",
    "reproduce_close",
    "reproduce_result",
    "reproduce_start",
]


class _Replay:
    made = 0

    def __init__(self):
        _Replay.made += 1
        self.number = _Replay.made

    def __repr__(self):
        return f"Replay {self.number}"


def report(coded, path, parts, options):
    with open(path, "w") as file:
        file.write(json.dumps([coded, parts, options]).replace("NaN", "null"))
    return path


def reproduce_start(path, model, texts, options):
    if path.endswith("wrong.html"):
        raise ValueError("the model was changed")
    return {"job": Job(["x", "y", "z"], {}), "replay": _Replay(), "n": 3}


def reproduce_result(replay, job):
    return {
        "same": False,
        "is_summary_same": True,
        "n": 3,
        "n_same": 2,
        "n_same_labels": 2,
        "has_probs": True,
        "largest_difference": 0.25,
        "is_deterministic": False,
        "changed": {"row": [2], "then": [None], "now": ["n"]},
        "versions": {"what": ["numpy"], "then": ["1"], "now": ["2"]},
        "page": ["2 of 3 labels and probabilities are the same", "more"],
    }


def reproduce_close(replay):
    pass
