"""Probabilities of labels, without generating."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.api.running import none_answered, run_to_end, start
from llamaherd.api.scoring import SPACE, made_requests, open_context, scoring
from llamaherd.core import checks
from llamaherd.core.calibration import METHODS, Calibration, calibrate_batch
from llamaherd.core.calibration import calibrate_contextual as _contextual
from llamaherd.core.errors import ChatTemplateError
from llamaherd.core.scores import (
    NORMALIZE,
    ClassifyResults,
    Normalize,
)
from llamaherd.model.chat import Refused
from llamaherd.run.labels import check_different, checked_labels, classified
from llamaherd.run.requests import rendered

if TYPE_CHECKING:
    import os
    from collections.abc import Collection, Mapping, Sequence

    from llama_cpp import Llama

    from llamaherd.api.progress import ProgressOption
    from llamaherd.api.scoring import Prepared, Space
    from llamaherd.core.calibration import Method
    from llamaherd.core.results import Results
    from llamaherd.journal.journal import Journal
    from llamaherd.model.model import Model
    from llamaherd.model.tokens import ParseSpecial, Prompt
    from llamaherd.run.call import OnError
    from llamaherd.run.host import Host
    from llamaherd.run.job import Job

    Messages = Sequence[Mapping[str, object]]
    LabelOption = Collection[str] | Mapping[str, str]


def classify_parallel(
    ctx: Host | Llama,
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
    other: "Sport" is not the likelier for being the beginning of "Sport and games". Of
    P(end) the last 1e-7 are unknown, so its logarithm is off by up to 1e-7 / P(end).

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
        ValueError: Two labels are the same tokens behind a prompt, as "yes" and " yes"
            are where a space comes between; or an argument is out of range.
        GenerationError: As `generate_parallel`.
    """

    def prepare() -> Prepared[ClassifyResults]:
        return prepare_classify(
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
    ctx: Host | Llama,
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
        lambda: prepare_classify(
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


def prepare_classify(
    ctx: Host | Llama,
    prompts: object,
    labels: object,
    *,
    normalize: Normalize,
    pmi_prompt: str,
    space: Space,
    parse_special: ParseSpecial,
    on_error: OnError,
    journal: str | os.PathLike[str] | Journal | None,
    chat: bool,
    system: str | None,
) -> Prepared[ClassifyResults]:
    """The arguments of the `Job` that `start_classify` starts.

    A `journal` that is open stays so.
    """
    context = open_context(ctx)
    model = context.model
    known = checked_labels(labels)
    checks.choice("normalize", normalize, NORMALIZE)
    checks.choice("space", space, SPACE)
    given = rendered(model, prompts, chat=chat, system=system)
    n_beside = int(normalize == "pmi" and bool(given))
    if n_beside:
        without = checks.text("pmi_prompt", pmi_prompt)
        given = [*given, *rendered(model, [without], chat=chat, system=system)]
        if isinstance(given[-1], Refused):
            raise ChatTemplateError(given[-1].reason.replace("prompts[0]", "pmi_prompt"))
        if given[-1] == "":
            given[-1] = _start_of_text(model)
    texts = [known.readings] * len(given)
    made = made_requests(model, given, texts, space, parse_special, chat=chat)
    each = [continuations for _, continuations, _ in made]
    names = [f"prompts[{i}]" for i in range(len(given) - n_beside)]
    check_different(known, each, [*names, "pmi_prompt"])
    n_tokens = [[len(tokens) for tokens in found] for _, _, found in made]

    def convert(results: Results) -> ClassifyResults:
        return classified(results, each, n_tokens, known, normalize)

    requests = [request for request, _, _ in made]
    made_call = scoring(context, requests, on_error, journal, convert, n_beside=n_beside)
    return context, made_call, ctx


def classify_calibrated(
    ctx: Host | Llama,
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
        ValueError: "contextual" without `content_free`, or that with something else; or
            `calibration` is for other labels.
    """
    checks.choice("method", method, METHODS)
    needs_free = method == "contextual" and calibration is None
    if needs_free == (content_free is None):
        raise ValueError(
            "method='contextual' needs content_free, and nothing else does: prompts "
            "without content"
        )
    if calibration is not None:
        calibration.check_names(checked_labels(labels).names)

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


def _start_of_text(model: Model) -> object:
    """A prompt without a text: what the model begins texts with, or ends them."""
    info = model.info
    if info.add_bos:
        return ""
    return [next((t for t in (info.bos, info.eos, info.eot) if t >= 0), 0)]
