"""Telling a caller how far a call is."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from llamaherd.core.stats import Progress

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

# tqdm's own rate turns into seconds per prompt where prompts are long.
_FORMAT = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}{postfix}]"


def reporter(
    option: ProgressOption,
) -> AbstractContextManager[Callable[[Progress], object]]:
    """What to call with each `Progress`, on the thread that made the call.

    Raises:
        TypeError: `option` is neither a bool nor callable.
    """
    return reporting(option, " prompts", _show_rates, _FORMAT)


@contextmanager
def reporting(
    option: bool | Callable[[_P], object],
    unit: str,
    annotate: Callable[[Any, _P], object],
    bar_format: str | None = None,
) -> Iterator[Callable[[_P], object]]:
    """What to call with each progress: the user's function, a bar, or nothing.

    Args:
        option: As the user gave it.
        unit: Of the bar.
        annotate: Writes beside the bar, a `tqdm.tqdm`, without drawing it.
        bar_format: Of tqdm; None: its own.

    Raises:
        TypeError: `option` is neither a bool nor callable.
    """
    if callable(option):
        yield option
    elif option is True:
        yield from _bar(unit, annotate, bar_format)
    elif option is False:
        yield lambda _: None
    else:
        raise TypeError(f"progress must be True, False or a function, not {option!r}")


def _bar(
    unit: str, annotate: Callable[[Any, _P], object], bar_format: str | None
) -> Iterator[Callable[[_P], object]]:
    from tqdm import tqdm  # noqa: PLC0415 - few calls want a bar

    with tqdm(unit=unit, bar_format=bar_format) as bar:

        def show(progress: _P) -> None:
            bar.total = progress.n_total
            annotate(bar, progress)
            bar.update(progress.n_done - bar.n)

        yield show


def _show_rates(bar: Any, progress: Progress) -> None:  # noqa: ANN401 - tqdm is untyped
    bar.set_postfix_str(rates(progress), refresh=False)


def rates(progress: Progress) -> str:
    """How fast a call is, in a few words.

    What is to be read is most of the work where answers are labels, what is written where
    they are long.
    """
    if progress.n_done == 0:  # it shows that something happens
        text = f"{progress.n_prompt_tokens:,} tokens read"
        written = progress.n_generated_tokens
        return f"{text}, {written:,} written" if written else text
    per_s = 1 / max(progress.elapsed_s, 0.001)
    text = (
        f"{_short(progress.n_done * per_s)} prompts/s, "
        f"tokens/s: {progress.n_prompt_tokens * per_s:.0f} read, "
        f"{progress.n_generated_tokens * per_s:.0f} written"
    )
    return f"{text}, {progress.n_failed} failed" if progress.n_failed else text


def _short(rate: float) -> str:
    return (
        f"{rate:.0f}"
        if rate >= 9.95
        else f"{rate:.1f}"
        if rate >= 0.095
        else f"{rate:.2g}"
    )
