"""Results of calls that run a model, in the form of `forms`, and jobs of these calls."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import llamaherd as lh
from llamaherd._r.boundary import clean_data, clean_or_none, form_of
from llamaherd._r.coding import labels_of, text_of, with_places_of_r
from llamaherd._r.files import sha256
from llamaherd._r.forms import (
    Part,
    array,
    factor,
    items,
    parts,
    r_object,
    table,
    table_of,
    value,
    vector,
    with_attribute,
    with_class,
)
from llamaherd.calls.run.embedding import Embeddings, EmbedStats
from llamaherd.calls.structured.columns import read_columns
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


# Markers of chat templates that a model wrote as text, with the role after a marker that
# begins a message.
_ROLE = "(system|user|assistant|model)?"
_MARKERS = re.compile(
    rf"<[|\uff5c](im_start|start_header_id)[|\uff5c]>\s*{_ROLE}"
    r"|<[|\uff5c][^<>\n]*[|\uff5c]>"
    rf"|<start_of_turn>{_ROLE}|<end_of_turn>|</?s>|<(bos|eos|pad)>|\[/?INST\]|<</?SYS>>"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Display:
    """Form of answers: with hashes of these prompts, if any; `clean` without markers."""

    prompts: Sequence[Any] | None
    clean: bool


displays: WeakKeyDictionary[lh.Job[Any], Display] = WeakKeyDictionary()


@form_of.register(lh.Job)
def _(job: lh.Job[Any]) -> dict[str, lh.Job[Any]]:
    return {"job": job}


def job_result(job: lh.Job[Any]) -> Any:  # results of any call
    """Wait for a job; R itself raises the error about failed prompts."""
    try:
        results = job.results()
    except lh.GenerationError as error:
        results = error.results
    part: Part = form_of(results)
    display = displays.get(job)
    if display is None:
        return part
    if display.clean:
        part["values"] = list(map(_without_markers, part["values"]))
    prompts, answers = display.prompts, part["values"]
    if prompts is None:
        return part
    n = len(answers) // max(1, len(prompts))
    texts = [_text_of_prompt(prompt) for prompt in prompts]
    inputs = [digest for digest in sha256(texts) for _ in range(n)]
    hashes = parts(input=_hashes(inputs), output=_hashes(sha256(answers)))
    return with_attribute(part, "hashes", hashes)


def _without_markers(text: str | None) -> str | None:
    if text is None:
        return None
    return _MARKERS.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).strip(" \t\n")


def _hashes(texts: list[str | None]) -> Part:
    return {"type": "text", "values": texts}


def _text_of_prompt(prompt: Any) -> str | None:  # any prompt of R
    """Return a prompt as R shows it in one text; None for a missing prompt."""
    if prompt is None or isinstance(prompt, str):
        return prompt
    if prompt and isinstance(prompt[0], dict):
        return "\n".join(message["content"] for message in prompt)
    return " ".join(map(str, prompt))


@form_of.register(Path)
def _(path: Path) -> str:
    return str(path)


@form_of.register
def _(stats: lh.Stats) -> Part:
    numbers = {f.name: getattr(stats, f.name) for f in dataclasses.fields(stats)}
    actors = numbers.pop("actors")
    tables = {}
    if actors:
        names = " ".join(f.name for f in dataclasses.fields(ActorStats))
        tables["actors"] = table_of(actors, names)
    return r_object("stats", tables, page=stats, numbers=numbers)


@form_of.register(EmbedStats)
def _(stats: EmbedStats) -> Part:
    return r_object("stats", dataclasses.asdict(stats), page=stats)


@form_of.register
def _(results: lh.Results) -> Part:
    answers = [result for samples in results.samples for result in samples]
    counts = "n_prompt_tokens n_reused_tokens n_generated_tokens"
    cells = (
        thought_cells(lh.Results(answers, results.stats)) if results.has_thoughts else {}
    )
    return with_class(
        vector("text", map(text_of, answers)),
        "result",
        errors=_errors(result.error for result in answers),
        finish_reason=vector("text", [result.finish_reason for result in answers]),
        partial=vector("text", [result.partial for result in answers]),
        complete=vector("flag", [result.complete for result in answers]),
        usage=table_of(answers, f"{counts} seed"),
        timing=_timing([result.stats for result in answers]),
        thoughts=table(_thoughts(cells), len(answers)) if cells else None,
        logprobs=value(_logprobs(answers)),
        stats=results.stats,
    )


@form_of.register
def _(results: lh.types.ClassifyResults) -> Part:
    names, between = results.names, results.between
    columns = [factor(results.labels, names, "label")]
    columns += [
        vector("number", getattr(results, name), name)
        for name in ("prob", "margin", "entropy", "coverage")
    ]
    columns += [
        vector("number", probs, f"p_{name}")
        for name, probs in zip(names, results.probs.T, strict=True)
    ]
    further = results.further()
    if "between" in further:
        columns.append(vector("number", further["between"], "between"))
    return _task_table(
        [*columns, *_thoughts(further)],
        results,
        logprobs=array(results.logprobs, names),
        between=None if between is None else array(between, names),
        timing=_timing(results.requests),
        notes=vector("text", results.notes),
    )


@form_of.register
def _(results: lh.types.ScoreResults) -> Part:
    """Return a row for each continuation; NA after a failure."""
    places = [(i, j) for i, n in enumerate(results.n_given) for j in range(n)]
    continuations = results.continuations
    rows = [
        None if (of_prompt := continuations[i]) is None else of_prompt[j]
        for i, j in places
    ]
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
        *_thoughts(results.further([i for i, _ in places])),
    ]
    return _task_table(columns, results, n=len(rows))


@form_of.register
def _(results: lh.types.PerplexityResults) -> Part:
    logprobs = zip(results.n_tokens, results.token_logprobs, strict=True)
    counts = [None if of_text is None else n for n, of_text in logprobs]
    columns = [vector("number", results.perplexity, "perplexity")]
    return _task_table([*columns, vector("integer", counts, "n_tokens")], results)


@form_of.register(Embeddings)
def _(embeddings: Embeddings) -> Part:
    return with_class(
        array(embeddings.vectors),
        "vectors",
        errors=_errors(embeddings.errors),
        finish_reason=vector(
            "text",
            ["stop" if error is None else "error" for error in embeddings.errors],
        ),
        stats=embeddings.stats,
    )


@form_of.register(OptimizeReport)
def _(report: OptimizeReport) -> Part:
    return with_class(
        table_of(report.rows, FileRow.__annotations__),
        "optimize",
        path=str(report.path),
        chosen=vector("text", [report.chosen]),
        verdict=report.verdict,
        page=str(report).split("\n"),
    )


@form_of.register
def _(coded: lh.Coded) -> Part:
    """Return new columns by role, and their record.

    `columns` leaves out the fields of generated answers, which R reads from `answers`,
    JSON with R's positions of quotes.
    """
    frame = {role: coded.frame[name] for role, name in coded.columns.items()}
    frame = with_places_of_r(frame, coded.codebook)
    roles = list(frame)
    # The columns about thoughts come directly before the column of errors.
    thoughts = roles[-4:-1] if coded.run["settings"].get("thinking") else []
    is_generated = coded.codebook.kind.is_generated
    of_columns = [*thoughts, roles[-1]] if is_generated else roles
    kinds = dict(zip(thoughts, _THOUGHT_KINDS, strict=True)) if thoughts else {}
    columns = []
    for role in of_columns:
        if role == roles[-1]:
            columns.append(vector("text", coded.errors, role))
        elif role == "label" and not is_generated:
            columns.append({**_labels(coded), "name": role})
        else:
            kind = kinds.get(role) or _KINDS_OF_ROLES.get(role, "number")
            columns.append(vector(kind, frame[role], role))
    answers = labels_of(coded.labels, coded.codebook) if is_generated else None
    return parts(
        columns=table(columns, len(coded.labels)),
        labels=vector("text", coded.labels),
        answers=answers,
        errors=vector("text", coded.errors),
        error_codes=vector("text", codes_of(coded.errors)),
        names=vector("text", coded.names),
        run=json.dumps(coded.run, ensure_ascii=False),
        stats=coded.stats,
        notes=vector("text", coded.notes),
    )


def labels_so_far(coded: lh.Coded | None) -> Part | None:
    """Return texts with their labels; None without any label."""
    if coded is None or all(label is None for label in coded.labels):
        return None
    rows = zip(coded.frame[coded.text], coded.labels, coded.errors, strict=True)
    return table_of(rows, "text label error")


def _labels(coded: lh.Coded) -> Part:
    """Return labels as R's factor, numbers, or texts if a text may have several."""
    numbers_of_labels = coded.codebook.numbers
    if numbers_of_labels is not None:
        number_of = dict(
            zip(coded.codebook.names, map(float, numbers_of_labels), strict=True)
        )
        numbers = [None if label is None else number_of[label] for label in coded.labels]
        is_whole = all(number.is_integer() for number in number_of.values())
        return vector("integer" if is_whole else "number", numbers)
    if coded.codebook.kind.is_several:
        return vector("text", coded.labels)
    is_ordered = coded.codebook.type == "ordinal"
    return factor(coded.labels, coded.names, ordered=is_ordered)


def _thoughts(cells: Mapping[str, Sequence[Any]]) -> list[Part]:
    """Return the columns about thoughts; [] without thoughts."""
    kinds = zip(THOUGHT_COLUMNS, _THOUGHT_KINDS, strict=True)
    return [vector(kind, cells[name], name) for name, kind in kinds if name in cells]


def _timing(requests: Sequence[Any]) -> Part:
    """Return times in seconds since the call began; NA for a missing time."""
    columns = [
        vector("number", [getattr(request, name, None) for request in requests], name)
        for name in _TIMES
    ]
    return table(columns, len(requests))


def _errors(errors: Any) -> Part:  # texts or None
    return vector("text", map(clean_or_none, errors))


def _task_table(
    columns: Sequence[Part],
    results: lh.types.ClassifyResults
    | lh.types.ScoreResults
    | lh.types.PerplexityResults,
    n: int | None = None,
    **attributes: Part | None,
) -> Part:
    """Return a table of a call, with attributes that have an element per prompt."""
    return with_class(
        table(columns, len(results) if n is None else n),
        "table",
        errors=_errors(results.errors),
        finish_reason=vector("text", results.finish_reasons),
        stats=results.stats,
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
    column: dict[str, Any] = clean_data(read_columns(schemas).to_dict())
    return column
