"""Labels and probabilities with and without a thought before them, for docs/thinking.md.

    python benchmarks/thinking_accuracy.py TEXTS.csv MODEL.gguf --output ROWS.jsonl
        [--n 200] [--threads 1]
    python benchmarks/thinking_accuracy.py --report ROWS.jsonl

TEXTS.csv has columns `text` and `label`, the human code: positive, neutral or negative.
A chat template with markers of thoughts is used, even if the model was not trained to
think. Each setting appends its line to ROWS.jsonl when it is done; if the same command
is run again, the program continues after the existing lines. Scores are those of
accuracy.py.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import labelled
import llamaherd as lh
import marked
import numpy as np
from accuracy import LABELS, SEED, figures

COLUMNS = (
    *("accuracy", "Brier score", "ECE", "top probability", "coverage"),
    *("thinking tokens per text", "closed by force"),
)
Row: TypeAlias = dict[str, Any]

PAGE = Path(__file__).resolve().parents[1] / "docs/thinking.md"
MARK = "thinking: accuracy"
# Format of Qwen's and SmolLM's chats, with the most common markers of thoughts.
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'assistant' and m.reasoning_content %}<think>\n"
    "{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
    "{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n"
    "{% if enable_thinking is defined and enable_thinking is false %}\n</think>\n\n"
    "{% endif %}{% endif %}"
)
ASKED = "Is the sentiment of this tweet positive, neutral or negative?\n\nTweet: "


@dataclass(frozen=True, slots=True)
class Way:
    """Setting: maximum number of thinking tokens, and number of thoughts."""

    thinking: int | bool
    n_thoughts: int


WAYS = (Way(False, 1), Way(32, 1), Way(32, 3), Way(128, 1), Way(128, 3))
PREFIX = "The sentiment of this tweet is"


def measure(context: lh.Context, prompts: list[str], truth: np.ndarray, way: Way) -> Row:
    """Return the scores of a setting."""
    found = lh.classify_parallel(
        context,
        prompts,
        LABELS,
        chat=True,
        template=TEMPLATE,
        prefix=PREFIX,
        thinking=way.thinking,
        n_thoughts=way.n_thoughts,
        seed=SEED,
    )
    stats = found.stats
    return {
        "thinking": way.thinking,
        "n_thoughts": way.n_thoughts,
        **figures(found.probs, truth),
        "coverage": float(np.mean(found.coverage)),
        "thinking_tokens": stats.n_thinking_tokens / len(prompts),
        "closed": stats.n_thoughts_closed / max(1, stats.n_thoughts),
        "top": float(found.probs.max(axis=1).mean()),
    }


def known_ways(path: Path, run: dict[str, object]) -> set[tuple[object, ...]]:
    """Return the settings that an output file already has.

    Raises:
        SystemExit: The file has settings from another run.
    """
    if not path.exists():
        return set()
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for row in rows:
        if {name: row[name] for name in run} != run:
            raise SystemExit(
                f"{path} has rows of another run, not of {run}; name another file"
            )
    return {(row["thinking"], row["n_thoughts"]) for row in rows}


def table(rows: list[Row]) -> str:
    """Return the table, with a line on model and texts."""
    lines = [
        f"| `{row['thinking']}` | {row['n_thoughts'] if row['thinking'] else '-'} | "
        f"{row['accuracy']:.3f} | {row['brier']:.3f} | {row['ece']:.3f} | "
        f"{row['top']:.3f} | {row['coverage']:.3f} | {row['thinking_tokens']:.1f} | "
        f"{row['closed']:.0%} |"
        for row in rows
    ]
    first = rows[0]
    shares = ", ".join(f"{first['share'][label]:.3f} {label}" for label in LABELS)
    return "\n".join(
        [
            f"{first['model']}, {first['n_tweets']} tweets ({shares}):",
            "",
            f"| `thinking` | thoughts | {' | '.join(COLUMNS)} |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
            *lines,
        ]
    )


def run(options: argparse.Namespace) -> None:
    """Measure the settings that are missing in the file."""
    rows = labelled.read(options.texts, SEED)[: options.n]
    truth = np.array([LABELS.index(row["label"]) for row in rows])
    counts = np.bincount(truth, minlength=len(LABELS)) / len(rows)
    about: dict[str, object] = {
        "model": options.model.stem,
        "n_tweets": len(rows),
        "share": dict(zip(LABELS, counts.tolist(), strict=True)),
    }
    known = known_ways(options.output, about)
    prompts = [ASKED + row["text"] for row in rows]
    with lh.Model(options.model) as model, _context(model, options) as context:
        for way in WAYS:
            if (way.thinking, way.n_thoughts) in known:
                continue
            line = json.dumps({**about, **measure(context, prompts, truth, way)})
            print(line, flush=True)
            with options.output.open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")


def _context(model: lh.Model, options: argparse.Namespace) -> lh.Context:
    threads = {} if options.threads is None else {"n_threads": options.threads}
    return lh.Context(model, **threads)


def main() -> None:
    """Measure, or write the page, as the command line selects."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("texts", type=Path, nargs="?")
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--n", type=int, default=200, help="texts")
    parser.add_argument("--threads", type=int, help="default: all")
    parser.add_argument("--report", type=Path, help="rows that go into the page")
    options = parser.parse_args()
    if options.report:
        lines = options.report.read_text(encoding="utf-8").splitlines()
        marked.write(PAGE, {MARK: table([json.loads(line) for line in lines])})
        return
    if options.model is None or options.output is None:
        parser.error("TEXTS.csv, MODEL.gguf and --output are needed")
    run(options)


if __name__ == "__main__":
    main()
