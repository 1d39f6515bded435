"""Quantization types of files in repositories, and models that fit this machine."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ModelLoadError
from llamaherd.engine.core.words import setting
from llamaherd.engine.memory import hardware

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


# Order of preference if the user names no type: first four to five bits per weight,
# which cost little quality, then more bits, then all other types.
PREFERENCE = (
    *("Q4_K_M", "Q4_K_S", "Q4_0", "Q4_1", "IQ4_NL", "IQ4_XS"),
    *("Q5_K_M", "Q5_K_S", "Q5_0", "Q5_1", "Q6_K", "Q8_0"),
    *("Q3_K_L", "Q3_K_M", "Q3_K_S", "IQ3_M", "IQ3_XS", "Q2_K"),
    *("BF16", "F16", "F32"),
)
# Models of up to this size (about a billion weights) lose much quality with four bits,
# and are small even with eight bits.
_SMALL_BYTES = 1_500_000_000
# In addition to the weights, a context needs KV cells and compute buffers. This is a
# rough rule, tested with contexts of 2048 cells for models from 0.1 to 8 billion weights.
_REST_SHARE = 0.1
_LEAST_REST_BYTES = 128_000_000

_TYPE = re.compile(
    r"(?:^|[-._])((?:I?Q|TQ|MXFP)\d+(?:_[A-Z0-9]+)*|BF16|F16|F32)(?=$|[-._])",
    re.IGNORECASE,
)
_PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """A file of a repository; size and SHA-256 are None if the hub has none."""

    name: str
    size_bytes: int | None
    sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A model in a repository: its files in order, and the type in their names."""

    files: tuple[RemoteFile, ...]
    quantization: str | None

    @property
    def name(self) -> str:
        """Path of the first file in the repository."""
        return self.files[0].name

    @property
    def size_bytes(self) -> int | None:
        """Total size of all parts in bytes; None if the size of a part is unknown."""
        sizes = [file.size_bytes for file in self.files]
        return None if None in sizes else sum(size or 0 for size in sizes)

    def __str__(self) -> str:
        size = self.size_bytes
        what = self.quantization or self.name
        return what if size is None else f"{what} ({gigabytes(size)})"


def gigabytes(n_bytes: float) -> str:
    """Format a size in MB or GB."""
    if n_bytes < 1e9:
        return f"{n_bytes / 1e6:.0f} MB"
    return f"{n_bytes / 1e9:.1f} GB"


def quantization_of(name: str) -> str | None:
    """Return the type in a file's name, in capital letters; None if there is none."""
    stem = _PART.sub("", name.rsplit("/", 1)[-1])
    stem = re.sub(r"\.gguf$", "", stem, flags=re.IGNORECASE)
    types = _TYPE.findall(stem)
    return types[-1].upper() if types else None


def offers(files: Iterable[RemoteFile]) -> list[Offer]:
    """Group the files of a repository into models."""
    groups: dict[str, list[RemoteFile]] = {}
    for file in files:
        base = file.name.rsplit("/", 1)[-1].lower()
        # Projectors and importance matrices are not models.
        if base.endswith(".gguf") and not re.search(r"mmproj|imatrix", base):
            groups.setdefault(_PART.sub("", file.name), []).append(file)
    return [
        Offer(
            files=tuple(sorted(group, key=lambda file: file.name)),
            quantization=quantization_of(group[0].name),
        )
        for group in groups.values()
    ]


def needed_bytes(size_bytes: int) -> int:
    """Estimate the memory of a model of this size with a modest context."""
    return size_bytes + max(int(_REST_SHARE * size_bytes), _LEAST_REST_BYTES)


def fits(size_bytes: int | None, available_bytes: int | None) -> bool:
    """Return whether a model fits into memory; True if either size is unknown."""
    if size_bytes is None or available_bytes is None:
        return True
    return needed_bytes(size_bytes) <= available_bytes


def available_bytes(check_memory: bool) -> int | None:
    """Return the available memory in bytes; None if the check is turned off."""
    return hardware.available_memory() if check_memory else None


def choose(
    source: str,
    available_offers: Sequence[Offer],
    quantization: str | None,
    available: int | None,
) -> Offer:
    """Return the model with a quantization or file name; None: the best that fits."""
    if not available_offers:
        raise ModelLoadError(
            f"{source} has no GGUF files; look for a repository whose name ends in -GGUF"
        )
    ranked = sorted(available_offers, key=_rank)
    if quantization is None:
        fitting = [offer for offer in ranked if fits(offer.size_bytes, available)]
        if fitting:
            return fitting[0]
        smallest = min(available_offers, key=lambda offer: offer.size_bytes or 0)
        raise ModelLoadError(
            f"{source}: none of its files fits into memory. "
            f"{_shortage(smallest, available)} "
            "Use a smaller model, close other programs, or pass "
            f"{setting('check_memory', False)}"
        )
    exact = [
        offer for offer in ranked if quantization in (file.name for file in offer.files)
    ]
    offers = exact or [offer for offer in ranked if _is_meant(offer, quantization)]
    if not offers:
        have = ", ".join(str(offer) for offer in ranked)
        raise ModelLoadError(f"{source}: there is no {quantization!r}; there is {have}")
    names = sorted(offer.name for offer in offers)
    if quantization.lower().endswith(".gguf") and len(names) > 1:
        raise ModelLoadError(
            f"{source}: several files have this name: {', '.join(names)}; give "
            "the path of one of them"
        )
    check_fits(source, offers[0], ranked, available)
    return offers[0]


def check_fits(
    source: str, offer: Offer, others: Sequence[Offer], available: int | None
) -> None:
    """Check that a model fits into memory."""
    if fits(offer.size_bytes, available):
        return
    fitting = [other for other in others if fits(other.size_bytes, available)]
    largest = max(fitting, key=lambda other: other.size_bytes or 0, default=None)
    advice = (
        f"{largest} of the same model would fit: name "
        f"{largest.quantization or largest.name}"
        if largest is not None
        else "Use a smaller model"
    )
    raise ModelLoadError(
        f"{source} does not fit into memory. {_shortage(offer, available)} {advice}, "
        f"close other programs, or pass {setting('check_memory', False)}"
    )


def _shortage(offer: Offer, available: int | None) -> str:
    size = offer.size_bytes or 0
    return (
        f"{offer} needs about {gigabytes(needed_bytes(size))} with a context, and "
        f"{gigabytes(available or 0)} are available."
    )


def _is_meant(offer: Offer, quantization: str) -> bool:
    name = offer.name.lower()
    word = quantization.lower()
    if word.endswith(".gguf"):
        return any(
            word in (file.name.lower(), file.name.lower().rsplit("/", 1)[-1])
            for file in offer.files
        )
    return (offer.quantization or "").lower() == word or name == word


def _rank(offer: Offer) -> tuple[int, str]:
    size = offer.size_bytes
    if offer.quantization == "Q8_0" and size is not None and size <= _SMALL_BYTES:
        return -1, offer.name
    if offer.quantization in PREFERENCE:
        return PREFERENCE.index(offer.quantization), offer.name
    return len(PREFERENCE), offer.name


_OTHERS = "models of this size, not this file: "


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSuggestion:
    """Model to start with.

    Attributes:
        source: Source for `Model`, such as "hf:owner/repo:Q4_K_M".
        memory_gb: Memory of a computer that runs the model and other programs, in GB; 0
            for any computer.
        size_bytes: Approximate size of the file.
        fits: Whether the model fits with a context into the memory given by `memory_gb`.
        measured: Figures that this project measured with the model, or "not measured".
        published: Figures that others published for models of this size, not for this
            file; "" if there are none.
    """

    source: str
    memory_gb: int
    size_bytes: int
    fits: bool = False
    measured: str = "not measured"
    published: str = ""


_SPEECHES = (
    f"{_OTHERS}F1 of 0.7 to 0.9 for two topics in German parliamentary speeches, six "
    "models below 14 billion weights (preprints.org 202511.2016)"
)
_MODELS = (
    ModelSuggestion(
        source="hf:unsloth/SmolLM2-135M-Instruct-GGUF:Q4_K_M",
        memory_gb=0,
        size_bytes=105_000_000,
        measured="57 of 60 news texts right with 8 examples, 39 without, with the Q4_1 "
        "file; for trying things out",
    ),
    ModelSuggestion(
        source="hf:unsloth/Qwen3-4B-Instruct-2507-GGUF:Q4_K_M",
        memory_gb=8,
        size_bytes=2_500_000_000,
        published=_SPEECHES,
    ),
    ModelSuggestion(
        source="hf:unsloth/gemma-3-12b-it-GGUF:Q4_K_M",
        memory_gb=16,
        size_bytes=7_300_000_000,
        published=_SPEECHES,
    ),
    ModelSuggestion(
        source="hf:unsloth/gemma-3-27b-it-GGUF:Q4_K_M",
        memory_gb=32,
        size_bytes=16_500_000_000,
        published="local models in general: the best of five had 0.015 less F1 than the "
        "best of four commercial ones in 34 tasks of political science (arXiv "
        "2605.19275)",
    ),
)


def recommended_models(memory_gb: float | None = None) -> list[ModelSuggestion]:
    """Return suggested first models, smallest first, and whether each fits.

    Models are suggested by their size. This project measured only the first model. No
    model is the best in every task, so measure the model that you choose with
    `validate`.

    Args:
        memory_gb: Memory for the model, in GB of 1e9 bytes; None for the memory that this
            process can allocate now.

    Raises:
        TypeError: `memory_gb` is not a number.
        ValueError: `memory_gb` is below 0.1.
    """
    if memory_gb is None:
        available = float(hardware.available_memory())
    else:
        available = checks.real("memory_gb", memory_gb, 0.1, 1e6) * 1e9
    return [
        replace(model, fits=needed_bytes(model.size_bytes) <= available)
        for model in _MODELS
    ]
