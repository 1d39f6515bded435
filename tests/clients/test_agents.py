"""OpenAI's package for agents, with both of OpenAI's APIs."""

from __future__ import annotations

import asyncio
from typing import Any, Literal

import agents
import openai
import pydantic
import pytest
from conftest import NAME

ASK = "Rate this book: it was good."
# The package raises an error if max_tokens cuts off a response.
ONE_SENTENCE: Any = {"extra_body": {"stop": ["."]}}
MODELS: Any = [agents.OpenAIResponsesModel, agents.OpenAIChatCompletionsModel]


class Review(pydantic.BaseModel, extra="forbid"):
    """A review."""

    stars: Literal[1, 2, 3, 4, 5]
    good: bool


@pytest.fixture(params=MODELS, ids=["responses", "chats"])
def model(base_url: str, request: pytest.FixtureRequest) -> Any:
    agents.set_tracing_disabled(True)
    sdk = openai.AsyncOpenAI(base_url=base_url, api_key="x", max_retries=0)
    return request.param(model=NAME, openai_client=sdk)


def _agent(model: Any, **options: Any) -> Any:
    settings = {"temperature": 0, "max_tokens": 60, **options.pop("settings", {})}
    return agents.Agent(
        name="Reviewer",
        instructions="Be brief.",
        model=model,
        model_settings=agents.ModelSettings(**settings),
        **options,
    )


def test_texts_and_streams_are_equal(model: Any) -> None:
    agent = _agent(model, settings={**ONE_SENTENCE, "verbosity": "low"})

    async def both() -> tuple[Any, str, Any]:
        whole = await agents.Runner.run(agent, ASK)
        stream = agents.Runner.run_streamed(agent, ASK)
        deltas = [
            event.data.delta
            async for event in stream.stream_events()
            if event.type == "raw_response_event"
            and event.data.type == "response.output_text.delta"
        ]
        return whole, "".join(deltas), stream.final_output

    whole, text, at_end = asyncio.run(both())
    assert whole.final_output == text == at_end
    assert whole.final_output
    usage = whole.context_wrapper.usage
    assert usage.input_tokens > 0
    assert usage.output_tokens > 0


def test_a_second_turn_has_the_first(model: Any) -> None:
    async def turns() -> Any:
        agent = _agent(model, settings=ONE_SENTENCE)
        first = await agents.Runner.run(agent, ASK)
        again = [*first.to_input_list(), {"role": "user", "content": "And why?"}]
        return await agents.Runner.run(agent, again)

    assert asyncio.run(turns()).final_output


def test_a_form(model: Any) -> None:
    run = asyncio.run(agents.Runner.run(_agent(model, output_type=Review), ASK))
    assert isinstance(run.final_output, Review)


def test_a_forced_call(model: Any) -> None:
    cities: list[str] = []

    @agents.function_tool
    def weather(city: Literal["Paris", "Rome"]) -> str:
        """Return the weather."""
        cities.append(city)
        return f"rain in {city}"

    agent = _agent(
        model,
        tools=[weather],
        tool_use_behavior="stop_on_first_tool",
        settings={"tool_choice": "required"},
    )
    run = asyncio.run(agents.Runner.run(agent, ASK))
    assert run.final_output == f"rain in {cities[0]}"
