"""Python's functions as interfaces (doors) to a model that thinks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import thinking_behaviours as data
from thinking_behaviours import Behaviour, Told
from thinking_desk import (
    AFTER_CANCELLED,
    LABELS,
    N_SAMPLES,
    SCHEMA,
    TEXT,
    Ability,
    Desk,
    arguments,
    sure,
)
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

# ---- answers ---------------------------------------------------------------------------

FORMS: dict[str, dict[str, Any]] = {
    "generate": TEXT,
    "choices": {"choices": LABELS},
    "schema": {"schema": SCHEMA, "max_tokens": 24},
    "regex": {"regex": "yes|no"},
}


def answer_of(result: lh.Result) -> Told:
    if result.error is not None:
        return data.FAILED
    answer = result.text
    if result.parsed is not None:
        assert result.complete
        answer = result.parsed["kind"]
    thought = result.thinking, result.n_thinking_tokens, result.thinking_complete
    return Told(*thought, answer)


def generator(  # noqa: C901 - the abilities are functions of their own
    form: str, host: Callable[[Desk, str], Any]
) -> dict[str, Ability]:
    """Return the abilities of generating calls, for one kind of constraint."""

    def results(desk: Desk, behaviour: Behaviour, **more: Any) -> lh.Results:
        how = {**FORMS[form], **arguments(behaviour), **more}
        on = host(desk, behaviour.context)
        return lh.generate_parallel(on, list(behaviour.texts), **how)

    def ask(desk: Desk, behaviour: Behaviour) -> list[Told]:
        found = results(desk, behaviour)
        if "shared" in behaviour.name:
            assert found.stats.n_reused_tokens > 0
        # Forced tokens are not counted as prompt tokens, and no token is computed
        # twice.
        thoughts = [result.n_thinking_tokens for result in found]
        assert found.stats.n_thinking_tokens == sum(thoughts)
        return [answer_of(result) for result in found]

    def pause(desk: Desk, behaviour: Behaviour) -> list[Told]:
        found = results(desk, behaviour)
        assert found.stats.n_pauses > 0
        return [answer_of(result) for result in found]

    def samples(desk: Desk, behaviour: Behaviour) -> list[Told]:
        found = results(desk, behaviour, n=N_SAMPLES, temperature=2.0, seed=3)
        [each] = found.samples
        assert found.stats.n_thoughts == len(each) == N_SAMPLES
        assert len({result.seed for result in each}) == N_SAMPLES
        for result in each:
            told = answer_of(result)
            assert told.thinking is not None
            assert 0 < told.n_tokens <= data.BUDGET
        return [answer_of(result) for result in results(desk, behaviour, n=1)]

    def journal(desk: Desk, behaviour: Behaviour) -> list[Told]:
        path = desk.file("journal")
        first = [answer_of(each) for each in results(desk, behaviour, journal=path)]
        again = results(desk, behaviour, journal=path)
        assert again.stats.n_journal == len(first)
        assert [answer_of(result) for result in again] == first
        return first

    def stream(desk: Desk, behaviour: Behaviour) -> list[Told]:
        how = {**FORMS[form], **arguments(behaviour)}
        on, [text] = host(desk, behaviour.context), behaviour.texts
        pieces = list(lh.generate(on, text, stream="all", **how))
        kinds = [piece.kind for piece in pieces]
        assert kinds == sorted(kinds, reverse=True)
        assert set(kinds) == {"thinking", "answer"}
        whole = lh.generate(on, text, **how)
        for kind, expected in (("thinking", whole.thinking), ("answer", whole.text)):
            assert "".join(p for p in pieces if p.kind == kind) == expected
        return [answer_of(whole)]

    def cancel(desk: Desk, behaviour: Behaviour) -> list[Told]:
        how = {**FORMS[form], **arguments(behaviour)}
        on, [text] = host(desk, behaviour.context), behaviour.texts
        handle = on.submit(text, stream=True, **how)
        next(iter(handle.pieces()))
        handle.cancel()
        result = handle.result(60)
        assert result.finish_reason == "cancelled"
        assert (result.text, result.tokens) == (None, [])
        assert 0 < result.n_thinking_tokens < data.ENDLESS
        assert result.thinking_complete is None
        [after] = lh.generate_parallel(
            on, list(AFTER_CANCELLED.texts), **FORMS[form], **arguments(AFTER_CANCELLED)
        )
        return [answer_of(after)]

    return {
        "ask": ask,
        "pause": pause,
        "samples": samples,
        "journal": journal,
        "stream": stream,
        "cancel": cancel,
    }


# ---- scores ----------------------------------------------------------------------------


def classified(found: lh.types.ClassifyResults) -> list[Told]:
    rows = []
    for i, error in enumerate(found.errors):
        if error is not None:
            rows.append(data.FAILED)
            continue
        assert sure(math.exp(found.logprobs[i][LABELS.index("yes")]))
        thought = found.thinking[i], found.n_thinking_tokens[i]
        rows.append(Told(*thought, found.thinking_complete[i], found.labels[i]))
    return rows


def classify(host: Any, behaviour: Behaviour, **more: Any) -> lh.types.ClassifyResults:
    how = {**arguments(behaviour), **more}
    return lh.classify_parallel(host, list(behaviour.texts), LABELS, **how)


def scored(found: lh.types.ScoreResults) -> list[Told]:
    rows = []
    for i, error in enumerate(found.errors):
        if error is not None:
            rows.append(data.FAILED)
            continue
        assert sure(math.exp(found.logprob[i][0]))
        thought = found.thoughts[i] if found.thoughts else None
        if thought is None:
            rows.append(data.NONE)
        else:
            rows.append(Told(thought.text, thought.n_tokens, thought.is_complete, "yes"))
    return rows


def score(host: Any, behaviour: Behaviour, **more: Any) -> lh.types.ScoreResults:
    how = {**arguments(behaviour), **more}
    texts = list(behaviour.texts)
    return lh.score_parallel(host, texts, [LABELS] * len(texts), **how)


def annotated(found: lh.Coded) -> list[Told]:
    rows = []
    columns = {name: list(found.frame[name]) for name in found.frame}
    n = len(found.errors)
    thoughts = [columns.get(name, [None] * n) for name in data.COLUMNS]
    for i, error in enumerate(found.errors):
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


def ended(found: Any) -> list[str]:
    """Return the finish reason of each prompt; coded texts have another word for it."""
    if isinstance(found, lh.Coded):
        word = "not computed: the call ended before"
        return ["cancelled" if error == word else "?" for error in found.errors]
    return list(found.finish_reasons)


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
    """Abilities of scores."""

    def ask(desk: Desk, behaviour: Behaviour) -> list[Told]:
        found = call(desk.context(behaviour.context), behaviour)
        if "shared" in behaviour.name:
            assert found.stats.n_reused_tokens > 0
        return rows(found)

    def pause(desk: Desk, behaviour: Behaviour) -> list[Told]:
        found = call(desk.context(behaviour.context), behaviour)
        assert found.stats.n_pauses > 0
        return rows(found)

    def samples(desk: Desk, behaviour: Behaviour) -> list[Told]:
        several = call(desk.context("plain"), behaviour, n_thoughts=N_SAMPLES, seed=3)
        assert several.stats.n_thoughts == N_SAMPLES
        return rows(call(desk.context("plain"), behaviour, n_thoughts=1))

    def journal(desk: Desk, behaviour: Behaviour) -> list[Told]:
        path = desk.file("journal")
        first = rows(call(desk.context("plain"), behaviour, journal=path))
        again = call(desk.context("plain"), behaviour, journal=path)
        assert again.stats.n_journal == len(first)
        assert rows(again) == first
        return first

    def cancel(desk: Desk, behaviour: Behaviour) -> list[Told]:
        context, [text] = desk.context(behaviour.context), behaviour.texts
        job = STARTS[name](context, text, **arguments(behaviour))
        wait_until(lambda: context.load.n_running > 0)
        job.cancel()
        assert ended(job.results()) == ["cancelled"]
        [told] = rows(call(context, AFTER_CANCELLED))
        return [told]

    return {
        "ask": ask,
        "pause": pause,
        "samples": samples,
        "journal": journal,
        "cancel": cancel,
    }
