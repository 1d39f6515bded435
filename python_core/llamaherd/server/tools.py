"""Functions that a client offers to the model, and the model's calls.

A forced call (`tool_choice` "required", or the name of a function) is an answer under
the schema of the function, so its arguments are always valid. With "auto" the model
answers freely, and a call is read in the format of its chat template, or else in
`GENERIC`. With "auto" and a form of the answer, the answer is a call in JSON or follows
the form.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from llamaherd.calls.chat.chat import chat_renderer
from llamaherd.calls.chat.messages import check_texts
from llamaherd.calls.chat.tool_calls import ToolAnswer, ToolFormat, parse_tool_calls
from llamaherd.calls.chat.tool_readers import tool_format_of
from llamaherd.calls.structured.check import check_schema
from llamaherd.calls.structured.prompt import schema_prompt
from llamaherd.calls.structured.shape import schema_text, shape_of
from llamaherd.calls.structured.subschemas import standalone
from llamaherd.engine.core import checks
from llamaherd.engine.core.errors import BadArgumentError, ChatTemplateError
from llamaherd.engine.model.tokens import detokenize
from llamaherd.server.errors import bad_field, renaming_fields
from llamaherd.server.sampling import AnswerForm
from llamaherd.server.schemas import (
    FLAG,
    OBJECT,
    TEXT,
    Schema,
    either,
    list_schema,
    part,
    unfit,
    with_more,
)
from llamaherd.server.tool_calls import (
    GENERIC,
    CallStream,
    as_texts,
    call_in,
    with_generic_tools,
    with_system,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.engine.core.results import Result
    from llamaherd.engine.model.model import Model

log = logging.getLogger(__name__)
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_MOST = 128  # functions, as in OpenAI's API
CHOICES = ("none", "auto", "required")
NO_OTHERS = "this server has no other tools"
_TOOL = part(
    {"function": part({"name": TEXT}, description=TEXT, parameters=OBJECT, strict=FLAG)},
    type={"enum": ["function"], "$comment": NO_OTHERS},
)
_CHOICE = part({"type": {"enum": ["function"]}}, function=part({"name": TEXT}))
TOOL_FIELDS: dict[str, Schema] = {
    "tools": list_schema(with_more(_TOOL), maxItems=_MOST),
    "tool_choice": either({**TEXT, "enum": list(CHOICES)}, _CHOICE),
    "parallel_tool_calls": FLAG,
}
# As in OpenAI's API, a function without a description of its parameters has none. These
# keywords describe none.
_ABOUT = frozenset({"type", "title", "description", "$schema"})
_NO_PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {},
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class FunctionCall:
    """A call of a function in an answer."""

    # Identifier of the call, which a client sends back with the result of the function.
    id: str
    name: str  # name of the function
    arguments: str  # arguments as JSON

    @property
    def document(self) -> dict[str, object]:
        """Call in the format of OpenAI's API."""
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.id, "type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class ToolUse:
    """Functions that a request offers, and the way in which the answer calls them."""

    # Descriptions of the functions, as the client sent them.
    tools: Sequence[Mapping[str, Any]]
    # Names of functions; the answer must call one of them. () if a call is optional.
    forced: tuple[str, ...] = ()
    # Constraint of a forced call, or of an answer that is a call or follows the form of
    # the request.
    form: AnswerForm = field(default_factory=AnswerForm)
    # Format of the calls in a free answer; None if the answer is not searched for calls.
    format: ToolFormat | None = None
    is_named: bool = False  # whether the client named the function

    def read(
        self, model: Model, result: Result
    ) -> tuple[str | None, list[FunctionCall], str]:
        """Return content, calls and finish reason of an answer."""
        text, reason = result.text or "", str(result.finish_reason)
        if self.forced:
            return self._forced_calls(text, reason)
        if self.form.constraint:
            return self._call_or_form(text, reason)
        answer = self._parse_answer(model, result)
        calls = [
            _call(call.name, json.dumps(call.arguments, ensure_ascii=False))
            for call in answer.calls
            if not call.problem
        ]
        if not calls:
            return text, [], reason
        return answer.text or None, calls, _reason_of_call(reason)

    def invalid(self, model: Model, result: Result) -> list[dict[str, str]]:
        """Return the calls of an answer that cannot be read, each with its problem."""
        return [
            {"name": call.name, "text": call.text, "problem": call.problem}
            for call in self._parse_answer(model, result).calls
            if call.problem
        ]

    def _parse_answer(self, model: Model, result: Result) -> ToolAnswer:
        if self.format is None:
            return ToolAnswer(result.text or "", ())
        whole = detokenize(model, result.tokens, unparse_special=True)
        return parse_tool_calls(whole, self.format, self.tools)

    def _call_or_form(
        self, text: str, reason: str
    ) -> tuple[str | None, list[FunctionCall], str]:
        call = call_in(text)
        names = [tool["function"]["name"] for tool in self.tools]
        if call is None or call[0] not in names:
            return text, [], reason
        return None, [_call(*call)], _reason_of_call(reason)

    def _forced_calls(
        self, text: str, reason: str
    ) -> tuple[str | None, list[FunctionCall], str]:
        # As in OpenAI's API, the finish reason is "stop" if the client named the
        # function.
        reason = reason if self.is_named else _reason_of_call(reason)
        # The arguments are, as in a stream, the text that the model wrote. Written
        # again by Python, a number could change.
        parts = [part["function"] for part in CallStream(self.forced).add(text)]
        if not parts:  # max_tokens cut the answer off before the arguments
            return text, [], reason
        arguments = "".join(part["arguments"] for part in parts)
        return None, [_call(parts[0]["name"], arguments)], reason


def _reason_of_call(reason: str) -> str:
    return reason if reason == "length" else "tool_calls"


def tools_of(
    request: Mapping[str, Any],
    model: Model,
    template: str | None,
    form: AnswerForm | None = None,
) -> ToolUse | None:
    """Return the functions of a request; None if the answer cannot call any."""
    tools = _tools(request.get("tools", []))
    choice = request.get("tool_choice", "auto" if tools else "none")
    names = [tool["function"]["name"] for tool in tools]
    forced = tuple(names)
    if isinstance(choice, dict):
        forced = (_chosen_name(choice, names),)
    else:
        if choice == "none" or (not tools and choice == "auto"):
            return None
        if not tools:
            raise bad_field("tool_choice", "tool_choice needs tools")
        if choice == "auto" and form is not None and form.constraint:
            return ToolUse(tools, form=_call_or(form, tools))
        if choice == "auto":
            return ToolUse(tools, format=_format(tools, model, template))
    by_name = {tool["function"]["name"]: tool["function"] for tool in tools}
    call = AnswerForm("schema", _schema([by_name[name] for name in forced]), "tools")
    return ToolUse(tools, forced, call, is_named=isinstance(choice, dict))


def as_functions(
    tools: Sequence[Mapping[str, Any]], parameters: str
) -> list[dict[str, Any]]:
    """Return the tools of another API, with arguments in `parameters`, as functions."""
    functions = []
    for i, tool in enumerate(tools):
        function = {name: value for name, value in tool.items() if value is not None}
        for name in ("type", "cache_control"):
            function.pop(name, None)
        if parameters in function:
            _check_schema(f"tools[{i}].{parameters}", function[parameters])
            function["parameters"] = function.pop(parameters)
        functions.append({"type": "function", "function": function})
    return functions


def with_tools(
    use: ToolUse,
    messages: list[dict[str, object]],
    options: Mapping[str, Any],
    model: Model,
) -> tuple[list[dict[str, object]], dict[str, Any]]:
    """Return messages and options that describe the functions to the model.

    If the chat template supports functions, it writes the descriptions. If it does not
    support functions, the system message describes the functions of a forced call.
    """
    if use.format is GENERIC:
        return with_generic_tools(use.tools, messages, options)
    variables = {**(options.get("variables") or {}), "tools": list(use.tools)}
    chat_options = {**options, "variables": variables, "show_schema": False}
    if not use.form.constraint or _has_place(use.tools, model, options.get("template")):
        return messages, chat_options
    return with_system(as_texts(messages), _describe_functions(use)), chat_options


def _tools(value: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    check_texts("tools", value)
    tools = [_tool(f"tools[{i}]", tool) for i, tool in enumerate(value)]
    names = [tool["function"]["name"] for tool in tools]
    for name in names:
        if names.count(name) > 1:
            raise bad_field("tools", f"tools has two functions called {name!r}")
    return tools


def _tool(where: str, tool: Mapping[str, Any]) -> dict[str, Any]:
    function = tool["function"]
    name = function["name"]
    if not _NAME.fullmatch(name):
        expected = "a name of at most 64 letters, digits, '_', '-' and '.'"
        raise unfit(f"{where}.function.name", expected, name, param="tools")
    # Some templates need a description.
    declaration: dict[str, Any] = {"name": name, "description": ""}
    declaration |= {k: v for k, v in function.items() if v is not None and k != "strict"}
    parameters = declaration.get("parameters", {})
    if parameters.keys() <= _ABOUT and parameters.get("type", "object") == "object":
        parameters = {**parameters, **_NO_PARAMETERS}
    types = parameters.get("type")
    if types is None or (isinstance(types, list) and "object" in types):
        parameters = {**parameters, "type": "object"}  # arguments are always an object
    _check_schema(f"{where}.function.parameters", parameters)
    return {"type": "function", "function": {**declaration, "parameters": parameters}}


def _check_schema(where: str, schema: object) -> None:
    """Check that the parameters of a function are a valid schema, even if unused."""
    try:
        check_schema(schema_text(schema)[0], ())
    except BadArgumentError as error:
        raise bad_field("tools", str(error.moved(argument=where))) from None


def _chosen_name(choice: Mapping[str, Any], names: Sequence[str]) -> str:
    name = (choice.get("function") or {}).get("name")
    if name not in names:
        offered = ", ".join(names) or "none"
        raise bad_field(
            "tool_choice",
            f"tool_choice.function.name must be one of the tools ({offered}), not "
            f"{checks.brief(name)}",
        )
    return str(name)


def _schema(functions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the schema of a call: arguments of one function, or name and arguments."""
    if len(functions) == 1:
        return dict(_place_schema(functions[0]["parameters"], "#"))
    return {"anyOf": _calls(functions)}


def _calls(functions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the schemas of calls with name and arguments, for `anyOf`."""
    return [
        {
            "type": "object",
            "properties": {
                "name": {"const": function["name"]},
                "arguments": _place_schema(
                    function["parameters"], f"#/anyOf/{i}/properties/arguments"
                ),
            },
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        for i, function in enumerate(functions)
    ]


def _place_schema(schema: Mapping[str, Any], start: str) -> Any:  # JSON
    """Return a schema that keeps its meaning beside those of other functions."""
    try:
        return standalone(schema, start)
    except RecursionError:
        raise bad_field("tools", "parameters of a function are nested too deep") from None
    except Exception:  # noqa: BLE001 - whatever a schema that is not valid brings about
        return schema  # its check names the reason


def _call_or(form: AnswerForm, tools: Sequence[Mapping[str, Any]]) -> AnswerForm:
    """Return the form of an answer that is a call or follows a form."""
    if form.constraint != "schema":
        text = f"{form.field} cannot be combined with calls of tools, but a schema can"
        raise bad_field(form.field, text)
    with renaming_fields(form.names):
        shape_of(form.value)
        schema = json.loads(schema_text(form.value)[0])
    calls = _calls([tool["function"] for tool in tools])
    answer = _place_schema(schema, f"#/anyOf/{len(calls)}")
    return AnswerForm("schema", {"anyOf": [*calls, answer]}, "tools")


def _format(
    tools: Sequence[Mapping[str, Any]], model: Model, template: str | None
) -> ToolFormat:
    """Return the format of calls in a free answer."""
    tool_format = None
    if _has_place(tools, model, template):
        tool_format = tool_format_of(chat_renderer(model, template=template))
    if tool_format is None:
        _say_generic(model.path)
        return GENERIC
    return tool_format


@lru_cache(maxsize=64)
def _say_generic(path: object) -> None:
    """Log, once for a model, that its template has no format of calls."""
    log.warning(
        "the chat template of %s does not describe functions, or writes calls in an "
        "unknown format: a system text describes them, see docs/templates.md",
        path,
    )


def _has_place(
    tools: Sequence[Mapping[str, Any]], model: Model, template: str | None
) -> bool:
    """Whether a chat template writes the functions into the prompt.

    Some templates fail for types such as `["string", "null"]`.
    """
    name = "look_up_7"
    function = {"name": name, "description": name, "parameters": OBJECT}
    described = [{"type": "function", "function": function}, *tools]
    try:
        renderer = chat_renderer(model, template=template).probe({"tools": described})
        return name in renderer.render([{"role": "user", "content": "a"}])
    except ChatTemplateError:
        return False


def _describe_functions(use: ToolUse) -> str:
    """Return a text that describes the functions of a call in JSON."""
    by_name = {tool["function"]["name"]: tool["function"] for tool in use.tools}
    names = use.forced or tuple(by_name)
    parts = []
    for name in names:
        function = by_name[name]
        words = function.get("description")
        head = f"Function {name}{f': {words}' if words else ''}"
        parts.append(f"{head}\nArguments:\n{schema_prompt(function['parameters'])}")
    form = '{"name": name of the function, "arguments": {its arguments}}'
    if len(use.forced) == 1:
        start = "Call this function. Answer with its arguments only."
    elif use.forced:
        start = f"Call one of these functions. Answer with JSON only: {form}."
    else:
        start = f"You may call one of these functions with JSON only: {form}."
    return "\n\n".join([start, *parts])


def _call(name: str, arguments: str) -> FunctionCall:
    return FunctionCall(f"call_{secrets.token_hex(12)}", name, arguments)
