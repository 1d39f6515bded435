"""Completion of commands, options and file names in bash, zsh and fish."""

from __future__ import annotations

from typing import TYPE_CHECKING

from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class _WithFiles(ShellComplete):
    """Completes the name of a file where a command suggests nothing."""

    def get_completions(
        self, args: Sequence[str], incomplete: str
    ) -> list[CompletionItem]:
        found = super().get_completions(list(args), incomplete)
        if found or incomplete.startswith("-"):
            return found
        return [CompletionItem(incomplete, type="file")]


class _Bash(_WithFiles, BashComplete):
    """Completion in bash."""


class _Zsh(_WithFiles, ZshComplete):
    """Completion in zsh."""


class _Fish(_WithFiles, FishComplete):
    """Completion in fish."""


def complete_files() -> None:
    """Let click complete the names of files, too."""
    for each in (_Bash, _Zsh, _Fish):
        add_completion_class(each)
