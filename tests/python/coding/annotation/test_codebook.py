"""Tests of codebooks, their files and their prompts."""

from __future__ import annotations

import gzip
import json
import pickle
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pytest
from llamaherd import _r
from llamaherd.calls.structured.prompt import JSON_ONLY
from llamaherd.coding.annotation.codebook import fixed_words
from llamaherd.coding.annotation.codebook_file import codebook_of_yaml, codebook_yaml
from llamaherd.coding.annotation.prompts import frame_of

if TYPE_CHECKING:
    from pathlib import Path

_SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}, "ok": {"type": "boolean"}},
    "required": ["n"],
    "additionalProperties": False,
}
TONE = lh.Codebook(
    "What is the tone of the text?",
    {"bad": "Complains.", "no": "", "good": "Praises: a lot"},
    type="ordinal",
    examples=[("I love\nit", "good", "Says so."), ("It is.", "no")],
    language="en",
)
SEVERAL = lh.Codebook(
    "Which topics?", ["a", "b"], type="multiple", examples=[("x", ["b"]), ("y", [])]
)
FIELDS = lh.Codebook(
    "What does it say?",
    type="fields",
    schema=_SCHEMA,
    examples=[{"text": "One, yes.", "label": {"n": 1, "ok": True}}],
    language="de",
    words={"reason": "Weil"},
    system="You code texts.",
)


@pytest.mark.parametrize("codebook", [TONE, SEVERAL, FIELDS])
def test_comes_back_from_every_form(codebook: lh.Codebook, tmp_path: Path) -> None:
    text = codebook_yaml(codebook)
    assert codebook_of_yaml(text) == codebook
    path = tmp_path / "codebook.yaml"
    lh.write_codebook(codebook, path)
    read = lh.read_codebook(path)
    assert read == codebook
    assert read.hash == codebook.hash
    assert lh.Codebook.from_dict(codebook.to_dict()) == codebook
    assert pickle.loads(pickle.dumps(codebook)) == codebook


def test_files_are_for_people() -> None:
    assert codebook_yaml(TONE) == (
        "question: What is the tone of the text?\n"
        "labels:\n"
        "  bad: Complains.\n"
        "  'no': ''\n"
        "  good: 'Praises: a lot'\n"
        "type: ordinal\n"
        "examples:\n"
        "  - text: |-\n"
        "      I love\n"
        "      it\n"
        "    label: good\n"
        "    reason: Says so.\n"
        "  - text: It is.\n"
        "    label: 'no'\n"
        "language: en\n"
    )


def test_plain_values_of_files_are_texts() -> None:
    read = codebook_of_yaml(
        "question: Is it 1.0?\nlabels: {yes: , no: ~, 1: 2, 2026-01-01: 0x1}\n"
    )
    assert read.labels == {"yes": "", "no": "", "1": "2", "2026-01-01": "0x1"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a codebook is a mapping"),
        ("- a", "a codebook is a mapping"),
        ("a: [", "line 1: this is not valid YAML"),
        ("question: x\n\tlabels: y", "line 2: this is not valid YAML"),
        ("question: x\n---\nquestion: y", "line 2: this is not valid YAML"),
        ("labels: [a, b]", "question is missing"),
        ("question:\nlabels: [a, b]", "line 1: question must be a text, not None"),
        ("question: x\nlabels: [a, a]", r"line 2: labels\[1\] occurs twice: 'a'"),
        ("question: x\nlabels: [a]", "line 2: labels: a codebook needs 2 to"),
        (
            "question: x\nlables: [a, b]",
            r"line 2: lables is not a field of a codebook; did you mean 'labels'\?",
        ),
        ("question: x\nzzz: [a, b]", "line 2: zzz .*; it has question, labels, type"),
        ("question: x\nquestion: y", "line 2: question occurs twice"),
        ("question: x\nlabels:\n  a: x\n  a: y", r"line 4: labels.a occurs twice"),
        (
            "question: x\ntype: fields\nschema:\n  properties: {a: {}}\n  properties: {}",
            r"line 5: schema\.properties occurs twice",
        ),
        (
            "question: x\nexamples:\n- text: z\n  label:\n    a: 1\n    a: 2",
            r"line 6: examples\[0\]\.label\.a occurs twice",
        ),
        ('{"question": "x", "labels": ["a"], "labels": [1]}', "labels occurs twice"),
        ("question: x\nlabels: [a, b]\ntype: many", "line 3: type must be one of"),
        (
            "question: x\nlabels: [a, b]\nexamples:\n- text: z\n  label: c",
            r"line 5: examples\[0\].label must be one of the labels 'a', 'b'",
        ),
        (
            "question: x\nlabels: [a, b]\nexamples:\n- text: z\n  label: a\n  why: v",
            r"line 6: examples\[0\].why is not a field of an example; it has text, label",
        ),
        (
            "question: x\nlabels: [a, b]\nexamples:\n- text: z\n  lable: a",
            r"line 5: examples\[0\].lable is not .*; did you mean 'label'\?",
        ),
        ("question: &q x\nlabels: [*q, b]", "anchors and aliases"),
        ("question: !!python/object/apply:os.system [ls]", "tags"),
        ("question: " + "[" * 100_000, "nested more than 64 levels"),
        ("question: x\ntype: fields\nschema: {a: 2026-01-01}", "line 3: .*in quotes"),
        ("question: x\0", "this is not valid YAML"),
        ("question: x\nlabels: [a, b]\nlanguage: it", "language must be one of 'en'"),
    ],
)
def test_hostile_files(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        codebook_of_yaml(text)


def test_misspelt_arguments() -> None:
    create: Any = lh.Codebook
    example: Any = lh.Example
    with pytest.raises(TypeError, match=r"lables .*did you mean 'labels'"):
        create("Which?", lables=["a", "b"])
    with pytest.raises(
        TypeError, match="zzz is not an argument of Codebook; it has ques"
    ):
        create("Which?", ["a", "b"], zzz=1)
    with pytest.raises(
        TypeError, match="txt is not an argument of Example; did you mean"
    ):
        example(txt="a", label="b")
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        create()


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    with pytest.raises(OSError, match=r"^path: .*c\.yaml' cannot be used: No such file"):
        lh.read_codebook(path)
    path.mkdir()
    with pytest.raises(
        OSError, match=r"^path: .*c\.yaml' cannot be used: Is a directory"
    ):
        lh.read_codebook(path)
    path.rmdir()
    content = "question: a\nlabels: [größer, b]"
    for encoding, problem in (
        ("latin-1", r"c\.yaml' is not in UTF-8: byte 0xf6 in line 2: save it as UTF-8"),
        ("utf-16", r"c\.yaml' is not in UTF-8 but in UTF-16: save it as UTF-8"),
    ):
        path.write_bytes(content.encode(encoding))
        with pytest.raises(ValueError, match=problem):
            lh.read_codebook(path)
    path.write_bytes(gzip.compress(content.encode()))
    with pytest.raises(ValueError, match="is compressed by gzip: decompress it first"):
        lh.read_codebook(path)
    path.write_bytes(b"#" * 4_000_001)
    with pytest.raises(ValueError, match="larger than"):
        lh.read_codebook(path)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"labels": "ab"}, TypeError, "labels must be a list of labels, or a map"),
        ({"labels": ["a", ""]}, ValueError, r"labels\[1\] must not be empty"),
        ({"labels": ["a", " b"]}, ValueError, "one line without space at its ends"),
        ({"labels": ["a", "b"], "schema": _SCHEMA}, ValueError, "schema goes with"),
        ({"type": "fields"}, ValueError, "needs a schema"),
        ({"type": "fields", "schema": "{}"}, ValueError, "an object with properties"),
        (
            {"type": "fields", "schema": '{"properties": {"a": {"type": "strin"}}}'},
            ValueError,
            "schema cannot be used: .*strin",
        ),
        ({"labels": ["a;b"], "type": "multiple"}, ValueError, "must not contain ';'"),
        (
            {"labels": ["a", "b"], "words": {"x": "y"}},
            ValueError,
            "words must have names among",
        ),
        (
            {"labels": ["a", "b"], "examples": ["x"]},
            TypeError,
            r"examples\[0\] must have",
        ),
        ({"labels": ["a", "b"], "examples": [("x",)]}, TypeError, r"examples\[0\]"),
        (
            {"type": "fields", "schema": _SCHEMA, "examples": [("x", {"n": "1"})]},
            ValueError,
            r"examples\[0\].label does not follow the schema",
        ),
    ],
)
def test_what_is_wrong(
    arguments: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        lh.Codebook("What?", **arguments)


def test_the_hash_tells_what_is_asked() -> None:
    def sha(**changes: Any) -> str:
        arguments = {"question": "Q?", "labels": {"a": "x", "b": ""}, **changes}
        return lh.Codebook(**arguments).hash

    assert sha() == sha(labels={"a": "x", "b": ""}, examples=[])
    changes: list[dict[str, Any]] = [
        {"question": "Q!"},
        {"labels": {"b": "", "a": "x"}},
        {"labels": {"a": "y", "b": ""}},
        {"type": "ordinal"},
        {"examples": [("x", "a")]},
        {"examples": [("x", "a", "r")]},
        {"language": "en"},
        {"text_role": "Tweet"},
        {"answer_role": "Tone"},
        {"words": {"told": "Mixed."}},
        {"system": "S"},
    ]
    assert len({sha(), *(sha(**change) for change in changes)}) == len(changes) + 1


def test_prompts_end_with_the_text() -> None:
    assert frame_of(TONE).prompts(["T1", "T2"]) == [
        "What is the tone of the text?\n\nLabels:\n- bad: Complains.\n- no\n"
        "- good: Praises: a lot\n\n"
        "The labels are in order, from the least to the most.\n"
        "Answer with exactly one of these labels.\nThe texts are in English.\n\n"
        "Text: I love\nit\nLabel: good\nReason: Says so.\n\n"
        f"Text: It is.\nLabel: no\n\nText: {text}\nLabel:"
        for text in ("T1", "T2")
    ]
    first, second = frame_of(SEVERAL).prompts(["T"])
    assert first.endswith("Text: y\na: no\nb: no\n\nText: T\na:")
    assert second == first[:-2] + "b:"
    prompt = frame_of(FIELDS).prompts(["T"])[0]
    assert prompt.startswith("You code texts.\n\nWhat does it say?\n\nAntworte nur mit")
    assert prompt.endswith('Kategorie: {"n": 1, "ok": true}\n\nText: T\nKategorie:')
    assert frame_of(FIELDS, chat=True).system == "You code texts."


def test_all_languages_have_all_words() -> None:
    english = fixed_words()["en"]
    assert english["fields"] == JSON_ONLY
    for language, words in fixed_words().items():
        assert list(words) == list(english)
        assert all(words.values())
        assert lh.Codebook("Q", ["a", "b"], language=language).fixed == words
    fixed = dict.fromkeys(english, "w")
    assert lh.Codebook("Q", ["a", "b"], language="it", words=fixed).fixed == fixed
    assert lh.Codebook("Q", ["a", "b"]).fixed["told"] == ""


def test_pages() -> None:
    assert str(TONE).splitlines() == [
        f"<Codebook> one label of an ordered scale per text ({TONE.hash[:8]})",
        "",
        "What is the tone of the text?",
        "",
        "Labels",
        "  bad   Complains.",
        "  no",
        "  good  Praises: a lot",
        "",
        "Examples (2)",
        "  I love it",
        "    -> good (Says so.)",
        "  It is.",
        "    -> no",
        "",
        "The texts are in English.",
    ]
    assert '  n: {"type": "integer"}' in str(FIELDS)


@pytest.mark.model
@pytest.mark.parametrize("chat", [False, True])
def test_previews_show_the_very_prompt(smollm2: lh.Model, chat: bool) -> None:
    preview = lh.prompt_preview(TONE, "Fine!", smollm2, chat=chat)
    text = frame_of(TONE).prompts(["Fine!"])[0]
    if chat:
        text = lh.apply_chat_template(smollm2, [{"role": "user", "content": text}])
    assert preview.prompt == text
    assert text.startswith(preview.shared)
    assert text[len(preview.shared) :].startswith("Fine!")
    assert preview.tokens == lh.tokenize(smollm2, text, parse_special=chat)
    other = lh.prompt_preview(TONE, "Zzz", smollm2, chat=chat)
    assert preview.n_shared is not None
    assert other.tokens is not None
    assert other.tokens[: preview.n_shared] == preview.tokens[: preview.n_shared]
    assert preview.n_tokens == len(preview.tokens)
    assert f"{preview.n_tokens} tokens, {preview.n_shared} of them shared" in str(preview)


def test_previews_need_a_model_for_a_template() -> None:
    assert lh.prompt_preview(SEVERAL, "T").n_prompts == 2
    with pytest.raises(ValueError, match="chat=True needs a model"):
        lh.prompt_preview(TONE, "T", chat=True)


HOSTILE = ["a[1]", "prompts[0]", "['x']", "examples[0].label"]


@pytest.mark.parametrize("label", HOSTILE)
def test_labels_like_places_stay_as_they_are(label: str) -> None:
    content = {"question": "x", "labels": [label, label]}
    with pytest.raises(lh.ArgumentError) as caught:
        lh.Codebook.from_dict(content)
    assert str(caught.value) == f"labels[1] occurs twice: {label!r}"
    status = _r.codebook_make(json.dumps(content))
    assert status["message"] == f"`labels[2]` occurs twice: {json.dumps(label)}"
    assert (status["argument"], status["place"]) == ("labels", [2])
    text = f"question: x\nlabels:\n- {json.dumps(label)}\n- {json.dumps(label)}\n"
    with pytest.raises(lh.ArgumentError) as caught:
        codebook_of_yaml(text, "c.yaml")
    assert str(caught.value) == f"c.yaml, line 4: labels[1] occurs twice: {label!r}"
    assert (caught.value.line, caught.value.place) == (4, (1,))


@pytest.mark.parametrize("label", HOSTILE)
def test_lines_are_found_by_path_and_not_by_text(label: str) -> None:
    quoted = json.dumps(label)
    text = (
        f"question: x\nlabels:\n  {quoted}: A\n  b: ''\n"
        f"examples:\n- text: z\n  label: b\n- text: y\n  label: {quoted}!\n"
    ).replace('"!', '!"')
    with pytest.raises(lh.ArgumentError) as caught:
        codebook_of_yaml(text, "c.yaml")
    start = f"c.yaml, line 9: examples[1].label must be one of the labels {label!r}, 'b'"
    assert str(caught.value).startswith(start)
    assert (caught.value.code, caught.value.place) == ("unknown_choice", (1, "label"))


def test_examples_that_contradict_each_other_are_refused() -> None:
    examples = [("It is.", "a"), ("Other.", "b"), ("It \n is.", "b")]
    with pytest.raises(
        ValueError,
        match=r"examples has the text 'It .*with two different labels, 'a' \(str\) "
        r"\(example 1\) and 'b' \(str\) \(example 3\)",
    ):
        lh.Codebook("Which?", ["a", "b"], examples=examples)
    repeated = [("It is.", "a"), ("It is.", "a", "A reason.")]
    assert len(lh.Codebook("Which?", ["a", "b"], examples=repeated).examples) == 2
    sets = [("It is.", ["a", "b"]), ("It is.", ["b", "a"])]
    book = lh.Codebook("Which?", ["a", "b", "c"], type="multiple", examples=sets)
    assert len(book.examples) == 2
    with pytest.raises(ValueError, match="two different labels"):
        lh.Codebook(
            "Which?",
            ["a", "b", "c"],
            type="multiple",
            examples=[*sets, ("It is.", ["c"])],
        )
