"""Prompts built from a codebook and a text; prompts differ only in the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.calls.asks.options import PromptOptions
from llamaherd.calls.asks.rendering import rendered_prompts
from llamaherd.calls.structured.prompt import schema_prompt
from llamaherd.coding.annotation.codebook import (
    Codebook,
    Example,
    checked_codebook,
    shown_label,
)
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.request import n_common
from llamaherd.engine.core.words import setting
from llamaherd.engine.model.model import Model, as_model
from llamaherd.engine.model.tokens import ParseSpecial, prompt_tokens

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.calls.run.host import Host
    from llamaherd.coding.annotation.scales import NumberScale
    from llamaherd.engine.core.thinking import ThinkingOption

# Texts with different first characters; the common prefix of their prompts is the common
# prefix of all prompts.
_OTHERS = ("", "1", "A", "a", "The", "\u00e9", "\u4e2d", "@", "\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """Text before and after each text in a prompt.

    Attributes:
        before: Text before the text to code.
        after: Texts that follow the text to code, one for each prompt. If a text may have
            several labels, there is a prompt for each label, otherwise a single prompt.
        system: Text of the system message with `chat`; None without a system message.
        chat: True if the model's chat template formats the prompt.
    """

    before: str
    after: tuple[str, ...]
    system: str | None
    chat: bool

    def prompts(self, texts: Sequence[str]) -> list[str]:
        """Return the prompts of each text, one for each piece of `after`."""
        return [self.before + text + after for text in texts for after in self.after]


def frame_of(codebook: Codebook, *, chat: bool = False) -> Frame:
    """Return the text that a codebook puts before and after each text."""
    fixed = codebook.fixed
    parts = [] if chat or codebook.system is None else [codebook.system]
    parts.append("\n".join([codebook.question.rstrip(), *_labels(codebook)]))
    parts += [_example(codebook, example) for example in codebook.examples]
    parts.append(f"{fixed['text']}: ")
    names = codebook.names if codebook.kind.is_several else (fixed["answer"],)
    return Frame(
        before="\n\n".join(parts),
        after=tuple(f"\n{name}:" for name in names),
        system=codebook.system if chat else None,
        chat=chat,
    )


def _labels(codebook: Codebook) -> list[str]:
    """Return the prompt lines that list labels or fields and ask for the answer."""
    fixed = codebook.fixed
    note_on_language = [fixed["told"]] if fixed["told"] else []
    if codebook.scale is not None:
        return ["", *_scale(codebook.scale, fixed), *note_on_language]
    label_lines = [
        f"- {label}: {definition}" if definition else f"- {label}"
        for label, definition in codebook.definitions.items()
    ]
    if codebook.kind.is_generated:
        lines = schema_prompt(codebook.written_schema).splitlines()
        head = ["", f"{fixed['labels']}:", *label_lines] if label_lines else []
        return [*head, "", fixed["fields"], *lines[1:], *note_on_language]
    instructions = [fixed["several" if codebook.kind.is_several else "one"]]
    if codebook.kind.is_ordered:
        instructions.insert(0, fixed["ordinal"])
    return ["", f"{fixed['labels']}:", *label_lines, "", *instructions, *note_on_language]


def _scale(scale: NumberScale, fixed: Mapping[str, str]) -> list[str]:
    """Return the prompt lines that list the numbers' names and ask for a number."""
    text = fixed["scale"]
    for key, value in (("from", scale.low), ("to", scale.high), ("step", scale.step)):
        text = text.replace(f"{{{key}}}", str(value))
    number_lines = [f"- {number}: {name}" for number, name in scale.names.items()]
    return [f"{fixed['numbers']}:", *number_lines, "", text] if number_lines else [text]


def _example(codebook: Codebook, example: Example) -> str:
    fixed = codebook.fixed
    lines = [f"{fixed['text']}: {example.text}"]
    if codebook.kind.is_several:
        lines += [
            f"{name}: {fixed['yes' if name in example.label else 'no']}"
            for name in codebook.names
        ]
    else:
        lines.append(f"{fixed['answer']}: {shown_label(example.label)}")
    if example.reason is not None:
        lines.append(f"{fixed['reason']}: {example.reason}")
    return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptPreview:
    """Exact prompt for a text, with its tokens.

    Attributes:
        prompt: Prompt as the model reads it; with several labels per text, the prompt for
            the first label.
        n_prompts: Number of prompts for each text.
        shared: Common prefix of the prompts of all texts.
        tokens: Tokens of the prompt; None without a model.
        n_shared: Number of tokens in the common prefix; None without a model.
    """

    prompt: str
    n_prompts: int
    shared: str
    tokens: list[int] | None
    n_shared: int | None

    @property
    def n_tokens(self) -> int | None:
        """Number of tokens; None without a model."""
        return None if self.tokens is None else len(self.tokens)

    def __str__(self) -> str:
        size = "" if self.tokens is None else f", {len(self.tokens)} tokens"
        part = f", {self.n_shared} of them shared" if self.n_shared is not None else ""
        of_prompts = (
            f", one of {self.n_prompts} for the text" if self.n_prompts > 1 else ""
        )
        rest = self.prompt[len(self.shared) :]
        return (
            f"<PromptPreview>{size.removeprefix(',')}{part}{of_prompts}\n"
            f"---- every text\n{self.shared}\n---- this text\n{rest}"
        )

    __repr__ = __str__


def prompt_preview(
    codebook: Codebook,
    text: str,
    model: Model | Host | None = None,
    *,
    chat: bool = False,
    thinking: ThinkingOption = None,
    variables: Mapping[str, object] | None = None,
    template: str | None = None,
    merge_system: bool = False,
) -> PromptPreview:
    """Return the prompt for a text: its words, its tokens, and the shared prefix.

    Args:
        codebook: Codebook.
        text: A text.
        model: Model that tokenizes the prompt, or a context of this model.
        chat: As in `annotate`; requires `model`, whose chat template is used.
        thinking: As in `annotate`. A prompt with thinking ends where the thought begins.
        variables: As in `annotate`.
        template: As in `annotate`.
        merge_system: As in `annotate`.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `chat` without a model.
        ChatTemplateError: The model has no chat template.
    """
    checked_codebook(codebook)
    text = checks.text("text", text)
    if checks.flag("chat", chat) and model is None:
        raise ArgumentError(
            f"{setting('chat', True)} needs a model, whose template is used",
            argument="chat",
            code="missing",
            form="{problem}",
        )
    frame = frame_of(codebook, chat=chat)
    # Compare with prompts of texts that have other first characters.
    others = [text, *(other for other in _OTHERS if other[:1] != text[:1])]
    prompts = [frame.before + other + frame.after[0] for other in others]
    prompt_model = None if model is None else as_model(model)
    if prompt_model is not None and chat:
        options = PromptOptions(
            chat=True,
            system=frame.system,
            thinking=thinking,
            variables=variables,
            template=template,
            merge_system=merge_system,
        )
        prompts = _render_prompts(prompt_model, prompts, options)
    n_chars = min(n_common(prompts[0], other) for other in prompts[1:])
    tokens, n_shared = None, None
    if prompt_model is not None:
        special: ParseSpecial = True if chat else "auto"
        read = [
            prompt_tokens(prompt_model, "text", prompt, special) for prompt in prompts
        ]
        tokens = list(read[0])
        n_shared = min(n_common(read[0], other) for other in read[1:])
    return PromptPreview(
        prompt=prompts[0],
        n_prompts=len(frame.after),
        shared=prompts[0][:n_chars],
        tokens=tokens,
        n_shared=n_shared,
    )


def _render_prompts(
    model: Model, texts: Sequence[str], options: PromptOptions
) -> list[str]:
    """Return prompts as the model reads them."""
    prompts = rendered_prompts(model, texts, options, is_constrained=True, is_silent=True)
    return [prompt.text for prompt in prompts]
