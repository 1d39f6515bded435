"""All public objects can be pickled, except those that belong to one process."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import multiprocessing
import pickle
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, is_typeddict

import llamaherd as lh
import numpy as np
import pytest
from programs import raised, returned

if TYPE_CHECKING:
    from collections.abc import Callable

RESULT = lh.Result(
    index=0,
    text="a",
    tokens=[1],
    finish_reason="stop",
    complete=True,
    error=None,
    n_prompt_tokens=1,
    n_reused_tokens=0,
    seed=2**32 - 1,
)
RESULTS = lh.Results([RESULT], lh.Stats(n_prompts=1))
STAY = {
    lh.Model,
    lh.Context,
    lh.types.Handle,
    lh.Job,
    lh.types.OptimizeJob,
    lh.types.EmbedJob,
}
STAY |= {lh.Chat, lh.types.Reply, lh.RemoteEngine}
EXAMPLES: dict[object, object] = {  # values by the names of types
    "int": 3,
    "float": 0.5,
    "str": "a",
    "bool": True,
    "Path": Path("a"),
    "datetime": datetime(2026, 1, 1, tzinfo=UTC),
    "Floats": np.array([[0.25, 0.75]]),
    "Stats": RESULTS.stats,
    "tuple[str, ...]": ("a", "b"),
    "list[int]": [1],
    "list[str | None]": [None],
    "list[FinishReason]": ["stop"],
    "list[list[Continuation] | None]": [None],
    "list[Floats | None]": [np.array([0.5]), None],
    "list[list[int]]": [[1]],
}


def example(cls: type) -> Any:
    """Return an object of a public class, with fields filled according to their types."""
    special: dict[type, Callable[[], object]] = {
        lh.Results: lambda: RESULTS,
        lh.Result: lambda: RESULT,
        lh.Interrupted: lambda: lh.Interrupted(RESULTS),
        lh.types.Embeddings: lambda: lh.types.Embeddings(
            np.ones((1, 2)), [None], lh.types.EmbedStats()
        ),
        lh.Codebook: lambda: lh.Codebook("Which?", ["a", "b"], examples=[("x", "a")]),
        lh.SamplingParams: lambda: lh.SamplingParams(stop="x", choices={"b", "a"}),
    }
    if cls in special:
        return special[cls]()
    if issubclass(cls, lh.GenerationError):
        return cls("prompts[0] failed", RESULTS)
    if issubclass(cls, lh.NativeError):
        return cls("it failed", 3)
    if issubclass(cls, BaseException):
        return cls("it failed")
    fields = {
        field.name: EXAMPLES.get(field.type)
        for field in dataclasses.fields(cls)
        if field.default is dataclasses.MISSING or field.default != field.default  # NaN
    }
    return cls(**fields)


def public_classes() -> list[type]:
    public = [*(getattr(lh, name) for name in lh.__all__), *vars(lh.types).values()]
    classes = [cls for cls in public if inspect.isclass(cls)]
    return [cls for cls in classes if not is_typeddict(cls)]  # nothing but dicts


def state(thing: object) -> object:
    """Return the state of an object, which is equal for equal objects."""
    if isinstance(thing, BaseException):
        return type(thing), str(thing), repr(vars(thing)), thing.args
    if isinstance(thing, lh.Results):
        return list(thing), thing.stats
    if type(thing).__eq__ is object.__eq__:  # it has arrays
        names = getattr(thing, "__dataclass_fields__", None) or vars(thing)
        return {name: repr(getattr(thing, name)) for name in names}
    return thing


TRAVELLERS = [cls for cls in public_classes() if cls not in STAY]


@pytest.mark.parametrize("cls", TRAVELLERS, ids=lambda cls: cls.__name__)
def test_what_is_public_is_pickled_and_copied(cls: type) -> None:
    thing = example(cls)
    for twin in (
        *(pickle.loads(pickle.dumps(thing, how)) for how in range(2, 6)),
        copy.copy(thing),
        copy.deepcopy(thing),
    ):
        assert type(twin) is cls
        assert state(twin) == state(thing)


def test_all_of_it_goes_to_a_new_process_and_back() -> None:
    spawn = multiprocessing.get_context("spawn")
    things = [example(cls) for cls in TRAVELLERS]
    with ProcessPoolExecutor(1, mp_context=spawn) as pool:
        for thing, twin in zip(things, pool.map(returned, things), strict=True):
            assert state(twin) == state(thing)
        for thing in things:
            if isinstance(thing, Exception):
                error = pool.submit(raised, thing).exception(60)
                assert type(error) is type(thing)
                assert str(error) == str(thing)


@pytest.mark.parametrize("name", ["model", "context", "handle", "job"])
def test_what_lives_in_a_process_says_so(
    tiny_path: Callable[[str], Path], name: str
) -> None:
    with lh.Model(tiny_path("llama")) as model, lh.Context(model) as context:
        job = lh.start_parallel(context, ["a"], max_tokens=1)
        job.results()
        handle = context.submit("a", max_tokens=1)
        handle.result()
        things = {"model": model, "context": context, "handle": handle, "job": job}
        thing = things[name]
        for use in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match=f"a {type(thing).__name__} cannot be"):
                use(thing)


def test_a_chat_says_what_to_save(tiny_path: Callable[[str], Path]) -> None:
    with lh.Model(tiny_path("chat")) as model, lh.chat(model, max_tokens=2) as chat:
        chat.ask("a")
        with pytest.raises(TypeError, match="save or send its `messages`"):
            pickle.dumps(chat)
        saved = pickle.loads(pickle.dumps(chat.messages))
        assert lh.chat(chat.context, turns=saved).turns == chat.turns
