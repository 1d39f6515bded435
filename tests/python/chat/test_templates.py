"""Chat templates: marks, dates, refusals, and templates that would never end."""

from __future__ import annotations

import datetime as dt
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
import tiny_models
from hypothesis import given
from hypothesis import strategies as st
from llamaherd.calls.chat import chat
from llamaherd.engine.core.errors import ChatTemplateError
from llamaherd.engine.model.tokens import prompt_tokens
from thorough import examples

if TYPE_CHECKING:
    from types import ModuleType


ALTERNATE = (
    "{% for m in messages %}"
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "{{ '[INST]' + m.content + '[/INST]' }}{% endfor %}"
)
LLAMA2 = (
    "{% for m in messages %}{% if m.role == 'user' %}{{ '[ASK] ' + m.content + ' "
    "[END]' }}"
    "{% else %}{{ ' ' + m.content }}{% endif %}{% endfor %}"
)
DATED = (
    "{{ strftime_now('%d %b %Y') }} {% for m in messages %}{{ m.content }}{% endfor %}"
)
GROWS = (
    "{% set ns = namespace(s=START) %}{% for i in range(60) %}{% set ns.s = GROW "
    "%}{% endfor %}"
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> lh.Model:
    path: Path = tmp_path_factory.mktemp("templates") / "m.gguf"
    return lh.Model(tiny_models.write(path, "llama", chat_template=ALTERNATE))


def render(model: lh.Model, template: str, text: str = "x", **options: object) -> str:
    messages = [{"role": "user", "content": text}]
    return lh.apply_chat_template(model, messages, template=template, **options)  # type: ignore[arg-type]


@pytest.mark.more(reason="a process or a long template for each case", cases=4)
@pytest.mark.parametrize(
    "template",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        (
            "{% for a in range(9999) %}{% for b in range(9999) if 0 %}{% endfor %}{% "
            "endfor %}"
        ),
        "{% for a in range(9) recursive %}{{ loop(range(9)) }}{% endfor %}",
        (
            "{% macro f(n) %}{% if n %}{{ f(n-1) }}{{ f(n-1) }}{% endif %}{% endmacro "
            "%}{{ f(60) }}"
        ),
        GROWS.replace("START", "'ab'").replace("GROW", "ns.s + ns.s"),
        GROWS.replace("START", "'ab'").replace("GROW", "ns.s ~ ns.s"),
        GROWS.replace("START", "'ab'").replace("GROW", "'%s%s' % (ns.s, ns.s)"),
        GROWS.replace("START", "'ab'").replace("GROW", "[ns.s, ns.s]|join"),
        GROWS.replace("START", "'ab'").replace("GROW", "ns.s.replace('a', ns.s)"),
        GROWS.replace("START", "[1]").replace("GROW", "ns.s + ns.s"),
        GROWS.replace("START", "[1]").replace("GROW", "[ns.s, ns.s]") + "{{ ns.s }}",
        GROWS.replace("START", "[1]").replace("GROW", "[ns.s, ns.s]")
        + "{{ ns.s|tojson }}",
        GROWS.replace("START", "[1]").replace("GROW", "[ns.s, ns.s]")
        + "{{ ns.s == ns.s }}",
        GROWS.replace("START", "9").replace("GROW", "ns.s * ns.s"),
        "{{ 'a' * 10**10 }}",
        "{{ [1] * 10**10 }}",
        "{{ 10 ** (10 ** 10) }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ '%*d' % (1000000000, 1) }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ '{:{}}'.format(1, 1000000000) }}",
        "{{ '%1000000000s'|format('a') }}",
        "{{ 'a'.ljust(1000000000) }}",
        "{{ 'a'|center(1000000000) }}",
        "{{ 'a\\nb'|indent(1000000000) }}",
        "{{ [1]|batch(1000000000, 1)|list }}",
        "{{ [1]|tojson(indent=1000000000) }}",
        "{{ ('a' * 100000)|replace('a', 'b' * 100000)|length }}",
        "{{ ('a' * 100000).replace('a', 'b' * 100000)|length }}",
        "{{ (('a' * 100000)|list)|join('b' * 100000)|length }}",
        "{{ ('b' * 100000).join(('a' * 100000)|list)|length }}",
        "{{ ([range(999)|list] * 999)|sum(start=[])|length }}",
        "{{ range(99999)|map('center', 99999)|join|length }}",
    ],
)
def test_a_template_that_takes_too_much_is_refused(
    model: lh.Model, template: str
) -> None:
    with pytest.raises(
        ChatTemplateError, match=r"takes more than|writes more|computes|width|recursion"
    ):
        render(model, template)


def test_a_long_conversation_is_none(model: lh.Model) -> None:
    messages = [
        {"role": ("user", "assistant")[i % 2], "content": f"{i} " + "word " * 200}
        for i in range(400)
    ]
    assert lh.apply_chat_template(model, messages).count("[INST]") == 400


@examples(40)
@given(
    parts=st.lists(st.sampled_from(["a", " ", "<think>", "</think>", "</s>", "|", "\n"]))
)
def test_a_text_stays_text_whatever_a_template_does_to_it(
    model: lh.Model, parts: list[str]
) -> None:
    text = "".join(parts)
    plain = "A" + text + "A"
    expected = prompt_tokens(model, "p", plain, parse_special=False)
    for expression in (
        "c",
        "('A' + c)[1:]",
        "c.split('<')|join('<')",
        "c|list|join",
        "c|string|replace('Q', '')",
        "c ~ ''",
        "'%s' % c",
        "'{}'.format(c)",
        "c.split('think')|join('think')",
    ):
        template = "{% set c = messages[0].content %}A{{ " + expression + " }}A"
        prompt = render(model, template, text)
        tokens = prompt_tokens(model, "p", "\ufdd0\ufdd1" + prompt, parse_special=True)
        assert tokens == expected, expression


def test_a_template_reads_the_text_itself(model: lh.Model) -> None:
    template = "{{ messages[0].content.split('</think>')[-1].lstrip('\\n') }}"
    assert (
        render(model, template, "<think>hm</think>\n\nyes").strip("\ufdd0\ufdd1") == "yes"
    )
    shows = (
        "{{ messages[0].content.startswith('<think>') }} {{ '</s>' in "
        "messages[0].content }}"
    )
    assert render(model, shows, "<think></s>") == "True True"


def test_other_texts_of_a_message_are_text_too(model: lh.Model) -> None:
    messages = [
        {"role": "user", "content": "x", "name": "<think>", "calls": [{"a": "</s>"}]}
    ]
    prompt = lh.apply_chat_template(
        model,
        messages,
        template="{{ messages[0].name }}{{ messages[0].calls|tojson }}{{ messages }}",
    )
    assert prompt.replace("\ufdd0<think>\ufdd1", "").count("<think>") == 0
    assert prompt.replace("\ufdd0</s>\ufdd1", "").count("</s>") == 0


def test_a_refused_conversation_fails_alone_with_its_place(model: lh.Model) -> None:
    user = {"role": "user", "content": "the"}
    prompts = ["a", [user, user], "the"]
    with lh.Context(model, n_threads=1, deterministic=True) as context:
        results = lh.generate_parallel(context, prompts, chat=True, max_tokens=3)
        alone = lh.generate_parallel(context, ["a"], chat=True, max_tokens=3)
        labels = lh.classify_parallel(context, prompts, ["yes", "no"], chat=True)
        scores = lh.score_parallel(context, prompts, "yes", chat=True)
    assert results[0].tokens == alone[0].tokens
    for errors in ([r.error for r in results], labels.errors, scores.errors):
        assert errors[0] is errors[2] is None
        assert errors[1] is not None
        assert errors[1] == (
            "the chat template failed: roles must alternate: two messages of the same "
            "role follow each other. Join them into one"
        )
        assert "roles must alternate" in errors[1]


def test_a_template_is_told_one_day(
    model: lh.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat, "_today", lambda: dt.date(2026, 3, 1))
    assert render(model, DATED).startswith("01 Mar 2026")
    assert render(model, DATED, date="2025-12-31").startswith("31 Dec 2025")
    with lh.chat_date("2025-01-02"):
        assert render(model, DATED).startswith("02 Jan 2025")
        assert render(model, DATED, date=dt.date(2024, 1, 1)).startswith("01 Jan 2024")
    with lh.chat_date(None) as day:
        assert day == dt.date(2026, 3, 1)
    for bad, kind in (("tomorrow", ValueError), (3, TypeError)):
        with pytest.raises(kind, match="date must be"):
            render(model, DATED, date=bad)


def test_labels_have_the_space_of_the_template(tmp_path: Path) -> None:
    model = lh.Model(
        tiny_models.write(tmp_path / "m.gguf", "llama", chat_template=LLAMA2)
    )
    labels = ["yes", "no", "a"]
    with lh.Context(model, n_threads=1, deterministic=True) as context:
        auto = lh.classify_parallel(context, ["the"], labels, chat=True)
        spaced = lh.classify_parallel(context, ["the"], labels, chat=True, space=True)
        bare = lh.classify_parallel(context, ["the"], labels, chat=True, space=False)
    assert auto.probs.tolist() == spaced.probs.tolist() != bare.probs.tolist()


@pytest.mark.parametrize("name", ["messages", "add_generation_prompt"])
def test_variables_that_llamaherd_sets_are_refused(model: lh.Model, name: str) -> None:
    with pytest.raises(ValueError, match=f"variables must not hold '{name}'"):
        render(model, "x", variables={name: []})


def test_a_coding_keeps_its_day_over_midnight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tiny_models.write(tmp_path / "m.gguf", "llama", chat_template=DATED)
    codebook = lh.Codebook("q", ["yes", "no"])
    journal = tmp_path / "j.journal"
    frame = {"text": ["the", "an answer", "yes"]}
    model = lh.Model(path)
    context = lh.Context(model, n_threads=1, deterministic=True)
    kept = {"chat": True, "journal": journal}

    first = lh.annotate(frame, "text", codebook, context, **kept)
    day = dt.date.fromisoformat(first.run["settings"]["date"])
    page = tmp_path / "report.html"
    lh.report(first, path=page)
    monkeypatch.setattr(chat, "_today", lambda: day + dt.timedelta(days=7))
    again = lh.annotate(frame, "text", codebook, context, **kept)
    assert again.stats.n_journal == 3
    assert again.run["settings"]["date"] == day.isoformat()
    other = lh.annotate(frame, "text", codebook, context, chat=True)
    assert other.probs.tolist() != first.probs.tolist()
    pinned = lh.annotate(frame, "text", codebook, context, chat=True, date=day)
    assert pinned.probs.tolist() == first.probs.tolist()
    assert lh.reproduce(page, context).is_same
    context.close()
    model.close()


@pytest.mark.parametrize(
    ("template", "text"),
    [
        (
            (
                "{% for i in [1, 2] %}{% set ns = namespace(n=i) %}"
                "{% set ns.n = ns.n + 1 %}{{ ns.n }}"
                "{% if ns == ns %}{{ [ns]|length }}{% endif %}{% endfor %}"
            ),
            "2131",
        ),
        (
            (
                "{% macro m(x) %}{% set ns = namespace(s='') %}{% set ns.s = ns.s ~ x %}"
                "{{ ns.s }}{% endmacro %}{% for i in 'ab' %}{{ m(i) }}{% endfor %}"
            ),
            "ab",
        ),
        (
            (
                "{% set l = [] %}{% for i in [1, 2] %}{% set _ = l.append(i) %}"
                "{% endfor %}{% set _ = l.extend([3]) %}{% set _ = l.insert(0, 9) %}"
                "{{ l.pop(1) }}{{ l }}"
            ),
            "1[9, 2, 3]",
        ),
    ],
)
def test_a_template_may_change_what_is_its_own(
    model: lh.Model, template: str, text: str
) -> None:
    assert render(model, template) == text


@pytest.mark.parametrize(
    "change", ["messages.append(1)", "tools.pop()", "tools[0].function.clear()"]
)
def test_a_template_cannot_change_what_it_is_given(model: lh.Model, change: str) -> None:
    with pytest.raises(ChatTemplateError, match="is unsafe"):
        render(model, f"{{{{ {change} }}}}", tools=[{"function": {"name": "f"}}])


def test_lists_that_grow_have_a_budget(model: lh.Model) -> None:
    grow = "{% for i in range(60) %}{% set _ = l.extend(l) %}{% endfor %}"
    with pytest.raises(ChatTemplateError, match=r"writes more"):
        render(model, f"{{% set l = [1] %}}{grow}")


# ---- chat templates: rendering, the cache of their properties, those of many models


TWO_THREADS = """
import sys
import threading
import llamaherd as lh

model = lh.Model(sys.argv[1])
assert "llama_cpp" not in sys.modules
both = threading.Barrier(2)

def render(role):
    both.wait()
    text = lh.apply_chat_template(model, [{"role": "user", "content": role}])
    assert role in text

threads = [threading.Thread(target=render, args=(f"word {i}",)) for i in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert "llama_cpp" not in sys.modules
with lh.Context(model, n_ctx=256) as context:
    lh.generate(context, "Hello", max_tokens=1)
"""


@pytest.mark.model
def test_the_first_chats_of_two_threads_leave_the_log_silent(smollm2_path: Path) -> None:
    ignored = "ignore:the answer ended at max_tokens"
    done = subprocess.run(
        [sys.executable, "-W", ignored, "-c", TWO_THREADS, str(smollm2_path)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


ROOT = Path(__file__).parents[3]
SNAPSHOTS: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).parent / "templates.json").read_text(encoding="utf-8")
)


@pytest.fixture(scope="module")
def script() -> ModuleType:
    path = ROOT / "scripts/docs_templates.py"
    spec = importlib.util.spec_from_file_location("docs_templates", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", sorted(SNAPSHOTS))
def test_a_template_does_what_it_did(
    script: ModuleType, templates_folder: Path, name: str
) -> None:
    source = (templates_folder / f"{name}.jinja").read_text(encoding="utf-8")
    assert script.facts(source) == SNAPSHOTS[name]


def test_no_template_is_left_out(templates_folder: Path) -> None:
    assert {path.stem for path in templates_folder.glob("*.jinja")} == set(SNAPSHOTS)
    assert len(SNAPSHOTS) == 70


def test_the_page_shows_the_snapshots(script: ModuleType) -> None:
    text = (ROOT / "docs/templates.md").read_text(encoding="utf-8")
    assert script.table(SNAPSHOTS) in text


def test_every_thought_can_be_closed_and_opened() -> None:
    """For each template that thinks, the thought of a prompt can be closed and opened."""
    thinking = [snapshot for snapshot in SNAPSHOTS.values() if snapshot["thinks"] != "no"]
    assert len(thinking) > 40
    for snapshot in thinking:
        assert snapshot["end"].strip()
        assert not snapshot["closed"].rstrip().endswith(snapshot["start"].strip())
        assert snapshot["opened"].rstrip().endswith(snapshot["start"].strip())
