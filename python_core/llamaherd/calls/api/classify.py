"""Probabilities of labels, without text generation."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Unpack

from llamaherd.calls.api.running import (
    host_call,
    none_answered,
    note_slow_file,
    open_context,
    run_to_end,
    start,
)
from llamaherd.calls.asks.calibration import (
    METHODS,
    Calibration,
    Method,
    calibrate_batch,
    checked_calibration,
    coverage_cause,
    low_coverage,
)
from llamaherd.calls.asks.calibration import calibrate_contextual as _contextual
from llamaherd.calls.asks.keywords import ClassifySettings
from llamaherd.calls.asks.labels import check_different, checked_labels, classify_results
from llamaherd.calls.asks.options import ClassifyOptions
from llamaherd.calls.asks.rendering import Rendered, rendered_prompts
from llamaherd.calls.asks.scoring import (
    NOT_SCORED,
    ScoredPrompt,
    scored_prompts,
    with_thoughts,
)
from llamaherd.calls.asks.settings import takes
from llamaherd.calls.chat.conversations import Refused, prompts_or_refusals
from llamaherd.calls.run.call import Call
from llamaherd.calls.run.host import Elsewhere, Host
from llamaherd.engine.core import checks
from llamaherd.engine.core.caller import warn_caller, warn_notes
from llamaherd.engine.core.errors import ArgumentError, ChatTemplateError
from llamaherd.engine.core.keeping import keeping
from llamaherd.engine.core.thinking import Thinking, checked_thinking
from llamaherd.engine.core.words import name_of, number_of, setting
from llamaherd.engine.model.tokens import Prompt, detokenize

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from llama_cpp import Llama

    from llamaherd.calls.asks.scores import ClassifyResults, Normalize
    from llamaherd.calls.journal.journal import Journal
    from llamaherd.calls.run.hosted import HostedCall
    from llamaherd.calls.run.job import Job
    from llamaherd.engine.core.results import Results
    from llamaherd.engine.core.stats import ProgressOption
    from llamaherd.engine.model.model import Model

    Messages = Sequence[Mapping[str, object]]
    LabelOption = Collection[str] | Mapping[str, str]

_MANY_STEPS = 2_000  # for the labels of a prompt: some seconds with a small model
_warned: set[int] = set()  # numbers of labels about which the user knows


@takes(ClassifyOptions, ClassifySettings)
def classify_parallel(
    context: Host | Llama,
    prompts: Iterable[Prompt | Messages | None],
    labels: LabelOption,
    *,
    progress: ProgressOption = False,
    **settings: Unpack[ClassifySettings],
) -> ClassifyResults:
    """Compute the probability of each label as the continuation of each prompt.

    No text is generated. Each prompt is computed once. The labels are then computed
    together, as a tree of tokens after the prompt. Labels of one token add no cost.
    With t_1 .. t_m the tokens of a label after the tokens of the prompt (both
    tokenized together),

        log P(label) = sum_i log P(t_i | prompt, t_1 .. t_(i-1)) + log P(end),

    where P(end) is 1 minus the sum of the probabilities of the tokens with which longer
    labels continue this label. If no label is longer, P(end) is 1. P(end) adds no cost.
    P(end) makes labels mutually exclusive: the probability of "Sport" does not include
    the probability of "Sport and games". P(end) is accurate to 1e-7, so the error of its
    logarithm is up to 1e-7 / P(end).

    Args:
        context: Context to run in; a `llama_cpp.Llama` gets its own context.
        prompts: Prompts as in `generate_parallel`, including `chat`.
        labels: Texts that may follow a prompt. A mapping has a name for each text that
            the model reads; the probabilities of texts with the same name are added.
            Labels are always plain text.
        progress: True to show a progress bar, or a function that is called with a
            `Progress` repeatedly, on the calling thread.
        **settings: Options of classification, see `ClassifyOptions`.

    Returns:
        A row of probabilities for each prompt, in the order of the prompts.

    Raises:
        ValueError: Two labels have the same tokens after a prompt, such as "yes" and "
            yes" if a space is inserted; or an argument is out of range.
        GenerationError: As for `generate_parallel`.

    Warns:
        UserWarning: All labels together are improbable, see `ClassifyResults.notes`.
    """
    options = ClassifyOptions.of(
        ClassifySettings, settings, labels=labels, progress=progress
    )

    def nothing(n: int) -> ClassifyResults:
        known = checked_labels(labels)
        plain: Normalize = "sum" if options.normalize == "pmi" else options.normalize
        return classify_results(none_answered(n), [NOT_SCORED] * n, known, plain)

    results = run_to_end(
        lambda: prepare_classify(context, prompts, options), progress, prompts, nothing
    )
    with keeping(results):
        warn_notes(results.notes)
    return results


@takes(ClassifyOptions, ClassifySettings)
def start_classify(
    context: Host | Llama,
    prompts: Iterable[Prompt | Messages | None],
    labels: LabelOption,
    **settings: Unpack[ClassifySettings],
) -> Job[ClassifyResults]:
    """Start `classify_parallel` in the background and return at once."""
    options = ClassifyOptions.of(ClassifySettings, settings, labels=labels)
    return start(lambda: prepare_classify(context, prompts, options))


def prepare_classify(
    context: Host | Llama,
    prompts: object,
    options: ClassifyOptions,
    *,
    journal: Journal | None = None,
    places: Sequence[int] | None = None,
) -> HostedCall[ClassifyResults]:
    """Create the work of `start_classify`; it does not close a `journal` that is open."""
    context = open_context(context)
    known = checked_labels(options.labels)
    normalize = options.normalize
    texts = prompts_or_refusals(prompts)
    note_slow_file(context, len(texts))
    on_host = partial(
        host_call, context, prompts=prompts, options=options, journal=journal
    )
    if isinstance(context, Elsewhere):
        task = context.labelling(texts, known, options)
        call = Call(task.requests, seed=0, on_error=options.on_error)
        first = next((text for text in texts if isinstance(text, str)), None)
        seen = None if options.chat else first  # the template is on the server
        cause = partial(coverage_cause, seen, chat=False, has_template=True)
        return on_host(call, convert=lambda results: _told(task.convert(results), cause))
    model = context.model
    rendered = rendered_prompts(model, texts, options, is_constrained=True)
    n_beside = int(normalize == "pmi" and bool(rendered))
    if n_beside:
        rendered.append(_pmi_prompt(model, options))
    readings, n_ctx = [known.readings] * len(rendered), context.options["n_ctx"]
    rows = scored_prompts(model, rendered, readings, options, n_ctx)
    names = [f"prompts[{number_of(i)}]" for i in range(len(texts))]
    check_different(known, rows, [*names, "pmi_prompt"][: len(rows)])
    _warn_of_many_steps(rows)
    thinks = isinstance(options.thinking, Thinking)

    def convert(results: Results) -> ClassifyResults:
        labelled = classify_results(results, rows, known, normalize, thinks=thinks)
        return _told(labelled, partial(_cause, rendered, model, chat=options.chat))

    n, seed = options.n_thoughts, options.seed if options.n_thoughts > 1 else 0
    requests = with_thoughts([row.request for row in rows], n, seed, places)
    call = Call(requests, seed=seed, on_error=options.on_error, n=n)
    return on_host(call, convert=convert, n_beside=n_beside)


@takes(ClassifyOptions, ClassifySettings)
def classify_calibrated(
    context: Host | Llama,
    prompts: Iterable[Prompt | Messages | None],
    labels: LabelOption,
    *,
    method: Method = "batch",
    content_free: Sequence[Prompt | Messages] | None = None,
    calibration: Calibration | None = None,
    progress: ProgressOption = False,
    **settings: Unpack[ClassifySettings],
) -> ClassifyResults:
    """Classify prompts with calibrated probabilities.

    Args:
        context: As in `classify_parallel`.
        prompts: As in `classify_parallel`.
        labels: As in `classify_parallel`.
        method: "batch" to fit the calibration to these prompts, "contextual" to fit it to
            `content_free`.
        content_free: For "contextual", the prompts with a text without content, such as
            "N/A" or "".
        calibration: Calibration that was fitted earlier; it is applied, and no new
            calibration is fitted.
        progress: As in `classify_parallel`.
        **settings: Options of classification, see `ClassifyOptions`.

    Returns:
        The results, with their `calibration`.

    Raises:
        ValueError: `content_free` is missing for "contextual" or given for another
            method, or given with `thinking`; or `calibration` is for other labels.
    """
    checks.choice("method", method, METHODS)
    needs_free = method == "contextual" and calibration is None
    if needs_free == (content_free is None):
        raise ArgumentError(
            f"{setting('method', 'contextual')} needs {name_of('content_free')} "
            "(prompts without content), and other methods do not accept it",
            argument="method",
            code="missing",
            form="{problem}",
        )
    if content_free is not None:
        check_contextual(settings.get("thinking"))
    if calibration is not None:
        checked_calibration(calibration, checked_labels(labels).names)

    def run(
        some: Iterable[Prompt | Messages | None], show: ProgressOption
    ) -> ClassifyResults:
        return classify_parallel(context, some, labels, progress=show, **settings)

    if content_free is not None:
        calibration = _contextual(run(content_free, False))
    results = run(prompts, progress)
    return results.calibrated(calibration or calibrate_batch(results))


def check_contextual(thinking: object) -> None:
    """Check that a contextual calibration is not combined with thoughts."""
    if isinstance(checked_thinking("thinking", thinking), Thinking):
        raise ArgumentError(
            f"cannot be combined with {name_of('thinking')}: a prompt without content "
            "gives the model nothing to think about. Use 'batch'",
            argument="method",
            code="conflict",
            form=f"{setting('method', 'contextual')} {{problem}}",
        )


def _warn_of_many_steps(rows: Sequence[ScoredPrompt]) -> None:
    """Warn once if the labels of a prompt take long: progress counts only prompts."""
    scored = next((row for row in rows if row.tree is not None), None)
    if scored is None or scored.tree is None or scored.tree.n_paths < _MANY_STEPS:
        return
    n_labels, n_steps = len(scored.continuations), scored.tree.n_paths
    if n_labels not in _warned:
        _warned.add(n_labels)
        warn_caller(
            f"{n_labels:,} labels take {n_steps:,} steps of the model for each prompt, "
            "as long as an answer of so many tokens: choose among fewer labels, or first "
            "among groups of labels"
        )


def _told(results: ClassifyResults, cause: Callable[[], str]) -> ClassifyResults:
    """Return the results with a note about a low coverage and its cause."""
    low = low_coverage(results.coverage)
    notes = (*results.notes, f"{low}. {cause()}")
    return replace(results, notes=notes) if low else results


def _cause(prompts: Sequence[Rendered], model: Model, *, chat: bool) -> str:
    """Return the likely cause of a low coverage, from the first prompt."""
    pairs = ((one.prompt, one.thought) for one in prompts)
    first, thought = next(
        (one for one in pairs if not isinstance(one[0], Refused)), (None, None)
    )
    if thought is not None:
        first = detokenize(model, (*thought.end, *thought.after), unparse_special=True)
    has_template = model.chat_template is not None
    return coverage_cause(first, chat=chat, has_template=has_template)


def _pmi_prompt(model: Model, options: ClassifyOptions) -> Rendered:
    (prompt,) = rendered_prompts(
        model, [options.pmi_prompt], options, is_constrained=True
    )
    if isinstance(prompt.prompt, Refused):
        raise ChatTemplateError(f"pmi_prompt: {prompt.prompt.reason}")
    return Rendered(_start_of_text(model)) if prompt.prompt == "" else prompt


def _start_of_text(model: Model) -> object:
    """Return a prompt without text: the model's start token, or its end token."""
    info = model.info
    if info.add_bos:
        return ""
    return [next((t for t in (info.bos, info.eos, info.eot) if t >= 0), 0)]
