"""Writes what pages show of the program: outputs, tables and a picture.

    docs_examples.py cli MODEL.gguf ENCODER.gguf   the outputs in docs/cli.md
    docs_examples.py first MODEL.gguf              the tables of docs/index.md
    docs_examples.py coding-page                   docs/images/coding-page.png

The commands of docs/cli.md are lines that begin with "$ " in blocks of type "console".
They run one after the other in a folder with model.gguf, encoder.gguf and headlines.csv.
The tables are those of the README's first example; scripts/run_readme.py makes its
picture.
"""

from __future__ import annotations

import csv
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Thread

import llamaherd as lh

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "benchmarks"))

import marked  # noqa: E402 - a module of that folder

_BLOCK = re.compile(r"(?<=^```console\n).*?(?=^```$)", re.MULTILINE | re.DOTALL)
_HEADLINES = [
    "Team wins the cup after extra time",
    "Central bank leaves rates as they are",
    "Striker out for six weeks with a knee injury",
    "Shares fall as oil prices rise",
    "",
    "Coach leaves club after defeat in final",
]


def write_cli(model: str, encoder: str) -> None:
    """Write the outputs of the commands in docs/cli.md."""
    page = ROOT / "docs/cli.md"
    with tempfile.TemporaryDirectory(prefix="llamaherd-") as name:
        folder = Path(name)
        (folder / "model.gguf").symlink_to(Path(model).resolve())
        (folder / "encoder.gguf").symlink_to(Path(encoder).resolve())
        rows = "\n".join(f"{i},{text}" for i, text in enumerate(_HEADLINES, 1))
        (folder / "headlines.csv").write_text(f"id,text\n{rows}\n")
        text = page.read_text(encoding="utf-8")
        text = _BLOCK.sub(lambda match: _block(match[0], folder), text)
    page.write_text(text, encoding="utf-8")


def _block(block: str, folder: Path) -> str:
    commands = [line for line in block.splitlines() if line.startswith("$ ")]
    return "".join(f"{command}\n{_output(command[2:], folder)}" for command in commands)


def _output(command: str, folder: Path) -> str:
    programs = Path(sys.executable).parent
    text = subprocess.run(
        ["/bin/bash", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    ).stdout
    replacements = {str(folder): "/data", f"{ROOT}/": "", str(Path.home()): "~"}
    for path, name in replacements.items():
        text = text.replace(path, name)
    return "".join(f"{line.rstrip()}\n" for line in text.splitlines())


_TEXTS = ROOT / "r_package/inst/extdata/headlines.csv"
_LABELS = ["Sports", "Business", "Science", "Politics"]
_SHOWN = (1, 20, 36, 46)
_MEASURES = {
    ("accuracy", "accuracy"): "accuracy",
    ("baseline", "majority"): "accuracy of always giving the most frequent label",
    ("accuracy", "macro_f1"): "macro F1",
    ("model and people", "kappa"): "Cohen's kappa",
    ("model and people", "alpha"): "Krippendorff's alpha",
}


def write_first(path: str) -> None:
    """Write the tables of docs/index.md."""
    with _TEXTS.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    news = {name: [row[name] for row in rows] for name in rows[0]}
    book = lh.Codebook("Label the topic of each news text.", dict.fromkeys(_LABELS, ""))
    with lh.Model(path) as model, lh.Context(model, deterministic=True) as context:
        coded = lh.annotate(news, "text", book, context)
    gold = lh.gold_sample(coded, 30, seed=1)
    gold = gold.with_codes({"anna": [news["topic"][i] for i in gold.rows]})
    parts = {
        "labelled": _labelled(coded, news["topic"]),
        "validated": _validated(lh.validate(coded, gold)),
    }
    marked.write(
        "docs/index.md", {f"first: {name}": part for name, part in parts.items()}
    )


def _labelled(coded: lh.Coded, topics: list[str]) -> str:
    """Return a table of some texts with labels by the model and human codes."""
    rows = []
    frame = coded.to_frame()
    for i in _SHOWN:
        text = frame["text"][i]
        short = text if len(text) <= 70 else text[:67].rstrip() + "..."
        prob = frame["prob"][i]
        rows.append([short, coded.labels[i], topics[i], f"{prob:.2f}"])
    return marked.table(["text", "model", "person", "probability"], rows, 3)


def _validated(validation: lh.types.Validation) -> str:
    """Return a table of the accuracy of the labels, with intervals."""
    lines = []
    rows = {row[:2]: row for row in validation.rows()}
    for key, name in _MEASURES.items():
        value, low, high = rows[key][3:6]
        lines.append([name, f"{value:.2f}", f"{low:.2f} to {high:.2f}"])
    return marked.table(["30 texts that a person coded", "", "95% interval"], lines)


_TOPICS = {
    "Sports": "Matches, athletes and clubs.",
    "Politics": "Parties, elections and governments.",
    "Economy": "Prices, work and companies.",
    "Other": "",
}
_PAGE_TEXTS = [
    "Council votes to close two of five swimming pools after budget talks",
    "Striker signs for three more years",
    "Bakers expect dearer flour in autumn",
]


def draw_coding_page() -> None:
    """Code one text in a browser, and store a picture of the next one."""
    from llamaherd.coding_page.desk import Desk  # an extra
    from llamaherd.coding_page.serving import CodingPage
    from llamaherd.coding_page.sheet import make_sheet
    from playwright.sync_api import sync_playwright

    book = lh.Codebook("What is the topic of the headline?", _TOPICS)
    data = {"text": _PAGE_TEXTS}
    sheet = make_sheet(data, book, ["anna"], None)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = CodingPage(Desk(sheet, Path(folder) / "codes.sqlite"), data)
        thread = Thread(target=page.run)
        thread.start()
        try:
            browser = playwright.chromium.launch(
                executable_path=shutil.which("chromium"), args=["--no-sandbox"]
            )
            tab = browser.new_page(viewport={"width": 900, "height": 440})
            tab.goto(page.links["anna"])
            tab.get_by_text("0 of 3 coded").wait_for()
            tab.keyboard.press("1")
            tab.get_by_text("1 of 3 coded").wait_for()
            tab.screenshot(path=ROOT / "docs/images/coding-page.png")
            browser.close()
        finally:
            page.cancel()
            thread.join()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["cli", model, encoder]:
            write_cli(model, encoder)
        case ["first", model]:
            write_first(model)
        case ["coding-page"]:
            draw_coding_page()
        case _:
            sys.exit(__doc__)
