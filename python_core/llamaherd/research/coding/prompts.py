"""From a codebook and a text to the prompt, of which all but the text is shared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from llamaherd.core import checks
from llamaherd.model.chat import chat_prompt
from llamaherd.model.model import as_model
from llamaherd.model.tokens import prompt_tokens
from llamaherd.research.coding.codebook import shown_label
from llamaherd.structured.prompt import schema_prompt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llamaherd.model.model import Model
    from llamaherd.model.tokens import ParseSpecial
    from llamaherd.research.coding.codebook import Codebook, Example
    from llamaherd.run.host import Host

# Texts that begin differently: what their prompts have in common, all prompts have.
_OTHERS = ("", "1", "A", "a", "The", "\u00e9", "\u4e2d", "@", "\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What stands around each text in prompts.

    Attributes:
        before: What comes before the text.
        after: What comes after it: one piece, or of several labels at once one for each.
        system: Text of a system message, with chat; None: none.
        chat: Whether the model's chat template makes the prompt of it.
    """

    before: str
    after: tuple[str, ...]
    system: str | None
    chat: bool

    def prompts(self, texts: Sequence[str]) -> list[str]:
        """For each text its prompts, one for each piece of `after`."""
        return [self.before + text + after for text in texts for after in self.after]


def frame_of(codebook: Codebook, *, chat: bool = False) -> Frame:
    """What a codebook puts around each text."""
    fixed = codebook.fixed
    parts = [] if chat or codebook.system is None else [codebook.system]
    parts.append("\n".join([codebook.question.rstrip(), *_labels(codebook)]))
    parts += [_example(codebook, example) for example in codebook.examples]
    parts.append(f"{fixed['text']}: ")
    asked = codebook.names if codebook.type == "multiple" else (fixed["answer"],)
    return Frame(
        before="\n\n".join(parts),
        after=tuple(f"\n{name}:" for name in asked),
        system=codebook.system if chat else None,
        chat=chat,
    )


def _labels(codebook: Codebook) -> list[str]:
    """Labels with definitions or fields, and how to answer."""
    fixed = codebook.fixed
    told = [fixed["told"]] if fixed["told"] else []
    if codebook.type == "fields":
        lines = schema_prompt(codebook.schema).splitlines()
        return ["", fixed["fields"], *lines[1:], *told]
    listed = [
        f"- {label}: {definition}" if definition else f"- {label}"
        for label, definition in codebook.definitions.items()
    ]
    asked = [fixed["several" if codebook.type == "multiple" else "one"]]
    if codebook.type == "ordinal":
        asked.insert(0, fixed["ordinal"])
    return ["", f"{fixed['labels']}:", *listed, "", *asked, *told]


def _example(codebook: Codebook, example: Example) -> str:
    fixed = codebook.fixed
    lines = [f"{fixed['text']}: {example.text}"]
    if codebook.type == "multiple":
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
    """The very prompt of a text.

    Attributes:
        prompt: As the model reads it. Of several labels at once that of the first.
        n_prompts: Prompts for each text.
        shared: How it begins for every text.
        tokens: Its tokens; None without a model.
        n_shared: How many of them every prompt begins with; None without a model.
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
        each = f", one of {self.n_prompts} for the text" if self.n_prompts > 1 else ""
        own = self.prompt[len(self.shared) :]
        return (
            f"<PromptPreview>{size.removeprefix(',')}{part}{each}\n"
            f"---- every text\n{self.shared}\n---- this text\n{own}"
        )


def prompt_preview(
    codebook: Codebook,
    text: str,
    model: Model | Host | None = None,
    *,
    chat: bool = False,
) -> PromptPreview:
    """Shows the prompt that a text gets: its words, its tokens, what all texts share.

    Args:
        codebook: It is.
        text: A text.
        model: Whose tokens to count; a context stands for its model.
        chat: As in `annotate`; needs the model, whose chat template it is.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `chat` without a model.
        ChatTemplateError: The model has no chat template.
    """
    checks.text("text", text)
    if checks.flag("chat", chat) and model is None:
        raise ValueError("chat=True needs a model: it is its template that is used")
    frame = frame_of(codebook, chat=chat)
    # With one whose prompts differ from the first character on.
    others = [text, *(other for other in _OTHERS if other[:1] != text[:1])]
    given = [frame.before + each + frame.after[0] for each in others]
    found = None if model is None else as_model(model)
    if found is not None and chat:
        given = [chat_prompt(found, each, frame.system) for each in given]
    n_chars = min(n_common(given[0], other) for other in given[1:])
    tokens, n_shared = None, None
    if found is not None:
        special: ParseSpecial = True if chat else "auto"
        read = [prompt_tokens(found, "text", each, special) for each in given]
        tokens = list(read[0])
        n_shared = min(n_common(read[0], other) for other in read[1:])
    return PromptPreview(
        prompt=given[0],
        n_prompts=len(frame.after),
        shared=given[0][:n_chars],
        tokens=tokens,
        n_shared=n_shared,
    )


def n_common(one: Sequence[object], other: Sequence[object]) -> int:
    """How many elements two sequences begin with in common."""
    shorter = min(len(one), len(other))
    return next((i for i in range(shorter) if one[i] != other[i]), shorter)
