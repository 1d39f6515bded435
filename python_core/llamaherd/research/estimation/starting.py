"""The start of the variants of `robustness`: the settings of the labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llamaherd.research.coding.codebook import Codebook
from llamaherd.research.coding.record import model_record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.model.model import Model

_OWN = "coded"  # name of the codebook of the labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Codebooks, settings and seeds, those of the first variant first.

    Attributes:
        codebooks: By name.
        settings: Arguments of `annotate` that labels depend on.
        seeds: To draw with.
    """

    codebooks: dict[str, Codebook]
    settings: dict[str, Any]
    seeds: list[int]

    @property
    def is_drawn(self) -> bool:
        """Test for labels that are written with a temperature, so that seeds matter."""
        is_written = self.settings.get("method") == "generate"
        return is_written and bool(self.settings.get("temperature"))


def start_from(
    run: Mapping[str, Any],
    codebooks: Mapping[str, Codebook],
    settings: Mapping[str, Any],
    seeds: Sequence[int],
) -> Start:
    """The first variant as labels were made, with what else is to be tried.

    Args:
        run: How labels were made, see `Coded.run`.
        codebooks: To try beside that of the labels; it may be among them.
        settings: That are to be others in all variants.
        seeds: To try beside that of the labels.
    """
    own = Codebook.from_dict(run["codebook"]["content"])
    name = next((name for name, b in codebooks.items() if b.hash == own.hash), _OWN)
    others = {key: book for key, book in codebooks.items() if book.hash != own.hash}
    merged = {**run["settings"], **settings}
    if seeds and merged.get("seed") is not None:
        seeds = list(dict.fromkeys((merged["seed"], *seeds)))
    return Start(codebooks={name: own, **others}, settings=merged, seeds=list(seeds))


def check_model(run: Mapping[str, Any], model: Model) -> None:
    """Checks that the first context's model is the one that labels were made by.

    Raises:
        ValueError: It is another one.
    """
    told, found = run["model"], model_record(model)
    if (told.get("sha256"), told.get("file")) != (found["sha256"], found["file"]):
        raise ValueError(
            f"contexts: the first must be of the model that labels were made by, "
            f"{told.get('file')}, not of {found['file']}"
        )
