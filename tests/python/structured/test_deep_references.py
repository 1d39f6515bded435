"""Long chains of references need much stack, but do not end the process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
import tiny_models

if TYPE_CHECKING:
    from collections.abc import Iterator


def _schema(form: str, n: int) -> str:
    """Return a schema whose references are a chain; `form` has "*" for the next one."""
    chain = [f'"{i}": {form.replace("*", str(i + 1))}' for i in range(n)]
    parts = ", ".join([*chain, f'"{n}": {{"type": "null"}}'])
    return f'{{"$ref": "#/$defs/0", "$defs": {{{parts}}}}}'


def _lark(rule: str, n: int) -> str:
    rules = "".join(f"{rule}{i}: {rule}{i + 1}\n" for i in range(n))
    return f'%llguidance {{}}\nstart: {rule}0\n{rules}{rule}{n}: "a"\n'


# Each of them ends a process whose threads have stacks of 8 MiB.
CONSTRAINTS: dict[str, dict[str, Any]] = {
    "properties": {
        "schema": _schema('{"properties": {"a": {"$ref": "#/$defs/*"}}}', 1000)
    },
    "references": {"schema": _schema('{"$ref": "#/$defs/*"}', 2700)},
    "rules": {"grammar": _lark("r", 3000)},
    "terminals": {"grammar": _lark("T", 10_000)},
}


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lh.Context]:
    path = tiny_models.write(tmp_path_factory.mktemp("deep") / "tiny.gguf", "llama")
    with lh.Model(path) as model, lh.Context(model, n_threads=1, n_seq_max=2) as ctx:
        yield ctx


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_a_long_chain_is_compiled_or_refused(context: lh.Context, name: str) -> None:
    try:
        result = lh.generate_parallel(
            context, ["x"], max_tokens=2, progress=False, **CONSTRAINTS[name]
        )
    except (ValueError, lh.SamplerError) as error:
        assert str(error)  # noqa: PT017 - either end is right
    else:
        assert len(result) == 1


def test_many_optional_properties_are_refused_at_once(context: lh.Context) -> None:
    properties = {f"p{i}": {"type": "null"} for i in range(2001)}
    schema = {"type": "object", "properties": properties}
    with pytest.raises(ValueError, match="2001 optional properties"):
        lh.generate_parallel(context, ["x"], max_tokens=2, schema=schema)


def test_a_constraint_of_many_bytes_is_refused(context: lh.Context) -> None:
    grammar = "%llguidance {}\nstart: " + "a" * 2_000_000
    with pytest.raises((ValueError, lh.SamplerError), match="at most 2000000"):
        lh.generate_parallel(context, ["x"], max_tokens=2, grammar=grammar)


def test_too_many_choices_are_refused_at_once(context: lh.Context) -> None:
    choices = list(map(str, range(100_001)))
    with pytest.raises(ValueError, match="at most 100000 texts, not 100001"):
        lh.generate_parallel(context, ["x"], choices=choices)
