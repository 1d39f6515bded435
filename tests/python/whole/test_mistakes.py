"""The most common mistakes: each error explains what to do."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import pandas as pd
import pytest
from llamaherd.engine.memory import hardware
from llamaherd.engine.native import abi

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def ctx(model: lh.Model) -> Iterator[lh.Context]:
    with lh.Context(model, n_ctx=256) as context:
        yield context


def closed(context: lh.Context) -> lh.Context:
    other = lh.Context(context.model)
    other.close()
    return other


def closed_with_model(context: lh.Context) -> lh.Context:
    with lh.Model(context.model.path) as model:
        return lh.Context(model)


def test_dir_lists_only_public_names() -> None:
    names = [name for name in dir(lh) if not name.startswith("__")]
    assert names == sorted([*lh.__all__, "types"])


BOOK = lh.Codebook("Is it?", ["pro", "con"])
SPEECHES = {
    "text": [f"Speech {i}." for i in range(24)],
    "label": ["pro", "con"] * 12,
    "party": ["A", "A", "B"] * 8,
}
GOLD = [*["pro", "con", "con"] * 3, *[None] * 15]
MISTAKES: dict[str, tuple[Callable[[Any], object], type[Exception], str]] = {
    "a path that is wrong": (
        lambda _: lh.Model("no.gguf"),
        lh.ModelLoadError,
        r'names no file: "no\.gguf"\. The working directory is .* To download a model: ',
    ),
    "a model for a context": (
        lambda ctx: lh.generate_parallel(ctx.model, ["a"]),
        TypeError,
        r"not Model: llamaherd\.Context\(model\) creates a context",
    ),
    "a context for a model": (
        lh.Context,
        TypeError,
        r"not Context: .* loads a model, and \.model of a context is its model",
    ),
    "nothing for prompts": (
        lambda ctx: lh.generate_parallel(ctx, None),
        TypeError,
        r"must be a list of prompts, not NoneType \(was nothing read\?\)",
    ),
    "a text for prompts": (
        lambda ctx: lh.generate_parallel(ctx, "a"),
        TypeError,
        r"not str \(generate\(\) answers a single one\)",
    ),
    "a data frame for prompts": (
        lambda ctx: lh.generate_parallel(ctx, pd.DataFrame({"text": ["a"]})),
        TypeError,
        "not a DataFrame: take one of its columns",
    ),
    "no labels": (
        lambda ctx: lh.classify_parallel(ctx, ["a"], []),
        ValueError,
        r"must be 1 to 100000 texts, such as 'yes' and 'no', not 0",
    ),
    "a label twice": (
        lambda ctx: lh.classify_parallel(ctx, ["a"], ["x", "x"]),
        ValueError,
        r"labels\[1\] is given twice: 'x' \(str\)",
    ),
    "chat with a base model": (
        lambda ctx: lh.generate_parallel(ctx, ["a"], chat=True),
        lh.ChatTemplateError,
        r"has no chat template \(is it a base model\?\): leave chat out",
    ),
    "a context that is closed": (
        lambda ctx: lh.generate_parallel(closed(ctx), ["a"]),
        lh.ContextClosedError,
        "context is closed: create another one from its model",
    ),
    "a context whose model is closed": (
        lambda ctx: lh.generate_parallel(closed_with_model(ctx), ["a"]),
        lh.ContextClosedError,
        "context is closed, and so is its model: load the model again, and create",
    ),
    "a setting that is misspelt": (
        lambda ctx: lh.generate_parallel(ctx, ["a"], max_token=3),
        TypeError,
        r"there is no argument 'max_token'; did you mean 'max_tokens'\?",
    ),
    "a setting that is none": (
        lambda ctx: lh.generate_parallel(ctx, ["a"], no_such_thing_at_all=3),
        TypeError,
        r"no argument 'no_such_thing_at_all'; its sampling settings are",
    ),
    "a setting of annotate that is none": (
        lambda ctx: lh.annotate(SPEECHES, "text", BOOK, ctx, no_such_thing_at_all=3),
        TypeError,
        "no argument 'no_such_thing_at_all'; there are method, columns, ",
    ),
    "an example with a label that is none": (
        lambda _: lh.Codebook("Is it?", ["pro", "con"], examples=[("a", "prro")]),
        ValueError,
        r"one of the labels 'pro', 'con', not 'prro' \(str\); did you mean 'pro'\?",
    ),
    "a label misspelt as the outcome": (
        lambda _: lh.estimate(SPEECHES, GOLD, outcome="prro", prob="simple"),
        ValueError,
        "outcome must be among the labels con, pro, not 'prro'",
    ),
    "a label misspelt in a formula": (
        lambda _: lh.estimate(SPEECHES, GOLD, "label == 'prro' ~ party", prob="simple"),
        ValueError,
        "0 for all labels and codes: check the spelling of its label",
    ),
    "the column of labels misspelt in a formula": (
        lambda _: lh.estimate(SPEECHES, GOLD, "lable == 'pro' ~ party", prob="simple"),
        ValueError,
        "must use the column of labels, 'label', on one of its sides",
    ),
    "texts that were picked by hand": (
        lambda _: lh.estimate(SPEECHES, GOLD),
        ValueError,
        r"no inclusion probabilities.* Draw the texts to code with gold_sample\(\)",
    ),
    "a journal in a folder that is not there": (
        lambda ctx: lh.generate_parallel(ctx, ["a"], journal="/no/such/x.sqlite"),
        lh.JournalError,
        "there is no folder '/no/such'.*; make it first",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_says_what_to_do(ctx: lh.Context, mistake: str) -> None:
    make, kind, message = MISTAKES[mistake]
    with pytest.raises(kind, match=message):
        make(ctx)


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_text("PK")
    with pytest.raises(
        lh.ModelLoadError, match=r"end in \.gguf; repositories on the hub"
    ):
        lh.Model(path)


def test_a_gold_sheet_that_was_sorted(tmp_path: Path) -> None:
    gold = lh.gold_sample(SPEECHES, 6, text="text", label="label", seed=1)
    path = tmp_path / "gold.csv"
    gold.write(path)
    with path.open(encoding="utf-8-sig", newline="") as file:
        head, *rows = list(csv.reader(file))
    rows = [[*row[:2], code] for row, code in zip(rows, GOLD, strict=False)]

    def bring_back(rows: list[list[Any]]) -> lh.GoldSample:
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([head, *rows])
        return lh.read_gold(path, gold)

    assert bring_back(rows[::-1]).gold == bring_back(rows).gold
    texts = sorted(row[1] for row in rows)
    mixed = [[row[0], text, row[2]] for row, text in zip(rows, texts, strict=True)]
    with pytest.raises(ValueError, match="not the one that was drawn: sort whole rows"):
        bring_back(mixed)


def test_too_little_memory(
    tiny_path: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware, "available_memory", lambda: 1000)
    with pytest.raises(
        lh.ModelLoadError, match="close other programs, or take a smaller"
    ):
        lh.Model(tiny_path("llama"))


def test_llama_cpp_python_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LLAMA_CPP_LIB_PATH", raising=False)
    monkeypatch.setattr(abi, "find_spec", lambda _name: None)
    with pytest.raises(lh.AbiMismatchError, match=r"not installed\. Reinstall both"):
        abi.libllama_folder()


def test_another_llama_cpp_python() -> None:
    with pytest.raises(lh.AbiMismatchError, match="pip install --force-reinstall"):
        abi.check_installation("0.0.1", {})
