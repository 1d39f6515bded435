"""Telling a caller how far a call is."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from llamaherd.stats import Progress

    # True: a progress bar; a function is called with each Progress.
    ProgressOption = bool | Callable[[Progress], object]


class Counted(Protocol):
    """What a bar needs of a progress."""

    @property
    def n_done(self) -> int:
        """What is over."""
        ...

    @property
    def n_total(self) -> int:
        """All there is."""
        ...


_P = TypeVar("_P", bound=Counted)


def reporter(
    option: ProgressOption,
) -> AbstractContextManager[Callable[[Progress], object]]:
    """What to call with each `Progress`, on the thread that made the call.

    Raises:
        TypeError: `option` is neither a bool nor callable.
    """
    return reporting(option, " prompts", _show_counts)


@contextmanager
def reporting(
    option: bool | Callable[[_P], object],
    unit: str,
    annotate: Callable[[Any, _P], object],
) -> Iterator[Callable[[_P], object]]:
    """What to call with each progress: the user's function, a bar, or nothing.

    Args:
        option: As the user gave it.
        unit: Of the bar.
        annotate: Writes beside the bar, a `tqdm.tqdm`, without drawing it.

    Raises:
        TypeError: `option` is neither a bool nor callable.
    """
    if callable(option):
        yield option
    elif option is True:
        yield from _bar(unit, annotate)
    elif option is False:
        yield lambda _: None
    else:
        raise TypeError(f"progress must be True, False or a function, not {option!r}")


def _bar(
    unit: str, annotate: Callable[[Any, _P], object]
) -> Iterator[Callable[[_P], object]]:
    from tqdm import tqdm  # noqa: PLC0415 - few calls want a bar

    with tqdm(unit=unit) as bar:

        def show(progress: _P) -> None:
            bar.total = progress.n_total
            annotate(bar, progress)
            bar.update(progress.n_done - bar.n)

        yield show


def _show_counts(bar: Any, progress: Progress) -> None:  # noqa: ANN401 - tqdm is untyped
    bar.set_postfix(
        failed=progress.n_failed, tokens=progress.n_generated_tokens, refresh=False
    )
