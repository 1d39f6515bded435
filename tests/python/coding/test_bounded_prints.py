"""A print of a thousand groups, labels or rows shows the first and counts the others."""

from __future__ import annotations

import ast
import re
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.calls.journal.entry import JournalEntry
from llamaherd.calls.journal.journal import JournalEntries
from llamaherd.coding.estimation.estimates import METHODS, Estimate
from llamaherd.coding.pairs.comparison import TextStrength
from llamaherd.coding.reports.reproduce import Changed
from llamaherd.coding.selection.comparison import ComparedCandidate
from llamaherd.coding.selection.disagreements import Disagreements
from llamaherd.coding.selection.measures import PairedDifference
from llamaherd.coding.statistics.intervals import Measure
from llamaherd.coding.validation.dawid_skene import DawidSkene
from llamaherd.engine.core.phrases import MOST_ROWS, first_rows

if TYPE_CHECKING:
    from collections.abc import Callable

N = 1000
MOST_LINES = 100
MOST_CHARACTERS = 20_000
NAMES = [f"label {i}" for i in range(N)]
ONE = Measure(value=0.5, low=0.4, high=0.6, n=100)


@cache
def codebook() -> lh.Codebook:
    few = NAMES[:100]
    examples = [(f"Text {i}.", name) for i, name in enumerate(few)]
    return lh.Codebook("Which?", few, examples=examples)


def estimates() -> lh.types.Estimates:
    values = {"estimate": 0.5, "std_error": 0.1, "low": 0.3, "high": 0.7}
    rows = tuple(
        Estimate(outcome="yes", term="share", group=name, method=method, **values)
        for method in METHODS
        for name in NAMES
    )
    return lh.types.Estimates(
        rows=rows, model="mean", formula=None, level=0.95, target="texts", n_texts=N,
        n_gold=N, design="simple", grouped_by=("age",),
    )  # fmt: skip


def robustness() -> lh.types.Robustness:
    few = NAMES[:60]
    book = lh.Codebook("Which?", few)
    return lh.types.Robustness(
        variants=tuple(f"variant {i}" for i in range(25)), codebook=book,
        rows=list(range(60)), labels=[few] * 25, runs=[{}] * 25,
    )  # fmt: skip


def validation(n_coders: int) -> lh.types.Validation:
    few = NAMES[:60]
    coders = {f"coder {i}": few for i in range(n_coders)}
    return lh.validate(few, coders if n_coders > 1 else few[::-1])


def comparison() -> lh.types.CodebookComparison:
    candidates = [
        ComparedCandidate(
            name=name, hash=name, codebook={"examples": [1] * i}, settings={}, model={},
            labels=("a",) * N, value=ONE, seconds=1.0,
        )
        for i, name in enumerate(NAMES[:100])
    ]  # fmt: skip
    differences = tuple(
        PairedDifference(first=0, second=i, value=0.0, low=-0.1, high=0.1, differ=0.1)
        for i in range(1, 100)
    )
    return lh.types.CodebookComparison(
        candidates=tuple(candidates), differences=differences, measure="accuracy",
        level=0.95, adjust="none", n=N, ids=tuple(NAMES), codes_sha256="",
        split_sha256="",
    )  # fmt: skip


def pairs() -> lh.types.PairComparison:
    strengths = tuple(
        TextStrength(
            name=name, text=name, strength=0.0, std_error=0.1, low=-0.2, high=0.2,
            rank=i + 1, n_pairs=5,
        )
        for i, name in enumerate(NAMES)
    )  # fmt: skip
    return lh.types.PairComparison(
        strengths=strengths, pairs=(), question="Which?", level=0.95, design="random",
        seed=1, position_bias=ONE, consistent=0.9, reliability=0.5, dispersion=1.0, df=9,
        n_parts=1, is_converged=True, correlations=(),
    )  # fmt: skip


def coded() -> lh.Coded:
    return lh.Coded(
        frame={"text": NAMES, "label": NAMES}, text="text", codebook=codebook(),
        columns={"label": "label"}, names=tuple(NAMES), labels=list(NAMES), probs=None,
        errors=[None] * N, run={}, stats=lh.Stats(),
    )  # fmt: skip


def reproduction() -> lh.types.Reproduction:
    changed = tuple(Changed(row=i, then="a", now="b") for i in range(N))
    return lh.types.Reproduction(
        n=N, n_same=0, n_same_labels=0, has_probs=False, largest_difference=0.0,
        changed=changed, is_deterministic=True, versions={}, coded=coded(),
    )  # fmt: skip


def entries() -> JournalEntries:
    one = JournalEntry(
        prompt="Why?\n" * 100, text="So. " * 100, finish_reason="stop", complete=True,
        error=None, n_prompt_tokens=1, tokens=[1] * N, seed=1, model="m",
        model_sha256="0" * 64, settings="{}", created=datetime.now(UTC), version="1",
        key="0" * 64,
    )  # fmt: skip
    return JournalEntries([one] * N)


def disagreements() -> Disagreements:
    texts = dict.fromkeys(("id", "text", "code", "label"), NAMES)
    columns = {**texts, "prob": [0.5] * N}
    return Disagreements(columns=columns, n_compared=N, n_missing=0)


def dawid_skene() -> DawidSkene:
    return DawidSkene(
        ids=NAMES, names=("a", "b"), coders=tuple(NAMES), probs=np.full((N, 2), 0.5),
        shares=np.full(2, 0.5), errors=np.full((N, 2, 2), 0.5),
    )  # fmt: skip


def spans() -> lh.types.SpanValidation:
    return lh.types.SpanValidation(
        {("people", "f1", name): ONE for name in NAMES}, (), 0.95
    )


PRINTED: dict[str, Callable[[], Any]] = {
    "Codebook": codebook,
    "Estimates": estimates,
    "Robustness": robustness,
    "Validation": partial(validation, 1),
    "Validation of many coders": partial(validation, 25),
    "CodebookComparison": comparison,
    "PairComparison": pairs,
    "Coded": coded,
    "Reproduction": reproduction,
    "JournalEntries": entries,
    "Disagreements": disagreements,
    "DawidSkene": dawid_skene,
    "SpanValidation": spans,
}
# Their text has no list that grows with the data, or is the content itself.
APART = {
    "CodebookChoice": "one codebook; the names of others are counted from the tenth on",
    "CoderAgreement": "at most four coefficients",
    "ComparisonAgreement": "at most four measures",
    "CoverageCurve": "a line for each tenth",
    "ModelComparison": "a line for each model and pair; tables of few labels",
    "NumberScale": "the names that the user gave to numbers",
    "Evaluation": "one value",
    "GoldSample": "one line",
    "GoldSize": "one number",
    "LabelCheck": "six labels",
    "MethodsText": "the paragraph",
    "PairedSize": "one number",
    "PromptPreview": "the prompt",
    "Recalibrated": "a Coded with four numbers",
    "SpanCodes": "one line",
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", PRINTED)
def test_a_print_has_few_lines(name: str) -> None:
    result = PRINTED[name]()
    for text in (str(result), repr(result)):
        assert len(text.splitlines()) <= MOST_LINES
        assert len(text) <= MOST_CHARACTERS
    assert re.search(r"\d more|\d pairs of coders", str(result))


def test_every_class_with_a_print_is_tried() -> None:
    coding = Path(lh.__file__).parent / "coding"
    printing = {
        node.name
        for file in coding.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
        and {"__str__", "__repr__"} & {getattr(part, "name", "") for part in node.body}
    }
    assert printing <= {*PRINTED, *APART}
    assert printing >= {*APART}


def test_the_first_rows_and_the_number_of_the_others() -> None:
    assert first_rows(["a", "b"], 2) == ["a", "b"]
    assert first_rows(NAMES) == [*NAMES[:MOST_ROWS], "... and 980 more"]
    assert first_rows(["a"], 1, 2001) == ["a", "... and 2,000 more"]
