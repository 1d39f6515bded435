"""Answers that fail: only their own prompt fails."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import llamaherd as lh
import pydantic
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.model

HOPELESS = {"enum": ["a"], "not": {"enum": ["a"]}}
LONG = {"type": "string", "minLength": 60}


class Named(pydantic.BaseModel):
    name: Literal["x"]

    @pydantic.field_validator("name")
    @classmethod
    def known(cls, name: str) -> object:
        return {}[name]  # as a user's code may fail


@pytest.fixture(scope="module")
def context(smollm2: lh.Model) -> Iterator[lh.Context]:
    with lh.Context(smollm2, n_seq_max=4) as context:
        yield context


def test_a_validator_that_fails_fails_its_prompt_alone(context: lh.Context) -> None:
    beside = context.submit("There was once", max_tokens=64, ignore_eos=True)
    schemas = [Named, {"enum": ["right"]}]
    out = lh.generate_parallel(context, ["a", "b"], schema=schemas, retries=1)
    assert out.errors == ["the answer cannot be converted: KeyError: 'x'", None]
    assert out.parsed == [None, "right"]
    assert out[0].partial == '{"name":"x"}'
    with pytest.raises(lh.GenerationError, match="KeyError: 'x'"):
        context.submit("a", schema=Named).result()
    assert beside.result().n_generated_tokens == 64


@pytest.mark.parametrize(
    ("schema", "reason", "text"),
    [(HOPELESS, "does not follow the schema", '"a"'), (LONG, "was cut off", '"')],
)
def test_single_prompts_and_streams_fail_as_calls_do(
    context: lh.Context, schema: object, reason: str, text: str
) -> None:
    with pytest.raises(lh.GenerationError, match=reason) as caught:
        context.submit("x", schema=schema, max_tokens=5).result()
    assert (caught.value.results[0].partial or "").startswith(text)
    pieces = lh.generate(context, "x", schema=schema, max_tokens=5, stream=True)
    read: list[str] = []
    with pytest.raises(lh.GenerationError, match=reason):
        read.extend(pieces)
    assert "".join(read).startswith(text)


def test_single_prompts_may_be_strict(context: lh.Context) -> None:
    with pytest.raises(ValueError, match="strict: masks cannot enforce not"):
        context.submit("x", schema=HOPELESS, strict=True)


def test_two_types_of_the_same_schema_make_their_own_values(context: lh.Context) -> None:
    quiet = Literal["a"]
    loud = Annotated[quiet, pydantic.AfterValidator(str.upper)]
    schemas = [quiet, loud, quiet, None]
    for prompts in (list("wxyz"), ["x"] * 4):  # equal ones are answered once
        out = lh.generate_parallel(context, prompts, schema=schemas, max_tokens=9)
        assert out.parsed == ["a", "A", "a", None]
