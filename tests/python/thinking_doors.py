"""Doors to a model that thinks: the columns of the table of `thinking_behaviours`.

A door is an interface with the abilities that behaviours need: `ask` returns results;
`pause`, `samples`, `journal`, `stream` and `cancel` obtain the same results in another
way, and check them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import llamaherd as lh
import thinking_behaviours as data
from thinking_behaviours import CONTEXTS, Behaviour, Told
from waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = {
    "type": "object",
    "properties": {"kind": {"enum": ["yes", "no"]}},
    "required": ["kind"],
    "additionalProperties": False,
}
N_SAMPLES = 3
LABELS = ["yes", "no"]
FORMS: dict[str, dict[str, Any]] = {
    "generate": {"max_tokens": 8},
    "choices": {"choices": LABELS},
    "schema": {"schema": SCHEMA, "max_tokens": 24},
    "regex": {"regex": "yes|no"},
}
# Another prompt, which runs after a thought was cancelled.
AFTER_CANCELLED = Behaviour(name="after", texts=("A #!",), results=(), thinking=None)


class Desk:
    """The model with all its contexts, each created at its first use."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = data.write_model(folder / "model.gguf")
        self._open = ExitStack()
        self._contexts: dict[str, lh.Context] = {}
        self._n_files = 0

    @cached_property
    def model(self) -> lh.Model:
        return self._open.enter_context(lh.Model(self.path))

    def context(self, name: str) -> lh.Context:
        if name not in self._contexts:
            context = lh.Context(self.model, n_threads=1, **CONTEXTS[name])
            self._contexts[name] = self._open.enter_context(context)
        return self._contexts[name]

    @cached_property
    def cluster(self) -> Any:
        context = {"deterministic": True}
        config = lh.ray.Config(self.path, concurrency=1, num_cpus=0.5, context=context)
        return self._open.enter_context(lh.ray.Cluster(config))

    def file(self, name: str) -> Path:
        """A new path."""
        self._n_files += 1
        return self.folder / f"{self._n_files}-{name}"

    def close(self) -> None:
        self._open.close()


Ability: TypeAlias = Callable[[Desk, Behaviour], list[Told]]
Host: TypeAlias = Callable[[Desk, str], Any]


@dataclass(frozen=True, slots=True)
class Door:
    """A column of the table.

    Attributes:
        name: Name.
        abilities: Functions by name of the ability.
        is_held: Whether the answers are constrained or scored.
    """

    name: str
    abilities: Mapping[str, Ability] = field(repr=False)
    is_held: bool = False


def has(door: str, behaviour: Behaviour) -> bool:
    """Return whether a door has a behaviour; if not, check that a reason is given."""
    return door not in behaviour.lacks


def arguments(behaviour: Behaviour) -> dict[str, Any]:
    return {"chat": True, "thinking": behaviour.thinking, **behaviour.options}


def sure(probability: float) -> bool:
    """Return whether the answer follows the thought (inside one: about 1e-5)."""
    return probability > 0.9


def abilities_of(
    call: Callable[..., Any],
    rows: Callable[[Any], list[Told]],
    host: Host,
    samples: Mapping[str, Any],
) -> dict[str, Ability]:
    """Return the abilities of every kind of call.

    Args:
        call: Function of a host, a behaviour and more arguments.
        rows: Function that returns what the results of a call tell.
        samples: Name and settings of several samples or thoughts.
    """

    def run(desk: Desk, behaviour: Behaviour, **more: Any) -> Any:
        return call(host(desk, behaviour.context), behaviour, **more)

    def plain(desk: Desk, behaviour: Behaviour) -> list[Told]:
        results = run(desk, behaviour)
        if "shared" in behaviour.name:
            assert results.stats.n_reused_tokens > 0
        # Forced tokens are not counted as prompt tokens, and no token is computed
        # twice.
        answers = rows(results)
        assert results.stats.n_thinking_tokens == sum(row.n_tokens for row in answers)
        return answers

    def pause(desk: Desk, behaviour: Behaviour) -> list[Told]:
        results = run(desk, behaviour)
        assert results.stats.n_pauses > 0
        return rows(results)

    def several(desk: Desk, behaviour: Behaviour) -> list[Told]:
        results = run(desk, behaviour, seed=3, **samples)
        assert results.stats.n_thoughts == N_SAMPLES
        for drawn in results.samples if isinstance(results, lh.Results) else ():
            assert len({result.seed for result in drawn}) == N_SAMPLES
            for answer in map(answer_of, drawn):
                assert answer.thinking is not None
                assert 0 < answer.n_tokens <= data.BUDGET
        return rows(run(desk, behaviour))

    def journal(desk: Desk, behaviour: Behaviour) -> list[Told]:
        path = desk.file("journal")
        first = rows(run(desk, behaviour, journal=path))
        again = run(desk, behaviour, journal=path)
        assert again.stats.n_journal == len(first)
        assert rows(again) == first
        return first

    return {"ask": plain, "pause": pause, "samples": several, "journal": journal}


# ---- answers ---------------------------------------------------------------------------


def answer_of(result: lh.Result) -> Told:
    if result.error is not None:
        return data.FAILED
    answer = result.text
    if result.parsed is not None:
        assert result.complete
        answer = result.parsed["kind"]
    thought = result.thinking, result.n_thinking_tokens, result.thinking_complete
    return Told(*thought, answer)


def told_by(results: lh.Results) -> list[Told]:
    return [answer_of(result) for result in results]


def generator(form: str, host: Host) -> dict[str, Ability]:
    """Return the abilities of generating calls, for one kind of constraint."""

    def generate(context: Any, behaviour: Behaviour, **more: Any) -> lh.Results:
        how = {**FORMS[form], **arguments(behaviour), **more}
        return lh.generate_parallel(context, list(behaviour.texts), **how)

    def stream(desk: Desk, behaviour: Behaviour) -> list[Told]:
        how = {**FORMS[form], **arguments(behaviour)}
        context, [text] = host(desk, behaviour.context), behaviour.texts
        pieces = list(lh.generate(context, text, stream="all", **how))
        kinds = [piece.kind for piece in pieces]
        assert kinds == sorted(kinds, reverse=True)
        assert set(kinds) == {"thinking", "answer"}
        whole = lh.generate(context, text, **how)
        for kind, expected in (("thinking", whole.thinking), ("answer", whole.text)):
            assert "".join(p for p in pieces if p.kind == kind) == expected
        return [answer_of(whole)]

    def cancel(desk: Desk, behaviour: Behaviour) -> list[Told]:
        how = {**FORMS[form], **arguments(behaviour)}
        context, [text] = host(desk, behaviour.context), behaviour.texts
        handle = context.submit(text, stream=True, **how)
        next(iter(handle.pieces()))
        handle.cancel()
        result = handle.result(60)
        assert result.finish_reason == "cancelled"
        assert (result.text, result.tokens) == (None, [])
        assert 0 < result.n_thinking_tokens < data.ENDLESS
        assert result.thinking_complete is None
        return told_by(generate(context, AFTER_CANCELLED))

    samples = {"n": N_SAMPLES, "temperature": 2.0}
    common = abilities_of(generate, told_by, host, samples)
    return {**common, "stream": stream, "cancel": cancel}


# ---- scores ----------------------------------------------------------------------------


def classified(results: lh.types.ClassifyResults) -> list[Told]:
    rows = []
    for i, error in enumerate(results.errors):
        if error is not None:
            rows.append(data.FAILED)
            continue
        assert sure(math.exp(results.logprobs[i][LABELS.index("yes")]))
        thought = results.thinking[i], results.n_thinking_tokens[i]
        rows.append(Told(*thought, results.thinking_complete[i], results.labels[i]))
    return rows


def classify(host: Any, behaviour: Behaviour, **more: Any) -> lh.types.ClassifyResults:
    how = {**arguments(behaviour), **more}
    return lh.classify_parallel(host, list(behaviour.texts), LABELS, **how)


def scored(results: lh.types.ScoreResults) -> list[Told]:
    rows = []
    for i, error in enumerate(results.errors):
        if error is not None:
            rows.append(data.FAILED)
            continue
        assert sure(math.exp(results.logprob[i][0]))
        thought = results.thoughts[i] if results.thoughts else None
        if thought is None:
            rows.append(data.NONE)
        else:
            rows.append(Told(thought.text, thought.n_tokens, thought.is_complete, "yes"))
    return rows


def score(host: Any, behaviour: Behaviour, **more: Any) -> lh.types.ScoreResults:
    how = {**arguments(behaviour), **more}
    texts = list(behaviour.texts)
    return lh.score_parallel(host, texts, [LABELS] * len(texts), **how)


def annotated(coded: lh.Coded) -> list[Told]:
    rows = []
    columns = {name: list(coded.frame[name]) for name in coded.frame}
    n = len(coded.errors)
    thoughts = [columns.get(name, [None] * n) for name in data.COLUMNS]
    for i, error in enumerate(coded.errors):
        if error is not None:
            rows.append(data.FAILED)
            continue
        assert sure(columns["coverage"][i])
        thinking, n_tokens, is_complete = (column[i] for column in thoughts)
        rows.append(Told(thinking, n_tokens or 0, is_complete, columns["label"][i]))
    return rows


def annotate(host: Any, behaviour: Behaviour, **more: Any) -> lh.Coded:
    how = {**arguments(behaviour), **more}
    frame = {"text": list(behaviour.texts)}
    return lh.annotate(frame, "text", data.codebook(), host, **how)


def ended(results: Any) -> list[str]:
    """Return the finish reason of each prompt; coded texts have another word for it."""
    if isinstance(results, lh.Coded):
        word = "not computed: the call ended before"
        return ["cancelled" if error == word else "?" for error in results.errors]
    return list(results.finish_reasons)


STARTS: dict[str, Callable[..., Any]] = {
    "classify": lambda host, text, **how: lh.start_classify(host, [text], LABELS, **how),
    "score": lambda host, text, **how: lh.start_score(host, [text], [LABELS], **how),
    "annotate": lambda host, text, **how: lh.start_annotate(
        {"text": [text]}, "text", data.codebook(), host, **how
    ),
}


def scorer(
    name: str, call: Callable[..., Any], rows: Callable[[Any], list[Told]]
) -> dict[str, Ability]:
    """Return the abilities of scores."""

    def cancel(desk: Desk, behaviour: Behaviour) -> list[Told]:
        context, [text] = desk.context(behaviour.context), behaviour.texts
        job = STARTS[name](context, text, **arguments(behaviour))
        wait_until(lambda: context.load.n_running > 0)
        job.cancel()
        assert ended(job.results()) == ["cancelled"]
        return rows(call(context, AFTER_CANCELLED))

    common = abilities_of(call, rows, Desk.context, {"n_thoughts": N_SAMPLES})
    return {**common, "cancel": cancel}


DOORS = (
    *(Door(form, generator(form, Desk.context), form != "generate") for form in FORMS),
    Door("classify", scorer("classify", classify, classified), is_held=True),
    Door("score", scorer("score", score, scored), is_held=True),
    Door("annotate", scorer("annotate", annotate, annotated), is_held=True),
    Door("Ray", generator("generate", lambda desk, _: desk.cluster)),
)
