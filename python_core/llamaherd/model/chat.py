"""Conversations to prompts, with the model's own chat template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from llamaherd.core import checks
from llamaherd.core.errors import ChatTemplateError
from llamaherd.model.budget import Budget
from llamaherd.model.dates import template_date
from llamaherd.model.model import Model, as_model
from llamaherd.model.said import said
from llamaherd.model.templating import Sandbox, counted
from llamaherd.native import vocabulary

if TYPE_CHECKING:
    import datetime as dt

    import jinja2

_OURS = ("messages", "add_generation_prompt", "raise_exception")
_MOST_CHARACTERS = 1_000_000  # of a template


@dataclass(frozen=True, slots=True)
class Refused:
    """A conversation that the chat template refuses.

    Attributes:
        reason: Why, with its place among the prompts.
    """

    reason: str


def apply_chat_template(
    model: Model,
    messages: Sequence[Mapping[str, object]],
    *,
    add_generation_prompt: bool = True,
    template: str | None = None,
    variables: Mapping[str, object] | None = None,
    date: dt.date | str | None = None,
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
        date: The day that the template is told (`strftime_now`), as
            `datetime.date` or "2026-01-31"; None: that of `chat_date`, or today.

    Raises:
        TypeError: A message is no mapping, or its role or content no text.
        ChatTemplateError: There is no template, or it refuses the messages.
    """
    owner = as_model(model)
    generates = checks.flag("add_generation_prompt", add_generation_prompt)
    chat = _Chat(owner, template, date, variables, add_generation_prompt=generates)
    return chat.rendered(_checked_messages("messages", messages))


def chat_prompts(
    model: Model, prompts: object, system: str | None
) -> list[str | Refused]:
    """The prompts that the model's template makes of texts of users.

    Args:
        model: Whose template to use.
        prompts: For each prompt what a user says, or a list of messages.
        system: Text of a system message that comes first; None: none.

    Returns:
        For each the prompt, or why the template refuses it.

    Raises:
        TypeError: A prompt is neither a text nor a list of messages.
        ChatTemplateError: There is no template, or it cannot be parsed.
    """
    given = checks.prompt_list(prompts)
    chat = _Chat(model, None, None, None, add_generation_prompt=True)
    before: list[dict[str, object]] = []
    if system is not None:
        before = [{"role": "system", "content": checks.text("system", system)}]
    talks = [
        before + _user_messages(f"prompts[{i}]", prompt) for i, prompt in enumerate(given)
    ]
    return [chat.rendered_or_refused(f"prompts[{i}]", t) for i, t in enumerate(talks)]


def chat_prompt(model: Model, prompt: object, system: str | None) -> str:
    """The prompt that the model's template makes of one text or conversation.

    Raises:
        ChatTemplateError: As for `apply_chat_template`.
    """
    (found,) = chat_prompts(model, [prompt], system)
    if isinstance(found, Refused):
        raise ChatTemplateError(found.reason)
    return found


def answer_space(model: Model) -> str:
    """The space that the template writes between a prompt and the model's answer.

    Llama 2's template writes it with the answer, so that a prompt ends without it.
    """
    question: list[Mapping[str, object]] = [{"role": "user", "content": "Q"}]
    answered = [*question, {"role": "assistant", "content": "A"}]
    try:
        prompt = apply_chat_template(model, question)
        whole = apply_chat_template(model, answered, add_generation_prompt=False)
    except ChatTemplateError:
        return ""
    if not whole.startswith(prompt):
        return ""
    behind = whole[len(prompt) :]
    space = behind[: len(behind) - len(behind.lstrip())]
    if not behind.startswith(f"{space}A"):
        return ""
    with model.using() as handle:
        # Behind a special token SentencePiece puts that space itself.
        def tokens(text: str) -> list[int]:
            return vocabulary.tokenize(
                handle, text, add_special=False, parse_special=True
            ).tolist()

        alone = vocabulary.tokenize_inside(handle, f"{space}A").tolist()
        is_put = space == " " and tokens(prompt + "A") == tokens(prompt) + alone
    return "" if is_put else space


def writes_date(model: Model) -> bool:
    """Whether the model's template asks for the day."""
    return "strftime_now" in (model.chat_template or "")


class _Chat:
    """A template at work for one call."""

    def __init__(
        self,
        model: Model,
        template: str | None,
        date: dt.date | str | None,
        variables: Mapping[str, object] | None,
        *,
        add_generation_prompt: bool,
    ) -> None:
        self._template = _compiled(_source(model, template))
        self._model = model
        day = template_date(date)
        ours = [name for name in _OURS if name in (variables or {})]
        if ours:
            raise ValueError(f"variables must not hold {ours[0]!r}: llamaherd sets it")
        with model.using() as handle:
            bos = vocabulary.token_text(handle, model.info.bos) or ""
            eos = vocabulary.token_text(handle, model.info.eos) or ""
        self._names: dict[str, object] = {
            "bos_token": bos,
            "eos_token": eos,
            **dict.fromkeys(("functions", "function_call", "tools", "tool_choice")),
            "strftime_now": day.strftime,
            **(variables or {}),
            "add_generation_prompt": add_generation_prompt,
            "raise_exception": _raise,
        }

    def rendered(self, messages: list[dict[str, object]]) -> str:
        """The prompt of a conversation.

        Raises:
            ChatTemplateError: The template fails.
        """
        n_given = sum(len(v) for m in messages for v in m.values() if isinstance(v, str))
        with self._model.using() as handle:
            try:
                marked = said(messages, lambda t: vocabulary.mark_literals(handle, t))
                with counted(Budget(len(messages), n_given)):
                    return self._template.render({**self._names, "messages": marked})
            except Exception as error:  # a template is a program: anything may happen
                why = str(error) or type(error).__name__
                raise ChatTemplateError(f"the chat template failed: {why}") from error

    def rendered_or_refused(
        self, name: str, messages: list[dict[str, object]]
    ) -> str | Refused:
        """The prompt of a conversation, or why there is none."""
        try:
            return self.rendered(messages)
        except ChatTemplateError as error:
            return Refused(f"{name}: {error}")


def _raise(message: object) -> None:
    raise ValueError(message)


def _user_messages(name: str, prompt: object) -> list[dict[str, object]]:
    if isinstance(prompt, str):
        return [{"role": "user", "content": checks.text(name, prompt)}]
    return _checked_messages(name, prompt)


def _checked_messages(name: str, messages: object) -> list[dict[str, object]]:
    if isinstance(messages, (str, Mapping)) or not isinstance(messages, Sequence):
        raise TypeError(
            f"{name} must be a list of messages, not {checks.shown(messages)}"
        )
    if not messages:
        raise ValueError(f"{name} must not be empty")
    return [_checked(f"{name}[{i}]", message) for i, message in enumerate(messages)]


def _checked(name: str, message: object) -> dict[str, object]:
    if not isinstance(message, Mapping):
        raise TypeError(f"{name} must be a mapping, not {checks.shown(message)}")
    for key in ("role", "content"):
        if key not in message:
            raise ValueError(f"{name} has no {key!r}: {checks.shown(message)}")
        checks.text(f"{name}[{key!r}]", message[key])
    return dict(message)


def _source(model: Model, template: str | None) -> str:
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
    if len(source) > _MOST_CHARACTERS:
        raise ChatTemplateError(
            f"template has {len(source):,} characters, more than {_MOST_CHARACTERS:,}"
        )
    return source


@lru_cache(maxsize=16)
def _compiled(source: str) -> jinja2.Template:
    """Compiling a template takes longer than using it some hundred times."""
    try:
        return Sandbox().from_string(source)
    except Exception as error:  # jinja2's errors have no common base that it promises
        raise ChatTemplateError(f"template cannot be parsed: {error}") from error
