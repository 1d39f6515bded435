"""Makes functions of llguidance fail: only the prompt that uses them fails.

Runs in a process with faults.cpp preloaded: constraints.py MODEL OUT
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import llamaherd as lh
from faults import Action, Fault, Faults

FUNCTIONS = (
    "llg_clone_matcher",
    "llg_matcher_compute_mask_into",
    "llg_matcher_consume_tokens",
    "llg_matcher_compute_ff_tokens",
)
N_PLACES = 12  # calls of each function
N_STRIKES = 5  # a mask that fails is computed once more
SCHEMA = {
    "type": "object",
    "properties": {"kind": {"enum": ["one", "two"]}, "is": {"type": "boolean"}},
    "required": ["kind", "is"],
    "additionalProperties": False,
}
PROMPTS = ["a", "bc", "d e", "fg", "h"]
SCHEMAS = [SCHEMA, None, SCHEMA, None, SCHEMA]


def answers(context: lh.Context) -> lh.Results:
    """Run prompts with and without a schema in one call."""
    return lh.generate_parallel(context, PROMPTS, schema=SCHEMAS, max_tokens=40)


def try_one(context: lh.Context, faults: Faults, fault: Fault, texts: list[str]) -> bool:
    """Return True if a prompt failed."""
    with faults.armed(fault):
        results = answers(context)
    failed = [i for i, error in enumerate(results.errors) if error is not None]
    assert len(failed) <= faults.n_struck, (fault, results.errors)
    assert all(SCHEMAS[i] is not None for i in failed), fault
    for i, text in enumerate(results.texts):
        assert i in failed or text == texts[i], fault
    assert answers(context).texts == texts, fault
    return bool(failed)


def main() -> None:
    """Run a call with a fault at each of the first calls of each function."""
    path, out = sys.argv[1:]
    faults = Faults()
    struck = dict.fromkeys(FUNCTIONS, 0)
    options = {"n_seq_max": 4, "deterministic": True}
    with lh.Model(path) as model, lh.Context(model, **options) as context:
        first = answers(context)
        assert first.errors == [None] * len(PROMPTS), first.errors
        texts = [text or "" for text in first.texts]
        for function in FUNCTIONS:
            for place in range(N_PLACES):
                fault = Fault(
                    function=function,
                    action=Action.RETURN,
                    first=place,
                    times=N_STRIKES,
                )
                struck[function] += try_one(context, faults, fault, texts)
    Path(out).write_text(json.dumps(struck), encoding="utf-8")


if __name__ == "__main__":
    main()
