"""Random requests by schemathesis: no internal error, and nothing undocumented."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from conftest import running
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHECKS = [content_type_conformance, response_schema_conformance, status_code_conformance]
_TIMED_OUT = 504  # requests with thousands of tokens
_N_EXAMPLES = int(os.environ.get("LLAMAHERD_SCHEMATHESIS", "15"))


@pytest.fixture(scope="module")
def document() -> Iterator[Any]:
    """Return the OpenAPI document of a server whose requests are all short."""
    with running("--n-ctx", "256", "--timeout", "4", "--any-model") as url:
        yield schemathesis.openapi.from_url(f"{url}/openapi.json")


def test_answers_are_those_of_the_document(document: Any) -> None:
    for operation in document.get_all_operations():
        endpoint = operation.ok()

        @given(case=endpoint.as_strategy())
        @settings(
            max_examples=_N_EXAMPLES,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        )
        def check(case: schemathesis.Case) -> None:
            answer = case.call()
            is_right = answer.status_code < 500 or answer.status_code == _TIMED_OUT
            assert is_right, answer.text
            case.validate_response(answer, checks=_CHECKS)

        check()
