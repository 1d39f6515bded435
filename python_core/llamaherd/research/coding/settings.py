"""The settings that texts are coded with, checked."""

from __future__ import annotations

import os
from dataclasses import MISSING, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from llamaherd.core import checks
from llamaherd.core.sampling import DEFAULT_SEED
from llamaherd.core.scores import NORMALIZE
from llamaherd.model.dates import template_date
from llamaherd.run.call import ON_ERROR

if TYPE_CHECKING:
    import datetime as dt
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


class CodingSettings(TypedDict, total=False):
    """How texts are coded: arguments of `annotate` by their names.

    Attributes:
        method: "classify": by probabilities; "generate": the label is written, held to
            the labels; "auto", the default: "generate" for fields, otherwise "classify".
        columns: Names of the new columns: a text that comes before each, or a mapping of
            "label", "prob" and so on to names, with None for what is not wanted; "p_"
            stands for what the names of labels' probabilities begin with.
        calibrate: Take the model's preferences out of the probabilities: "batch", fitted
            to these rows; "contextual", to prompts without content. See `Calibration`.
        normalize: As in `classify_parallel`.
        chat: Have the model's chat template make the prompts.
        date: With `chat`: the day that the template is told, as `datetime.date` or
            "2026-01-31", where it writes one into prompts (Llama 3.2, gpt-oss, Granite);
            None: the day of the first result in the journal, or else today. It is
            recorded, so that `reproduce` takes it again.
        split: What becomes of a text that is too long: None: its row has an error;
            otherwise it is cut into parts of about the same length, and "first", "last":
            that part alone counts; "majority": the label of most parts, a tie going to
            the larger mean probability; "mean": the mean of their probabilities.
        part_tokens: Most tokens of a part; None: 2,048, or what the context has room for
            if that is less, and a text for which there is room stays whole.
        journal: Path of a file that results are stored in as they come, see
            `generate_parallel`; True: one in the working directory, named after the
            codebook's hash and the model's file.
        on_error: As in `generate_parallel`.
        seed: With "generate": of the draws.
        temperature: With "generate": 0, the default, takes the most likely tokens.
        max_tokens: With "generate": most tokens of an answer; 512 by default.
        versions: Further ones for the record, such as that of a language that calls.
    """

    method: Literal["auto", "classify", "generate"]
    columns: str | Mapping[str, str | None] | None
    calibrate: Calibrate | None
    normalize: Normalize
    chat: bool
    date: dt.date | str | None
    split: Split | None
    part_tokens: int | None
    journal: bool | str | os.PathLike[str] | None
    on_error: OnError
    seed: int
    temperature: float
    max_tokens: int
    versions: Mapping[str, str] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How texts are coded; all but these are as in `CodingSettings`.

    Attributes:
        method: "classify" or "generate".
        date: Like "2026-01-31"; None: no prompt has one.
        journal: Path of the file; None: none.
    """

    method: Method
    calibrate: Calibrate | None = None
    normalize: Normalize = "sum"
    chat: bool = False
    date: str | None = None
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
            **({} if self.date is None else {"date": self.date}),
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


# Of `annotate`: those of `Settings` stand where that has them.
DEFAULTS: dict[str, Any] = (
    dict.fromkeys(CodingSettings.__annotations__)
    | {
        each.name: each.default
        for each in fields(Settings)
        if each.default is not MISSING
    }
    | {"method": "auto"}
)


def checked_settings(
    codebook: Codebook, model_name: str, settings: Mapping[str, Any]
) -> Settings:
    """The arguments of `annotate` that labels depend on.

    Args:
        codebook: By which texts are coded.
        model_name: For the name of a journal.
        settings: Those that were given, of `CodingSettings`.

    Raises:
        TypeError: One has the wrong type, or there is none of its name.
        ValueError: One is out of range, or they do not go together.
    """
    given = _all(settings)
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
        date=None if given["date"] is None else _day(given["date"]),
        journal=_journal(given["journal"], codebook, model_name),
        on_error=checks.choice("on_error", given["on_error"], ON_ERROR),
        split=split,
        part_tokens=part_tokens,
        seed=checks.integer("seed", given["seed"], 0, 2**32 - 1),
        temperature=checks.real("temperature", given["temperature"], 0, 100),
        max_tokens=checks.integer("max_tokens", given["max_tokens"], 1),
    )


def _day(given: object) -> str:
    return template_date(given).date().isoformat()


def _all(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with those that were not given."""
    for name in settings:
        if name not in DEFAULTS:
            hint = checks.meant(name, DEFAULTS) or f"; there are {', '.join(DEFAULTS)}"
            raise TypeError(f"there is no argument {name!r}{hint}")
    return {**DEFAULTS, **settings}


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
