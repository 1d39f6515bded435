"""Batches of requests through OpenAI's package, for tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import openai
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable

    from served import Client

TEXT = "/v1/completions"
ENDS = ("completed", "failed", "cancelled", "expired")


def entry(i: int, url: str = TEXT, **body: Any) -> dict[str, Any]:
    """Return the line of a request."""
    body = body or {"prompt": f"p{i}", "max_tokens": 2}
    return {"custom_id": f"id-{i}", "method": "POST", "url": url, "body": body}


def jsonl(requests: Iterable[object]) -> bytes:
    return "".join(json.dumps(request) + "\n" for request in requests).encode()


def sdk_of(client: Client) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{client.url}/v1", api_key="none", max_retries=0)


def begun(sdk: openai.OpenAI, content: bytes, url: Any = TEXT, **more: Any) -> Any:
    """Upload the file of a batch, and start the batch."""
    file = sdk.files.create(file=("in.jsonl", content), purpose="batch")
    return sdk.batches.create(
        input_file_id=file.id, endpoint=url, completion_window="24h", **more
    )


def wait_for_end(sdk: openai.OpenAI, batch: Any) -> Any:
    """Wait for the end of a batch; return the batch."""
    wait_until(lambda: sdk.batches.retrieve(batch.id).status in ENDS)
    return sdk.batches.retrieve(batch.id)


def outcomes(sdk: openai.OpenAI, file_id: str | None) -> list[dict[str, Any]]:
    """Return the lines of an output file."""
    assert file_id is not None
    text = sdk.files.content(file_id).text
    return [json.loads(row) for row in text.splitlines()]
