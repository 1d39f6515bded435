"""The public calls: many prompts at once, one prompt, one prompt as a stream."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

from llamaherd.api.running import none_answered, run_to_end, start
from llamaherd.core import checks
from llamaherd.core.sampling import SamplingParams, SamplingSettings
from llamaherd.journal.recording import recorded
from llamaherd.run.call import ON_ERROR, Call, OnError
from llamaherd.run.contexts_of_llamas import as_context
from llamaherd.run.handle import Handle
from llamaherd.run.interrupts import Interrupts
from llamaherd.run.requests import make_requests
from llamaherd.run.settings import shows_settings

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from llama_cpp import Llama
    from typing_extensions import Unpack

    from llamaherd.api.progress import ProgressOption
    from llamaherd.core.request import Request
    from llamaherd.core.results import Result, Results
    from llamaherd.journal.journal import Journal
    from llamaherd.journal.recording import RecordedCall
    from llamaherd.model.tokens import ParseSpecial, Prompt
    from llamaherd.run.host import Host
    from llamaherd.run.job import Job

    # The arguments of a `Job`.
    Prepared = tuple[Host, Call | RecordedCall, object]
    Messages = Sequence[Mapping[str, object]]

_MAX_SAMPLES = 10_000  # of a prompt
DEFAULT_RETRIES = 2
MAX_RETRIES = 100


@shows_settings
def generate_parallel(
    ctx: Host | Llama,
    prompts: Sequence[Prompt | Messages],
    *,
    n: int = 1,
    params: SamplingParams | Sequence[SamplingParams] | None = None,
    parse_special: ParseSpecial = "auto",
    progress: ProgressOption = False,
    on_error: OnError = "continue",
    journal: str | os.PathLike[str] | None = None,
    chat: bool = False,
    system: str | None = None,
    strict: bool = False,
    retries: int = DEFAULT_RETRIES,
    logprobs: int | None = None,
    **settings: Unpack[SamplingSettings],
) -> Results:
    """Answers many prompts at once.

    A prompt that fails has an `error` in its result; the others are answered as well.

    Args:
        ctx: Where to run; a `llama_cpp.Llama` gets a context of its own.
        prompts: Texts or token ids, any number of them; with `chat` see there.
        n: Samples of each prompt, which is computed once for all of them; in `samples` of
            what is returned. Needs a temperature above 0: others would all be the same.
        params: All of sampling, once or for each prompt, instead of single settings;
            where its max_tokens, stop or seed is None, those of the call count.
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
        strict: A schema of which masks cannot enforce all is an error that names the
            keywords. Without it those are checked when an answer has ended.
        retries: How often to try for another answer, drawn with another seed, where one
            ended and does not follow its schema. If none does, that prompt fails, with
            the last text that could not be made good in `partial`.
        logprobs: Of how many of the most likely tokens to tell the log-probabilities in
            each place, beside those of the answer's own tokens: see `Result.logprobs`;
            0: the answer's own only; None: none.
        **settings: How tokens are drawn and where answers end, such as max_tokens,
            temperature, stop and choices: any field of `SamplingParams`. A schema, regex,
            grammar or choices may be a list with one for each prompt, None for none. A
            schema may also be a file, a pydantic model, a dataclass or a TypedDict; the
            results have what answers say in `parsed`, see `structured`. Prompt i draws
            with a seed made of `seed` and i, and its sample j > 0 with one made of that
            and j, whatever n is, what runs beside it and in whatever order; None or
            negative: a fresh one, reported in the statistics.

    Returns:
        One result per prompt, in the order of the prompts; with n > 1 the first sample's,
        and all of them in `samples`.

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
    n = checks.integer("n", n, 1, _MAX_SAMPLES)

    def prepare() -> Prepared:
        return prepare_generate(
            ctx,
            prompts,
            n=n,
            params=params,
            settings=settings,
            parse_special=parse_special,
            on_error=on_error,
            journal=journal,
            chat=chat,
            system=system,
            strict=strict,
            retries=retries,
            logprobs=logprobs,
        )

    return run_to_end(prepare, progress, prompts, lambda count: none_answered(count, n))


@shows_settings
def start_parallel(
    ctx: Host | Llama,
    prompts: Sequence[Prompt | Messages],
    *,
    n: int = 1,
    params: SamplingParams | Sequence[SamplingParams] | None = None,
    parse_special: ParseSpecial = "auto",
    on_error: OnError = "continue",
    journal: str | os.PathLike[str] | None = None,
    chat: bool = False,
    system: str | None = None,
    strict: bool = False,
    retries: int = DEFAULT_RETRIES,
    logprobs: int | None = None,
    **settings: Unpack[SamplingSettings],
) -> Job[Results]:
    """Starts what `generate_parallel` does and returns at once; same arguments.

    Wrong arguments raise here, before anything runs.
    """
    n = checks.integer("n", n, 1, _MAX_SAMPLES)
    return start(
        lambda: prepare_generate(
            ctx,
            prompts,
            n=n,
            params=params,
            settings=settings,
            parse_special=parse_special,
            on_error=on_error,
            journal=journal,
            chat=chat,
            system=system,
            strict=strict,
            retries=retries,
            logprobs=logprobs,
        )
    )


def prepare_generate(
    ctx: Host | Llama,
    prompts: Sequence[Prompt | Messages],
    *,
    n: int,
    params: SamplingParams | Sequence[SamplingParams] | None,
    settings: SamplingSettings,
    parse_special: ParseSpecial,
    on_error: OnError,
    journal: str | os.PathLike[str] | Journal | None,
    chat: bool,
    system: str | None,
    strict: bool,
    retries: int,
    logprobs: int | None,
    places: Sequence[int] | None = None,
) -> Prepared:
    """The arguments of the `Job` that `start_parallel` starts.

    Args beside those of `generate_parallel`: a `journal` that is open stays so; `places`,
    see `make_requests`.
    """
    context = as_context(ctx)
    call = _make_call(
        context,
        prompts,
        params,
        settings,
        n=n,
        parse_special=parse_special,
        on_error=on_error,
        chat=chat,
        system=system,
        strict=strict,
        retries=retries,
        logprobs=logprobs,
        places=places,
    )
    return context, call if journal is None else recorded(call, context, journal), ctx


class Settings(SamplingSettings, total=False):
    """Arguments of `generate`, as in `generate_parallel`."""

    params: SamplingParams | None
    parse_special: ParseSpecial
    chat: bool
    system: str | None
    strict: bool
    retries: int
    logprobs: int | None


@overload
def generate(
    ctx: Host | Llama,
    prompt: Prompt | Messages,
    *,
    stream: Literal[False] = False,
    **settings: Unpack[Settings],
) -> Result: ...
@overload
def generate(
    ctx: Host | Llama,
    prompt: Prompt | Messages,
    *,
    stream: Literal[True],
    **settings: Unpack[Settings],
) -> Iterator[str]: ...
@shows_settings
def generate(  # noqa: D417 - the others are explained once
    ctx: Host | Llama,
    prompt: Prompt | Messages,
    *,
    stream: bool = False,
    params: SamplingParams | None = None,
    parse_special: ParseSpecial = "auto",
    chat: bool = False,
    system: str | None = None,
    strict: bool = False,
    retries: int = DEFAULT_RETRIES,
    logprobs: int | None = None,
    **settings: Unpack[SamplingSettings],
) -> Result | Iterator[str]:
    """Answers one prompt. The arguments are those of `generate_parallel`.

    Args:
        stream: Return the answer in pieces, while it is generated. There are no
            `logprobs` then, and no `retries`: what was read cannot be taken back.

    Returns:
        The result, or with `stream` an iterator over pieces of its text. The prompt
        starts to run with the first piece that is asked for.

    Raises:
        GenerationError: The prompt failed; of a stream after the last piece. Otherwise
            as `generate_parallel`.
    """
    context = as_context(ctx)
    if checks.flag("stream", stream):
        checks.integer("retries", retries, 0, MAX_RETRIES)
        if logprobs is not None:
            raise ValueError(
                "logprobs are in a result, and stream=True gives text alone: "
                "Context.submit(stream=True) gives both"
            )
        requests, _ = make_requests(
            context.model,
            [prompt],
            params,
            settings,
            parse_special=parse_special,
            chat=chat,
            system=system,
            strict=strict,
        )
        return _pieces(context, requests[0], ctx)
    call = _make_call(
        context,
        [prompt],
        params,
        settings,
        parse_special=parse_special,
        on_error="stop",
        chat=chat,
        system=system,
        strict=strict,
        retries=retries,
        logprobs=logprobs,
    )
    return run_to_end(lambda: (context, call, ctx), False, [prompt], none_answered)[0]


def _pieces(context: Host, request: Request, owner: object) -> Iterator[str]:
    """The answer of one prompt as it grows. Leaving early cancels it."""
    handle: Handle | None = None
    try:
        with Interrupts() as interrupts:
            handle = Handle(context.loop, request, owner, is_alone=False, stream=True)
        interrupts.deliver()
        yield from handle
    finally:
        if handle is not None:
            handle.cancel()


def _make_call(
    context: Host,
    prompts: object,
    params: SamplingParams | Sequence[SamplingParams] | None,
    settings: SamplingSettings,
    *,
    n: int = 1,
    parse_special: ParseSpecial,
    on_error: OnError,
    chat: bool,
    system: str | None,
    strict: bool,
    retries: int,
    logprobs: int | None,
    places: Sequence[int] | None = None,
) -> Call:
    context.check_open()
    requests, base = make_requests(
        context.model,
        prompts,
        params,
        settings,
        parse_special=parse_special,
        chat=chat,
        system=system,
        n=n,
        strict=strict,
        logprobs=logprobs,
        places=places,
    )
    return Call(
        requests,
        seed=base,
        on_error=checks.choice("on_error", on_error, ON_ERROR),
        n=n,
        retries=checks.integer("retries", retries, 0, MAX_RETRIES),
    )
