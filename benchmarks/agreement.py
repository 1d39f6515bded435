"""Compares labels generated with `choices` to labels from `classify_parallel`.

    python benchmarks/agreement.py MODEL.gguf ...

The texts are those of examples/demo.R. The table is written into docs/probabilities.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

import llamaherd as lh
import marked
from labelling import SHOTS, TEXTS, TOPICS, chat, completion

PAGE = Path(__file__).resolve().parent.parent / "docs" / "probabilities.md"
N_TEXTS = 50
PROMPTS = {
    "`{task}\\n\\nText: {text}\\nTopic:`": completion([]),
    "the same after 8 examples": completion(SHOTS),
    "chat": chat([]),
    "`{text} Topic:`": lambda _, text: f"{text} Topic:",
    "`{text}\\nThe topic of this headline is`": lambda _, text: (
        f"{text}\nThe topic of this headline is"
    ),
    "`Headline: {text}\\nLabel: ` (a space at the end)": lambda _, text: (
        f"Headline: {text}\nLabel: "
    ),
}
LABELS = {
    "4 topics": TOPICS,
    "6, some begin alike": [*TOPICS, "Sport and games", "Business news"],
}


def agreement(context: lh.Context, prompts: list[str], labels: list[str]) -> int:
    """Return the number of prompts for which both methods return the same label."""
    written = lh.generate_parallel(context, prompts, choices=labels).texts
    scored = lh.classify_parallel(context, prompts, labels).labels
    return sum(a == b for a, b in zip(written, scored, strict=True))


def table(paths: list[str]) -> list[str]:
    """Return the lines of the table, one for each model and prompt."""
    lines = [
        f"| model | prompt | {' | '.join(f'{name}, of {N_TEXTS}' for name in LABELS)} |",
        f"| --- | --- | {' | '.join('---:' for _ in LABELS)} |",
    ]
    for path in paths:
        with lh.Model(path) as model, lh.Context(model) as context:
            for name, make in PROMPTS.items():
                if name == "chat" and model.chat_template is None:
                    continue
                prompts = [make(model, row["text"]) for row in TEXTS[:N_TEXTS]]
                same = [str(agreement(context, prompts, own)) for own in LABELS.values()]
                lines.append(f"| {Path(path).stem} | {name} | {' | '.join(same)} |")
                print(lines[-1], flush=True)
    return lines


def main() -> None:
    """Measure and write."""
    marked.write(PAGE, {"agreement: choices": "\n".join(table(sys.argv[1:]))})


if __name__ == "__main__":
    main()
