"""Calls that generate: `generate_parallel`, `start_parallel`, `generate`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeVar, Unpack, overload

from llamaherd.calls.api.running import (
    host_call,
    none_answered,
    note_slow_file,
    open_context,
    run_to_end,
    start,
    stream_pieces,
)
from llamaherd.calls.asks.keywords import (
    GenerateRest,
    GenerateSettings,
    PromptRest,
    PromptSettings,
)
from llamaherd.calls.asks.options import GenerateOptions, Stream
from llamaherd.calls.asks.settings import schemas_of, takes
from llamaherd.calls.chat.conversations import single
from llamaherd.calls.run.call import Call
from llamaherd.calls.run.hosted import HostedCall
from llamaherd.engine.core.caller import warn_of_cut
from llamaherd.engine.core.errors import ArgumentError
from llamaherd.engine.core.sampling import SamplingParams
from llamaherd.engine.core.thinking import Thinking

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from llama_cpp import Llama

    from llamaherd.calls.journal.journal import Journal
    from llamaherd.calls.run.host import Host
    from llamaherd.calls.run.job import Job
    from llamaherd.engine.core.outcome import TextPiece
    from llamaherd.engine.core.results import Result, Results
    from llamaherd.engine.core.stats import ProgressOption
    from llamaherd.engine.model.tokens import Prompt


if TYPE_CHECKING:
    Messages = Sequence[Mapping[str, object]]
    T = TypeVar("T")


@overload
def generate_parallel(
    context: Host | Llama,
    prompts: Iterable[Prompt | Messages | None],
    *,
    schema: type[T],
    progress: ProgressOption = False,
    **settings: Unpack[GenerateRest],
) -> Results[T]: ...
@overload
def generate_parallel(
    context: Host | Llama,
    prompts: Iterable[Prompt | Messages | None],
    *,
    progress: ProgressOption = False,
    **settings: Unpack[GenerateSettings],
) -> Results: ...
@takes(GenerateOptions, GenerateSettings)
def generate_parallel(
    context: Host | Llama,
    prompts: Iterable[Prompt | Messages | None],
    *,
    progress: ProgressOption = False,
    **settings: Unpack[GenerateSettings],
) -> Results:
    """Generate answers to many prompts at once.

    A prompt that fails has an `error` in its result; the other prompts are not affected.

    The seed of prompt i is derived from `seed` and i, and the seed of its sample j > 0
    from the seed of the prompt and j. A seed therefore depends neither on n nor on the
    other prompts and their order. With a schema, the results have the parsed answers in
    `parsed`, see `structured`.

    Args:
        context: Context to run in; a `llama_cpp.Llama` gets its own context.
        prompts: Any number of texts or sequences of token ids; with `chat`, also lists
            of messages.
        progress: True to show a progress bar, or a function that is called with a
            `Progress` repeatedly, on the calling thread.
        **settings: Options of generation, see `GenerateOptions`, and any field of
            `SamplingParams`, such as max_tokens, temperature, stop and choices. A schema,
            regex, grammar or choices may be a list with one element per prompt, None for
            no constraint.

    Returns:
        One result per prompt, in the order of the prompts. With n > 1, this is the result
        of the prompt's first sample; `samples` has the results of all samples.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of range. An invalid grammar, invalid choices or
            a bias of unknown tokens raise an error only if they are the same for all
            prompts. Otherwise only the affected prompts fail.
        Interrupted: Ctrl-C ended the call; `results` has the finished results.
        GenerationError: A prompt failed, and `on_error` is "stop".
        ChatTemplateError: The model has no chat template, or the template refuses the
            messages.
        ContextClosedError: The context was closed.
        ContextError: Memory is insufficient.
        JournalError: The journal cannot be used, or is damaged.

    Warns:
        CutOffWarning: `max_tokens` ended answers before the model did.
        JournalWarning: Results could not be stored, or the journal was removed or moved
            during the call and was created again. In both cases the call returns all
            results.
    """
    options = GenerateOptions.of(GenerateSettings, settings, progress=progress)
    return run_to_end(
        lambda: prepare_generate(context, prompts, options),
        progress,
        prompts,
        lambda count: none_answered(count, options.n),
    )


@overload
def start_parallel(
    context: Host | Llama,
    prompts: Iterable[Prompt | Messages | None],
    *,
    schema: type[T],
    **settings: Unpack[GenerateRest],
) -> Job[Results[T]]: ...
@overload
def start_parallel(
    context: Host | Llama,
    prompts: Iterable[Prompt | Messages | None],
    **settings: Unpack[GenerateSettings],
) -> Job[Results]: ...
@takes(GenerateOptions, GenerateSettings)
def start_parallel(
    context: Host | Llama,
    prompts: Iterable[Prompt | Messages | None],
    **settings: Unpack[GenerateSettings],
) -> Job[Results]:
    """Start `generate_parallel` in the background and return at once.

    Invalid arguments raise an error here, before anything runs.
    """
    options = GenerateOptions.of(GenerateSettings, settings)
    return start(lambda: prepare_generate(context, prompts, options))


def prepare_generate(
    context: Host | Llama,
    prompts: Iterable[Prompt | Messages | None],
    options: GenerateOptions,
    *,
    journal: Journal | None = None,
    places: Sequence[int] | None = None,
    tells_cut: bool = True,
) -> HostedCall[Results]:
    """Create the work of `start_parallel`; it does not close a `journal` that is open."""
    context = open_context(context)
    call = _make_call(context, prompts, options, places)
    note_slow_file(context, len(call.requests))
    tell = _tell(options) if tells_cut else None
    return host_call(context, call, prompts, options, journal=journal, tell=tell)


def _tell(options: GenerateOptions) -> Callable[[Results], None] | None:
    """Return the function that warns of cut answers; None if the caller wants them."""
    params = options.params if isinstance(options.params, list) else [options.params]
    settings = [options.sampling.get("ignore_eos")]
    settings += [
        sampling.ignore_eos for sampling in params if isinstance(sampling, SamplingParams)
    ]
    if any(settings):
        return None
    return lambda results: warn_of_cut([one for many in results.samples for one in many])


@overload
def generate(
    context: Host | Llama,
    prompt: Prompt | Messages,
    *,
    schema: type[T],
    stream: Literal[False] = False,
    **settings: Unpack[PromptRest],
) -> Result[T]: ...
@overload
def generate(
    context: Host | Llama,
    prompt: Prompt | Messages,
    *,
    stream: Literal[False] = False,
    **settings: Unpack[PromptSettings],
) -> Result: ...
@overload
def generate(
    context: Host | Llama,
    prompt: Prompt | Messages,
    *,
    stream: Literal[True, "all"],
    **settings: Unpack[PromptSettings],
) -> Iterator[TextPiece]: ...
@takes(GenerateOptions, PromptSettings)
def generate(
    context: Host | Llama,
    prompt: Prompt | Messages,
    *,
    stream: Stream = False,
    **settings: Unpack[PromptSettings],
) -> Result | Iterator[TextPiece]:
    """Generate the answer to one prompt. Takes the arguments of `generate_parallel`.

    Args:
        context: Context to run in; a `llama_cpp.Llama` gets its own context.
        prompt: Text, token ids, or with `chat` a list of messages.
        stream: Return the answer in pieces while it is generated. "all" also returns
            the pieces of the thought; the `kind` of a piece is "thinking" or "answer".
            Streams support neither `logprobs` nor `retries`, because a piece cannot be
            withdrawn after it was read.
        **settings: Options of generation, see `GenerateOptions`, and any field of
            `SamplingParams`.

    Returns:
        The result, or with `stream` an iterator over pieces of its text. The prompt
        starts to run when the first piece is requested.

    Raises:
        GenerationError: The prompt failed; a stream raises the error after its last
            piece. `generate_parallel` lists other errors.
    """
    context = open_context(context)
    options = GenerateOptions.of(PromptSettings, settings, stream=stream, on_error="stop")
    if options.stream:
        if options.logprobs is not None:
            raise ArgumentError(
                f"are in a result, but stream={options.stream!r} returns only text: "
                "Context.submit(stream=True) returns both",
                argument="logprobs",
            )
        requests, _ = context.requests(single(prompt), options)
        is_all = options.stream == "all"
        return stream_pieces(context, requests[0], with_thought=is_all)
    call = _make_call(context, single(prompt), options)
    work = HostedCall(context, call, tell=_tell(options))
    return run_to_end(lambda: work, False, [prompt], none_answered)[0]


def _make_call(
    context: Host,
    prompts: object,
    options: GenerateOptions,
    places: Sequence[int] | None = None,
) -> Call:
    requests, base = context.requests(prompts, options, places)
    return Call(
        requests,
        seed=base,
        on_error=options.on_error,
        n=options.n,
        retries=options.retries,
        thinks=isinstance(options.thinking, Thinking),
        schemas=() if requests else schemas_of(options),
    )
