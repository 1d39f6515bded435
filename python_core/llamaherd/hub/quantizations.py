"""Which of a repository's files to take: by name, by type, by what fits into memory."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.core.errors import ModelLoadError
from llamaherd.memory import hardware

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# The first of these that fits is taken where nobody names one: four to five bits a weight
# cost little quality; then better ones; then what is left.
PREFERENCE = (
    *("Q4_K_M", "Q4_K_S", "Q4_0", "Q4_1", "IQ4_NL", "IQ4_XS"),
    *("Q5_K_M", "Q5_K_S", "Q5_0", "Q5_1", "Q6_K", "Q8_0"),
    *("Q3_K_L", "Q3_K_M", "Q3_K_S", "IQ3_M", "IQ3_XS", "Q2_K"),
    *("BF16", "F16", "F32"),
)
# Models this small (about a billion weights) lose much with four bits, and at eight they
# are small all the same.
_SMALL_BYTES = 1_500_000_000
# Beside the weights a context needs cells and room to compute in: a rule of thumb, held
# against 2048 cells of models from 0.1 to 8 billion weights.
_REST_SHARE = 0.1
_LEAST_REST_BYTES = 128_000_000

_TYPE = re.compile(
    r"(?:^|[-._])((?:I?Q|TQ|MXFP)\d+(?:_[A-Z0-9]+)*|BF16|F16|F32)(?=$|[-._])",
    re.IGNORECASE,
)
_PART = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteFile:
    """A file of a repository.

    Attributes:
        name: Its path there.
        size_bytes: Its size; None if the hub does not tell.
        sha256: Of its content, in hexadecimal; None if the hub does not tell.
    """

    name: str
    size_bytes: int | None
    sha256: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A model that a repository has: one file, or the parts of one.

    Attributes:
        files: In the order of the parts.
        quantization: Type of its weights by its name, such as "Q4_K_M"; None: unknown.
    """

    files: tuple[RemoteFile, ...]
    quantization: str | None

    @property
    def name(self) -> str:
        """Path of the (first) file in the repository."""
        return self.files[0].name

    @property
    def size_bytes(self) -> int | None:
        """Size of all parts; None if one is unknown."""
        sizes = [file.size_bytes for file in self.files]
        return None if None in sizes else sum(size or 0 for size in sizes)

    def __str__(self) -> str:
        size = self.size_bytes
        what = self.quantization or self.name
        return what if size is None else f"{what} ({gigabytes(size)})"


def gigabytes(n_bytes: float) -> str:
    """A size for people."""
    if n_bytes < 1e9:
        return f"{n_bytes / 1e6:.0f} MB"
    return f"{n_bytes / 1e9:.1f} GB"


def quantization_of(name: str) -> str | None:
    """The type that a file's name states, in capital letters; None: none."""
    stem = _PART.sub("", name.rsplit("/", 1)[-1])
    stem = re.sub(r"\.gguf$", "", stem, flags=re.IGNORECASE)
    types = _TYPE.findall(stem)
    return types[-1].upper() if types else None


def offers(files: Iterable[RemoteFile]) -> list[Offer]:
    """The models among the files of a repository."""
    groups: dict[str, list[RemoteFile]] = {}
    for file in files:
        base = file.name.rsplit("/", 1)[-1].lower()
        # Projectors and importance matrices are no models.
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
    """What a model of that size takes with a modest context, by a rule of thumb."""
    return size_bytes + max(int(_REST_SHARE * size_bytes), _LEAST_REST_BYTES)


def fits(size_bytes: int | None, available_bytes: int | None) -> bool:
    """Whether a model fits into memory. True where one of both is not known."""
    if size_bytes is None or available_bytes is None:
        return True
    return needed_bytes(size_bytes) <= available_bytes


def available_bytes(check_memory: bool) -> int | None:
    """Memory that may be used; None: not looked at."""
    return hardware.available_memory() if check_memory else None


def choose(
    source: str, there: Sequence[Offer], wanted: str | None, available: int | None
) -> Offer:
    """The model to take.

    Args:
        source: What was asked for, for messages.
        there: What the repository has.
        wanted: A quantization, or the name of a file; None: the best that fits.
        available: Bytes of memory; None: not looked at.

    Raises:
        ModelLoadError: There is none, or it does not fit; the message says what would.
    """
    if not there:
        raise ModelLoadError(
            f"{source} has no GGUF files; look for a repository whose name ends in -GGUF"
        )
    ranked = sorted(there, key=_rank)
    if wanted is None:
        fitting = [offer for offer in ranked if fits(offer.size_bytes, available)]
        if fitting:
            return fitting[0]
        smallest = min(there, key=lambda offer: offer.size_bytes or 0)
        raise ModelLoadError(
            f"{source}: no file of it fits into memory. {_shortage(smallest, available)} "
            "Take a smaller model, close other programs, or pass check_memory=False"
        )
    exact = [each for each in ranked if wanted in (file.name for file in each.files)]
    found = exact or [offer for offer in ranked if _is_meant(offer, wanted)]
    if not found:
        have = ", ".join(str(offer) for offer in ranked)
        raise ModelLoadError(f"{source}: there is no {wanted!r}; there is {have}")
    names = sorted(offer.name for offer in found)
    if wanted.lower().endswith(".gguf") and len(names) > 1:
        raise ModelLoadError(
            f"{source}: there are several files of that name: {', '.join(names)}; give "
            "the path of one"
        )
    check_fits(source, found[0], ranked, available)
    return found[0]


def check_fits(
    source: str, offer: Offer, others: Sequence[Offer], available: int | None
) -> None:
    """Refuses what does not fit, and says what would.

    Raises:
        ModelLoadError: It does not.
    """
    if fits(offer.size_bytes, available):
        return
    fitting = [other for other in others if fits(other.size_bytes, available)]
    largest = max(fitting, key=lambda other: other.size_bytes or 0, default=None)
    advice = (
        f"{largest} of the same model would fit: name "
        f"{largest.quantization or largest.name}"
        if largest is not None
        else "Take a smaller model"
    )
    raise ModelLoadError(
        f"{source} does not fit into memory. {_shortage(offer, available)} {advice}, "
        "close other programs, or pass check_memory=False"
    )


def _shortage(offer: Offer, available: int | None) -> str:
    size = offer.size_bytes or 0
    return (
        f"{offer} needs about {gigabytes(needed_bytes(size))} with a context, and "
        f"{gigabytes(available or 0)} are available."
    )


def _is_meant(offer: Offer, wanted: str) -> bool:
    name = offer.name.lower()
    word = wanted.lower()
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
