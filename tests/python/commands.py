"""Commands that run in the process of a test."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, NamedTuple

from llamaherd.cli import main

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest


class Printed(NamedTuple):
    """What a command printed."""

    out: str
    err: str


class Commands:
    """Commands in this process. MODEL and ENCODER in a line are tiny models' paths."""

    def __init__(
        self, capture: pytest.CaptureFixture[str], tiny_path: Callable[[str], Path]
    ) -> None:
        self._capture, self._tiny_path = capture, tiny_path

    def __call__(
        self,
        line: str,
        *more: object,
        status: int = 0,
        err: str | None = None,
        out: str = "",
    ) -> Printed:
        """Run a command; check its status and texts in its stderr and stdout.

        `err` is a part of stderr; "" means that stderr is empty.
        """
        self._capture.readouterr()
        assert main(self.words(line, *more)) == status
        printed = Printed(*self._capture.readouterr())
        assert printed.err == "" if err == "" else (err or "") in printed.err, printed.err
        assert out in printed.out, printed.out
        return printed

    def words(self, line: str, *more: object) -> list[str]:
        names = {"MODEL": "llama", "ENCODER": "bert"}
        words = [*shlex.split(line), *map(str, more)]
        for i, word in enumerate(words):
            for name, kind in names.items():
                if name in word:
                    words[i] = word.replace(name, str(self._tiny_path(kind)))
        return words
