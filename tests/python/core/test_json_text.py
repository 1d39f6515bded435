"""JSON of users and clients: no object has a key twice, at any depth."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llamaherd.engine.core.plain import DuplicateKeyError, read_json

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_other_texts_are_read_as_by_json(value: object) -> None:
    assert read_json(json.dumps(value)) == value


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('{"a": 1, "a": 1}', '"a"'),
        ('{"a": 1, "b": 2, "\\u0061": 3}', '"a"'),
        ('[{"x": {"": 1, "": 2}}]', '""'),
        ('{"é": 1, "é": 2}', '"é"'),
        (f'{{"{"k" * 999}": 1, "{"k" * 999}": 2}}', f'"{"k" * 57}..."'),
    ],
)
def test_a_key_that_occurs_twice_is_named(text: str, key: str) -> None:
    with pytest.raises(DuplicateKeyError) as caught:
        read_json(text)
    assert str(caught.value) == f"an object has the key {key} twice"
