"""Jobs on a server, against a server that is a table of answers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from llamaherd import remote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SERVER = remote.RemoteServer(
    name="one", url="", key="", pid=1, model="", folder="", stays=False
)


def _batch(status: str, n: int = 1) -> dict[str, object]:
    counts = {"total": n, "completed": n, "failed": 0}
    return {
        "id": "batch_1",
        "status": status,
        "metadata": {"llamaherd_task": "annotate", "n": str(n)},
        "request_counts": counts,
        "errors": None,
        "output_file_id": "file_1",
        "error_file_id": None,
    }


def _serve(
    monkeypatch: pytest.MonkeyPatch, answers: Mapping[tuple[str, str], object]
) -> None:
    """Answer requests from a table; requests that are not in the table are refused."""

    def ask(
        _: remote.RemoteServer, method: str, path: str, *__: object, **___: object
    ) -> bytes:
        if (method, path) not in answers:
            raise lh.ServerError("refused")
        found = answers[method, path]
        return found if isinstance(found, bytes) else json.dumps(found).encode()

    monkeypatch.setattr(remote.RemoteServer, "ask", ask)


@pytest.mark.parametrize("status", ["completed", "failed", "expired", "cancelled"])
def test_a_job_that_has_ended_can_be_cancelled(
    status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _serve(monkeypatch, {("GET", "/v1/batches/batch_1"): _batch(status)})
    assert remote.cancel_job(SERVER, "batch_1").status == status


@pytest.mark.parametrize("known", [{}, {"GET": _batch("in_progress")}])
def test_another_refusal_of_a_cancellation_is_an_error(
    known: Mapping[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {(name, "/v1/batches/batch_1"): batch for name, batch in known.items()}
    _serve(monkeypatch, answers)
    with pytest.raises(lh.ServerError, match="refused"):
        remote.cancel_job(SERVER, "batch_1")


def _notes(notes: Sequence[Any], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the notes of a job whose requests of one text have these notes."""
    lines = [
        {
            "custom_id": str(i),
            "response": {"status_code": 200, "body": {"data": [{}], "notes": each}},
        }
        for i, each in enumerate(notes)
    ]
    # A server writes answers in the order in which they are finished.
    content = "\n".join(json.dumps(line) for line in reversed(lines)).encode()
    answers = {
        ("GET", "/v1/batches/batch_1"): _batch("completed", len(notes)),
        ("GET", "/v1/files/file_1/content"): content,
    }
    _serve(monkeypatch, answers)
    return remote.job_results(SERVER, "batch_1").notes


def test_a_job_of_many_requests_has_one_note_of_each_kind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert _notes([["31 of 32", "low"]], monkeypatch) == ["31 of 32", "low"]
    assert _notes([None, [], None], monkeypatch) == []
    many = [[], *([f"{i} of 32", "low"] for i in range(30, 33)), ["cut off"]]
    assert _notes(many, monkeypatch) == [
        "3 of 5 requests have this note or a similar one: 30 of 32",
        "3 of 5 requests have this note or a similar one: low",
        "1 of 5 requests has this note or a similar one: cut off",
    ]
