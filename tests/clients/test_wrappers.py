"""Packages that wrap OpenAI's API: litellm, instructor, LangChain, pydantic-ai, llm."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import instructor
import litellm
import openai
import pydantic
import pytest
from conftest import EMBEDDINGS, NAME
from instructor.core import InstructorError
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
from llama_index.llms.openai_like import OpenAILike
from pydantic_ai import (
    Agent,
    NativeOutput,
    PromptedOutput,
    ToolOutput,
    UnexpectedModelBehavior,
)
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

if TYPE_CHECKING:
    from pathlib import Path

ASK = "Rate this book: it was good."
HELLO: list[Any] = [{"role": "user", "content": ASK}]


class Review(pydantic.BaseModel, extra="forbid"):
    """A review."""

    stars: Literal[1, 2, 3, 4, 5]
    good: bool


# ---- litellm ----


def _lite(base_url: str) -> dict[str, Any]:
    return {"model": f"openai/{NAME}", "api_base": base_url, "api_key": "x"}


def test_litellm(base_url: str) -> None:
    body = {**_lite(base_url), "messages": HELLO, "max_tokens": 30, "temperature": 0}
    text = litellm.completion(**body).choices[0].message.content
    chunks = litellm.completion(**body, stream=True)
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == text
    chat = asyncio.run(litellm.acompletion(**body))
    assert chat.choices[0].message.content == text
    parsed = litellm.completion(**body, response_format=Review).choices[0].message.content
    assert Review.model_validate_json(parsed)
    several = litellm.completion(**{**body, "temperature": 1}, n=2)
    assert len(several.choices) == 2
    completion = litellm.text_completion(
        **{**_lite(base_url), "model": f"text-completion-openai/{NAME}"},
        prompt=["One, two,", "A, b,"],
        max_tokens=3,
    )
    assert len(completion.choices) == 2
    vectors = litellm.embedding(
        **{**_lite(base_url), "model": f"openai/{EMBEDDINGS}"}, input=["a", "b"]
    )
    assert len(vectors.data) == 2


# ---- instructor ----


def _instructor(base_url: str, mode: str) -> Any:
    sdk = openai.OpenAI(base_url=base_url, api_key="x", max_retries=0)
    return instructor.from_openai(sdk, mode=instructor.Mode[mode])


@pytest.mark.parametrize("mode", ["TOOLS", "TOOLS_STRICT", "JSON_SCHEMA"])
def test_instructor(base_url: str, mode: str) -> None:
    review = _instructor(base_url, mode).chat.completions.create(
        model=NAME, messages=HELLO, response_model=Review, max_tokens=80, max_retries=0
    )
    assert isinstance(review, Review)


@pytest.mark.parametrize("mode", ["JSON", "MD_JSON", "PARALLEL_TOOLS"])
def test_instructor_without_a_form(base_url: str, mode: str) -> None:
    """The server answers, but a model of this size rarely writes a review."""
    kind: Any = Iterable[Review] if mode == "PARALLEL_TOOLS" else Review
    cause: Any = None
    try:
        _instructor(base_url, mode).chat.completions.create(
            model=NAME, messages=HELLO, response_model=kind, max_tokens=40, max_retries=0
        )
    except (InstructorError, ValueError) as error:
        cause = error.__cause__
    assert not isinstance(cause, openai.APIError)


@pytest.mark.parametrize("mode", ["TOOLS", "JSON_SCHEMA"])
def test_instructor_in_parts(base_url: str, mode: str) -> None:
    parts = list(
        _instructor(base_url, mode).chat.completions.create_partial(
            model=NAME, messages=HELLO, response_model=Review, max_tokens=80
        )
    )
    assert parts[-1].stars in range(1, 6)


# ---- LangChain ----


def _chain(base_url: str, **options: Any) -> ChatOpenAI:
    return ChatOpenAI(
        model=NAME,
        base_url=base_url,
        api_key="x",
        max_tokens=60,
        max_retries=0,
        **options,
    )


def test_langchain(base_url: str) -> None:
    chat = _chain(base_url, temperature=0)
    text = chat.invoke(ASK).content
    assert "".join(part.content for part in chat.stream(ASK)) == text
    assert [message.content for message in chat.batch([ASK, ASK])] == [text, text]
    assert asyncio.run(chat.ainvoke(ASK)).content == text
    with_logprobs = _chain(base_url, logprobs=True).invoke(ASK)
    assert with_logprobs.response_metadata["logprobs"]["content"]
    texts = OpenAI(model=NAME, base_url=base_url, api_key="x", max_tokens=4)
    assert len(texts.batch(["One, two,", "A, b,"])) == 2


@pytest.mark.parametrize("method", ["function_calling", "json_schema", "json_mode"])
def test_langchain_with_structured_output(base_url: str, method: Any) -> None:
    chat = _chain(base_url).with_structured_output(Review, method=method)
    if method == "json_mode":  # any JSON object, of any length
        with pytest.raises((openai.LengthFinishReasonError, ValueError)):
            chat.invoke(ASK)
    else:
        assert isinstance(chat.invoke(ASK), Review)


def test_langchain_embeddings(base_url: str) -> None:
    embeddings = OpenAIEmbeddings(
        model=EMBEDDINGS,
        base_url=base_url,
        api_key="x",
        check_embedding_ctx_length=False,  # otherwise it sends tokens of OpenAI's models
    )
    assert len(embeddings.embed_documents(["a", "b"])) == 2


# ---- pydantic-ai ----


@pytest.mark.parametrize(
    "output",
    [Review, ToolOutput(Review), NativeOutput(Review), PromptedOutput(Review), str],
)
def test_pydantic_ai(base_url: str, output: Any) -> None:
    model = OpenAIChatModel(NAME, provider=OpenAIProvider(base_url=base_url, api_key="x"))
    settings: Any = {"max_tokens": 80, "temperature": 0}
    agent: Any = Agent(model, output_type=output, model_settings=settings)
    if isinstance(output, PromptedOutput):  # constrained only to be JSON
        with pytest.raises(UnexpectedModelBehavior):
            agent.run_sync(ASK)
        return
    answer = agent.run_sync(ASK).output
    assert isinstance(answer, str if output is str else Review)


# ---- others ----


def test_llama_index(base_url: str) -> None:
    model = OpenAILike(
        model=NAME, api_base=base_url, api_key="x", is_chat_model=True, max_tokens=12
    )
    assert model.complete(ASK).text
    parts = [part.delta or "" for part in model.stream_complete(ASK)]
    assert "".join(parts)


def test_llm(base_url: str, tmp_path: Path) -> None:
    (tmp_path / "extra-openai-models.yaml").write_text(
        f"- model_id: here\n  model_name: {NAME}\n  api_base: {base_url}\n"
        "  supports_schema: true\n  supports_tools: true\n",
        encoding="utf-8",
    )
    env = {**os.environ, "LLM_USER_PATH": str(tmp_path), "OPENAI_API_KEY": "x"}

    def printed(*arguments: str) -> str:
        command = [sys.executable, "-m", "llm", "-m", "here", *arguments]
        process = subprocess.run(
            command, env=env, capture_output=True, text=True, check=False
        )
        assert process.returncode == 0, process.stderr
        return process.stdout

    plain = ("-o", "max_tokens", "60", "-o", "temperature", "0")
    whole = printed("Say hello.", "--no-stream", *plain)
    assert printed("Say hello.", *plain).strip() == whole.strip()
    schema = json.dumps(Review.model_json_schema())
    assert Review.model_validate_json(printed(ASK, "--schema", schema, *plain))
