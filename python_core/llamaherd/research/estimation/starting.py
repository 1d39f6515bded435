"""First variant of `robustness`: the settings with which the labels were made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llamaherd.core.argument import Argument
from llamaherd.core.errors import ArgumentError
from llamaherd.core.thinking import checked_thinking
from llamaherd.research.coding.codebook import Codebook
from llamaherd.research.coding.record import model_record
from llamaherd.research.coding.settings import checked_settings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.core.thinking import ThinkingWanted
    from llamaherd.model.model import Model
    from llamaherd.research.coding.variants import Variant

_OWN = "coded"  # name of the codebook that made the labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Codebooks, settings and seeds of all variants.

    The first variant uses the first codebook and the first seed.

    Attributes:
        codebooks: Codebooks by name.
        settings: Arguments of `annotate` that affect labels.
        seeds: Seeds of sampling.
    """

    codebooks: dict[str, Codebook]
    settings: dict[str, Any]
    seeds: list[int]

    @property
    def is_drawn(self) -> bool:
        """True if labels are generated with a temperature, and so depend on seeds."""
        is_written = self.settings.get("method") == "generate"
        return is_written and bool(self.settings.get("temperature"))


def start_from(
    run: Mapping[str, Any],
    codebooks: Mapping[str, Codebook],
    settings: Mapping[str, Any],
    seeds: Sequence[int],
) -> Start:
    """Return the settings that made the labels, followed by the variants to try.

    Args:
        run: Provenance of the labels, see `Coded.run`.
        codebooks: Further codebooks to try; the codebook of the labels may be among them.
        settings: Settings that replace the recorded settings in all variants.
        seeds: Further seeds to try.
    """
    own = Codebook.from_dict(run["codebook"]["content"])
    name = next((name for name, b in codebooks.items() if b.hash == own.hash), _OWN)
    others = {key: book for key, book in codebooks.items() if book.hash != own.hash}
    merged = {**run["settings"], **settings}
    if seeds and merged.get("seed") is not None:
        seeds = list(dict.fromkeys((merged["seed"], *seeds)))
    return Start(codebooks={name: own, **others}, settings=merged, seeds=list(seeds))


def check_variants(variants: Sequence[Variant], settings: Mapping[str, Any]) -> None:
    """Check the settings of all variants before the first one is coded.

    Args:
        variants: The variants.
        settings: Arguments of `annotate` that all variants share.

    Raises:
        TypeError: A setting has the wrong type, or does not exist.
        ValueError: A setting is out of range, or settings conflict.
    """
    for each in variants:
        checked_settings(each.codebook, "model", {**settings, **each.settings})


def thinking_levels(given: object) -> list[ThinkingWanted]:
    """Return the values of `thinking` to try; [] for None.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: A value is out of range, or given twice.
    """
    if given is None:
        return []
    values = given if isinstance(given, (list, tuple)) else [given]
    found = [
        checked_thinking(Argument("thinking", (i,)), each) or False
        for i, each in enumerate(values)
    ]
    for i, each in enumerate(found):
        if each in found[:i]:
            raise ArgumentError(
                "occurs twice", argument="thinking", place=(i,), code="duplicate"
            )
    return list(found)


def own_first(
    settings: Mapping[str, Any], levels: Sequence[ThinkingWanted]
) -> list[ThinkingWanted]:
    """Return the values of `thinking` to try; the value in `settings` comes first."""
    if "thinking" not in settings:
        return list(levels)
    own = checked_thinking("thinking", settings["thinking"]) or False
    return [own, *(each for each in levels if each != own)]


def check_model(run: Mapping[str, Any], model: Model) -> None:
    """Check that the first context has the model that produced the labels.

    Raises:
        ValueError: The first context has another model.
    """
    recorded, found = run["model"], model_record(model)
    if (recorded.get("sha256"), recorded.get("file")) != (found["sha256"], found["file"]):
        raise ArgumentError(
            f"must begin with a context of the model that made the labels, "
            f"{recorded.get('file')}, not of {found['file']}",
            argument="contexts",
            code="other_model",
        )
