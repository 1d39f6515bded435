"""What coding texts returns: the caller's data frame, and how its labels came about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llamaherd.core.calibration import Floats
    from llamaherd.core.stats import Stats
    from llamaherd.research.coding.codebook import Codebook


@dataclass(frozen=True, kw_only=True, eq=False)
class Coded:
    """A data frame of n texts that were coded by a model.

    Attributes:
        frame: The caller's data frame, of the same kind, with the new columns.
        text: Name of the column of texts.
        codebook: By which they were coded.
        columns: Names of the new columns by what they are: "label", "prob", "margin",
            "entropy", "coverage", "error", and "p_<label>" for each label.
        names: The k labels; () for fields.
        labels: n labels. Of several at once their names, joined by "; ", and "" for none
            of them; of fields JSON. None: there was no text, or it failed.
        probs: float64[n, k], probability of each label; NaN where there is no label; None
            where labels were generated. Of several at once each one's own.
        errors: n reasons; None where nothing went wrong.
        run: How it came about, JSON-able: codebook, method and settings, model, context,
            versions, machine, time.
        stats: What the call did.
    """

    frame: Any
    text: str
    codebook: Codebook
    columns: dict[str, str]
    names: tuple[str, ...]
    labels: list[str | None]
    probs: Floats | None
    errors: list[str | None]
    run: dict[str, Any]
    stats: Stats

    def __len__(self) -> int:
        return len(self.labels)

    def to_frame(self) -> Any:  # noqa: ANN401 - of the caller's kind
        """The data frame."""
        return self.frame

    def __repr__(self) -> str:
        n_failed = sum(error is not None for error in self.errors)
        n_missing = sum(label is None for label in self.labels) - n_failed
        parts = (
            [f"{len(self)} texts", f"{len(self.names)} labels"]
            if self.names
            else [f"{len(self)} texts"]
        )
        if n_missing:
            parts.append(f"{n_missing} missing")
        return f"<Coded: {', '.join(parts)}, {n_failed} failed>"
