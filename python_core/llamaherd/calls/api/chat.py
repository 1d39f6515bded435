"""Conversations with memory: `chat` starts a conversation, `Chat` stores it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from llamaherd.calls.api.conversation import (
    Conversation,
    Question,
    make_batch,
    make_question,
    options_of,
)
from llamaherd.calls.api.generate import generate_parallel, start_parallel
from llamaherd.calls.api.turns import Reply, last_question, n_exchanges
from llamaherd.calls.asks.keywords import ChatSettings
from llamaherd.calls.asks.options import CHAT_DEFAULTS, GenerateOptions
from llamaherd.calls.asks.settings import takes
from llamaherd.calls.run.context import Context, as_context
from llamaherd.calls.run.handle import Handle
from llamaherd.calls.run.job import Interrupts, Job
from llamaherd.engine.core import checks
from llamaherd.engine.core.caller import warn_of_cut
from llamaherd.engine.core.keeping import keeping
from llamaherd.engine.core.process import ClosedByWith
from llamaherd.engine.core.results import Result, Results
from llamaherd.engine.core.sampling import DEFAULT_SEED
from llamaherd.engine.core.stats import Stats
from llamaherd.engine.model.model import Model
from llamaherd.engine.native import shim

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llama_cpp import Llama

    from llamaherd.calls.run.host import Host

_SEEDS_OF_FORKS = 2**34  # offset of seeds of forks, above all seeds of retries


@takes(GenerateOptions, ChatSettings, CHAT_DEFAULTS)
def chat(
    context: Host | Model | Llama,
    system: str | None = None,
    *,
    turns: Sequence[Mapping[str, object]] = (),
    **settings: Unpack[ChatSettings],
) -> Chat:
    """Start a conversation; the returned `Chat` stores its messages.

    Args:
        context: Context to run in, which other calls can use at the same time. For a
            model or a `llama_cpp.Llama`, a new context is created.
        system: Text of a system message; None for no message.
        turns: Messages of an earlier conversation to continue, such as saved
            `Chat.messages`.
        **settings: Options of every question, see `GenerateOptions`, and any field of
            `SamplingParams`. `ask` and `stream` accept them for a single question.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range, or `turns` are not a conversation.
        ChatTemplateError: The model has no chat template.
        ContextClosedError: The context was closed.
    """
    return Chat(context, system, turns=turns, **settings)


class Chat(Conversation, ClosedByWith):
    """Conversation with a model; a context manager.

    Its arguments are the arguments of `chat`.

    Questions of one chat are answered one after the other, also if several threads ask.
    Methods that read or change the conversation wait for the current answer. Other chats
    and calls of the same context run at the same time, in the same batches. A question
    that fails does not change the conversation. If Ctrl-C or `Reply.cancel` ends an
    answer, the conversation keeps the text so far, and marks its turn as `interrupted`.

    Attributes:
        context: Context that answers.
    """

    _instead = (
        "save or send its `messages`, and continue it with chat(context, turns=messages)"
    )

    def __init__(
        self,
        context: Host | Model | Llama,
        system: str | None = None,
        *,
        turns: Sequence[Mapping[str, object]] = (),
        **settings: Unpack[ChatSettings],
    ) -> None:
        super().__init__(system, turns)
        self._settings: dict[str, Any] = dict(settings)
        options_of(self.system, self._settings)
        self._owned: Context | None = None
        if isinstance(context, Model):
            # A unified pool lets all turns and forks of a conversation share KV cells.
            self._owned = Context(context, kv_layout="unified")
        self.context: Host = self._owned or as_context(context)
        _ = self.context.model  # an engine elsewhere has none, and is refused here

    # ---- questions ----

    def ask(self, text: str, **settings: Unpack[ChatSettings]) -> Result:
        """Ask a question and wait for the answer.

        Args:
            text: Question.
            **settings: Options of this question, which override the options of the chat.

        Raises:
            Interrupted: Ctrl-C cancelled the answer; `results[0].partial` has its text.
            ChatFullError: The context has no cells left for an answer.
            GenerationError: The answer failed; for all errors see `Handle.result`.

        Warns:
            CutOffWarning: `max_tokens` ended the answer before the model did.
        """
        return self._ask(checks.text("text", text), settings)

    def stream(self, text: str, **settings: Unpack[ChatSettings]) -> Reply:
        """Ask a question and return the answer while it is generated.

        Args:
            text: Question.
            **settings: Options of this question, which override the options of the chat.

        Returns:
            An iterator over pieces of the answer, see `Reply`.

        Raises:
            ChatFullError: The context has no cells left for an answer.
            PromptError: The prompt cannot be run.
        """
        return self._stream(checks.text("text", text), settings)

    @overload
    def retry(
        self, *, stream: Literal[False] = False, **settings: Unpack[ChatSettings]
    ) -> Result: ...
    @overload
    def retry(
        self, *, stream: Literal[True], **settings: Unpack[ChatSettings]
    ) -> Reply: ...
    def retry(
        self, *, stream: bool = False, **settings: Unpack[ChatSettings]
    ) -> Result | Reply:
        """Ask the last question again and replace its answer.

        The answer is drawn with another seed, and at temperature 0.7 if the chat is
        greedy, because a greedy answer would be the same. If the question fails, the
        previous answer is kept.

        Args:
            stream: Return the answer while it is generated, as `stream` does.
            **settings: Options of this question, which override the options of the chat.

        Raises:
            ValueError: No question was asked yet. For other errors see `ask`.
        """
        if checks.flag("stream", stream):
            return self._stream(None, settings)
        return self._ask(None, settings)

    def ask_all(self, texts: Sequence[str], **settings: Any) -> Results:
        """Ask many questions at once, each after the conversation so far.

        The questions are answered in one batch, which computes the conversation only
        once. The conversation itself does not change.

        Args:
            texts: Questions.
            **settings: Options of `generate_parallel`, which override the options of the
                chat.

        Returns:
            One result per question, see `generate_parallel`.
        """
        prompts, arguments = self._many(texts, settings)
        return generate_parallel(self.context, prompts, **arguments)

    def start_all(self, texts: Sequence[str], **settings: Any) -> Job[Results]:
        """Start `ask_all` in the background and return at once.

        The arguments are the same.
        """
        prompts, arguments = self._many(texts, settings)
        return start_parallel(self.context, prompts, **arguments)

    def fork(self, n: int = 1) -> list[Chat]:
        """Return n independent conversations that continue this one.

        Each has its own seed, so that their sampled answers to the same question differ.

        Args:
            n: Number of conversations.
        """
        self._settle()
        return [self._fork_at(i) for i in range(checks.integer("n", n, 1, 10_000))]

    # ---- end ----

    @property
    def closed(self) -> bool:
        """Whether the context is closed, so that no question can be asked."""
        return self.context.closed

    def close(self) -> None:
        """Close the context if it belongs to the chat; a second call does nothing."""
        if self._owned is not None:
            self._owned.close()

    def __repr__(self) -> str:
        n = n_exchanges(self._turns)
        return f"<Chat of {n} question{'' if n == 1 else 's'} on {self.context!r}>"

    # ---- internal ----

    def _ask(self, text: str | None, settings: Mapping[str, Any]) -> Result:
        with Interrupts() as interrupts:
            reply = self._submit(text, settings, interrupts)
            try:
                with interrupts.let_through():
                    result = reply.result()
            except KeyboardInterrupt:
                raise reply.interrupted() from None
        with keeping(Results([result], Stats(n_prompts=1))):
            warn_of_cut([result])
        return result

    def _stream(self, text: str | None, settings: Mapping[str, Any]) -> Reply:
        with Interrupts() as interrupts:
            reply = self._submit(text, settings, interrupts)
            interrupts.deliver(reply.cancel)
        return reply

    def _submit(
        self, text: str | None, settings: Mapping[str, Any], interrupts: Interrupts
    ) -> Reply:
        """Submit a question (None: the last one) when no other is being answered."""
        while True:
            with interrupts.let_through():
                self._settle()
                version = self._version
                question = self._prepare_question(text, settings)
            reply = self._start_question(question, version)
            if reply is not None:
                return reply

    def _start_question(self, question: Question, version: int) -> Reply | None:
        """Submit a question; return None if another thread submitted one first."""
        with self._lock:
            if self._reply is not None or self._version != version:
                return None
            handle = Handle(
                self.context.loop,
                question.request,
                self.context,
                stream=True,
                n_again=question.n_again,
            )
            reply = self._reply = Reply(handle, partial(self._record, handle, question))
        handle.add_done_callback(lambda _: reply.record())
        return reply

    def _prepare_question(
        self, text: str | None, settings: Mapping[str, Any]
    ) -> Question:
        self.context.check_open()
        with self._lock:
            turns = list(self._turns)
        n_replaced = n_tries = 0
        if text is None:
            text, n_replaced = last_question(turns)
            turns, n_tries = turns[:-n_replaced], self._n_tries + 1
        options = options_of(self.system, {**self._settings, **settings})
        question = make_question(self.context, turns, text, options)
        return question.again(n_replaced, n_tries) if n_replaced else question

    def _many(
        self, texts: object, settings: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        arguments = {**self._settings, **settings}
        return make_batch(self.context, self.system, self.turns, texts, arguments)

    def _fork_at(self, i: int) -> Chat:
        settings = dict(self._settings)
        seed = settings.get("seed", DEFAULT_SEED)
        if seed is not None and seed >= 0:
            settings["seed"] = shim.derive_seed(seed, _SEEDS_OF_FORKS + i)
        return Chat(self.context, turns=self.messages, **settings)
