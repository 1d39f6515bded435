"""The settings that texts are coded with, checked."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from llamaherd.core import checks
from llamaherd.core.sampling import DEFAULT_SEED
from llamaherd.core.scores import NORMALIZE
from llamaherd.run.call import ON_ERROR

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.core.scores import Normalize
    from llamaherd.research.coding.codebook import Codebook
    from llamaherd.run.call import OnError

Method = Literal["classify", "generate"]
Split = Literal["first", "last", "majority", "mean"]
Calibrate = Literal["batch", "contextual"]
METHODS: tuple[Method | Literal["auto"], ...] = ("auto", "classify", "generate")
SPLITS: tuple[Split | None, ...] = (None, "first", "last", "majority", "mean")
CALIBRATE: tuple[Calibrate | None, ...] = (None, "batch", "contextual")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How texts are coded; see `annotate`.

    Attributes:
        method: "classify" or "generate".
        calibrate: As in `annotate`, and so are the others.
        normalize: See there.
        chat: See there.
        journal: Path of the file; None: none.
        on_error: See there.
        split: See there.
        part_tokens: See there.
        seed: See there.
        temperature: See there.
        max_tokens: See there.
    """

    method: Method
    calibrate: Calibrate | None = None
    normalize: Normalize = "sum"
    chat: bool = False
    journal: str | None = None
    on_error: OnError = "continue"
    split: Split | None = None
    part_tokens: int | None = None
    seed: int = DEFAULT_SEED
    temperature: float = 0.0
    max_tokens: int = 512

    def to_dict(self) -> dict[str, Any]:
        """What the labels depend on, JSON-able."""
        shared = {
            "method": self.method,
            "chat": self.chat,
            "split": self.split,
            "part_tokens": self.part_tokens,
        }
        if self.method == "classify":
            return {**shared, "normalize": self.normalize, "calibrate": self.calibrate}
        return {
            **shared,
            "seed": self.seed,
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
        }


def checked_settings(
    codebook: Codebook, model_name: str, given: Mapping[str, Any]
) -> Settings:
    """The arguments of `annotate` that are settings.

    Args:
        codebook: By which texts are coded.
        model_name: For the name of a journal.
        given: They are.

    Raises:
        TypeError: One has the wrong type.
        ValueError: One is out of range, or they do not go together.
    """
    wanted = checks.choice("method", given["method"], METHODS)
    by_fields = codebook.type == "fields"
    method: Method = "generate" if by_fields else "classify"
    if wanted != "auto":
        method = wanted
    if method == "classify" and by_fields:
        raise ValueError("method='classify' needs labels; this codebook has fields")
    calibrate = checks.choice("calibrate", given["calibrate"], CALIBRATE)
    if calibrate is not None and method == "generate":
        raise ValueError(
            "calibrate needs probabilities, which method='generate' has none of"
        )
    if calibrate is not None and codebook.type == "multiple":
        raise ValueError(
            "calibrate goes with one label a text, not with several: it supposes labels "
            "that are about equally frequent"
        )
    split = checks.choice("split", given["split"], SPLITS)
    if split == "mean" and method == "generate":
        raise ValueError(
            "split='mean' is of probabilities, which method='generate' has not"
        )
    if split in ("majority", "mean") and by_fields:
        raise ValueError(f"split={split!r} is of labels; fields take 'first' or 'last'")
    part_tokens = given["part_tokens"]
    if part_tokens is not None:
        if split is None:
            raise ValueError("part_tokens needs split, which says what parts are for")
        part_tokens = checks.integer("part_tokens", part_tokens, 1)
    return Settings(
        method=method,
        calibrate=calibrate,
        normalize=checks.choice("normalize", given["normalize"], NORMALIZE),
        chat=checks.flag("chat", given["chat"]),
        journal=_journal(given["journal"], codebook, model_name),
        on_error=checks.choice("on_error", given["on_error"], ON_ERROR),
        split=split,
        part_tokens=part_tokens,
        seed=checks.integer("seed", given["seed"], 0, 2**32 - 1),
        temperature=checks.real("temperature", given["temperature"], 0, 100),
        max_tokens=checks.integer("max_tokens", given["max_tokens"], 1),
    )


def _journal(given: object, codebook: Codebook, model_name: str) -> str | None:
    if given is None or given is False:
        return None
    if given is True:
        return f"{codebook.hash[:12]}-{model_name.removesuffix('.gguf')}.journal"
    if not isinstance(given, (str, os.PathLike)):
        raise TypeError(
            f"journal must be None, True or a path, not {checks.shown(given)}"
        )
    return os.fspath(given)
