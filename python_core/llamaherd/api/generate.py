"""The public calls: many prompts at once, one prompt, one prompt as a stream."""

from __future__ import annotations

from collections.abc import Sized
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Literal, TypedDict, overload

from llamaherd.api.progress import reporter
from llamaherd.api.requests import make_requests
from llamaherd.core import checks
from llamaherd.core.errors import ContextClosedError, Interrupted
from llamaherd.core.results import Result, Results
from llamaherd.core.sampling import SamplingParams, changed_fields
from llamaherd.core.stats import Stats
from llamaherd.journal.recording import recorded
from llamaherd.model.chat import chat_prompts
from llamaherd.run.call import ON_ERROR, Call, OnError
from llamaherd.run.context import Context, as_context
from llamaherd.run.interrupts import Interrupts, wait_for_end
from llamaherd.run.job import Job

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from llama_cpp import Llama
    from typing_extensions import Unpack

    from llamaherd.api.progress import ProgressOption
    from llamaherd.core.outcome import Output
    from llamaherd.journal.recording import RecordedCall
    from llamaherd.model.tokens import ParseSpecial, Prompt

    # The arguments of a `Job`.
    Prepared = tuple[Context, Call | RecordedCall, object]
    Messages = Sequence[Mapping[str, object]]

_POLL_S = 0.05


def generate_parallel(
    ctx: Context | Llama,
    prompts: Sequence[Prompt | Messages],
    *,
    max_tokens: int | None = None,
    temperature: float = 0.0,
    top_k: int = 40,
    top_p: float = 1.0,
    min_p: float = 0.05,
    repeat_last_n: int = 0,
    penalty_repeat: float = 1.0,
    seed: int | None = 1234,
    stop: str | Sequence[str] | None = None,
    ignore_eos: bool = False,
    choices: Collection[str] | None = None,
    params: SamplingParams | Sequence[SamplingParams] | None = None,
    parse_special: ParseSpecial = "auto",
    progress: ProgressOption = False,
    on_error: OnError = "continue",
    journal: str | os.PathLike[str] | None = None,
    chat: bool = False,
    system: str | None = None,
) -> Results:
    """Answers many prompts at once.

    A prompt that fails has an `error` in its result; the others are answered as well.

    Args:
        ctx: Where to run; a `llama_cpp.Llama` gets a context of its own.
        prompts: Texts or token ids, any number of them; with `chat` see there.
        max_tokens: Tokens to generate for each prompt at most; None: 100, or with
            `choices` as many as any of them can take, so that none is cut off.
        temperature: <= 0 takes the most likely token each time.
        top_k: Draw from so many tokens, the most likely ones; <= 0: all.
        top_p: Draw from the most likely tokens with so much probability together.
        min_p: Draw from tokens with so much of the most likely one's probability.
        repeat_last_n: Tokens that the repeat penalty looks at; 0: none; -1: all.
        penalty_repeat: Divides the logits of repeated tokens; 1: off.
        ignore_eos: Never end before `max_tokens`.
        choices: Texts of which each answer is one, exactly: no grammar is needed, and
            nothing else is in `text`. See `SamplingParams`.
        seed: Prompt i draws with a seed made of this and i, whatever runs beside it and
            in whatever order; None or negative: a fresh one, reported in the statistics.
        stop: Texts that end an answer and are not part of it.
        params: All of sampling, once or for each prompt, instead of single arguments;
            where its max_tokens, stop or seed is None, those above count.
        parse_special: Whether the texts of special tokens in prompts mean those tokens;
            "auto": in prompts that start with one, as those of chat templates do.
        progress: True shows a bar; a function is called with a `Progress` now and then,
            on the calling thread.
        on_error: When a prompt fails: "continue" with all others; "return": let those
            that run finish; "stop": end at once and raise `GenerationError`.
        journal: A file that results are stored in as they are finished, made if it is
            not there. The same call again, after a crash or Ctrl-C, takes from it what
            it has and computes the rest; failed prompts are tried again. What counts is
            the model's file, the prompt's tokens, the settings and, where something is
            drawn, the prompt's seed: with `seed=None` nothing is found again. It holds
            prompts and answers as plain text; `journal_read` reads it.
        chat: Each prompt is what a user says, or a list of messages as
            `apply_chat_template` takes; the model's chat template makes the prompt of it,
            and nothing in a message is taken for a special token.
        system: With `chat`: text of a system message that comes before each prompt.

    Returns:
        One result per prompt, in the order of the prompts.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range. A grammar that cannot be parsed, choices
            and a bias of tokens that the model lacks, if they are the same for all
            prompts; otherwise the prompts concerned fail.
        Interrupted: Ctrl-C; its `results` has what was finished.
        GenerationError: A prompt failed, and `on_error` is "stop".
        ChatTemplateError: The model has no chat template, or it refuses the messages.
        ContextClosedError: The context was closed.
        ContextError: There is not enough memory.
        JournalError: The journal cannot be used, or is damaged.

    Warns:
        JournalWarning: Results could not be stored, or the journal was removed or moved
            meanwhile and is made anew; the call returns all results in any case.
    """

    def prepare() -> Prepared:
        single = SamplingParams(
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            min_p=min_p,
            repeat_last_n=repeat_last_n,
            penalty_repeat=penalty_repeat,
            ignore_eos=ignore_eos,
            choices=choices,
        )
        return _prepare(
            ctx,
            prompts,
            params=_one_or_other(single, params),
            max_tokens=max_tokens,
            seed=seed,
            stop=stop,
            parse_special=parse_special,
            on_error=on_error,
            journal=journal,
            chat=chat,
            system=system,
        )

    return _run(prepare, progress, prompts)


def start_parallel(
    ctx: Context | Llama,
    prompts: Sequence[Prompt | Messages],
    *,
    params: SamplingParams | Sequence[SamplingParams] | None = None,
    max_tokens: int | None = None,
    seed: int | None = 1234,
    stop: str | Sequence[str] | None = None,
    parse_special: ParseSpecial = "auto",
    on_error: OnError = "continue",
    journal: str | os.PathLike[str] | None = None,
    chat: bool = False,
    system: str | None = None,
) -> Job:
    """Starts what `generate_parallel` does and returns at once; same arguments.

    Wrong arguments raise here, before anything runs.
    """
    with Interrupts() as interrupts:
        with interrupts.let_through():
            prepared = _prepare(
                ctx,
                prompts,
                params=params,
                max_tokens=max_tokens,
                seed=seed,
                stop=stop,
                parse_special=parse_special,
                on_error=on_error,
                journal=journal,
                chat=chat,
                system=system,
            )
        job = Job(*prepared)
        try:
            interrupts.deliver()
        except BaseException:
            job.cancel()
            raise
    return job


def _prepare(
    ctx: Context | Llama,
    prompts: Sequence[Prompt | Messages],
    *,
    params: SamplingParams | Sequence[SamplingParams] | None,
    max_tokens: int | None,
    seed: int | None,
    stop: str | Sequence[str] | None,
    parse_special: ParseSpecial,
    on_error: OnError,
    journal: str | os.PathLike[str] | None,
    chat: bool,
    system: str | None,
) -> Prepared:
    """The arguments of the `Job` that `start_parallel` starts."""
    context = as_context(ctx)
    call = _make_call(
        context,
        prompts,
        params,
        max_tokens=max_tokens,
        seed=seed,
        stop=stop,
        parse_special=parse_special,
        on_error=on_error,
        chat=chat,
        system=system,
    )
    return context, call if journal is None else recorded(call, context, journal), ctx


class Settings(TypedDict, total=False):
    """Settings of `generate`, as in `generate_parallel`."""

    max_tokens: int | None
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repeat_last_n: int
    penalty_repeat: float
    seed: int | None
    stop: str | Sequence[str] | None
    ignore_eos: bool
    choices: Collection[str] | None
    params: SamplingParams | None
    parse_special: ParseSpecial
    chat: bool
    system: str | None


@overload
def generate(
    ctx: Context | Llama,
    prompt: Prompt | Messages,
    *,
    stream: Literal[False] = False,
    **settings: Unpack[Settings],
) -> Result: ...
@overload
def generate(
    ctx: Context | Llama,
    prompt: Prompt | Messages,
    *,
    stream: Literal[True],
    **settings: Unpack[Settings],
) -> Iterator[str]: ...
def generate(  # noqa: D417 - the others are explained once
    ctx: Context | Llama,
    prompt: Prompt | Messages,
    *,
    stream: bool = False,
    max_tokens: int | None = None,
    temperature: float = 0.0,
    top_k: int = 40,
    top_p: float = 1.0,
    min_p: float = 0.05,
    repeat_last_n: int = 0,
    penalty_repeat: float = 1.0,
    seed: int | None = 1234,
    stop: str | Sequence[str] | None = None,
    ignore_eos: bool = False,
    choices: Collection[str] | None = None,
    params: SamplingParams | None = None,
    parse_special: ParseSpecial = "auto",
    chat: bool = False,
    system: str | None = None,
) -> Result | Iterator[str]:
    """Answers one prompt. The arguments are those of `generate_parallel`.

    Args:
        stream: Return the answer in pieces, while it is generated.

    Returns:
        The result, or with `stream` an iterator over pieces of its text. The prompt
        starts to run with the first piece that is asked for.

    Raises:
        GenerationError: The prompt failed. Otherwise as `generate_parallel`.
    """
    single = SamplingParams(
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repeat_last_n=repeat_last_n,
        penalty_repeat=penalty_repeat,
        ignore_eos=ignore_eos,
        choices=choices,
    )
    context = as_context(ctx)
    texts: SimpleQueue[str] = SimpleQueue()
    call = _make_call(
        context,
        [prompt],
        _one_or_other(single, params),
        max_tokens=max_tokens,
        seed=seed,
        stop=stop,
        parse_special=parse_special,
        on_error="stop",
        chat=chat,
        system=system,
        watch=(lambda _, output: texts.put(output.text)) if stream else None,
    )
    if checks.flag("stream", stream):
        return _pieces((context, call, ctx), texts)
    return _run(lambda: (context, call, ctx), False, [prompt])[0]


def _pieces(prepared: Prepared, texts: SimpleQueue[str]) -> Iterator[str]:
    """What each text adds to the one before it. Leaving early cancels the call."""
    job: Job | None = None
    n_shown = 0
    try:
        with Interrupts() as interrupts:
            job = Job(*prepared)
        interrupts.deliver()
        while True:
            is_over = job.wait(0)  # asked first: what is queued then is all there is
            try:
                text = texts.get(timeout=0 if is_over else _POLL_S)
            except Empty:
                if is_over:
                    break
                continue
            if len(text) > n_shown:
                yield text[n_shown:]
                n_shown = len(text)
        job.results()
    finally:
        with Interrupts():
            if job is not None:
                job.cancel()
                job.wait()


def _run(
    prepare: Callable[[], Prepared], progress: ProgressOption, prompts: object
) -> Results:
    """Runs a call to its end, or to Ctrl-C, which loses nothing whenever it comes.

    Args:
        prepare: Makes the arguments of a `Job`.
        progress: As it was given.
        prompts: As they were given.
    """
    results: Results | None = None
    try:
        with Interrupts() as interrupts, reporter(progress) as report:
            with interrupts.let_through():
                prepared = prepare()
            job = Job(*prepared)
            try:
                wait_for_end(job, report, interrupts)
            except KeyboardInterrupt:
                results = job.results()
                raise
            results = job.results()
        interrupts.deliver()
        return results  # noqa: TRY300 - as late as that Ctrl-C may come
    except KeyboardInterrupt:
        if results is None:  # nothing has begun
            results = _none_answered(len(prompts) if isinstance(prompts, Sized) else 0)
        raise Interrupted(results) from None


def _none_answered(n: int) -> Results:
    results = [
        Result(
            index=i,
            text=None,
            tokens=[],
            finish_reason="cancelled",
            complete=False,
            error=None,
            n_prompt_tokens=0,
            n_reused_tokens=0,
            seed=0,
        )
        for i in range(n)
    ]
    return Results(results, Stats(n_prompts=n))


def _one_or_other(
    single: SamplingParams, params: SamplingParams | Sequence[SamplingParams] | None
) -> SamplingParams | Sequence[SamplingParams]:
    """Single arguments or `params`, but not both.

    Raises:
        ValueError: Both are given.
    """
    if params is None:
        return single
    changed = changed_fields(single)
    if changed:
        raise ValueError(f"{changed[0]} is given beside params; set it in params instead")
    return params


def _make_call(
    context: Context,
    prompts: object,
    params: SamplingParams | Sequence[SamplingParams] | None,
    *,
    max_tokens: int | None,
    seed: int | None,
    stop: str | Sequence[str] | None,
    parse_special: ParseSpecial,
    on_error: OnError,
    chat: bool,
    system: str | None,
    watch: Callable[[int, Output], None] | None = None,
) -> Call:
    if context.closed:
        raise ContextClosedError("ctx is closed")
    if checks.flag("chat", chat):
        prompts = chat_prompts(context.model, prompts, system)
        # That template need not begin with a special token, but means those that it has.
        parse_special = True if parse_special == "auto" else parse_special
    elif system is not None:
        raise ValueError(
            f"system needs chat=True; without it there is no place for "
            f"{checks.shown(system)}"
        )
    requests, base = make_requests(
        context.model,
        prompts,
        params,
        max_tokens=max_tokens,
        seed=seed,
        stop=stop,
        parse_special=parse_special,
    )
    return Call(
        requests,
        seed=base,
        n_ctx_train=context.model.n_ctx_train,
        on_error=checks.choice("on_error", on_error, ON_ERROR),
        watch=watch,
    )
