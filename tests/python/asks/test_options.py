"""Every option is declared once; the calls that take it agree with the declaration."""

from __future__ import annotations

import importlib.util
import pickle
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import llamaherd as lh
import pytest
from interfaces import PYTHON, UNSEEN, all_of_python, differences
from llamaherd.calls.asks import options as declared
from llamaherd.calls.asks.annotate_options import AnnotateOptions
from llamaherd.calls.asks.keywords import GenerateSettings
from llamaherd.calls.asks.settings import asked_of
from llamaherd.cli.run import annotate, classify, embed, run
from llamaherd.cli.serve import serve
from llamaherd.engine.core.declaration import REQUIRED, options_of
from llamaherd.engine.core.errors import BadArgumentError
from llamaherd.engine.core.values import Real, Whole
from llamaherd.server.settings import ServerSettings
from llamaherd.tables.spec_keys import AT_TOP, KEYS, TASK_TABLES

if TYPE_CHECKING:
    from types import ModuleType

    from interfaces import Taken
    from llamaherd.engine.core.declaration import Options

ROOT = Path(__file__).parents[3]
HEADER = (ROOT / "capi_shim" / "newrllama_capi.h").read_text(encoding="utf-8")
INTERFACES = list(all_of_python(HEADER))
CLASSES: list[type[Options]] = [
    lh.SamplingParams,
    declared.GenerateOptions,
    declared.ClassifyOptions,
    declared.ScoreOptions,
    declared.PerplexityOptions,
    declared.EmbedOptions,
    AnnotateOptions,
]


@pytest.fixture(scope="module")
def generate_options() -> ModuleType:
    path = ROOT / "scripts" / "generate_options.py"
    spec = importlib.util.spec_from_file_location("generate_options", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_files_follow_from_the_declaration(
    generate_options: ModuleType,
) -> None:
    for path, text in generate_options.files().items():
        assert path.read_text(encoding="utf-8") == text, f"{path}: run `make generated`"
        assert generate_options.MARK in text


@pytest.mark.parametrize("which", INTERFACES, ids=lambda which: which[0])
def test_an_interface_takes_the_declared_options(which: tuple[str, Taken, Taken]) -> None:
    _, expected, taken = which
    assert differences(expected, taken) == []
    assert differences({**expected, "one_more": 1}, taken) == ["one_more is missing"]
    assert differences(expected, {**taken, "x": 1}) == ["x is not declared"]
    options = [name for name, value in taken.items() if value is not UNSEEN]
    for name in options[:1]:
        assert differences({**expected, name: "another"}, {**taken, name: "b"}) != []


@pytest.mark.parametrize("kind", CLASSES)
def test_every_option_has_a_line_of_documentation(kind: type[Options]) -> None:
    for name, spec in kind.declared.items():
        line = spec.sentence
        assert line.endswith("."), name
        assert line[0].isupper(), name
        assert len(line) <= 100, name
        assert f"    {name}: " in str(kind.__doc__)


@pytest.mark.parametrize("kind", CLASSES)
def test_defaults_have_the_form_of_checked_values(kind: type[Options]) -> None:
    for name, spec in kind.declared.items():
        if spec.default is not None and spec.default is not REQUIRED:
            checked = spec.kind.check(name, spec.default)
            assert (type(checked), checked) == (type(spec.default), spec.default), name


NUMBERS = [
    (kind, spec)
    for kind in CLASSES
    for spec in kind.declared.values()
    if isinstance(spec.kind, (Whole, Real))
]


@pytest.mark.parametrize(
    ("kind", "spec"), NUMBERS, ids=lambda case: getattr(case, "name", "")
)
def test_a_number_out_of_range_is_named(kind: type[Options], spec: Any) -> None:
    needed: dict[str, Any] = {}
    if kind is declared.ClassifyOptions:  # several thoughts need thinking
        needed = {"labels": ["a"], "thinking": True}
    for value in (spec.kind.low - 1, spec.kind.high + 1, "5", True):
        with pytest.raises(BadArgumentError, match=f"^{spec.name} must be") as raised:
            kind(**needed, **{spec.name: value})
        assert raised.value.argument == spec.name
        assert raised.value.code in ("out_of_range", "wrong_type")
        assert raised.value.value == value
    for value in (spec.kind.low, spec.kind.high):
        options = kind(**needed, **{spec.name: value})
        assert getattr(options, spec.name) == value


def test_options_store_only_what_differs_from_the_defaults() -> None:
    params = lh.SamplingParams(temperature=0.0, top_k=40, stop=None, logit_bias={})
    assert params == lh.SamplingParams()
    assert hash(params) == hash(lh.SamplingParams())
    assert params.changed() == []
    other = replace(params, seed=3, top_p=np_half())
    assert repr(other) == "SamplingParams(top_p=0.5, seed=3)"
    assert pickle.loads(pickle.dumps(other)) == other != params
    with pytest.raises(AttributeError, match="cannot assign to field 'seed'"):
        other.seed = 4  # type: ignore[misc]
    with pytest.raises(TypeError, match="labels is missing"):
        declared.ClassifyOptions()  # type: ignore[call-arg]


def test_an_error_keeps_its_value_but_pickles_without_it() -> None:
    objects = [object(), lambda: None]
    with pytest.raises(BadArgumentError) as raised:
        lh.SamplingParams(top_k=objects)  # type: ignore[arg-type]
    assert raised.value.value is objects
    assert raised.value.moved(argument="k").value is objects
    copied = pickle.loads(pickle.dumps(raised.value))
    assert (str(copied), copied.value) == (str(raised.value), None)


def np_half() -> Any:
    return pytest.importorskip("numpy").float32(0.5)


def test_help_explains_every_option() -> None:
    for name, (kind, interface, _) in PYTHON.items():
        function = lh.Context.submit if name == "submit" else getattr(lh, name)
        if "Args:" not in function.__doc__:  # documented elsewhere
            continue
        for option in options_of(kind, interface):
            assert f"    {option}: " in function.__doc__, (name, option)


def test_an_option_that_a_call_does_not_take_is_refused() -> None:
    of = declared.GenerateOptions.of
    with pytest.raises(TypeError, match="there is no argument 'stream'"):
        of(GenerateSettings, {"stream": True})
    with pytest.raises(TypeError, match="'retires'; did you mean 'retries'"):
        of(GenerateSettings, {"retires": 1})
    with pytest.raises(TypeError, match="there is no argument 'sampling'"):
        of(GenerateSettings, {"sampling": {}})
    options = of(GenerateSettings, {"retries": 1, "top_k": 3})
    assert (options.retries, options.sampling) == (1, {"top_k": 3})


COMMANDS = {"sampling": run, "classify": classify, "embed": embed, "annotate": annotate}


def flags(table: str) -> dict[str, click.Option]:
    """Return the command's flags that set options, by option."""
    flags_by_name = {}
    for param in COMMANDS[table].params:
        if isinstance(param, click.Option):
            where, _, name = param.name.rpartition("__")
            name = "choices" if (table, name) == ("sampling", "labels") else name
            # One flag sets this option for all tasks, mostly for the context.
            is_shared = name == "deterministic"
            is_key = name in {*KEYS[table], *AT_TOP}
            if where == table or (not where and is_key and not is_shared):
                assert name not in flags_by_name, f"{name} is there twice"
                flags_by_name[name] = param
    return flags_by_name


@pytest.mark.parametrize("table", COMMANDS)
def test_flags_set_options_and_explain_them_alike(table: str) -> None:
    options = TASK_TABLES[table]
    docs = {name: spec.sentence for name, spec in options_of(options).items()}
    flags_by_name = flags(table)
    assert len(flags_by_name) >= 3
    for name in flags_by_name.keys() & docs.keys():
        flag = flags_by_name[name]
        default = flag.to_info_dict()["default"]
        assert default is None, name  # the option is in the declaration
        line = docs[name].partition(" Needs")[0]
        assert flag.help.startswith(line), name
        if isinstance(flag.type, click.Choice):
            needed = {"labels": ["a"]} if table == "classify" else {}
            with pytest.raises(ValueError, match=f"{name} must be one of") as raised:
                options(**needed, **{name: "?"})
            assert all(repr(choice) in str(raised.value) for choice in flag.type.choices)


def test_any_key_of_a_run_file_can_be_set_by_a_flag() -> None:
    for command in COMMANDS.values():
        assert any("--set" in param.opts for param in command.params)


def test_settings_of_the_server_have_the_flags_of_their_declaration() -> None:
    flags_by_name = {param.name: param for param in serve.params}
    settings = ServerSettings(model_name="m")
    assert settings.max_tokens == 1024
    for name, setting in ServerSettings.declared.items():
        if setting.flag is not None:
            flag = flags_by_name[name]
            assert flag.help.startswith(setting.sentence)
            default = flag.to_info_dict()["default"]
            assert (default or None) == (getattr(settings, name) or None), name


SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


def test_prompts_with_the_same_settings_share_them() -> None:
    sampling = {"schema": [SCHEMA, None, SCHEMA], "max_tokens": 7, "stop": "x"}
    arguments = asked_of(["p", "q", "r"], declared.GenerateOptions(sampling=sampling))
    with_schema, without, again = arguments.settings
    assert with_schema is again
    assert arguments.different == [with_schema, without]
    assert [setting.limit for setting in arguments.different] == [7, 7]
    assert with_schema.stop == ("x",)
    assert (with_schema.is_constrained, without.is_constrained) == (True, False)
    assert with_schema.shape is not None
    assert with_schema.constraint == lh.SamplingParams(schema=SCHEMA)


def test_settings_of_a_prompt_replace_those_of_params() -> None:
    options = declared.GenerateOptions(
        params=lh.SamplingParams(regex="[ab]"),
        sampling={"regex": [None, "x"], "choices": [["a", "b"], None]},
    )
    first, second = (one.sampling for one in asked_of(["p", "q"], options).settings)
    assert (first.regex, first.choices) == (None, ("a", "b"))
    assert (second.regex, second.choices) == ("x", None)


def test_a_schema_that_cannot_be_used_is_a_problem_of_its_prompts() -> None:
    sampling = {"schema": [SCHEMA, {"type": "string", "format": "path"}]}
    options = declared.GenerateOptions(sampling=sampling, strict=True)
    good, bad = asked_of(["p", "q"], options).settings
    assert good.problem == ""
    assert bad.shape is None
    assert "masks cannot enforce format: path" in bad.problem
