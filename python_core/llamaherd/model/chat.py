"""Conversations to prompts, with the model's own chat template."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from llamaherd.core import checks
from llamaherd.core.errors import ChatTemplateError
from llamaherd.model.model import Model, as_model
from llamaherd.native import shim, vocabulary

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
    formatter = _formatter_of(
        owner, template, checks.flag("add_generation_prompt", add_generation_prompt)
    )
    return _rendered(formatter, _safe_messages(owner, "messages", messages), variables)


def chat_prompts(model: Model, prompts: object, system: str | None) -> list[str]:
    """The prompts that the model's template makes of texts of users.

    Args:
        model: Whose template to use.
        prompts: For each prompt what a user says, or a list of messages.
        system: Text of a system message that comes first; None: none.

    Raises:
        TypeError: A prompt is neither a text nor a list of messages.
        ChatTemplateError: As for `apply_chat_template`.
    """
    given = checks.prompt_list(prompts)
    formatter = _formatter_of(model, None, add_generation_prompt=True)
    before: list[dict[str, object]] = []
    if system is not None:
        text = checks.text("system", system)
        before = [_safe_message(model, "system", {"role": "system", "content": text})]
    return [
        _rendered(formatter, before + _user_messages(model, f"prompts[{i}]", prompt))
        for i, prompt in enumerate(given)
    ]


def _user_messages(model: Model, name: str, prompt: object) -> list[dict[str, object]]:
    if isinstance(prompt, str):
        text = checks.text(name, prompt)
        return [_safe_message(model, name, {"role": "user", "content": text})]
    return _safe_messages(model, name, prompt)


def _rendered(
    formatter: Callable[..., ChatFormatterResponse],
    messages: list[dict[str, object]],
    variables: Mapping[str, object] | None = None,
) -> str:
    try:
        return str(formatter(messages=messages, **dict(variables or {})).prompt)
    except Exception as error:  # a template is a program: anything may happen in it
        raise ChatTemplateError(f"the chat template failed: {error}") from error


def _safe_messages(model: Model, name: str, messages: object) -> list[dict[str, object]]:
    if isinstance(messages, (str, Mapping)) or not isinstance(messages, Sequence):
        raise TypeError(
            f"{name} must be a list of messages, not {checks.shown(messages)}"
        )
    if not messages:
        raise ValueError(f"{name} must not be empty")
    return [
        _safe_message(model, f"{name}[{i}]", message)
        for i, message in enumerate(messages)
    ]


def _safe_message(model: Model, name: str, message: object) -> dict[str, object]:
    """A copy of a message whose texts are marked; other entries stay as they are."""
    if not isinstance(message, Mapping):
        raise TypeError(f"{name} must be a mapping, not {checks.shown(message)}")
    safe = dict(message)
    for key in ("role", "content"):
        if key not in safe:
            raise ValueError(f"{name} has no {key!r}: {checks.shown(message)}")
        text = checks.text(f"{name}[{key!r}]", safe[key])
        with model.using() as handle:
            safe[key] = vocabulary.mark_literals(handle, text)
    return safe


def _token_text(model: Model, token: int) -> str:
    with model.using() as handle:
        return vocabulary.token_text(handle, token) or ""


def _formatter_of(
    model: Model, template: str | None, add_generation_prompt: bool
) -> Callable[..., ChatFormatterResponse]:
    if template is None and model.told.chat_format is not None:
        raise ChatTemplateError(
            f"the Llama was made with {model.told.chat_format}, which llamaherd cannot "
            "write prompts for; pass template="
        )
    source = (
        model.chat_template if template is None else checks.text("template", template)
    )
    if source is None:
        raise ChatTemplateError(
            f"{model!r} has no chat template (is it a base model?): leave chat out and "
            "write prompts that a text would go on from, or write them with "
            "apply_chat_template(template=)"
        )
    return _formatter(
        source,
        _token_text(model, model.info.bos),
        _token_text(model, model.info.eos),
        add_generation_prompt,
    )


_IMPORTING = threading.Lock()


@lru_cache(maxsize=16)
def _formatter(
    template: str, bos: str, eos: str, add_generation_prompt: bool
) -> Callable[..., ChatFormatterResponse]:
    """Compiling a template takes longer than using it some hundred times."""
    with _IMPORTING:  # another thread may be in the middle of it
        was_imported = "llama_cpp" in sys.modules
        from llama_cpp.llama_chat_format import (  # noqa: PLC0415 - slow
            Jinja2ChatFormatter,
        )

        # Importing it has set its log callback, which prints all, in place of ours.
        shim.backend_init(chain=was_imported)
    try:
        return Jinja2ChatFormatter(template, eos, bos, add_generation_prompt)
    except Exception as error:  # jinja2's errors have no common base that it promises
        raise ChatTemplateError(f"template cannot be parsed: {error}") from error
