"""What the R package calls: plain lists and scalars in, a dict out, nothing raised.

reticulate's conversions decide the shape of what is here: it gives exceptions other
classes from version to version, so they are returned as data; it cuts texts at lone
surrogates and refuses NUL characters; integers beyond 32 bits become 0, so what may be
that large goes as a float.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import traceback
import warnings
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import numpy as np

import llamaherd as lh
from llamaherd.api.embed import speed
from llamaherd.api.progress import rates
from llamaherd.core.sampling import OF_REQUEST
from llamaherd.model.chat import chat_prompts
from llamaherd.native import shim
from llamaherd.optimize.report import FileRow

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_P = ParamSpec("_P")
_T = TypeVar("_T")
Status = dict[str, Any]

NO_TEXT: list[int] = []  # stands for a missing prompt: no tokens, so it fails by itself


def _boundary(function: Callable[_P, object]) -> Callable[_P, Status]:
    """Makes a function return a dict, whatever happens.

    KeyboardInterrupt passes: it is how reticulate tells R of Ctrl-C.
    """

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> Status:
        status: Status = {"ok": False, "value": None}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            warnings.simplefilter("always", RuntimeWarning)
            try:
                status |= {"ok": True, "value": function(*args, **kwargs)}
            except Exception as error:  # noqa: BLE001 -- R raises it again
                status |= {
                    "error_type": _known_type(error),
                    "message": _clean(str(error)),
                    "traceback": _clean(traceback.format_exc()),
                }
        return status | {"warnings": [_clean(str(item.message)) for item in caught]}

    return call


def _known_type(error: Exception) -> str:
    """The most special class that R knows: the library's, ValueError, TypeError."""
    if isinstance(error, (lh.LlamaHerdError, ValueError, TypeError)):
        for cls in type(error).__mro__:
            if cls.__module__ in {"llamaherd.core.errors", "builtins"}:
                return cls.__name__
    return type(error).__name__


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")


def _clean_or_none(text: str | None) -> str | None:
    return None if text is None else _clean(text)


# ---- models and contexts --------------------------------------------------------------


@_boundary
def backend_init() -> None:
    """Starts libllama's backends."""
    shim.backend_init()


@_boundary
def backend_free() -> None:
    """Frees what libllama keeps for all models."""
    shim.backend_free()


@_boundary
def model_load(path: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Loads a model. Returns it as `python`, with what R prints about it.

    Args:
        path: Of its file.
        options: Arguments of `Model`; `lora`, if any, with a pair for each adapter.
    """
    lora = [tuple(pair) for pair in options.get("lora", ())]
    model = lh.Model(path, **{**options, "lora": lora})
    return {
        "python": model,
        "description": _clean(model.description),
        "size_bytes": float(model.size_bytes),
        "n_ctx_train": model.n_ctx_train,
        "n_vocab": model.n_vocab,
    }


@_boundary
def model_metadata(model: lh.Model) -> dict[str, list[str]]:
    """Keys and values: R takes the keys of a dict for names in its own encoding."""
    metadata = lh.model_metadata(model)
    return {
        "keys": [_clean(key) for key in metadata],
        "values": [_clean(value) for value in metadata.values()],
    }


@_boundary
def context_create(model: lh.Model, options: Mapping[str, Any]) -> dict[str, Any]:
    """Creates a context, returned as `python`."""
    return {"python": lh.Context(model, **options)}


@_boundary
def context_plan(context: lh.Context) -> str | None:
    """What the context was planned to be; None before its first call."""
    return None if context.plan is None else str(context.plan)


@_boundary
def is_closed(thing: lh.Model | lh.Context) -> bool:
    """Whether it can be used no more."""
    return thing.closed


@_boundary
def close(thing: lh.Model | lh.Context) -> None:
    """Gives the memory back."""
    thing.close()


# ---- text -----------------------------------------------------------------------------


@_boundary
def tokenize(
    model: lh.Model, texts: Sequence[str], add_special: bool, parse_special: bool
) -> list[list[int]]:
    """Tokens of each text."""
    return [
        lh.tokenize(model, text, add_special=add_special, parse_special=parse_special)
        for text in texts
    ]


@_boundary
def detokenize(
    model: lh.Model,
    tokens: Sequence[Sequence[int]],
    remove_special: bool,
    unparse_special: bool,
) -> list[str]:
    """Text of each sequence of tokens."""
    return [
        _clean(
            lh.detokenize(
                model, ids, remove_special=remove_special, unparse_special=unparse_special
            )
        )
        for ids in tokens
    ]


@_boundary
def apply_chat_template(
    model: lh.Model,
    conversations: Sequence[Sequence[Mapping[str, object]]],
    template: str | None,
    add_assistant: bool,
    variables: Mapping[str, object],
) -> list[str]:
    """The prompts that a model's template makes of conversations."""
    return [
        _clean(
            lh.apply_chat_template(
                model,
                messages,
                add_generation_prompt=add_assistant,
                template=template,
                variables=dict(variables),
            )
        )
        for messages in conversations
    ]


@_boundary
def schema_prompt(schemas: Sequence[str]) -> list[str]:
    """An instruction for each JSON Schema."""
    return [_clean(lh.structured.schema_prompt(schema)) for schema in schemas]


@_boundary
def sha256(texts: Sequence[str | None]) -> list[str | None]:
    """SHA-256 of the UTF-8 bytes of each text, in hexadecimal."""
    return [
        None if text is None else hashlib.sha256(text.encode()).hexdigest()
        for text in texts
    ]


# ---- requantizing ---------------------------------------------------------------------


@_boundary
def optimize_start(
    path: str, out: str | None, options: Mapping[str, Any]
) -> dict[str, lh.OptimizeJob]:
    """Starts to requantize a model; `job_wait` and `job_cancel` are for its job, too."""
    return {"job": lh.start_optimize(path, out, **options)}


@_boundary
def optimize_result(job: lh.OptimizeJob) -> dict[str, Any] | None:
    """The report, with the files as columns, the original first. None: cancelled."""
    report = job.result()
    if report is None:
        return None
    return {
        "path": _clean(str(report.path)),
        "chosen": report.chosen,
        "verdict": _clean(report.verdict),
        "files": {
            name: [getattr(row, name) for row in report.rows]
            for name in FileRow.__annotations__
        },
    }


# ---- generation -----------------------------------------------------------------------


@_boundary
def generate_start(
    context: lh.Context,
    prompts: Sequence[Any],
    options: Mapping[str, Any],
) -> dict[str, lh.Job[lh.Results]]:
    """Starts to answer prompts; None is one that fails.

    Args:
        context: What to answer them with.
        prompts: Texts or token ids; with `chat` texts or lists of messages.
        options: `sampling`, the fields of SamplingParams; `each`, those of them that have
            one value per prompt; `parse_special`; `on_error`; `strict`; `retries`;
            `logprobs`, or None; if any, `journal`, `chat` and `system`, and `n`.
    """
    sampling = dict(options["sampling"])
    # Unless they are in `each`.
    call = {name: sampling.pop(name) for name in OF_REQUEST if name in sampling}
    each = dict(options["each"])
    parse_special = options["parse_special"]
    if options.get("chat"):
        given = [prompt for prompt in prompts if prompt is not None]
        rendered = iter(chat_prompts(context.model, given, options.get("system")))
        prompts = [None if prompt is None else next(rendered) for prompt in prompts]
        parse_special = True if parse_special == "auto" else parse_special
    # Seeds above 2^31 come as floats.
    if "seed" in call:
        call["seed"] = int(call["seed"])
    if "seed" in each:
        each["seed"] = [int(seed) for seed in each["seed"]]
    if sampling.get("choices") is not None:  # checked once, however many prompts
        sampling["choices"] = lh.SamplingParams(choices=sampling["choices"]).choices
    params: lh.SamplingParams | list[lh.SamplingParams] = lh.SamplingParams(**sampling)
    if each:
        params = [
            lh.SamplingParams(
                **sampling, **{name: values[i] for name, values in each.items()}
            )
            for i in range(len(prompts))
        ]
    job = lh.start_parallel(
        context,
        [NO_TEXT if prompt is None else prompt for prompt in prompts],
        params=params,
        parse_special=parse_special,
        on_error=options["on_error"],
        n=options.get("n", 1),
        journal=options.get("journal"),
        strict=options["strict"],
        retries=options["retries"],
        logprobs=options["logprobs"],
        **call,
    )
    return {"job": job}


@_boundary
def job_wait(
    job: lh.Job[Any] | lh.OptimizeJob | lh.EmbedJob, timeout_s: float
) -> dict[str, Any]:
    """Waits for the end of a job, at most `timeout_s`. Tells how far it is."""
    done = job.wait(timeout_s)
    progress = job.progress
    state = {"done": done, **dataclasses.asdict(progress)}
    if isinstance(progress, lh.Progress):
        state["rates"] = rates(progress)
    elif isinstance(progress, lh.EmbedProgress):
        state["rates"] = speed(progress)
    return state


@_boundary
def job_cancel(job: lh.Job[Any] | lh.OptimizeJob | lh.EmbedJob) -> None:
    """Tells a job to end; returns at once."""
    job.cancel()


@_boundary
def job_result(job: lh.Job[lh.Results]) -> dict[str, Any]:
    """The results as columns, those of each prompt together. Waits for the end of a job.

    That a prompt failed is in the columns, whatever `on_error` says: R makes its own
    error of it, with places that count from 1.
    """
    try:
        results = job.results()
    except lh.GenerationError as error:
        results = error.results
    every = [result for samples in results.samples for result in samples]
    return {
        "texts": [_clean_or_none(result.text) for result in every],
        "errors": [_clean_or_none(result.error) for result in every],
        "partials": [_clean_or_none(result.partial) for result in every],
        "finish_reasons": [result.finish_reason for result in every],
        "complete": [result.complete for result in every],
        "n_prompt_tokens": [result.n_prompt_tokens for result in every],
        "n_reused_tokens": [result.n_reused_tokens for result in every],
        "n_generated_tokens": [result.n_generated_tokens for result in every],
        "seeds": [float(result.seed) for result in every],
        "logprobs": _logprobs(every),
        "stats": _stats(results.stats),
    }


def _logprobs(results: Sequence[lh.Result]) -> list[dict[str, Any] | None]:
    """What `logprobs` asked for, the most likely tokens of all places in one list."""
    return [
        None
        if result.logprobs is None
        else {
            "tokens": result.tokens,
            "logprobs": list(result.logprobs),
            "n_top": [len(top) for top in result.top_logprobs or []],
            "top_tokens": [token for top in result.top_logprobs or [] for token in top],
            "top_logprobs": [
                value for top in result.top_logprobs or [] for value in top.values()
            ],
        }
        for result in results
    ]


# ---- scoring --------------------------------------------------------------------------


def _given(prompts: Sequence[Any], model: lh.Model, options: Mapping[str, Any]) -> Status:
    """Arguments of all calls that score, and `prompts`; None is one that fails."""
    arguments = {name: options[name] for name in ("parse_special", "on_error")}
    arguments["journal"] = options.get("journal")
    if options.get("chat"):
        given = [prompt for prompt in prompts if prompt is not None]
        rendered = iter(chat_prompts(model, given, options.get("system")))
        prompts = [None if prompt is None else next(rendered) for prompt in prompts]
        if arguments["parse_special"] == "auto":
            arguments["parse_special"] = True
    arguments["prompts"] = [NO_TEXT if prompt is None else prompt for prompt in prompts]
    return arguments


@_boundary
def classify_start(
    context: lh.Context, prompts: Sequence[Any], options: Mapping[str, Any]
) -> dict[str, lh.Job[lh.ClassifyResults]]:
    """Starts `classify_parallel`; None is a prompt that fails.

    Args:
        context: Where to run.
        prompts: Texts or token ids; with `chat` texts or lists of messages.
        options: `labels`, which the model reads; `names`, what R gets, as many;
            `normalize`; `pmi_prompt`; `space`; `parse_special`; `on_error`; `journal`, if
            any; `chat` and `system`, if any.
    """
    arguments = _given(prompts, context.model, options)
    pmi_prompt = options.get("pmi_prompt", "")
    if options.get("chat"):
        pmi_prompt = chat_prompts(context.model, [pmi_prompt], options.get("system"))[0]
    labels = _labels(options["labels"], options["names"])
    job = lh.start_classify(
        context,
        labels=labels,
        normalize=options["normalize"],
        pmi_prompt=pmi_prompt,
        space=_space(options),
        **arguments,
    )
    return {"job": job}


def _space(options: Mapping[str, Any]) -> Any:  # noqa: ANN401 - one of its choices
    """Whether a space comes before what follows; a chat that is rendered needs none."""
    space = options["space"]
    return False if options.get("chat") and space == "auto" else space


def _labels(readings: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """What the model reads, by which R gets what.

    Raises:
        ValueError: A reading is there twice.
    """
    labels = dict(zip(readings, names, strict=True))
    if len(labels) < len(readings):
        raise ValueError("labels must be different texts: one is there twice")
    return labels


@_boundary
def classify_result(job: lh.Job[lh.ClassifyResults]) -> dict[str, Any]:
    """The results as columns, matrices by rows. Waits for the end of the job."""
    results = _results(job)
    return {
        "names": [_clean(name) for name in results.names],
        "labels": [_clean_or_none(label) for label in results.labels],
        "probs": results.probs.tolist(),
        "logprobs": results.logprobs.tolist(),
        "prob": results.prob.tolist(),
        "margin": results.margin.tolist(),
        "entropy": results.entropy.tolist(),
        "coverage": results.coverage.tolist(),
        **_outcome(results),
    }


@_boundary
def score_start(
    context: lh.Context, prompts: Sequence[Any], options: Mapping[str, Any]
) -> dict[str, lh.Job[lh.ScoreResults]]:
    """Starts `score_parallel`; None is a prompt that fails.

    Args:
        context: Where to run.
        prompts: As for `classify_start`.
        options: `continuations`, a list for each prompt; others as for `classify_start`.
    """
    job = lh.start_score(
        context,
        continuations=options["continuations"],
        space=_space(options),
        **_given(prompts, context.model, options),
    )
    return {"job": job}


@_boundary
def score_result(job: lh.Job[lh.ScoreResults]) -> dict[str, Any]:
    """The results, a row for each continuation given; None and NaN: it failed."""
    results = _results(job)
    rows = [
        (None if each is None else each[j])
        for each, n in zip(results.continuations, results.n_given, strict=True)
        for j in range(n)
    ]
    return {
        "logprobs": [float("nan") if row is None else row.logprob for row in rows],
        "token_logprobs": [
            None if row is None else row.token_logprobs.tolist() for row in rows
        ],
        **_outcome(results),
    }


@_boundary
def perplexity_start(
    context: lh.Context, texts: Sequence[Any], options: Mapping[str, Any]
) -> dict[str, lh.Job[lh.PerplexityResults]]:
    """Starts `perplexity`; None is a text that fails.

    Args:
        context: Where to run.
        texts: Texts or token ids.
        options: `parse_special`; `on_error`; `journal`, if any.
    """
    arguments = _given(texts, context.model, options)
    return {"job": lh.start_perplexity(context, arguments.pop("prompts"), **arguments)}


@_boundary
def perplexity_result(job: lh.Job[lh.PerplexityResults]) -> dict[str, Any]:
    """The results as columns. Waits for the end of the job."""
    results = _results(job)
    known = [each is not None for each in results.token_logprobs]
    return {
        "perplexities": results.perplexity.tolist(),
        "n_tokens": [
            float(n) if is_known else float("nan")
            for n, is_known in zip(results.n_tokens, known, strict=True)
        ],
        **_outcome(results),
    }


@_boundary
def calibration_fit(
    probs: Sequence[Sequence[float]], names: Sequence[str], method: str
) -> str:
    """Fits a calibration to probabilities, by rows. Returns it as JSON, for `apply`."""
    fit = {"batch": lh.calibrate_batch, "contextual": lh.calibrate_contextual}[method]
    calibration = fit(np.array(probs, dtype=float).reshape(len(probs), len(names)))
    return dataclasses.replace(calibration, names=tuple(names)).to_json()


@_boundary
def calibration_apply(
    calibration: str, probs: Sequence[Sequence[float]], names: Sequence[str]
) -> dict[str, Any]:
    """Calibrates probabilities, by rows. Returns what `classify_result` says of them."""
    made = lh.Calibration.from_json(calibration)
    made.check_names(names)
    values = made.apply(np.array(probs, dtype=float).reshape(len(probs), len(names)))
    results = lh.ClassifyResults(
        names=tuple(names),
        probs=values,
        logprobs=values,
        normalize="sum",
        errors=[None] * len(values),
        finish_reasons=["stop"] * len(values),
        stats=lh.Stats(),
    )
    return {
        "labels": results.labels,
        "probs": values.tolist(),
        "prob": results.prob.tolist(),
        "margin": results.margin.tolist(),
        "entropy": results.entropy.tolist(),
    }


def _results(job: lh.Job[_T]) -> _T:
    """A job's results, also where a prompt failed and that stopped the call."""
    try:
        return job.results()
    except lh.GenerationError as error:
        results: _T = error.results
        return results


def _outcome(
    results: lh.ClassifyResults | lh.ScoreResults | lh.PerplexityResults,
) -> dict[str, Any]:
    return {
        "errors": [_clean_or_none(error) for error in results.errors],
        "finish_reasons": list(results.finish_reasons),
        "stats": _stats(results.stats),
    }


@_boundary
def embed_start(
    model: lh.Model | lh.Context, texts: Sequence[Any], options: Mapping[str, Any]
) -> dict[str, lh.EmbedJob]:
    """Starts to make vectors; None is a text that fails.

    Args:
        model: What to make them with.
        texts: Texts or token ids.
        options: Arguments of `embed_parallel`.
    """
    given = [NO_TEXT if text is None else text for text in texts]
    return {"job": lh.start_embed(model, given, **options)}


@_boundary
def embed_result(job: lh.EmbedJob) -> dict[str, Any]:
    """The vectors as bytes, float32 row by row. Waits for the end of the job."""
    results = job.results()
    return {
        "vectors": bytearray(results.vectors.astype("<f4").tobytes()),
        "n_embd": results.vectors.shape[1],
        "errors": [_clean_or_none(error) for error in results.errors],
        "stats": {
            **dataclasses.asdict(results.stats),
            "line": str(results.stats),
        },
    }


@_boundary
def journal_read(path: str) -> dict[str, list[Any]]:
    """What a journal holds, as columns."""
    entries = lh.journal_read(path)
    return {
        "prompts": [_clean(entry.prompt) for entry in entries],
        "texts": [_clean_or_none(entry.text) for entry in entries],
        "finish_reasons": [entry.finish_reason for entry in entries],
        "complete": [entry.complete for entry in entries],
        "errors": [_clean_or_none(entry.error) for entry in entries],
        "n_prompt_tokens": [entry.n_prompt_tokens for entry in entries],
        "n_generated_tokens": [entry.n_generated_tokens for entry in entries],
        "seeds": [float(entry.seed) for entry in entries],
        "models": [_clean(entry.model) for entry in entries],
        "model_sha256s": [entry.model_sha256 for entry in entries],
        "settings": [_clean(entry.settings) for entry in entries],
        "created": [entry.created.timestamp() for entry in entries],
        "versions": [entry.version for entry in entries],
    }


def _stats(stats: lh.Stats) -> dict[str, Any]:
    numbers = {name: float(value) for name, value in dataclasses.asdict(stats).items()}
    return {**numbers, "line": str(stats)}
