"""Every option is declared once; the calls that take it agree with the declaration."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click
import llamaherd as lh
import pytest
from interfaces import UNSEEN, all_of_python, differences, with_one_more
from llamaherd.asks import options as declared
from llamaherd.asks.annotate_options import AnnotateOptions
from llamaherd.asks.interfaces import PYTHON, RUN_FILE, declared_defaults
from llamaherd.asks.settings import docs_of_options
from llamaherd.cli.annotate import annotate
from llamaherd.cli.classify import classify
from llamaherd.cli.embed import embed
from llamaherd.cli.run import run
from llamaherd.cli.serve import serve
from llamaherd.core.declared import docs_of, first_sentence
from llamaherd.server.settings import ServerSettings
from llamaherd.tables.spec_keys import AT_TOP, KEYS

if TYPE_CHECKING:
    from interfaces import Taken
    from llamaherd.asks.interfaces import Interface

ROOT = Path(__file__).parents[3]
HEADER = (ROOT / "capi_shim" / "newrllama_capi.h").read_text(encoding="utf-8")
INTERFACES = list(all_of_python(HEADER))
CLASSES = list(dict.fromkeys(each.options for _, each, _ in INTERFACES))
KEYWORDS = {
    declared.GenerateSettings: declared.GenerateOptions,
    declared.PromptSettings: declared.GenerateOptions,
    declared.SubmitSettings: declared.GenerateOptions,
    declared.ChatSettings: declared.GenerateOptions,
    declared.ClassifySettings: declared.ClassifyOptions,
    declared.PairSettings: declared.ClassifyOptions,
    declared.ScoreSettings: declared.ScoreOptions,
    declared.PerplexitySettings: declared.PerplexityOptions,
    declared.EmbedSettings: declared.EmbedOptions,
    lh.CodingSettings: AnnotateOptions,
}


@pytest.mark.parametrize("which", INTERFACES, ids=lambda which: which[0])
def test_an_interface_takes_the_declared_options(
    which: tuple[str, Interface, Taken],
) -> None:
    _, interface, taken = which
    assert differences(interface, taken) == []
    assert interface.lacks.keys() <= declared_defaults(interface.options).keys()


@pytest.mark.parametrize("which", INTERFACES, ids=lambda which: which[0])
def test_an_interface_that_lacks_an_option_is_found(
    which: tuple[str, Interface, Taken],
) -> None:
    _, interface, taken = which
    more = replace(interface, options=with_one_more(interface.options))
    assert differences(more, taken) == ["one_more is missing"]
    left_out = replace(more, lacks={**interface.lacks, "one_more": "a reason"})
    assert differences(left_out, taken) == []


@pytest.mark.parametrize("which", INTERFACES, ids=lambda which: which[0])
def test_an_extra_option_or_another_default_is_found(
    which: tuple[str, Interface, Taken],
) -> None:
    _, interface, taken = which
    assert differences(interface, {**taken, "x": 1}) == ["x is not declared"]
    shown = [name for name, value in taken.items() if value is not UNSEEN]
    for name in shown[:3]:
        wrong = {**taken, name: "another"}
        with suppress(ValueError):  # the value is no number
            assert differences(interface, wrong)[0].startswith(f"{name} is 'another'")


@pytest.mark.parametrize("keywords", KEYWORDS, ids=lambda kind: kind.__name__)
def test_type_checkers_see_the_declared_types(keywords: type) -> None:
    for name, kind in keywords.__annotations__.items():
        own = kind.__forward_arg__
        sources = (KEYWORDS[keywords], lh.SamplingParams)
        found = next(
            each.type for s in sources for each in fields(s) if each.name == name
        )
        is_of_one = name == "params" and own == "SamplingParams | None"
        assert own == found or is_of_one, name
    assert not keywords.__required_keys__


@pytest.mark.parametrize("kind", [*CLASSES, lh.SamplingParams])
def test_every_option_has_a_line_of_documentation(kind: type) -> None:
    docs = docs_of(kind)
    assert docs.keys() == {each.name for each in fields(kind)}
    for name, doc in docs.items():
        line = first_sentence(doc)
        assert line.endswith("."), name
        assert line[0].isupper(), name
        assert len(line) <= 100, name


def test_help_explains_every_option() -> None:
    for name, interface in PYTHON.items():
        function = lh.Context.submit if name == "submit" else getattr(lh, name)
        if "Args:" not in function.__doc__:  # documented elsewhere
            continue
        for option in interface.expected():
            assert f"    {option}: " in function.__doc__, (name, option)


def test_an_option_is_checked_wherever_it_is_made() -> None:
    with pytest.raises(ValueError, match="retries must be between 0 and 100, not -1"):
        declared.GenerateOptions(retries=-1)
    with pytest.raises(TypeError, match="strict must be True or False"):
        declared.GenerateOptions(strict=1)
    with pytest.raises(ValueError, match="normalize must be one of 'sum'"):
        declared.ClassifyOptions(labels=["a"], normalize="mean")
    with pytest.raises(ValueError, match="pooling must be one of 'auto'"):
        declared.EmbedOptions(pooling="max")


def test_an_option_that_a_call_does_not_take_is_refused() -> None:
    of = declared.GenerateOptions.of
    with pytest.raises(TypeError, match="there is no argument 'stream'"):
        of(declared.GenerateSettings, {"stream": True})
    with pytest.raises(TypeError, match="'retires'; did you mean 'retries'"):
        of(declared.GenerateSettings, {"retires": 1})
    with pytest.raises(TypeError, match="there is no argument 'sampling'"):
        of(declared.GenerateSettings, {"sampling": {}})
    made = of(declared.GenerateSettings, {"retries": 1, "top_k": 3})
    assert (made.retries, made.sampling) == (1, {"top_k": 3})


COMMANDS = {
    "sampling": run,
    "classify": classify,
    "embed": embed,
    "annotate": annotate,
}


def flags(table: str) -> dict[str, click.Option]:
    """Return the command's flags that set options, by option."""
    found = {}
    for each in COMMANDS[table].params:
        if isinstance(each, click.Option):
            where, _, name = each.name.rpartition("__")
            name = "choices" if (table, name) == ("sampling", "labels") else name
            # One flag sets this option for all tasks, mostly for the context.
            is_shared = name == "deterministic"
            is_key = name in {*KEYS[table], *AT_TOP}
            if where == table or (not where and is_key and not is_shared):
                assert name not in found, f"{name} is there twice"
                found[name] = each
    return found


@pytest.mark.parametrize("table", COMMANDS)
def test_flags_set_options_and_explain_them_alike(table: str) -> None:
    options = RUN_FILE[table].options
    docs = docs_of_options(options)
    found = flags(table)
    assert len(found) >= 3
    for name in found.keys() & docs.keys():
        flag = found[name]
        default = flag.to_info_dict()["default"]
        assert default is None, name  # the option is in the declaration
        line = first_sentence(docs[name]).partition(" Needs")[0]
        assert flag.help.startswith(line), name
        if isinstance(flag.type, click.Choice):
            needed = {"labels": ["a"]} if table == "classify" else {}
            with pytest.raises(ValueError, match=f"{name} must be one of") as raised:
                options(**needed, **{name: "?"})
            assert all(repr(each) in str(raised.value) for each in flag.type.choices)


def test_any_key_of_a_run_file_can_be_set_by_a_flag() -> None:
    for command in COMMANDS.values():
        assert any("--set" in each.opts for each in command.params)


def test_the_server_and_its_command_have_the_same_limit() -> None:
    (flag,) = [each for each in serve.params if each.name == "max_tokens"]
    assert flag.default == ServerSettings(model_name="m").max_tokens == 1024
