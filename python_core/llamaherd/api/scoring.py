"""What all calls that score have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from llamaherd.core import checks
from llamaherd.journal.recording import recorded
from llamaherd.model.chat import answer_space
from llamaherd.model.joined import Joiner
from llamaherd.run.call import ON_ERROR, Call, OnError
from llamaherd.run.contexts_of_llamas import as_context
from llamaherd.run.requests import parsing
from llamaherd.run.scoring import Scored, Scoring, scoring_request

if TYPE_CHECKING:
    import os
    from array import array
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from llama_cpp import Llama

    from llamaherd.core.request import Request
    from llamaherd.core.results import Results
    from llamaherd.journal.journal import Journal
    from llamaherd.model.model import Model
    from llamaherd.model.tokens import ParseSpecial
    from llamaherd.run.host import Host
    from llamaherd.run.trees import Continuations

    _R = TypeVar("_R", bound=Scored)
    Prepared = tuple[Host, Scoring[_R], object]

Space = bool | Literal["auto"]
SPACE: tuple[Space, ...] = ("auto", True, False)


def open_context(ctx: Host | Llama) -> Host:
    """The context to run in; ContextClosedError: it is closed."""
    context = as_context(ctx)
    context.check_open()
    return context


def made_requests(
    model: Model,
    prompts: Sequence[object],
    texts: Sequence[Sequence[str]],
    space: Space,
    parse_special: ParseSpecial,
    *,
    chat: bool,
) -> list[tuple[Request, Continuations | None, list[array[int]]]]:
    """For each prompt what `scoring_request` makes of it and of the texts behind it."""
    joiner = Joiner(model, parsing(parse_special, chat=chat))
    behind_chat = answer_space(model) if chat else None
    return [
        scoring_request(
            model,
            joiner,
            f"prompts[{i}]",
            prompt,
            [_spaced(prompt, text, space, behind_chat) for text in own],
        )
        for i, (prompt, own) in enumerate(zip(prompts, texts, strict=True))
    ]


def _spaced(prompt: object, text: str, space: Space, behind_chat: str | None) -> str:
    """A continuation with the space that comes before it."""
    if space == "auto":
        if behind_chat is not None:  # that of the template
            return text if text[0].isspace() else behind_chat + text
        before = prompt[-1:] if isinstance(prompt, str) else ""
        space = not (text[0].isspace() or before.isspace())
    return f" {text}" if space else text


def scoring(
    context: Host,
    requests: Sequence[Request],
    on_error: OnError,
    journal: str | os.PathLike[str] | Journal | None,
    convert: Callable[[Results], _R],
    *,
    name: str = "prompts",
    n_beside: int = 0,
) -> Scoring[_R]:
    """A call that scores, whose results are made of those of its requests.

    `name` and `n_beside`: see `Scoring`.
    """
    call = Call(requests, seed=0, on_error=checks.choice("on_error", on_error, ON_ERROR))
    runnable = call if journal is None else recorded(call, context, journal)
    return Scoring(runnable, convert, name=name, n_beside=n_beside)
