"""Telling a caller how far a call is."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from llamaherd.stats import Progress

    # True: a progress bar; a function is called with each Progress.
    ProgressOption = bool | Callable[[Progress], object]


@contextmanager
def reporter(option: ProgressOption) -> Iterator[Callable[[Progress], object]]:
    """What to call with each `Progress`, on the thread that made the call.

    Raises:
        TypeError: `option` is neither a bool nor callable.
    """
    if callable(option):
        yield option
    elif option is True:
        yield from _bar()
    elif option is False:
        yield lambda _: None
    else:
        raise TypeError(f"progress must be True, False or a function, not {option!r}")


def _bar() -> Iterator[Callable[[Progress], object]]:
    from tqdm import tqdm  # noqa: PLC0415 - few calls want a bar

    with tqdm(unit=" prompts") as bar:

        def show(progress: Progress) -> None:
            bar.total = progress.n_total
            bar.set_postfix(
                failed=progress.n_failed,
                tokens=progress.n_generated_tokens,
                refresh=False,
            )
            bar.update(progress.n_done - bar.n)

        yield show
