"""A real server process for client programs; `make test-clients` runs these tests.

The programs are in a separate virtual environment, without llamaherd. Environment
variables name the server's program and its models: LLAMAHERD_PROGRAM,
LLAMAHERD_TEST_SMOLLM2, LLAMAHERD_TEST_MINILM.
"""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

import openai
import pytest
from recorder import recorded

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "small"
EMBEDDINGS = "all-MiniLM-L6-v2.F16"


@contextmanager
def running(*options: str) -> Iterator[str]:
    """Run a server until the end of the block; yield its address, without a path."""
    program = os.environ["LLAMAHERD_PROGRAM"]
    command = [program, "serve", os.environ["LLAMAHERD_TEST_SMOLLM2"], "--port", "0"]
    command += ["--alias", NAME, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        match = re.search(r"http://\S+", line)
        assert match is not None, line
        try:
            yield match.group(0)
        finally:
            server.terminate()
            assert server.wait(120) == 0


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """Start a deterministic server with two models; return its address."""
    embeddings = os.environ["LLAMAHERD_TEST_MINILM"]
    file = os.environ.get("LLAMAHERD_RECORD")
    with running("--deterministic", "--embedding-model", embeddings) as address:
        if file is None:
            yield address
        else:
            with recorded(address, file) as proxy:
                yield proxy


@pytest.fixture(scope="session")
def base_url(url: str) -> str:
    """Return the address of OpenAI's API."""
    return f"{url}/v1"


@pytest.fixture(scope="session")
def sdk(base_url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=base_url, api_key="none", max_retries=0) as client:
        yield client
