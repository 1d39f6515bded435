"""Results of calls that run a model, in the form of `forms`, and jobs of these calls."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import llamaherd as lh
from llamaherd._r.boundary import clean_or_none, cleaned, form_of
from llamaherd._r.files import sha256
from llamaherd._r.forms import (
    Part,
    array,
    attributed,
    factor,
    items,
    parts,
    r_object,
    table,
    table_of,
    value,
    vector,
    with_attribute,
)
from llamaherd._r.quotes import labels_of, text_of, with_places_of_r
from llamaherd.calls.run.embedding import Embeddings, EmbedStats
from llamaherd.calls.structured.schema_columns import read_columns
from llamaherd.engine.core.errors import codes_of
from llamaherd.engine.core.results import THOUGHT_COLUMNS, thought_cells
from llamaherd.engine.core.stats import ActorStats
from llamaherd.optimize.report import FileRow, OptimizeReport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_THOUGHT_KINDS = ("text", "integer", "flag")  # of `THOUGHT_COLUMNS`
_TIMES = ("queue_s", "first_token_s", "wall_s")
# Columns of coded texts, by role; all others are numbers.
_KINDS_OF_ROLES = {"quote": "text", "step": "text", "start": "integer", "end": "integer"}


# Prompts of the calls whose results have hashes.
hashed: WeakKeyDictionary[lh.Job[Any], Sequence[Any]] = WeakKeyDictionary()


@form_of.register(lh.Job)
def _(found: lh.Job[Any]) -> dict[str, lh.Job[Any]]:
    return {"job": found}


def job_result(job: lh.Job[Any]) -> Any:  # noqa: ANN401 - results of any call
    """Wait until a job ends; return its results in the form of `forms`.

    For every value of `on_error`, the results contain the failed prompts. R itself raises
    the error about failed prompts, with indices from 1.
    """
    try:
        results = job.results()
    except lh.GenerationError as error:
        results = error.results
    made = form_of(results)
    prompts = hashed.get(job)
    if prompts is None:
        return made
    answers = made["values"]
    n = len(answers) // max(1, len(prompts))
    texts = [_text_of_prompt(prompt) for prompt in prompts]
    inputs = [digest for digest in sha256(texts) for _ in range(n)]
    hashes = parts(input=_hashes(inputs), output=_hashes(sha256(answers)))
    return with_attribute(made, "hashes", hashes)


def _hashes(texts: list[str | None]) -> Part:
    return {"type": "text", "values": texts}


def _text_of_prompt(prompt: Any) -> str | None:  # noqa: ANN401 - any prompt of R
    """Return a prompt as R shows it in one text; None for a missing prompt."""
    if prompt is None or isinstance(prompt, str):
        return prompt
    if prompt and isinstance(prompt[0], dict):
        return "\n".join(message["content"] for message in prompt)
    return " ".join(map(str, prompt))


@form_of.register(Path)
def _(found: Path) -> str:
    return str(found)


@form_of.register
def _(found: lh.Stats) -> Part:
    numbers = {f.name: getattr(found, f.name) for f in dataclasses.fields(found)}
    actors = numbers.pop("actors")
    made = {}
    if actors:
        names = " ".join(f.name for f in dataclasses.fields(ActorStats))
        made["actors"] = table_of(actors, names, text="node")
    return r_object("stats", made, page=found, numbers=numbers)


@form_of.register(EmbedStats)
def _(found: EmbedStats) -> Part:
    return r_object("stats", dataclasses.asdict(found), page=found)


@form_of.register
def _(found: lh.Results) -> Part:
    every = [result for samples in found.samples for result in samples]
    counts = "n_prompt_tokens n_reused_tokens n_generated_tokens"
    cells = thought_cells(lh.Results(every, found.stats)) if found.has_thoughts else {}
    return attributed(
        vector("text", map(text_of, every)),
        "result",
        errors=_errors(result.error for result in every),
        finish_reason=vector("text", [result.finish_reason for result in every]),
        partial=vector("text", [result.partial for result in every]),
        complete=vector("flag", [result.complete for result in every]),
        usage=table_of(every, f"{counts} seed", integer=counts),
        timing=_timing([result.stats for result in every]),
        thoughts=table(_thoughts(cells), len(every)) if cells else None,
        logprobs=value(_logprobs(every)),
        stats=found.stats,
    )


@form_of.register
def _(found: lh.types.ClassifyResults) -> Part:
    names, between = found.names, found.between
    columns = [factor(found.labels, names, "label")]
    columns += [
        vector("number", getattr(found, name), name)
        for name in ("prob", "margin", "entropy", "coverage")
    ]
    columns += [
        vector("number", probs, f"p_{name}")
        for name, probs in zip(names, found.probs.T, strict=True)
    ]
    further = found.further()
    if "between" in further:
        columns.append(vector("number", further["between"], "between"))
    return _task_table(
        [*columns, *_thoughts(further)],
        found,
        logprobs=array(found.logprobs, names),
        between=None if between is None else array(between, names),
        timing=_timing(found.requests),
        notes=vector("text", found.notes),
    )


@form_of.register
def _(found: lh.types.ScoreResults) -> Part:
    """Return a row for each continuation; NA after a failure."""
    places = [(i, j) for i, n in enumerate(found.n_given) for j in range(n)]
    made = found.continuations
    rows = [None if (own := made[i]) is None else own[j] for i, j in places]
    tokens = [
        None if row is None else vector("number", row.token_logprobs) for row in rows
    ]
    counts = [None if row is None else len(row.token_logprobs) for row in rows]
    columns = [
        vector(
            "number", [None if row is None else row.logprob for row in rows], "logprob"
        ),
        vector("integer", counts, "n_tokens"),
        items(tokens, "token_logprobs"),
        *_thoughts(found.further([i for i, _ in places])),
    ]
    return _task_table(columns, found, n=len(rows))


@form_of.register
def _(found: lh.types.PerplexityResults) -> Part:
    known = zip(found.n_tokens, found.token_logprobs, strict=True)
    counts = [None if own is None else n for n, own in known]
    columns = [vector("number", found.perplexity, "perplexity")]
    return _task_table([*columns, vector("integer", counts, "n_tokens")], found)


@form_of.register(Embeddings)
def _(found: Embeddings) -> Part:
    return attributed(
        array(found.vectors),
        "vectors",
        errors=_errors(found.errors),
        stats=found.stats,
    )


@form_of.register(OptimizeReport)
def _(found: OptimizeReport) -> Part:
    return attributed(
        table_of(found.rows, " ".join(FileRow.__annotations__), text="type"),
        "optimize",
        path=str(found.path),
        chosen=vector("text", [found.chosen]),
        verdict=found.verdict,
        page=str(found).split("\n"),
    )


@form_of.register
def _(found: lh.Coded) -> Part:
    """Return new columns by role, and their record.

    `columns` leaves out the fields of generated answers, which R reads from `answers`,
    JSON with R's positions of quotes.
    """
    frame = {role: found.frame[name] for role, name in found.columns.items()}
    frame = with_places_of_r(frame, found.codebook)
    roles = list(frame)
    # The columns about thoughts come directly before the column of errors.
    thoughts = roles[-4:-1] if found.run["settings"].get("thinking") else []
    is_generated = found.codebook.kind.is_generated
    own = [*thoughts, roles[-1]] if is_generated else roles
    kinds = dict(zip(thoughts, _THOUGHT_KINDS, strict=True)) if thoughts else {}
    columns = []
    for role in own:
        if role == roles[-1]:
            columns.append(vector("text", found.errors, role))
        elif role == "label" and not is_generated:
            columns.append({**_labels(found), "name": role})
        else:
            kind = kinds.get(role) or _KINDS_OF_ROLES.get(role, "number")
            columns.append(vector(kind, frame[role], role))
    answers = labels_of(found.labels, found.codebook) if is_generated else None
    return parts(
        columns=table(columns, len(found.labels)),
        labels=vector("text", found.labels),
        answers=answers,
        errors=vector("text", found.errors),
        error_codes=vector("text", codes_of(found.errors)),
        names=vector("text", found.names),
        run=json.dumps(found.run, ensure_ascii=False),
        stats=found.stats,
        notes=vector("text", found.notes),
    )


def labels_so_far(found: lh.Coded | None) -> Part | None:
    """Return texts with their labels; None without any label."""
    if found is None or all(label is None for label in found.labels):
        return None
    rows = zip(found.frame[found.text], found.labels, found.errors, strict=True)
    names = "text label error"
    dicts = [dict(zip(names.split(), row, strict=True)) for row in rows]
    return table_of(dicts, names, text=names)


def _labels(found: lh.Coded) -> Part:
    """Return labels as R's factor, numbers, or texts if a text may have several."""
    known = found.codebook.numbers
    if known is not None:
        number_of = dict(zip(found.codebook.names, map(float, known), strict=True))
        numbers = [None if each is None else number_of[each] for each in found.labels]
        is_whole = all(each.is_integer() for each in number_of.values())
        return vector("integer" if is_whole else "number", numbers)
    if found.codebook.kind.is_several:
        return vector("text", found.labels)
    is_ordered = found.codebook.type == "ordinal"
    return factor(found.labels, found.names, ordered=is_ordered)


def _thoughts(cells: Mapping[str, Sequence[Any]]) -> list[Part]:
    """Return the columns about thoughts; [] without thoughts."""
    kinds = zip(THOUGHT_COLUMNS, _THOUGHT_KINDS, strict=True)
    return [vector(kind, cells[name], name) for name, kind in kinds if name in cells]


def _timing(requests: Sequence[Any]) -> Part:
    """Return times in seconds since the call began; NA for a missing time."""
    columns = [
        vector("number", [getattr(each, name, None) for each in requests], name)
        for name in _TIMES
    ]
    return table(columns, len(requests))


def _errors(errors: Any) -> Part:  # noqa: ANN401 - texts or None
    return vector("text", map(clean_or_none, errors))


def _task_table(
    columns: Sequence[Part],
    found: lh.types.ClassifyResults | lh.types.ScoreResults | lh.types.PerplexityResults,
    n: int | None = None,
    **attributes: Part | None,
) -> Part:
    """Return a table of a call, with attributes that have an element per prompt."""
    return attributed(
        table(columns, len(found) if n is None else n),
        "table",
        errors=_errors(found.errors),
        finish_reason=vector("text", found.finish_reasons),
        stats=found.stats,
        **attributes,
    )


def _logprobs(results: Sequence[lh.Result]) -> list[dict[str, Any] | None] | None:
    """Return log-probabilities; alternatives of all tokens are in one list."""
    if all(result.logprobs is None for result in results):
        return None
    return [
        None
        if result.logprobs is None
        else {
            "tokens": result.tokens,
            "logprobs": list(result.logprobs),
            "n_top": [len(top) for top in result.top_logprobs or []],
            "top_tokens": [token for top in result.top_logprobs or [] for token in top],
            "top_logprobs": [
                number for top in result.top_logprobs or [] for number in top.values()
            ],
        }
        for result in results
    ]


def schema_columns(schemas: Sequence[str]) -> dict[str, Any]:
    """Return the column type for answers that follow one of several JSON Schemas."""
    made: dict[str, Any] = cleaned(read_columns(schemas).to_dict())
    return made
