"""State of a `Chat`: its turns, questions, and room in the context."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from llamaherd.calls.api.turns import (
    Reply,
    Turn,
    answer,
    as_messages,
    checked_turns,
    last_question,
    n_exchanges,
    n_first,
    question,
    transcript,
)
from llamaherd.calls.asks.answers import again, as_result
from llamaherd.calls.asks.keywords import ChatSettings
from llamaherd.calls.asks.options import CHAT_DEFAULTS, GenerateOptions
from llamaherd.calls.asks.rendering import rendered_prompts
from llamaherd.calls.asks.requests import limit_of, make_requests, tokens_or_problem
from llamaherd.calls.chat.conversations import Refused, prompts_or_refusals
from llamaherd.engine.core import checks
from llamaherd.engine.core.argument import Argument
from llamaherd.engine.core.errors import (
    ArgumentError,
    ChatFullError,
    Failure,
    PromptError,
    code_of,
)
from llamaherd.engine.core.outcome import Finish, Output
from llamaherd.engine.core.request import Request, n_common
from llamaherd.engine.core.results import Result, Results
from llamaherd.engine.core.sampling import CONSTRAINTS, SamplingParams
from llamaherd.engine.core.stats import Stats
from llamaherd.engine.core.thinking import Thinking
from llamaherd.engine.core.words import name_of
from llamaherd.engine.model.tokens import prompt_tokens

if TYPE_CHECKING:
    from array import array
    from collections.abc import Mapping, Sequence

    from llamaherd.calls.run.handle import Handle
    from llamaherd.calls.run.host import Host


# If fewer cells than this are free for the answer, a question is refused.
_LEAST_TOKENS = 64
_ANSWER: Turn = {"role": "assistant", "content": "A"}


def options_of(system: str | None, settings: Mapping[str, Any]) -> GenerateOptions:
    """Check the settings of a question and return them with the defaults of a chat."""
    arguments = {**CHAT_DEFAULTS, **settings}
    if any(settings.get(name) for name in CONSTRAINTS) and "max_tokens" not in settings:
        del arguments["max_tokens"]  # the constraint limits the answer
    options = GenerateOptions.of(
        ChatSettings, arguments, chat=True, stream=True, system=system
    )
    # Constraints are not checked here, but later with the model, because a schema may
    # be given in many forms.
    SamplingParams(**{k: v for k, v in options.sampling.items() if k not in CONSTRAINTS})
    return options


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question that can be submitted; the next prompt will share `n_again` tokens.

    Its answer replaces `n_replaced` messages; `prefix` is not part of the result.
    """

    text: str
    request: Request
    prefix: str | None
    n_again: int
    n_replaced: int = 0
    n_tries: int = 0

    def again(self, n_replaced: int, n_tries: int) -> Question:
        """Return a copy that replaces the last question and has another seed."""
        request = again(self.request, n_tries)
        return replace(self, request=request, n_replaced=n_replaced, n_tries=n_tries)


def make_question(
    host: Host, turns: Sequence[Turn], text: str, options: GenerateOptions
) -> Question:
    """Create the request for a question; its limits are reduced to the free cells."""
    messages = as_messages([*turns, question(text)])
    place = n_exchanges(turns)  # the seed is derived from this
    (request,), _ = make_requests(host.model, [messages], options, places=[place])
    is_default = options.thinking in (None, Thinking())
    fitted = _fit_to_room(request, _capacity(host), cuts_thought=is_default)
    if fitted is None:
        raise _full(host, turns, text, options, request)
    if fitted.problem:
        raise PromptError(f"the prompt failed: {fitted.problem}", _failed_results(fitted))
    # A template may render earlier messages differently in the next prompt.
    later = _tokens(host, [*turns, question(text), _ANSWER], "Q", options)
    return Question(
        text=text,
        request=fitted,
        prefix=options.prefix,
        n_again=n_common(fitted.tokens, later),
    )


def make_batch(
    host: Host,
    system: str | None,
    turns: Sequence[Turn],
    texts: object,
    settings: Mapping[str, Any],
) -> tuple[list[list[dict[str, object]] | Refused], dict[str, Any]]:
    """Return the prompts for many questions, and the arguments of their call."""
    given_texts = [
        text if isinstance(text, Refused) else checks.text(Argument("texts", (i,)), text)
        for i, text in enumerate(prompts_or_refusals(texts, "texts", ""))
    ]
    questions = [text for text in given_texts if not isinstance(text, Refused)]
    arguments = {**settings, "chat": True, "system": system}
    arguments.pop("priority", None)  # all prompts of a call share this prefix
    is_free = not any(arguments.get(name) for name in CONSTRAINTS)
    if questions and is_free and arguments.get("max_tokens") is None:
        chat_settings = {
            k: v for k, v in settings.items() if k in ChatSettings.__annotations__
        }
        longest = make_question(
            host, turns, max(questions, key=len), options_of(system, chat_settings)
        )
        arguments["max_tokens"] = longest.request.max_tokens
    prompts = [
        text if isinstance(text, Refused) else as_messages([*turns, question(text)])
        for text in given_texts
    ]
    return prompts, arguments


def _tokens(
    host: Host, turns: Sequence[Turn], text: str, options: GenerateOptions
) -> array[int]:
    """Return the tokens of a prompt, or an empty array if it cannot be rendered."""
    messages = as_messages([*turns, question(text)])
    (one,) = rendered_prompts(host.model, [messages], options, is_constrained=False)
    tokenize = partial(prompt_tokens, host.model, parse_special=True)
    return tokens_or_problem(host.model, "text", one.prompt, tokenize)[0]


def _capacity(host: Host) -> int:
    """Return the number of tokens that a prompt with its answer may have."""
    return limit_of(host.model, host.options["n_ctx"])[0]


def _fit_to_room(
    request: Request, capacity: int, *, cuts_thought: bool
) -> Request | None:
    """Return the request with `max_tokens` reduced to fit; None without room."""
    if request.problem and code_of(request.problem) != "too_long":
        return request
    if not request.tokens:  # too long to be tokenized
        return None
    thought = request.thought
    if thought is not None and cuts_thought and request.n_cells > capacity:
        n_fixed = len(request.tokens) + thought.n_cells - thought.budget
        half = max(0, (capacity - n_fixed) // 2)
        shorter = replace(thought, budget=min(thought.budget, half))
        request = replace(request, thought=shorter)
    room = capacity - (request.n_cells - request.max_tokens)
    if room < min(_LEAST_TOKENS, request.max_tokens):
        return None
    return replace(request, max_tokens=min(request.max_tokens, room), problem="")


def _full(
    host: Host,
    turns: Sequence[Turn],
    text: str,
    options: GenerateOptions,
    request: Request,
) -> ChatFullError:
    """Return the error for a conversation that leaves too few tokens for an answer."""
    capacity, n_forget = _capacity(host), 0
    n_behind = request.n_cells - len(request.tokens)
    for n in range(1, n_exchanges(turns) + 1):
        rest = _tokens(host, turns[n_first(turns, n) :], text, options)
        if rest and len(rest) + n_behind <= capacity:
            n_forget = n
            break
    n_tokens = len(request.tokens)
    advice = (
        f"forget({n_forget}) drops its {n_forget} oldest questions with their answers"
    )
    if n_forget == 1:
        advice = "forget() drops its oldest question with the answer"
    elif not n_forget:
        advice = f"ask a shorter question, or set a lower {name_of('max_tokens')}"
    problem = f"has {n_tokens} tokens" if n_tokens else "is too long"
    reason = Failure(
        f"the conversation {problem}: too few tokens remain for an answer. Conversation "
        f"and answer together may have {capacity} tokens: {advice}",
        "too_long",
    )
    results = _failed_results(replace(request, problem=reason))
    return ChatFullError(
        str(reason), results, n_tokens=n_tokens, capacity=capacity, n_forget=n_forget
    )


def _failed_results(request: Request) -> Results:
    output = Output(finish=Finish.ERROR, message=request.problem)
    return Results([as_result(0, request, output, None)], Stats(n_prompts=1))


class Conversation:
    """Memory of a conversation: its turns, and the answer in progress."""

    def __init__(self, system: object, turns: object) -> None:
        saved_system, self._turns = checked_turns(turns)
        if system is not None and saved_system is not None:
            raise ArgumentError(
                f"has a system message, and {name_of('system')} is given as well: "
                "leave one out",
                argument="turns",
                code="conflict",
            )
        self._system = saved_system if system is None else checks.text("system", system)
        self._lock = Lock()  # protects the turns and the fields below
        self._version = 0  # incremented when the turns change
        self._reply: Reply | None = None  # answer in progress
        self._n_tries = 0  # number of earlier answers to the last question
        self._last: Result | None = None

    @property
    def turns(self) -> list[Turn]:
        """Copy of the messages so far without the system message; JSON can represent it.

        An answer has its thought as "reasoning_content", and `interrupted` if it was
        cancelled during generation.
        """
        self._settle()
        with self._lock:
            return [turn.copy() for turn in self._turns]

    @property
    def messages(self) -> list[Turn]:
        """System message, if any, and messages so far, as `turns=` accepts them."""
        first: list[Turn] = []
        if self._system is not None:
            first = [{"role": "system", "content": self._system}]
        return first + self.turns

    @property
    def system(self) -> str | None:
        """Text of the system message. Setting it affects later questions."""
        return self._system

    @system.setter
    def system(self, text: str | None) -> None:
        self._system = None if text is None else checks.text("system", text)

    @property
    def last(self) -> Result | None:
        """Result of the last answer, even if interrupted.

        None without an answer, and after `undo()`.
        """
        self._settle()
        return self._last

    def undo(self) -> list[Turn]:
        """Remove the last question with its answer, and return both.

        Raises:
            ValueError: There is no question.
        """
        self._settle()
        with self._lock:
            _, n = last_question(self._turns)
            gone, self._turns = self._turns[-n:], self._turns[:-n]
            self._version += 1
            self._last = None
            return gone

    def forget(self, n: int = 1) -> list[Turn]:
        """Remove the n oldest questions with their answers, and return them.

        The system message is not removed. More cells of the context are then free for
        answers.

        Raises:
            ValueError: There are fewer than n questions.
        """
        self._settle()
        with self._lock:
            last_question(self._turns)
            n_most = n_exchanges(self._turns)
            n_messages = n_first(self._turns, checks.integer("n", n, 1, n_most))
            gone, self._turns = self._turns[:n_messages], self._turns[n_messages:]
            self._version += 1
            return gone

    def __str__(self) -> str:
        return transcript(self.messages)

    def _record(self, handle: Handle, latest: Question) -> None:
        """Add the answer to a question to the memory, if not yet added."""
        with self._lock:
            if self._reply is None or self._reply.handle is not handle:
                return
            self._reply = None
            self._version += 1
            try:
                result = handle.result(0)
            except Exception:  # noqa: BLE001 - raised where the answer is read
                return
            before = self._turns[: len(self._turns) - latest.n_replaced]
            self._turns = [*before, question(latest.text), answer(result, latest.prefix)]
            self._n_tries, self._last = latest.n_tries, result

    def _settle(self) -> None:
        """Wait for the answer in progress, if any."""
        reply = self._reply
        if reply is not None:
            reply.settle()
