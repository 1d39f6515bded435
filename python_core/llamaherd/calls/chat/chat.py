"""Prompts of conversations, rendered by chat templates, and the date that these see."""

from __future__ import annotations

import datetime as dt
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from llamaherd.calls.chat.conversations import (
    ChatPrompt,
    Refused,
    prompt_or_refused,
    render_conversation,
)
from llamaherd.calls.chat.messages import checked_messages, user_messages
from llamaherd.calls.chat.renderer import Renderer, check_size
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.core.errors import (
    ArgumentError,
    ArgumentTypeError,
    ChatTemplateError,
)
from llamaherd.engine.core.words import name_of, words
from llamaherd.engine.model.model import Model, as_model
from llamaherd.engine.native import vocabulary

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


_DAY: ContextVar[dt.date | None] = ContextVar("day", default=None)


@contextmanager
def chat_date(date: dt.date | str | None) -> Iterator[dt.date]:
    """Set the current date that chat templates see in all calls within the block.

    Some templates (Llama 3.2, gpt-oss, Granite) write the date into each prompt.
    Without a fixed date, the same call has different prompts on different days.

    Args:
        date: A `datetime.date` or "2026-01-31". None uses the date of an enclosing
            `chat_date`, or today's date for the whole block.

    Raises:
        TypeError: `date` is neither a date nor a text.
        ValueError: `date` is not a valid date.
    """
    day = template_date(date).date()
    token = _DAY.set(day)
    try:
        yield day
    finally:
        _DAY.reset(token)


def swap_date(date: dt.date | str | None) -> dt.date | None:
    """Set the date of all calls of this thread, for R; return the previous date."""
    before = _DAY.get()
    _DAY.set(None if date is None else template_date(date).date())
    return before


def template_date(date: object) -> dt.datetime:
    """Return the start of the current day for a template."""
    day = date if date is not None else _DAY.get()
    if isinstance(day, str):
        try:
            day = dt.date.fromisoformat(day)
        except ValueError as error:
            raise ArgumentError(
                f'must be like "2026-01-31", not {checks.brief(day)}', argument="date"
            ) from error
    if day is None:
        day = _today()
    if not isinstance(day, dt.date):
        raise ArgumentTypeError(
            f"must be a date or text, not {checks.brief(day)}", argument="date"
        )
    return dt.datetime(day.year, day.month, day.day)  # noqa: DTZ001 - a day, no moment


def _today() -> dt.date:
    return dt.date.today()  # noqa: DTZ011 - that of who asks


def apply_chat_template(
    model: Model,
    messages: Sequence[Mapping[str, object]],
    *,
    add_generation_prompt: bool = True,
    template: str | None = None,
    variables: Mapping[str, object] | None = None,
    date: dt.date | str | None = None,
    tools: Sequence[Mapping[str, object]] | None = None,
) -> str:
    """Render a conversation as a prompt, in the format that the model was trained on.

    A message may contain text that looks like a special token of the model. This text
    is enclosed in the Unicode noncharacters U+FDD0 and U+FDD1, so that it is tokenized
    as text. For example, a document that contains `<|im_end|>` does not end its
    message.

    Args:
        model: Model with the template and special tokens, or a context of it.
        messages: Messages with "role" and "content", such as
            `{"role": "user", "content": "Hello"}`. A content may be a list of parts
            `{"type": "text", "text": "Hello"}`. The thought of an answer is its
            "reasoning_content", "thinking" or "reasoning".
        add_generation_prompt: Append the tokens that start an answer of the model.
        template: Jinja template to use instead of the model's template.
        variables: Further variables for the template, such as `enable_thinking`.
        date: Current date for the template (`strftime_now`), as `datetime.date` or
            "2026-01-31"; None uses the date of `chat_date`, or else today's date.
        tools: Descriptions of the functions that the model may call, as in OpenAI's API.
            Templates without tools ignore them.

    Raises:
        TypeError: A message is not a mapping, or its role or content is not text.
        ValueError: `variables` contains a name that llamaherd sets, such as `messages`.
        ChatTemplateError: The model has no template, or the template refuses the
            messages.
    """
    owner = as_model(model)
    generates = checks.flag("add_generation_prompt", add_generation_prompt)
    renderer = chat_renderer(
        owner, template=template, variables=variables, date=date, tools=tools
    )
    checked = checked_messages("messages", messages)
    return render_conversation(owner, renderer, checked, add_generation_prompt=generates)


def chat_prompts(
    model: Model,
    prompts: object,
    system: str | None,
    *,
    template: str | None = None,
    variables: Mapping[str, object] | None = None,
    prefix: str | None = None,
    merge_system: bool = False,
    tools: Sequence[Mapping[str, object]] | None = None,
) -> list[ChatPrompt | Refused]:
    """Render texts of users, or conversations, as prompts, or as reasons of refusal.

    If the last message is from the assistant, the answer continues this message, as
    with `prefix`. `merge_system` puts the system text into the first message of the user
    if the template refuses a system message.
    """
    items = checks.prompt_list(prompts)
    renderer = chat_renderer(model, template=template, variables=variables, tools=tools)
    before: list[dict[str, object]] = []
    if system is not None:
        before = [{"role": "system", "content": checks.text("system", system)}]
    start = "" if prefix is None else checks.text("prefix", prefix)
    return [
        prompt
        if isinstance(prompt, Refused)
        else prompt_or_refused(
            model,
            renderer,
            before + user_messages(Argument("prompts", (i,)), prompt),
            start,
            merges=merge_system,
        )
        for i, prompt in enumerate(items)
    ]


def chat_renderer(
    model: Model,
    *,
    template: str | None = None,
    variables: Mapping[str, object] | None = None,
    date: dt.date | str | None = None,
    tools: Sequence[Mapping[str, object]] | None = None,
) -> Renderer:
    """Return the renderer of a template with the special tokens of a model."""
    source = _source(model, template)
    variables, tools = checks.tree("variables", variables), checks.tree("tools", tools)
    day = template_date(date)

    def mark(text: str) -> str:
        return vocabulary.mark_literals(model.handle, text)

    with model.using() as handle:
        bos = vocabulary.token_text(handle, model.info.bos) or ""
        eos = vocabulary.token_text(handle, model.info.eos) or ""
        return Renderer(
            source, variables or {}, bos=bos, eos=eos, day=day, mark=mark, tools=tools
        )


def answer_space(
    model: Model,
    *,
    template: str | None = None,
    variables: Mapping[str, object] | None = None,
) -> str:
    """Return the space that the template (of Llama 2) writes before an answer."""
    question: list[Mapping[str, object]] = [{"role": "user", "content": "Q"}]
    answered = [*question, {"role": "assistant", "content": "A"}]
    renderer = chat_renderer(model, template=template, variables=variables)
    try:
        prompt = renderer.render(question)
        whole = renderer.render(answered, add_generation_prompt=False)
    except ChatTemplateError:
        return ""
    if not whole.startswith(prompt):
        return ""
    behind = whole[len(prompt) :]
    space = behind[: len(behind) - len(behind.lstrip())]
    if not behind.startswith(f"{space}A"):
        return ""
    with model.using() as handle:
        # After a special token SentencePiece adds this space itself.
        def tokens(text: str) -> list[int]:
            return vocabulary.tokenize(
                handle, text, add_special=False, parse_special=True
            ).tolist()

        alone = vocabulary.tokenize_inside(handle, f"{space}A").tolist()
        is_put = space == " " and tokens(prompt + "A") == tokens(prompt) + alone
    return "" if is_put else space


def writes_date(model: Model, template: str | None = None) -> bool:
    """Return whether the template uses the current date."""
    return "strftime_now" in (template or model.chat_template or "")


def _source(model: Model, template: str | None) -> str:
    if template is None and model.foreign_format is not None:
        raise ChatTemplateError(
            f"the Llama was made with {model.foreign_format}, which llamaherd cannot "
            f"write prompts for; pass {name_of('template')}"
        )
    source = (
        model.chat_template if template is None else checks.text("template", template)
    )
    if source is None:
        raise ChatTemplateError(
            f"{words().model(model)} has no chat template (is it a base model?): "
            f"{words().template}"
        )
    if not source.strip():
        raise ArgumentError("must not be empty", argument="template", code="empty")
    return check_size(source)
