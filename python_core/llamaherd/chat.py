"""Conversations to prompts, with the model's own chat template."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from llamaherd import _native, checks
from llamaherd.errors import ChatTemplateError
from llamaherd.model import Model, as_model

if TYPE_CHECKING:
    from collections.abc import Callable

    from llama_cpp.llama_chat_format import ChatFormatterResponse


def apply_chat_template(
    model: Model,
    messages: Sequence[Mapping[str, object]],
    *,
    add_generation_prompt: bool = True,
    template: str | None = None,
    variables: Mapping[str, object] | None = None,
) -> str:
    """Writes a conversation as the prompt that the model was trained on.

    Message texts that look like special tokens of the model are put between the Unicode
    noncharacters U+FDD0 and U+FDD1, and so stay text when the prompt is tokenized: a
    document that contains `<|im_end|>` does not end the message it is in.

    Args:
        model: Whose template and special tokens to use; a context stands for its model.
        messages: Each with "role" and "content", as in
            `{"role": "user", "content": "Hello"}`.
        add_generation_prompt: End with what starts the model's answer.
        template: A Jinja template to use instead of the model's own.
        variables: More names for the template, such as `enable_thinking`.

    Raises:
        TypeError: A message is no mapping, or its role or content no text.
        ChatTemplateError: There is no template, or it refuses the messages.
    """
    owner = as_model(model)
    if template is None and owner.told.chat_format is not None:
        raise ChatTemplateError(
            f"the Llama was made with {owner.told.chat_format}, which llamaherd cannot "
            "write prompts for; pass template="
        )
    source = (
        owner.chat_template if template is None else checks.text("template", template)
    )
    if source is None:
        raise ChatTemplateError(
            f"{owner!r} has no chat template (is it a base model?); pass template="
        )
    safe = _safe_messages(owner, messages)
    formatter = _formatter(
        source,
        _token_text(owner, owner.info.bos),
        _token_text(owner, owner.info.eos),
        checks.flag("add_generation_prompt", add_generation_prompt),
    )
    try:
        return str(formatter(messages=safe, **dict(variables or {})).prompt)
    except Exception as error:  # a template is a program: anything may happen in it
        raise ChatTemplateError(f"the chat template failed: {error}") from error


def _safe_messages(model: Model, messages: object) -> list[dict[str, object]]:
    if isinstance(messages, (str, Mapping)) or not isinstance(messages, Sequence):
        raise TypeError(
            f"messages must be a list of messages, not {type(messages).__name__}"
        )
    if not messages:
        raise ValueError("messages must not be empty")
    return [_safe_message(model, i, message) for i, message in enumerate(messages)]


def _safe_message(model: Model, i: int, message: object) -> dict[str, object]:
    """A copy of a message whose texts are marked; other entries stay as they are."""
    if not isinstance(message, Mapping):
        raise TypeError(f"messages[{i}] must be a mapping, not {message!r}")
    safe = dict(message)
    for key in ("role", "content"):
        if key not in safe:
            raise ValueError(f"messages[{i}] has no {key!r}: {message!r}")
        text = checks.text(f"messages[{i}][{key!r}]", safe[key])
        with model.using() as handle:
            safe[key] = _native.mark_literals(handle, text)
    return safe


def _token_text(model: Model, token: int) -> str:
    with model.using() as handle:
        return _native.token_text(handle, token) or ""


@lru_cache(maxsize=16)
def _formatter(
    template: str, bos: str, eos: str, add_generation_prompt: bool
) -> Callable[..., ChatFormatterResponse]:
    """Compiling a template takes longer than using it some hundred times."""
    was_imported = "llama_cpp" in sys.modules
    from llama_cpp.llama_chat_format import Jinja2ChatFormatter  # noqa: PLC0415 - slow

    # Importing llama_cpp has set its log callback, which prints all, in place of ours.
    _native.backend_init(chain=was_imported)
    try:
        return Jinja2ChatFormatter(template, eos, bos, add_generation_prompt)
    except Exception as error:  # jinja2's errors have no common base that it promises
        raise ChatTemplateError(f"template cannot be parsed: {error}") from error
