"""Probabilities of given continuations and of texts, without generating."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from llamaherd.api.running import none_answered, run_to_end, start
from llamaherd.api.scoring import (
    SPACE,
    made_requests,
    open_context,
    scoring,
)
from llamaherd.core import checks
from llamaherd.core.scores import (
    Continuation,
    PerplexityResults,
    ScoreResults,
)
from llamaherd.model.joined import Joiner
from llamaherd.run.requests import parsing, rendered
from llamaherd.run.scoring import text_request

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from llama_cpp import Llama

    from llamaherd.api.progress import ProgressOption
    from llamaherd.api.scoring import Prepared, Space
    from llamaherd.core.results import Results
    from llamaherd.model.tokens import ParseSpecial, Prompt
    from llamaherd.run.call import OnError
    from llamaherd.run.host import Host
    from llamaherd.run.job import Job

    Messages = Sequence[Mapping[str, object]]


def score_parallel(
    ctx: Host | Llama,
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
    ctx: Host | Llama,
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
    ctx: Host | Llama,
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
    context = open_context(ctx)
    model = context.model
    checks.choice("space", space, SPACE)
    given = rendered(model, prompts, chat=chat, system=system)
    texts = _checked_continuations(continuations, len(given))
    made = made_requests(model, given, texts, space, parse_special, chat=chat)

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
    return context, scoring(context, requests, on_error, journal, convert), ctx


def _checked_continuations(continuations: object, n: int) -> list[list[str]]:
    name = "continuations"
    if isinstance(continuations, str):
        continuations = [continuations] * n
    what = checks.no_list(continuations)
    if (
        what
        or isinstance(continuations, (bytes, bytearray))
        or not isinstance(continuations, Iterable)
    ):
        raise TypeError(
            f"{name} must be a text, or a text or list of texts for each prompt, not "
            f"{what or checks.shown(continuations)}"
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


def perplexity(
    ctx: Host | Llama,
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
    ctx: Host | Llama,
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
    ctx: Host | Llama,
    texts: object,
    *,
    parse_special: ParseSpecial,
    on_error: OnError,
    journal: str | os.PathLike[str] | None,
) -> Prepared[PerplexityResults]:
    context = open_context(ctx)
    model = context.model
    joiner = Joiner(model, parsing(parse_special, chat=False))
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
    made_call = scoring(context, requests, on_error, journal, convert, name="texts")
    return context, made_call, ctx


def _nothing_predicted(n: int) -> PerplexityResults:
    return PerplexityResults(
        tokens=[[] for _ in range(n)],
        token_logprobs=[None] * n,
        errors=[None] * n,
        finish_reasons=["cancelled"] * n,
        stats=none_answered(n).stats,
    )
