"""Calls of tools: calls written by templates are read back; invalid calls are data."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import llamaherd as lh
import pytest
import tiny_models
from hypothesis import given
from hypothesis import strategies as st
from llamaherd.calls.chat.renderer import Renderer
from llamaherd.calls.chat.tool_calls import ToolAnswer, ToolCall, parse_tool_calls
from llamaherd.calls.chat.tool_readers import FORMATS, tool_format_of
from llamaherd.engine.model.tokens import prompt_tokens
from thorough import examples

BY_NAME = {tool_format.name: tool_format for tool_format in FORMATS}
SNAPSHOTS = json.loads(
    (Path(__file__).parent / "templates.json").read_text(encoding="utf-8")
)
# One template for each format, and the character that ends its values.
TEMPLATES = {
    "hermes": ("Qwen-Qwen2.5-7B-Instruct", ""),
    "llama": ("meta-llama-Llama-3.3-70B-Instruct", ""),
    "mistral": ("mistralai-Mistral-Nemo-Instruct-2407", ""),
    "gpt-oss": ("openai-gpt-oss-120b", "<"),
    "cohere": ("Cohere2MoE", ""),
    "nemotron": ("NVIDIA-Nemotron-Nano-v2", ""),
    "kimi": ("moonshotai-Kimi-K2", "<"),
    "glm": ("GLM-4.6", "<"),
    "xml": ("Qwen3-Coder", "<"),
    "deepseek": ("deepseek-ai-DeepSeek-V3.1", "<"),
    "invoke": ("MiniMax-M2", "<"),
    "gemma": ("google-gemma-4-31B-it", "<"),
    "kimi-k3": ("Kimi-K3", "<"),
    "minimax-m3": ("MiniMax-M3", "<"),
}
# Only schemas distinguish texts from numbers, because values have no quotes.
UNTYPED = ("glm", "xml", "invoke", "minimax-m3")
# Templates of these formats write several calls in a turn.
SEVERAL = tuple(name for name in TEMPLATES if name not in ("llama", "gpt-oss"))

values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
names = st.from_regex(r"\A[a-z_][a-z0-9_]{0,9}\Z")
# Gemma writes keys without quotes.
plain_keys = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


def wide(text: str) -> str:
    """Return text with the wide bars of DeepSeek's tokens."""
    return text.replace("|", "\uff5c")


def written(
    folder: Path, template: str, calls: list[tuple[str, dict[str, object]]]
) -> tuple[str, Renderer]:
    """Return the text that a template writes for an answer with some calls."""
    source = (folder / f"{template}.jinja").read_text(encoding="utf-8")
    renderer = Renderer(
        source,
        {},
        bos="<s>",
        eos="</s>",
        day=dt.datetime(2026, 1, 1),  # noqa: DTZ001 - a day, no moment
        mark=lambda text: text,
    )
    question = {"role": "user", "content": "Quest7"}
    answer = {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": "call00001",
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
            for name, arguments in calls
        ],
    }
    whole = renderer.render([question, answer], add_generation_prompt=False)
    text = whole.partition("Quest7")[2]
    if "Llama-3" in template:
        text = text.partition("<|end_header_id|>")[2].removesuffix("<|eot_id|>")
        text = text.partition("<|end_header_id|>")[2] or text
    return text, renderer


@pytest.mark.parametrize("name", sorted(TEMPLATES))
@given(data=st.data())
@examples(25)
def test_what_a_template_writes_is_read_back(
    templates_folder: Path, name: str, data: st.DataObject
) -> None:
    template, banned = TEMPLATES[name]
    inner = st.text(min_size=1, max_size=12) if name in UNTYPED else values
    inner = plain_keys if name == "gemma" else inner
    arguments = st.dictionaries(names, inner, min_size=1, max_size=3)
    n_most = 3 if name in SEVERAL else 1
    calls = data.draw(st.lists(st.tuples(names, arguments), min_size=1, max_size=n_most))
    texts = json.dumps(calls, ensure_ascii=False)
    if (banned and banned in texts) or "\ufdd0" in texts or "\ufdd1" in texts:
        return
    if name in UNTYPED:  # such values have no white space at their ends
        calls = [(n, {k: str(v).strip() or "x" for k, v in a.items()}) for n, a in calls]
    tools = [
        {
            "type": "function",
            "function": {
                "name": n,
                "parameters": {"properties": {k: {"type": "string"} for k in a}},
            },
        }
        for n, a in calls
    ]
    if name in UNTYPED and len({n for n, _ in calls}) < len(calls):
        return  # tools of one name have one schema
    text, renderer = written(templates_folder, template, calls)
    how = tool_format_of(renderer)
    assert how is not None
    assert how.name == name
    answer = parse_tool_calls(text, how, tools)
    assert [(c.name, c.arguments, c.problem) for c in answer.calls] == [
        (n, a, "") for n, a in calls
    ]


@pytest.mark.parametrize(
    ("name", "text", "calls", "kept"),
    [
        (
            "hermes",
            (
                'I look.\n<tool_call>\n{"name": "f", "arguments": {"a": "</tool_call>"}}'
                '\n</tool_call>\n<tool_call>{"name": "g", "arguments": "{}"}</tool_call>'
            ),
            [("f", {"a": "</tool_call>"}), ("g", {})],
            "I look.",
        ),
        (
            "gpt-oss",
            (
                "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>"
                'commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>'
            ),
            [("f", {"a": 1})],
            "",
        ),
        (
            "mistral",
            '[TOOL_CALLS]f[ARGS]{"a": 1}[TOOL_CALLS]g[CALL_ID]x[ARGS]{}</s>',
            [("f", {"a": 1}), ("g", {})],
            "",
        ),
        (
            "llama",
            (
                '<|python_tag|>{"name": "f", "parameters": {"a": 1}}; {"name": "g", '
                '"parameters": {}}'
            ),
            [("f", {"a": 1}), ("g", {})],
            "",
        ),
        ("llama", "No call {at all}.", [], "No call {at all}."),
        (
            "deepseek",
            wide(
                "I look.<|tool▁calls▁begin|><|tool▁call▁begin|>function<|tool▁sep|>f\n"
                '```json\n{"a": "```"}\n```<|tool▁call▁end|>\n<|tool▁call▁begin|>g'
                "<|tool▁sep|>{}<|tool▁call▁end|><|tool▁calls▁end|><|end▁of▁sentence|>"
            ),
            [("f", {"a": "```"}), ("g", {})],
            "I look.",
        ),
        (
            "invoke",
            wide(
                'Well.\n\n<|DSML|tool_calls>\n<|DSML|invoke name="f">\n'
                '<|DSML|parameter name="a" string="true">1</|DSML|parameter>\n'
                '<|DSML|parameter name="b" string="false">[1]</|DSML|parameter>\n'
                "</|DSML|invoke>\n</|DSML|tool_calls>"
            ),
            [("f", {"a": "1", "b": [1]})],
            "Well.",
        ),
        (
            "gemma",
            'Yes.<|tool_call>call:f{a:<|"|>b:1,"c"<|"|>,d:{e:[true,null]}}<tool_call|>',
            [("f", {"a": 'b:1,"c"', "d": {"e": [True, None]}})],
            "Yes.",
        ),
        (
            "kimi-k3",
            (
                "<|open|>think<|sep|>Hm.<|close|>think<|sep|><|open|>response<|sep|>Yes."
                '<|close|>response<|sep|><|open|>tools<|sep|><|open|>call tool="f" '
                'index="1"<|sep|><|open|>json type="object"<|sep|>{"a": 1}<|close|>json'
                "<|sep|><|close|>call<|sep|><|close|>tools<|sep|><|close|>message<|sep|>"
            ),
            [("f", {"a": 1})],
            "Yes.",
        ),
        (
            "minimax-m3",
            (
                ']<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="f">]<]minimax[>[<a>'
                "]<]minimax[>[<item>1]<]minimax[>[</item>]<]minimax[>[<item>x"
                "]<]minimax[>[</item>]<]minimax[>[</a>]<]minimax[>[<o>]<]minimax[>[<k>true"
                "]<]minimax[>[</k>]<]minimax[>[</o>]<]minimax[>[</invoke>\n"
                "]<]minimax[>[</tool_call>"
            ),
            [("f", {"a": [1, "x"], "o": {"k": True}})],
            "",
        ),
        ("llama", '{"x": 1}', [], '{"x": 1}'),
        ("hermes", " no call ", [], " no call "),
        (
            "gpt-oss",
            (
                "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final"
                "<|message|>Yes.<|return|>"
            ),
            [],
            "Yes.",
        ),
    ],
)
def test_calls_and_the_text_beside_them(
    name: str, text: str, calls: list[tuple[str, dict[str, object]]], kept: str
) -> None:
    answer = parse_tool_calls(text, BY_NAME[name])
    assert [(c.name, c.arguments) for c in answer.calls] == calls
    assert not any(c.problem for c in answer.calls)
    assert answer.text == kept


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("hermes", '<tool_call>{"name": "f", "arguments": {"a": '),
        ("hermes", "<tool_call>f(1)</tool_call>"),
        ("hermes", '<tool_call>{"arguments": {}}</tool_call>'),
        ("hermes", '<tool_call>{"name": "f", "arguments": [1]}</tool_call>'),
        ("hermes", '<tool_call>{"name": "f", "arguments": {"a": NaN}}</tool_call>'),
        ("hermes", "<tool_call>" + "[" * 200_000),
        ("hermes", '<tool_call>{"name": "f", "arguments": ' + "9" * 9999 + "}"),
        ("hermes", "<tool_call>7</tool_call>"),
        ("llama", '{"name": "f", "parameters": {'),
        ("mistral", "[TOOL_CALLS]nonsense"),
        ("mistral", '[TOOL_CALLS]f[ARGS]{"a'),
        ("gpt-oss", ' to=functions.f<|channel|>commentary json<|message|>{"a'),
        ("glm", "<tool_call>f<arg_key>a</arg_key><arg_val"),
        ("xml", "<tool_call><function=f><parameter=a>1"),
        ("kimi", '<|tool_call_begin|>f:0<|tool_call_argument_begin|>{"a'),
        ("deepseek", wide('<|tool▁call▁begin|>f<|tool▁sep|>{"a')),
        ("deepseek", wide("<|tool▁call▁begin|>f<|tool▁sep|>[]<|tool▁call▁end|>")),
        ("invoke", '<invoke name="f"><parameter name="a">1'),
        ("gemma", '<|tool_call>call:f{a:<|"|>'),
        ("gemma", "<|tool_call>call:f{a:}<tool_call|>"),
        ("kimi-k3", '<|open|>call tool="f"<|sep|><|open|>argument key="a"'),
        ("minimax-m3", ']<]minimax[>[<invoke name="f">]<]minimax[>[<a>1'),
        (
            "minimax-m3",
            (
                ']<]minimax[>[<invoke name="f">]<]minimax[>[<a>1]<]minimax[>[</b>'
                "]<]minimax[>[</invoke>"
            ),
        ),
        (
            "minimax-m3",
            ']<]minimax[>[<invoke name="f">'
            + "]<]minimax[>[<a>" * 9999
            + "]<]minimax[>[</invoke>",
        ),
    ],
)
def test_an_invalid_call_is_data_with_a_reason(name: str, text: str) -> None:
    answer = parse_tool_calls(text, BY_NAME[name])
    assert len(answer.calls) == 1
    assert answer.calls[0].problem
    assert answer.calls[0].arguments == {}


@pytest.mark.parametrize("name", sorted(BY_NAME))
@given(text=st.text(max_size=60), marks=st.lists(st.integers(0, 39), max_size=6))
@examples(50)
def test_no_text_raises(name: str, text: str, marks: list[int]) -> None:
    pieces = (
        *("<tool_call>", "</tool_call>", "[TOOL_CALLS]", "[ARGS]", "<function=f>"),
        *("</function>", "<parameter=a>", "</parameter>", " to=functions.f<|message|>"),
        *("<|call|>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"),
        *('{"name":', "[", "{", "}", "<|tool_call_begin|>", "<|start|>"),
        *map(wide, ("<|tool▁call▁begin|>", "<|tool▁sep|>", "<|tool▁call▁end|>")),
        "</invoke>",
        *('<invoke name="f">', '<parameter name="a">', "<|tool_call>call:f{a:"),
        *('<|"|>', "}<tool_call|>", '<|open|>call tool="f"<|sep|>', "<|sep|>"),
        *("<|close|>call<|sep|>", ']<]minimax[>[<invoke name="f">', "]<]minimax[>[<a>"),
        *("]<]minimax[>[</a>", "]<]minimax[>[</invoke>"),
    )
    given_text = text.join(pieces[i % len(pieces)] for i in marks)
    for call in parse_tool_calls(given_text, BY_NAME[name]).calls:
        assert isinstance(call, ToolCall)


def test_types_of_a_schema_decide_between_text_and_number() -> None:
    text = "<tool_call><function=f><parameter=a>1</parameter></function></tool_call>"
    tool = {"name": "f", "parameters": {"properties": {"a": {"type": "string"}}}}
    (call,) = parse_tool_calls(text, BY_NAME["xml"]).calls
    assert call.arguments == {"a": 1}
    (call,) = parse_tool_calls(text, BY_NAME["xml"], [tool]).calls
    assert call.arguments == {"a": "1"}


def test_tools_and_calls_are_rendered_with_their_texts_as_text(tmp_path: Path) -> None:
    template = (
        "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|start|>"
        "{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>"
        "{{ c.function | tojson }}{% endfor %}{% endfor %}"
    )
    path = tiny_models.write(tmp_path / "m.gguf", "llama", chat_template=template)
    tools = [{"function": {"name": "f", "description": "<tool_call><|start|>"}}]
    call = {"function": {"name": "f", "arguments": '{"a": "<think>"}'}}
    talk = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
    ]
    with lh.Model(path) as model:
        prompt = lh.apply_chat_template(model, talk, tools=tools)
        tokens = prompt_tokens(model, "prompt", prompt).tolist()
        (start,) = lh.tokenize(model, "<|start|>", add_special=False, parse_special=True)
        (opening,) = lh.tokenize(
            model, "<tool_call>", add_special=False, parse_special=True
        )
    assert '"arguments": {"a": "\ufdd0<think>\ufdd1"}' in prompt
    assert (tokens.count(start), tokens.count(opening)) == (2, 1)


TYPED = {
    "name": "f",
    "parameters": {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "perhaps": {"type": ["string", "null"]},
            "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "code": {"$ref": "#/$defs/code"},
            "both": {"allOf": [{"$ref": "#/$defs/code"}, {"maxLength": 9}]},
            "level": {"enum": ["1", "2"]},
            "digit": {"const": "7"},
            "n": {"type": "integer"},
            "some": {"type": ["number", "null"]},
            "mixed": {"type": ["integer", "string"]},
            "flag": {"type": "boolean"},
            "items": {"type": "array", "items": {"type": "integer"}},
            "any": {},
        },
        "$defs": {"code": {"type": "string"}},
    },
}
VALUES: list[tuple[str, str, object]] = [
    ("text", "12", "12"),
    ("perhaps", "12", "12"),
    ("perhaps", "null", None),
    ("perhaps", "None", None),
    ("either", "12", "12"),
    ("code", "007", "007"),
    ("both", "1.0", "1.0"),
    ("level", "1", "1"),
    ("digit", "7", "7"),
    ("n", "12", 12),
    ("n", "12.0", 12),
    ("some", "1.5", 1.5),
    ("mixed", "12", 12),
    ("mixed", "x", "x"),
    ("flag", "True", True),
    ("flag", "false", False),
    ("items", "[1, 2]", [1, 2]),
    ("any", "12", 12),
    ("any", "True", "True"),
    ("any", "1e999", "1e999"),
    ("undeclared", "[1]", [1]),
]
# How formats without types write a call of f with one argument.
UNTYPED_CALLS = {
    "xml": (
        "<tool_call>\n<function=f>\n<parameter=KEY>\nVALUE\n</parameter>\n</function>\n"
        "</tool_call>"
    ),
    "glm": (
        "<tool_call>f\n<arg_key>KEY</arg_key>\n<arg_value>VALUE</arg_value></tool_call>"
    ),
    "invoke": '<invoke name="f"><parameter name="KEY">VALUE</parameter></invoke>',
    "minimax-m3": (
        ']<]minimax[>[<invoke name="f">]<]minimax[>[<KEY>VALUE]<]minimax[>[</KEY>'
        "]<]minimax[>[</invoke>"
    ),
}


def with_argument(name: str, key: str, value: str) -> str:
    return UNTYPED_CALLS[name].replace("KEY", key).replace("VALUE", value)


@pytest.mark.parametrize("name", sorted(UNTYPED_CALLS))
@pytest.mark.parametrize(("key", "text", "value"), VALUES)
def test_arguments_have_their_declared_types(
    name: str, key: str, text: str, value: object
) -> None:
    answer = parse_tool_calls(with_argument(name, key, text), BY_NAME[name], [TYPED])
    assert [(c.arguments, c.problem) for c in answer.calls] == [({key: value}, "")]
    assert type(answer.calls[0].arguments[key]) is type(value)


@pytest.mark.parametrize("name", sorted(UNTYPED_CALLS))
@pytest.mark.parametrize(
    ("key", "text"),
    [("n", "many"), ("flag", "maybe"), ("items", "1, 2"), ("some", "1e999")],
)
def test_an_argument_of_another_type_is_a_problem_that_names_it(
    name: str, key: str, text: str
) -> None:
    whole = with_argument(name, key, text)
    answer = parse_tool_calls(whole, BY_NAME[name], [TYPED])
    assert f"the argument {key!r} must be" in answer.calls[0].problem
    assert (answer.calls[0].arguments, answer.text) == ({}, whole)


CLOSING_TAGS = {
    "xml": ("</parameter>", "</function>", "</tool_call>"),
    "glm": ("</arg_value>", "</tool_call>"),
    "invoke": ("</parameter>", "</invoke>"),
}


@pytest.mark.parametrize("name", sorted(CLOSING_TAGS))
def test_a_tag_in_a_value_loses_nothing(name: str) -> None:
    whole = with_argument(name, "text", "a VALUE b")
    pieces = [*CLOSING_TAGS[name], *whole.replace("\n", "").split("a VALUE b")]
    for tag in pieces:
        text = with_argument(name, "text", f"a {tag} b")  # also a whole opening
        answer = parse_tool_calls(text, BY_NAME[name], [TYPED])
        valid = [c.arguments for c in answer.calls if not c.problem]
        assert valid == [{"text": f"a {tag} b"}] or (not valid and answer.text == text)
        if tag in CLOSING_TAGS[name]:
            assert valid, tag


@pytest.mark.parametrize("name", sorted(CLOSING_TAGS))
def test_a_missing_tag_is_no_call_without_arguments(name: str) -> None:
    whole = with_argument(name, "text", "a")
    for tag in CLOSING_TAGS[name][:2]:
        answer = parse_tool_calls(whole.replace(tag, ""), BY_NAME[name], [TYPED])
        assert [bool(c.problem) for c in answer.calls] == [True], tag
        assert answer.text == whole.replace(tag, "")


# A call of f without arguments, and another call, in each format with JSON.
JSON_CALLS = {
    "hermes": '<tool_call>{"name": "NAME", "arguments": JSON}</tool_call>',
    "nemotron": '<TOOLCALL>[{"name": "NAME", "arguments": JSON}]</TOOLCALL>',
    "mistral": "[TOOL_CALLS]NAME[ARGS]JSON",
    "kimi": (
        "<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>JSON"
        "<|tool_call_end|>"
    ),
    "deepseek": wide("<|tool▁call▁begin|>NAME<|tool▁sep|>JSON<|tool▁call▁end|>"),
    "gpt-oss": "<|start|>assistant to=functions.NAME<|message|>JSON<|call|>",
    "llama": '{"name": "NAME", "parameters": JSON}',
}
NO_JSON = [
    '{"a": 1e999}',
    '{"a": "\\ud83d"}',
    '{"a": 1, "a": 2}',
    '{"a": True}',
    '{"a": "x\ny"}',
    "{a: 1}",
    '{"a" = 1}',
    '{"a": 1} 2',
    "[1]",
]


@pytest.mark.parametrize("name", sorted(JSON_CALLS))
@pytest.mark.parametrize("json_text", NO_JSON)
def test_what_cannot_be_read_beside_a_call_stays_text(name: str, json_text: str) -> None:
    good = JSON_CALLS[name].replace("NAME", "f").replace("JSON", "{}")
    bad = JSON_CALLS[name].replace("NAME", "f").replace("JSON", json_text)
    answer = parse_tool_calls(f"{good}\n{bad}", BY_NAME[name], [TYPED])
    if (name, json_text) == ("mistral", '{"a": 1} 2'):  # a text after the call
        assert (answer.text, len(answer.calls)) == ("2", 2)
        return
    assert [(c.name, c.arguments) for c in answer.calls if not c.problem] == [("f", {})]
    assert [c.problem for c in answer.calls if c.problem]
    assert json_text in answer.text
    alone = parse_tool_calls(bad, BY_NAME[name], [TYPED])
    assert not [c for c in alone.calls if not c.problem]
    assert alone.text == bad


@pytest.mark.parametrize("name", sorted(JSON_CALLS | UNTYPED_CALLS))
def test_only_declared_functions_are_called(name: str) -> None:
    if name in JSON_CALLS:
        text = JSON_CALLS[name].replace("NAME", "f").replace("JSON", "{}")
    else:
        text = with_argument(name, "text", "a")
    other = [{"type": "function", "function": {"name": "g"}}]
    answer = parse_tool_calls(text, BY_NAME[name], other)
    assert not [c for c in answer.calls if not c.problem]
    if name != "llama":  # JSON is a usual answer
        assert [c.problem for c in answer.calls] == ["the function 'f' was not declared"]
        assert "f" in answer.text


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "Alice", "age": 30}',
        '{"name": "f", "age": 30}',
        '{"name": "Al',
        '{"a": 1',
    ],
)
def test_an_answer_in_json_is_no_call(text: str) -> None:
    assert parse_tool_calls(text, BY_NAME["llama"], [TYPED]) == ToolAnswer(text, ())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gemma", "<|tool_call>call:f{my key:1}<tool_call|>"),
        ("gemma", "<|tool_call>call:f{text=1}<tool_call|>"),
        ("gemma", "<|tool_call>call:f{flag:True}<tool_call|>"),
        ("gemma", "<|tool_call>f(1)<tool_call|>"),
        ("mistral", "[TOOL_CALLS]f{}"),
        ("hermes", "<tool_call>f{}</tool_call>"),
        ("hermes", '<tool_call>{"name": "f", "arguments": {"text": "a\nb"}}</tool_call>'),
        ("hermes", '<tool_call>{"name": "f", "arguments": {}, "text": "a"}</tool_call>'),
    ],
)
def test_drift_stays_text_with_its_problem(name: str, text: str) -> None:
    answer = parse_tool_calls(f"Well. {text} So.", BY_NAME[name], [TYPED])
    assert [bool(c.problem) for c in answer.calls] == [True]
    assert answer.text == f"Well. {text} So."


def test_text_after_a_call_of_mistral_stays() -> None:
    for call in ('[{"name": "f", "arguments": {}}]', "f[ARGS]{}"):
        answer = parse_tool_calls(f"A [TOOL_CALLS]{call} B", BY_NAME["mistral"], [TYPED])
        assert (answer.text, len(answer.calls)) == ("A  B", 1)


def test_literal_escapes_of_marks_in_arguments_stay(tmp_path: Path) -> None:
    path = tiny_models.write(tmp_path / "m.gguf", "llama", chat_template=(
        "{% for m in messages %}{% for c in m.tool_calls or [] %}"
        "{{ c.function.arguments | tojson }}{{ c.function.arguments }}"
        "{% endfor %}{% endfor %}"
    ))  # fmt: skip
    call = {"function": {"name": "f", "arguments": {"a": "\\ufdd0"}}}
    with lh.Model(path) as model:
        talk = [{"role": "assistant", "content": "", "tool_calls": [call]}]
        prompt = lh.apply_chat_template(model, talk)
    assert prompt == "{\"a\": \"\\\\ufdd0\"}{'a': '\\\\ufdd0'}"
