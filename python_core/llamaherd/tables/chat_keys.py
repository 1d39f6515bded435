"""Keys of a run file for the chat template: thinking, variables, template, prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from llamaherd.calls.asks.annotate_options import AnnotateOptions
from llamaherd.calls.asks.options import PromptOptions, checked_variables
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.thinking import checked_thinking

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# Top-level keys of a file, with the names of the options that they set.
CHAT_KEYS = {
    PromptOptions.declared[name].key: name
    for name in ("thinking", "variables", "template", "prefix", "merge_system")
}
_OF_ANNOTATE = AnnotateOptions.declared.keys()


class HasChatKeys(Protocol):
    """Protocol of the part of `RunSpec` that this module reads."""

    @property
    def task(self) -> str:
        """Task of the run."""

    @property
    def folder(self) -> Path:
        """Folder to which relative paths refer."""

    @property
    def chat(self) -> bool:
        """Whether a chat template renders the prompts."""

    @property
    def thinking(self) -> Mapping[str, Any] | int | None:
        """Thinking before each answer."""

    @property
    def variables(self) -> Mapping[str, Any] | None:
        """Variables of the chat template."""

    @property
    def chat_template(self) -> str | None:
        """Path of a chat template, or its text."""

    @property
    def merge_system(self) -> bool:
        """Whether to merge the system message if the template refuses it."""


def check_chat_keys(spec: HasChatKeys) -> None:
    """Check the keys before a model is loaded.

    Raises:
        TypeError: A value has the wrong type.
        ValueError: A value is out of range, or has no effect in this run.
    """
    checked_thinking("thinking", spec.thinking)
    if spec.variables is not None:
        checked_variables("variables", spec.variables)
    for name in ("chat_template", "answer_prefix"):
        if getattr(spec, name) is not None:
            checks.text(name, getattr(spec, name))
    checks.flag("merge_system", spec.merge_system)
    template_text(spec)
    for key, option in CHAT_KEYS.items():
        if getattr(spec, key) in (None, False):
            continue
        if not spec.chat:
            raise ArgumentError("needs chat = true", argument=key, code="missing")
        if spec.task == "annotate" and option not in _OF_ANNOTATE:
            raise ArgumentError(
                "cannot be combined with annotate: a codebook makes the prompts",
                argument=key,
                code="not_together",
            )


def chat_options(spec: HasChatKeys) -> dict[str, Any]:
    """Return the options of the task that the keys set."""
    given = {option: getattr(spec, key) for key, option in CHAT_KEYS.items()}
    given["template"] = template_text(spec)
    if not spec.merge_system:
        del given["merge_system"]
    names = _OF_ANNOTATE if spec.task == "annotate" else given.keys()
    return {
        name: value
        for name, value in given.items()
        if name in names and value is not None
    }


def template_text(spec: HasChatKeys) -> str | None:
    """Return the chat template of a run; None for the model's template.

    Raises:
        ArgumentError: The file cannot be read.
    """
    if spec.chat_template is None or not is_template_file(spec.chat_template):
        return spec.chat_template
    return read_template(spec.folder / spec.chat_template, "chat_template")


def is_template_file(given: str) -> bool:
    """Return whether a text is the path of a template file; a template has braces."""
    return "{" not in given


def read_template(path: Path, name: str) -> str:
    """Return the chat template in a file.

    Args:
        path: Path of the file.
        name: Name of the argument in messages.

    Raises:
        ArgumentError: The file cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        reason = error.strerror or str(error)
    except ValueError as error:
        reason = f"it is not UTF-8: {error}"
    raise ArgumentError(
        f"{checks.quoted(path.name)} cannot be read: {reason}",
        argument=name,
        code="unreadable",
    )
