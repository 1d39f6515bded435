"""Probabilities without generating: of labels, of given continuations, of texts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Literal

import numpy as np

from llamaherd.api.running import none_answered, run_to_end, start
from llamaherd.core import checks
from llamaherd.core.calibration import METHODS, Calibration, calibrate_batch
from llamaherd.core.calibration import calibrate_contextual as _contextual
from llamaherd.core.errors import ContextClosedError
from llamaherd.core.scores import (
    NORMALIZE,
    ClassifyResults,
    Continuation,
    Normalize,
    PerplexityResults,
    ScoreResults,
)
from llamaherd.journal.recording import recorded
from llamaherd.model.chat import chat_prompts
from llamaherd.model.joined import Joiner
from llamaherd.model.tokens import PARSE_SPECIAL
from llamaherd.run.call import ON_ERROR, Call, OnError
from llamaherd.run.contexts_of_llamas import as_context
from llamaherd.run.labels import checked_labels, classified
from llamaherd.run.scoring import Scoring, scoring_request, text_request

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import TypeVar

    from llama_cpp import Llama

    from llamaherd.api.progress import ProgressOption
    from llamaherd.core.calibration import Method
    from llamaherd.core.request import Request
    from llamaherd.core.results import Results
    from llamaherd.model.model import Model
    from llamaherd.model.tokens import ParseSpecial, Prompt
    from llamaherd.run.context import Context
    from llamaherd.run.job import Job

    _R = TypeVar("_R")
    Prepared = tuple[Context, Scoring[_R], object]
    Messages = Sequence[Mapping[str, object]]
    LabelOption = Collection[str] | Mapping[str, str]

Space = bool | Literal["auto"]
_SPACE: tuple[Space, ...] = ("auto", True, False)


# ---- labels ---------------------------------------------------------------------------


def classify_parallel(
    ctx: Context | Llama,
    prompts: Sequence[Prompt | Messages],
    labels: LabelOption,
    *,
    normalize: Normalize = "sum",
    pmi_prompt: str = "",
    space: Space = "auto",
    parse_special: ParseSpecial = "auto",
    progress: ProgressOption = False,
    on_error: OnError = "continue",
    journal: str | os.PathLike[str] | None = None,
    chat: bool = False,
    system: str | None = None,
) -> ClassifyResults:
    """Tells the probability of each label as the continuation of each prompt.

    No text is generated: a prompt is computed once, and labels as a tree behind it. Those
    of one token cost nothing beyond the prompt. With t_1 .. t_m the tokens of a label
    behind those of the prompt (both tokenized together),

        log P(label) = sum_i log P(t_i | prompt, t_1 .. t_(i-1)) + log P(end),

    where P(end) is 1 less the probabilities of the tokens by which longer labels go on
    from this one, and so 1 where none does. It costs nothing, and labels exclude each
    other: "Sport" is not the likelier for being the beginning of "Sport and games".

    Args:
        ctx: Where to run; a `llama_cpp.Llama` gets a context of its own.
        prompts: As those of `generate_parallel`; with `chat` see there.
        labels: Texts that may follow a prompt; or a mapping of what the model reads to
            what you get: readings with one name add up.
        normalize: What is shared out to give probabilities: "sum": log P(label); "token":
            that by the number of the label's tokens; "byte": by its bytes in UTF-8;
            "pmi": that less log P(label) after `pmi_prompt`.
        pmi_prompt: For "pmi": the prompt, without a text to be judged; "" stands for the
            start of a text.
        space: Whether a space comes between prompt and label; "auto": unless one of them
            has white space there, or with `chat`.
        parse_special: As in `generate_parallel`. Labels are always plain text.
        progress: As in `generate_parallel`, and so are the other arguments.
        on_error: See there.
        journal: See there.
        chat: See there.
        system: See there.

    Returns:
        A row of probabilities for each prompt, in their order.

    Raises:
        As `generate_parallel`.
    """

    def prepare() -> Prepared[ClassifyResults]:
        return _prepare_classify(
            ctx,
            prompts,
            labels,
            normalize=normalize,
            pmi_prompt=pmi_prompt,
            space=space,
            parse_special=parse_special,
            on_error=on_error,
            journal=journal,
            chat=chat,
            system=system,
        )

    def nothing(n: int) -> ClassifyResults:
        known = checked_labels(labels)
        plain: Normalize = "sum" if normalize == "pmi" else normalize
        return classified(none_answered(n), [None] * n, [[]] * n, known, plain)

    return run_to_end(prepare, progress, prompts, nothing)


def start_classify(
    ctx: Context | Llama,
    prompts: Sequence[Prompt | Messages],
    labels: LabelOption,
    *,
    normalize: Normalize = "sum",
    pmi_prompt: str = "",
    space: Space = "auto",
    parse_special: ParseSpecial = "auto",
    on_error: OnError = "continue",
    journal: str | os.PathLike[str] | None = None,
    chat: bool = False,
    system: str | None = None,
) -> Job[ClassifyResults]:
    """Starts what `classify_parallel` does and returns at once; same arguments."""
    return start(
        lambda: _prepare_classify(
            ctx,
            prompts,
            labels,
            normalize=normalize,
            pmi_prompt=pmi_prompt,
            space=space,
            parse_special=parse_special,
            on_error=on_error,
            journal=journal,
            chat=chat,
            system=system,
        )
    )


def _prepare_classify(
    ctx: Context | Llama,
    prompts: object,
    labels: object,
    *,
    normalize: Normalize,
    pmi_prompt: str,
    space: Space,
    parse_special: ParseSpecial,
    on_error: OnError,
    journal: str | os.PathLike[str] | None,
    chat: bool,
    system: str | None,
) -> Prepared[ClassifyResults]:
    context = _open(ctx)
    model = context.model
    known = checked_labels(labels)
    checks.choice("normalize", normalize, NORMALIZE)
    checks.choice("space", space, _SPACE)
    given = _rendered(model, prompts, chat=chat, system=system)
    if normalize == "pmi":
        without = checks.text("pmi_prompt", pmi_prompt)
        given = [*given, *_rendered(model, [without], chat=chat, system=system)]
        if given[-1] == "":
            given[-1] = _start_of_text(model)
    joiner = Joiner(model, _parsing(parse_special, chat=chat))
    made = [
        scoring_request(
            model,
            joiner,
            f"prompts[{i}]",
            prompt,
            [_spaced(prompt, text, space, chat=chat) for text in known.readings],
        )
        for i, prompt in enumerate(given)
    ]
    each = [continuations for _, continuations, _ in made]
    n_tokens = [[len(tokens) for tokens in found] for _, _, found in made]

    def convert(results: Results) -> ClassifyResults:
        return classified(results, each, n_tokens, known, normalize)

    requests = [request for request, _, _ in made]
    return context, _scoring(context, requests, on_error, journal, convert), ctx


def classify_calibrated(
    ctx: Context | Llama,
    prompts: Sequence[Prompt | Messages],
    labels: LabelOption,
    *,
    method: Method = "batch",
    content_free: Sequence[Prompt | Messages] | None = None,
    calibration: Calibration | None = None,
    normalize: Normalize = "sum",
    pmi_prompt: str = "",
    space: Space = "auto",
    parse_special: ParseSpecial = "auto",
    progress: ProgressOption = False,
    on_error: OnError = "continue",
    journal: str | os.PathLike[str] | None = None,
    chat: bool = False,
    system: str | None = None,
) -> ClassifyResults:
    """As `classify_parallel`, calibrated: runs what that needs.

    Args:
        ctx: As in `classify_parallel`, and so are all that are not named here.
        prompts: See there.
        labels: See there.
        method: "batch": fitted to these prompts; "contextual": to `content_free`.
        content_free: For "contextual": the prompts with "N/A", "" or the like in place of
            the text.
        calibration: One that was fitted before, of which nothing is fitted any more.
        normalize: See there.
        pmi_prompt: See there.
        space: See there.
        parse_special: See there.
        progress: See there.
        on_error: See there.
        journal: See there.
        chat: See there.
        system: See there.

    Returns:
        The results, with their `calibration`.

    Raises:
        ValueError: "contextual" without `content_free`, or that with something else.
    """
    checks.choice("method", method, METHODS)
    needs_free = method == "contextual" and calibration is None
    if needs_free == (content_free is None):
        raise ValueError(
            "method='contextual' needs content_free, and nothing else does: prompts "
            "without content"
        )

    def run(some: Sequence[Prompt | Messages], show: ProgressOption) -> ClassifyResults:
        return classify_parallel(
            ctx,
            some,
            labels,
            normalize=normalize,
            pmi_prompt=pmi_prompt,
            space=space,
            parse_special=parse_special,
            progress=show,
            on_error=on_error,
            journal=journal,
            chat=chat,
            system=system,
        )

    if content_free is not None:
        calibration = _contextual(run(content_free, False))
    results = run(prompts, progress)
    return results.calibrated(calibration or calibrate_batch(results))


# ---- continuations --------------------------------------------------------------------


def score_parallel(
    ctx: Context | Llama,
    prompts: Sequence[Prompt | Messages],
    continuations: str | Sequence[str | Sequence[str]],
    *,
    space: Space = False,
    parse_special: ParseSpecial = "auto",
    progress: ProgressOption = False,
    on_error: OnError = "continue",
    journal: str | os.PathLike[str] | None = None,
    chat: bool = False,
    system: str | None = None,
) -> ScoreResults:
    """Tells the log-probability of each token of given continuations.

    Args:
        ctx: As in `classify_parallel`, and so are all that are not named here.
        prompts: See there.
        continuations: One text for all prompts; or for each prompt a text, or a list of
            texts, which are then computed as a tree. They follow as they are.
        space: Whether a space comes before each; "auto": as in `classify_parallel`.
        parse_special: See there.
        progress: See there.
        on_error: See there.
        journal: See there.
        chat: See there.
        system: See there.

    Returns:
        For each prompt its continuations with their log-probabilities. Prompt and
        continuation are tokenized together: where that merges the end of the prompt with
        what follows, the first token of the continuation is the one that holds both.
    """

    def prepare() -> Prepared[ScoreResults]:
        return _prepare_score(
            ctx,
            prompts,
            continuations,
            space=space,
            parse_special=parse_special,
            on_error=on_error,
            journal=journal,
            chat=chat,
            system=system,
        )

    return run_to_end(prepare, progress, prompts, _nothing_scored)


def start_score(
    ctx: Context | Llama,
    prompts: Sequence[Prompt | Messages],
    continuations: str | Sequence[str | Sequence[str]],
    *,
    space: Space = False,
    parse_special: ParseSpecial = "auto",
    on_error: OnError = "continue",
    journal: str | os.PathLike[str] | None = None,
    chat: bool = False,
    system: str | None = None,
) -> Job[ScoreResults]:
    """Starts what `score_parallel` does and returns at once; same arguments."""
    return start(
        lambda: _prepare_score(
            ctx,
            prompts,
            continuations,
            space=space,
            parse_special=parse_special,
            on_error=on_error,
            journal=journal,
            chat=chat,
            system=system,
        )
    )


def _prepare_score(
    ctx: Context | Llama,
    prompts: object,
    continuations: object,
    *,
    space: Space,
    parse_special: ParseSpecial,
    on_error: OnError,
    journal: str | os.PathLike[str] | None,
    chat: bool,
    system: str | None,
) -> Prepared[ScoreResults]:
    context = _open(ctx)
    model = context.model
    checks.choice("space", space, _SPACE)
    given = _rendered(model, prompts, chat=chat, system=system)
    texts = _checked_continuations(continuations, len(given))
    joiner = Joiner(model, _parsing(parse_special, chat=chat))
    made = [
        scoring_request(
            model,
            joiner,
            f"prompts[{i}]",
            prompt,
            [_spaced(prompt, text, space, chat=chat) for text in texts[i]],
        )
        for i, prompt in enumerate(given)
    ]

    def convert(results: Results) -> ScoreResults:
        scored: list[list[Continuation] | None] = []
        for result, (_, each, tokens), own in zip(results, made, texts, strict=True):
            scores = result.scores
            if each is None or scores is None:
                scored.append(None)
                continue
            scored.append(
                [
                    Continuation(
                        text=text,
                        tokens=tokens[j].tolist(),
                        token_logprobs=np.array(each.token_logprobs(j, scores)),
                    )
                    for j, text in enumerate(own)
                ]
            )
        return ScoreResults(
            continuations=scored,
            n_given=[len(own) for own in texts],
            errors=results.errors,
            finish_reasons=results.finish_reasons,
            stats=results.stats,
        )

    requests = [request for request, _, _ in made]
    return context, _scoring(context, requests, on_error, journal, convert), ctx


def _checked_continuations(continuations: object, n: int) -> list[list[str]]:
    name = "continuations"
    if isinstance(continuations, str):
        continuations = [continuations] * n
    if isinstance(continuations, (bytes, bytearray)) or not isinstance(
        continuations, Iterable
    ):
        raise TypeError(
            f"{name} must be a text, or a text or list of texts for each prompt, not "
            f"{checks.shown(continuations)}"
        )
    each = list(continuations)
    if len(each) != n:
        raise ValueError(f"{name} must be {n}, one for each prompt, not {len(each)}")
    out = []
    for i, own in enumerate(each):
        texts = [own] if isinstance(own, str) else own
        if not isinstance(texts, Iterable) or isinstance(texts, (bytes, bytearray)):
            raise TypeError(
                f"{name}[{i}] must be a text or a list of texts, not {checks.shown(own)}"
            )
        out.append([checks.text(f"{name}[{i}][{j}]", t) for j, t in enumerate(texts)])
        if not out[-1] or "" in out[-1]:
            raise ValueError(f"{name}[{i}] must not be empty")
    return out


def _nothing_scored(n: int) -> ScoreResults:
    return ScoreResults(
        continuations=[None] * n,
        n_given=[0] * n,
        errors=[None] * n,
        finish_reasons=["cancelled"] * n,
        stats=none_answered(n).stats,
    )


# ---- texts ----------------------------------------------------------------------------


def perplexity(
    ctx: Context | Llama,
    texts: Sequence[Prompt],
    *,
    parse_special: ParseSpecial = False,
    progress: ProgressOption = False,
    on_error: OnError = "continue",
    journal: str | os.PathLike[str] | None = None,
) -> PerplexityResults:
    """Tells how well the model predicts texts: exp of -1/n times the sum of log P(t_i).

    Each token is predicted from all before it. The first is not: it is the one that the
    model begins texts with, or the text's own where the model has none for that.

    Args:
        ctx: As in `classify_parallel`, and so are progress, on_error and journal.
        texts: Texts or token ids, each at most as long as the model was trained for.
        parse_special: Whether the texts of special tokens in it mean those tokens.
        progress: See there.
        on_error: See there.
        journal: See there.

    Returns:
        A number for each text, and the log-probability of each of its tokens.
    """

    def prepare() -> Prepared[PerplexityResults]:
        return _prepare_perplexity(
            ctx, texts, parse_special=parse_special, on_error=on_error, journal=journal
        )

    return run_to_end(prepare, progress, texts, _nothing_predicted)


def start_perplexity(
    ctx: Context | Llama,
    texts: Sequence[Prompt],
    *,
    parse_special: ParseSpecial = False,
    on_error: OnError = "continue",
    journal: str | os.PathLike[str] | None = None,
) -> Job[PerplexityResults]:
    """Starts what `perplexity` does and returns at once; same arguments."""
    return start(
        lambda: _prepare_perplexity(
            ctx, texts, parse_special=parse_special, on_error=on_error, journal=journal
        )
    )


def _prepare_perplexity(
    ctx: Context | Llama,
    texts: object,
    *,
    parse_special: ParseSpecial,
    on_error: OnError,
    journal: str | os.PathLike[str] | None,
) -> Prepared[PerplexityResults]:
    context = _open(ctx)
    model = context.model
    joiner = Joiner(model, _parsing(parse_special, chat=False))
    made = [
        text_request(model, joiner, f"texts[{i}]", text)
        for i, text in enumerate(checks.prompt_list(texts))
    ]

    def convert(results: Results) -> PerplexityResults:
        tokens = []
        logprobs = []
        for result, (request, each, found) in zip(results, made, strict=True):
            behind = found[0].tolist() if found else []
            tokens.append([*request.tokens, *behind])
            known = each is not None and result.scores is not None
            logprobs.append(
                np.array(each.token_logprobs(0, result.scores or ()))
                if each is not None and known
                else None
            )
        return PerplexityResults(
            tokens=tokens,
            token_logprobs=logprobs,
            errors=results.errors,
            finish_reasons=results.finish_reasons,
            stats=results.stats,
        )

    requests = [request for request, _, _ in made]
    return context, _scoring(context, requests, on_error, journal, convert), ctx


def _nothing_predicted(n: int) -> PerplexityResults:
    return PerplexityResults(
        tokens=[[] for _ in range(n)],
        token_logprobs=[None] * n,
        errors=[None] * n,
        finish_reasons=["cancelled"] * n,
        stats=none_answered(n).stats,
    )


# ---- what all share -------------------------------------------------------------------


def _open(ctx: Context | Llama) -> Context:
    context = as_context(ctx)
    if context.closed:
        raise ContextClosedError("ctx is closed")
    return context


def _rendered(
    model: Model, prompts: object, *, chat: bool, system: str | None
) -> list[object]:
    if checks.flag("chat", chat):
        return list(chat_prompts(model, prompts, system))
    if system is not None:
        raise ValueError(
            f"system needs chat=True; without it there is no place for "
            f"{checks.shown(system)}"
        )
    return checks.prompt_list(prompts)


def _parsing(parse_special: ParseSpecial, *, chat: bool) -> ParseSpecial:
    checks.choice("parse_special", parse_special, PARSE_SPECIAL)
    return True if chat and parse_special == "auto" else parse_special


def _spaced(prompt: object, text: str, space: Space, *, chat: bool) -> str:
    """A continuation with the space that comes before it."""
    if space == "auto":
        before = prompt[-1:] if isinstance(prompt, str) else ""
        space = not (chat or text[0].isspace() or before.isspace())
    return f" {text}" if space else text


def _start_of_text(model: Model) -> object:
    """A prompt without a text: what the model begins texts with, or ends them."""
    info = model.info
    if info.add_bos:
        return ""
    return [next((t for t in (info.bos, info.eos, info.eot) if t >= 0), 0)]


def _scoring(
    context: Context,
    requests: Sequence[Request],
    on_error: OnError,
    journal: str | os.PathLike[str] | None,
    convert: Callable[[Results], _R],
) -> Scoring[_R]:
    call = Call(requests, seed=0, on_error=checks.choice("on_error", on_error, ON_ERROR))
    return Scoring(call if journal is None else recorded(call, context, journal), convert)
