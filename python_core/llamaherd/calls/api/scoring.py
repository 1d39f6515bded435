"""Parts that the scoring calls share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.calls.asks.options import ClassifyOptions
from llamaherd.calls.asks.requests import parsing
from llamaherd.calls.asks.scoring import scoring_request
from llamaherd.calls.asks.thoughts import BehindThoughts
from llamaherd.calls.chat.chat import answer_space
from llamaherd.calls.journal.recording import recorded
from llamaherd.calls.run.call import Call
from llamaherd.calls.run.context import as_context
from llamaherd.calls.run.hosted import Scored, Scoring
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.model.tokens import Joiner

if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Sequence
    from typing import TypeVar

    from llama_cpp import Llama

    from llamaherd.calls.asks.options import CallOptions, ScoreOptions, Space
    from llamaherd.calls.asks.rendering import Rendered
    from llamaherd.calls.asks.scoring import Continuations
    from llamaherd.calls.journal.journal import Journal
    from llamaherd.calls.run.host import Host
    from llamaherd.engine.core.request import Request
    from llamaherd.engine.core.results import Results
    from llamaherd.engine.model.model import Model

    _R = TypeVar("_R", bound=Scored)


def open_context(context: Host | Llama) -> Host:
    """Return the context to run in; raise ContextClosedError if it is closed."""
    context = as_context(context)
    context.check_open()
    return context


def scored_requests(
    model: Model,
    prompts: Sequence[Rendered],
    texts: Sequence[Sequence[str]],
    options: ClassifyOptions | ScoreOptions,
) -> list[tuple[Request, Continuations | None, list[array[int]]]]:
    """Apply `scoring_request` to each prompt and its continuations."""
    chat, space = options.chat, options.space
    n_thoughts = options.n_thoughts if isinstance(options, ClassifyOptions) else 1
    behind = BehindThoughts(model, n_thoughts)
    joiner = Joiner(model, parsing(options.parse_special, chat=chat))
    behind_chat = None
    if chat and not options.prefix:
        names = {"template": options.template, "variables": options.variables}
        behind_chat = answer_space(model, **names)  # type: ignore[arg-type] # of two types
    return [
        scoring_request(
            model,
            joiner,
            Argument("prompts", (i,)),
            one.prompt,
            [
                _spaced(
                    options.prefix if chat else one.prompt,
                    text,
                    space,
                    behind_chat if one.thought is None or behind_chat is None else "",
                )
                for text in continuations
            ],
            thought=one.thought,
            behind=behind,
        )
        for i, (one, continuations) in enumerate(zip(prompts, texts, strict=True))
    ]


def _spaced(prompt: object, text: str, space: Space, behind_chat: str | None) -> str:
    """Return a continuation, with a space before it if one is needed."""
    if space == "auto":
        if behind_chat is not None:  # space that the chat template writes
            return text if text[0].isspace() else behind_chat + text
        before = prompt[-1:] if isinstance(prompt, str) else ""
        space = not (text[0].isspace() or before.isspace())
    return f" {text}" if space else text


def scoring(
    context: Host,
    requests: Sequence[Request],
    options: CallOptions,
    convert: Callable[[Results], _R],
    *,
    journal: Journal | None = None,
    name: str = "prompts",
    n_beside: int = 0,
    n: int = 1,
    seed: int = 0,
) -> Scoring[_R]:
    """Create a scoring call; it does not close a `journal` that is open."""
    call = Call(requests, seed=seed, on_error=options.on_error, n=n)
    file = options.journal if journal is None else journal
    runnable = call if file is None else recorded(call, context, file)
    return Scoring(runnable, convert, name=name, n_beside=n_beside)
