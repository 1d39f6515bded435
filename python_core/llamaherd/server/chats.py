"""Options of chats: defaults of the server, and fields that control thinking.

Clients turn thinking on and off with fields of OpenAI's API, vLLM, llama-server and
DeepSeek's API. Each of these fields is converted to the options `thinking` and
`variables` of the library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llamaherd.asks.chat_options import checked_variables
from llamaherd.core import checks
from llamaherd.core.argument import Argument, Field
from llamaherd.core.thinking import MOST_TOKENS, checked_thinking
from llamaherd.server.errors import bad_field
from llamaherd.server.wording import JSON

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llamaherd.server.settings import ServerSettings

KWARGS = "chat_template_kwargs"
# Fields of several APIs that limit the tokens of a thought. If a request has several of
# these fields, the last in this order applies.
BUDGETS = (
    *("thinking_token_budget", "reasoning_budget_tokens"),
    *("thinking_budget", "thinking_budget_tokens"),
)
# Fields that chats have in addition to the fields of completions.
FIELDS = frozenset(
    {
        *("messages", "thinking", KWARGS, "reasoning_effort"),
        *BUDGETS,
        "enable_thinking",
        "show_schema",
        *("continue_final_message", "add_generation_prompt"),
    }
)
_SWITCHES = ("enable_thinking", "thinking")  # variables of templates
_NO_EFFORT = "none"


def with_defaults(given: Mapping[str, Any], settings: ServerSettings) -> dict[str, Any]:
    """Return the options of a chat, with the server's options as defaults.

    Args:
        given: Options of the request.
        settings: Settings of the server.
    """
    defaults = {
        "thinking": settings.thinking,
        "template": settings.template,
        "merge_system": settings.merge_system or None,
    }
    found = {name: each for name, each in defaults.items() if each is not None} | {
        **given
    }
    if settings.variables or given.get("variables"):
        own = given.get("variables") or {}
        found["variables"] = {**settings.variables, **checked_variables("variables", own)}
    return found


def chat_options(given: Mapping[str, object], settings: ServerSettings) -> dict[str, Any]:
    """Return the options of a chat from the fields of a request.

    Raises:
        ApiError: A field is invalid, or two of them disagree.
        TypeError: A field has the wrong type.
        ValueError: A field is out of range.
    """
    variables: dict[str, object] = {}
    if KWARGS in given:
        variables = checked_variables(KWARGS, given[KWARGS])
    found: dict[str, Any] = {
        name: checks.flag(name, given[name]) for name in ("show_schema",) if name in given
    }
    effort = given.get("reasoning_effort")
    if effort is not None and checks.text("reasoning_effort", effort) != _NO_EFFORT:
        variables = {"reasoning_effort": effort, **variables}
    if "enable_thinking" in given:
        is_on = checks.flag("enable_thinking", given["enable_thinking"])
        variables = {"enable_thinking": is_on, **variables}
    switch = next((variables[n] for n in _SWITCHES if n in variables), None)
    if effort == _NO_EFFORT or switch is False:
        found["thinking"] = False
    elif (effort is not None or switch is True) and settings.thinking is False:
        found["thinking"] = None  # -1: the template decides
    for name in BUDGETS:
        if name in given:
            found["thinking"] = _budget(name, given)
    if "thinking" in given:
        found["thinking"] = _thinking(given["thinking"])
    if variables:
        found["variables"] = variables
    return {"chat": True, **with_defaults(found, settings)}


def thinking_names(given: Mapping[str, object]) -> dict[str, str]:
    """Map the option `thinking` to the field of a request that sets it, for errors."""
    fields = ("reasoning_effort", KWARGS, "enable_thinking", *BUDGETS, "thinking")
    found = [name for name in fields if name in given]
    return {"thinking": found[-1]} if found else {}


def check_last_message(given: Mapping[str, object], *, is_assistants: bool) -> None:
    """Check that the fields about the last message request the supported behaviour.

    Raises:
        ApiError: A field requests an unsupported behaviour.
    """
    for name, usual in (
        ("continue_final_message", is_assistants),
        ("add_generation_prompt", not is_assistants),
    ):
        if name in given and checks.flag(name, given[name]) is not usual:
            raise bad_field(
                name,
                f"{name} must be {JSON.literal(usual)} here: the answer continues "
                "the last message if it is the assistant's, or else begins a new one",
            )


def _budget(name: str, given: Mapping[str, object]) -> int | bool | None:
    """Return the token limit of a thought: None for -1, False for 0 (no thought)."""
    n = checks.integer(name, given[name], -1, MOST_TOKENS)
    return None if n == -1 else n or False


def _thinking(value: object) -> Any:  # noqa: ANN401 - checked by the library
    """Convert `thinking` for the library; in some APIs it is an object with a type."""
    if not isinstance(value, dict) or "type" not in value:
        return checked_thinking("thinking", value)
    where = Argument("thinking")
    kinds = ("enabled", "disabled")
    kind = checks.choice(where.at(Field("type")), value["type"], kinds)
    for name in value.keys() - {"type", "budget_tokens"}:
        raise bad_field("thinking", f"thinking has no field {JSON.literal(name[:60])}")
    n = value.get("budget_tokens", True)
    if kind == "disabled":
        return False
    if n is not True:
        n = checks.integer(where.at(Field("budget_tokens")), n, 0, MOST_TOKENS)
    return checked_thinking("thinking", n)
