"""Checks the probabilities of labels in calls with faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

import llamaherd as lh
import numpy as np
from cases import POISON, check_number_failed, is_impossible
from kinds import HERDS
from running import run_case

if TYPE_CHECKING:
    from cases import Case
    from kinds import Herd, Kind
    from properties import Tally, World

# Labels of one and of several tokens; one is the beginning of another.
LABELS = [" yes", " yes, but", " no", " n"]


def alone(world: World, herd: Herd, prompt: str) -> np.ndarray:
    """Return float64[n_labels]: log-probabilities of the labels of a single prompt."""
    context = world.context(HERDS[0] if herd.kind == "llama" else HERDS[1])
    return lh.classify_parallel(context, [prompt], LABELS, space=False).logprobs[0]


def check_scored(world: World, kind: Kind, tally: Tally, case: Case) -> None:
    """Check that each prompt has an error or the probabilities of a single prompt."""
    tally.scored += 1
    # Computed before the fault occurs, on contexts without a fault.
    known = {}
    for prompt in case.prompts if case.herd.is_exact else ():
        if not is_impossible(prompt):
            known[prompt] = alone(world, case.herd, prompt)
    with world.checked(kind, case.herd, []) as context:
        results = run_case(
            world.faults,
            kind,
            case,
            lambda: lh.start_classify(
                context, case.prompts, LABELS, space=False, on_error=case.on_error
            ),
        )
        n_struck = world.faults.n_struck if case.fault else 0
        tally.struck_scored += n_struck > 0
        if results is None:
            assert n_struck > 0
            return
        assert len(results) == len(case.prompts)
        failed = set()  # distinct prompts
        for i, prompt in enumerate(case.prompts):
            if _is_failed_by_fault(kind, case, results, i, n_struck):
                failed.add(prompt)
            if prompt in known and results.finish_reasons[i] == "stop":
                _check_equal(case.herd, known[prompt], results.logprobs[i])
        check_number_failed(kind, [case], len(failed), results.errors)


def _is_failed_by_fault(
    kind: Kind, case: Case, results: lh.types.ClassifyResults, i: int, n_struck: int
) -> bool:
    """Check a row."""
    prompt = case.prompts[i]
    is_hit = kind.of_one and isinstance(prompt, str) and POISON in prompt
    reason, row = results.finish_reasons[i], results.logprobs[i]
    if reason == "stop":
        assert results.errors[i] is None
        assert not is_impossible(prompt)
        assert not is_hit
        assert np.isfinite(row).all()
        assert abs(results.probs[i].sum() - 1) < 1e-9
        return False
    assert np.isnan(row).all()
    assert results.labels[i] is None
    if reason == "cancelled":
        assert case.cancel_at is not None or case.on_error == "return"
        return False
    assert reason == "error"
    assert results.errors[i]
    if is_impossible(prompt):
        return False
    assert n_struck > 0, results.errors[i]
    assert is_hit or not kind.of_one, results.errors[i]
    return True


def _check_equal(herd: Herd, one: np.ndarray, row: np.ndarray) -> None:
    """Compare log-probabilities; bit by bit if the context is deterministic."""
    if herd is HERDS[0]:
        assert row.tobytes() == one.tobytes()
    else:
        np.testing.assert_allclose(row, one, atol=1e-4)
