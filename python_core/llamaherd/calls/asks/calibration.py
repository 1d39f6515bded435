"""Calibration of label probabilities, and the coverage of labels."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

import numpy as np

from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError, ArgumentTypeError
from llamaherd.engine.core.phrases import count_of, with_commas
from llamaherd.engine.core.plain import DAMAGED
from llamaherd.engine.core.words import call, name_of, setting

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.engine.core.arrays import Floats


Method = Literal["contextual", "batch"]
METHODS: tuple[Method, ...] = get_args(Method)
_LEAST = 1e-12  # smallest prior probability, to avoid division by zero


class Classified(Protocol):
    """Probabilities of labels: `ClassifyResults`."""

    @property
    def names(self) -> tuple[str, ...]:
        """Labels."""
        ...

    @property
    def probs(self) -> Floats:
        """float64[n, k]."""
        ...

    @property
    def calibration(self) -> Calibration | None:
        """Calibration of the probabilities; None if they are not calibrated."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Fitted calibration, to be stored and applied to further texts.

    Attributes:
        names: Labels of the calibration; () if it was fitted to a matrix without labels.
        prior: Prior probability of each label.
        method: "contextual" or "batch".
        n: Number of texts to which it was fitted.
    """

    names: tuple[str, ...]
    prior: tuple[float, ...]
    method: Method
    n: int

    def __str__(self) -> str:
        names = self.names or [str(i + 1) for i in range(len(self.prior))]
        shares = zip(names, self.prior, strict=True)
        head = f"<Calibration: {self.method}, fitted to {count_of(self.n, 'text')}>"
        return "\n".join([head, *(f"{name}: {share:.3g}" for name, share in shares)])

    def apply(self, probs: Floats) -> Floats:
        """Calibrate float64[n, k] probabilities; a row with a NaN becomes NaN.

        Raises:
            ValueError: The number of columns differs from the number of labels.
        """
        values = _matrix(probs)
        if values.shape[1] != len(self.prior):
            raise ArgumentError(
                f"must have {len(self.prior)} columns, as the calibration has, not "
                f"{values.shape[1]}",
                argument="probs",
            )
        shares = values / np.maximum(np.array(self.prior), _LEAST)
        sums = shares.sum(axis=1, keepdims=True)
        return np.asarray(shares / np.where(sums > 0, sums, 1.0))

    def check_names(self, names: Sequence[str]) -> None:
        """Check that the calibration was fitted to these labels.

        Raises:
            ValueError: The calibration was fitted to other labels.
        """
        if self.names and tuple(names) != self.names:
            raise ArgumentError(
                f"the calibration is for the labels {with_commas(self.names)}, not "
                f"{with_commas(names)}",
                argument="calibration",
                code="conflict",
                form="{problem}",
            )
        if len(names) != len(self.prior):
            raise ArgumentError(
                f"the calibration is for {len(self.prior)} labels, not {len(names)}",
                argument="calibration",
                code="conflict",
                form="{problem}",
            )

    def to_json(self) -> str:
        """Return the calibration as JSON, for `from_json`."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Calibration:
        """Restore a calibration from JSON.

        Raises:
            ValueError: The text is not a stored calibration.
        """
        try:
            stored = json.loads(text)
            calibration = cls(
                names=tuple(map(str, stored["names"])),
                prior=tuple(map(float, stored["prior"])),
                method=stored["method"],
                n=int(stored["n"]),
            )
        except DAMAGED as error:
            raise ArgumentError("is not a stored calibration", argument="text") from error
        is_good = calibration.method in METHODS and all(
            0 <= p <= 1 for p in calibration.prior
        )
        if not is_good or (
            calibration.names and len(calibration.names) != len(calibration.prior)
        ):
            raise ArgumentError(
                "is not a stored calibration: its values do not match", argument="text"
            )
        return calibration


def checked_calibration(calibration: object, names: Sequence[str]) -> Calibration:
    """Check a calibration of these labels."""
    expected = f"a Calibration, as {call('calibrate_batch')} returns"
    known = checks.instance("calibration", calibration, Calibration, expected)
    known.check_names(names)
    return known


def calibrate_contextual(content_free: Classified | Floats) -> Calibration:
    """Fit a calibration to prompts without content, such as "N/A" instead of a text.

    Args:
        content_free: Results of `classify_parallel` for these prompts, or float64[n, k]
            probabilities; their mean is the prior.

    Raises:
        ValueError: All rows have a NaN.
    """
    return _fit_calibration(content_free, "contextual")


def calibrate_batch(results: Classified | Floats) -> Calibration:
    """Fit a calibration to the texts themselves; the prior is their mean probability.

    The method assumes that the labels are about equally frequent. Fit one calibration
    to all texts and store it. A separate calibration for each batch would remove real
    differences between batches.

    Args:
        results: Results of `classify_parallel`, or float64[n, k] probabilities.

    Raises:
        ValueError: All rows have a NaN.
    """
    return _fit_calibration(results, "batch")


def _fit_calibration(results: Classified | Floats, method: Method) -> Calibration:
    names: tuple[str, ...] = getattr(results, "names", ())
    if getattr(results, "calibration", None) is not None:
        raise ArgumentError(
            "the results are calibrated already",
            argument="results",
            code="conflict",
            form="{problem}",
        )
    values = _matrix(getattr(results, "probs", results))
    rows = values[~np.isnan(values).any(axis=1)]
    if len(rows) == 0:
        raise ArgumentError(
            "there is no row of probabilities to fit a calibration to",
            argument="results",
            code="empty",
            form="{problem}",
        )
    prior = tuple(float(p) for p in rows.mean(axis=0))
    return Calibration(names=names, prior=prior, method=method, n=len(rows))


def _matrix(probs: Any) -> Floats:  # anything that numpy converts
    try:
        values = np.asarray(probs, dtype=np.float64)
    except (TypeError, ValueError):
        raise ArgumentTypeError(
            f"must be a matrix of numbers, not {checks.brief(probs)}", argument="probs"
        ) from None
    if values.ndim != 2:
        raise ArgumentError(
            f"must be a matrix with a row for each text, not have {values.ndim} "
            "dimensions",
            argument="probs",
        )
    return values


LOW_COVERAGE = 0.05
_MOST_SHOWN = 30  # number of characters at the end of a prompt that are examined
# Texts that open a thought in the formats of common models.
_OPENING = (
    *("<think>", "<thinking>", "<thought>", "<reasoning>", "<seed:think>"),
    *("[THINK]", "<|START_THINKING|>", "<|begin_of_thought|>", "<|channel>thought"),
    *("<|channel|>analysis<|message|>", "<|inner_prefix|>", "<|thinking|>"),
)


def thought_opening(prompt: str) -> str:
    """Return the marker that opens a thought at the end of a prompt, or ""."""
    end = prompt.rstrip()
    return next((marker for marker in _OPENING if end.endswith(marker)), "")


def low_coverage(coverage: Floats) -> str:
    """Return a sentence about a low median of float64[n] coverages, or ""."""
    known = coverage[~np.isnan(coverage)]
    if not len(known) or (middle := float(np.median(known))) >= LOW_COVERAGE:
        return ""
    return (
        f"Median coverage is {middle:.2g}: all labels together have only this share of "
        "the model's probability for the text after a prompt"
    )


def coverage_cause(prompt: object, *, chat: bool, has_template: bool = False) -> str:
    """Return the likely cause of a low coverage, as a sentence."""
    if not isinstance(prompt, str) or not prompt:
        return "Prompts may end where no label can follow"
    marker = thought_opening(prompt)
    if marker:
        return (
            f"Prompts end in {marker!r}, inside a thought: with {setting('chat', True)}, "
            f"{setting('thinking', False)} closes it and {setting('thinking', 256)} lets "
            "the model think first"
        )
    ending = checks.quoted(prompt[-_MOST_SHOWN:])
    if chat:
        return (
            f"Prompts end in {ending}, and the model would start with another text: ask "
            "for only a label in the prompt, or start the answer with "
            f"{name_of('prefix')}"
        )
    if prompt[-1].isspace():
        return (
            f"Prompts end in {ending}: leave out the white space there, which belongs "
            "to the first token of a label"
        )
    template = f" or {setting('chat', True)}" if has_template else ""
    if prompt.endswith(":"):
        return (
            f"Prompts end in {ending}: list the labels in the prompt, or try examples"
            f"{template}"
        )
    return (
        f"Prompts end in {ending}: try an end that a label would follow, such as "
        f"'Answer:'{template}"
    )
