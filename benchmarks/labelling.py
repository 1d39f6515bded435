"""Compares prompts and settings for labelling news texts, for docs/labelling.md.

    python benchmarks/labelling.py MODEL.gguf ...

Texts, topics and examples are those of examples/demo.R.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import llamaherd as lh
import marked
from labelled import demo

if TYPE_CHECKING:
    from collections.abc import Callable

TOPICS = ["Sports", "Business", "Science", "Politics"]
TASK = "Label the topic of each news text: Sports, Business, Science or Politics."
BARE = "Answer with one word: Sports, Business, Science or Politics."


SHOTS = demo("shots.csv")
TEXTS = demo("headlines.csv")


def completion(shots: list[dict[str, str]]) -> Callable[[lh.Model, str], str]:
    """Return a function that creates completion prompts, which begin with examples."""
    start = TASK + "\n\n"
    start += "".join(f"Text: {s['text']}\nTopic: {s['topic']}\n\n" for s in shots)
    return lambda _, text: f"{start}Text: {text}\nTopic:"


def chat(shots: list[dict[str, str]]) -> Callable[[lh.Model, str], str]:
    """Return a function that creates chat prompts, with examples as earlier turns."""
    start = [{"role": "system", "content": BARE}]
    for shot in shots:
        start.append({"role": "user", "content": shot["text"]})
        start.append({"role": "assistant", "content": shot["topic"]})

    def prompt(model: lh.Model, text: str) -> str:
        return lh.apply_chat_template(model, [*start, {"role": "user", "content": text}])

    return prompt


# Forms of the request: name in the table, prompt, and whether answers are labels.
WAYS = (
    ("chat, free answer", chat([]), False),
    ("chat, `choices`", chat([]), True),
    ("chat, 8 examples, `choices`", chat(SHOTS), True),
    ("completion, `choices`", completion([]), True),
    ("completion, 8 examples, free answer", completion(SHOTS), False),
    ("completion, 8 examples, `choices`", completion(SHOTS), True),
)


def measure(
    context: lh.Context, prompt: Callable[[lh.Model, str], str], *, is_label: bool
) -> tuple[int, int]:
    """Return the number of right labels, and the number of answers that are labels."""
    prompts = [prompt(context.model, row["text"]) for row in TEXTS]
    settings = {"choices": TOPICS} if is_label else {"max_tokens": 8}
    answers = lh.generate_parallel(context, prompts, **settings)
    # A free answer may continue after the label.
    words = [re.split(r"\W+", (text or "").strip())[0] for text in answers.texts]
    n_labels = sum(word in TOPICS for word in words)
    right = sum(w == row["topic"] for w, row in zip(words, TEXTS, strict=True))
    return right, n_labels


def measured(paths: list[str]) -> list[list[object]]:
    """Return the rows of the table, for each model and form of request."""
    rows: list[list[object]] = []
    for path in paths:
        with lh.Model(path) as model:
            for way, prompt, is_label in WAYS:
                if way.startswith("chat") and model.chat_template is None:
                    continue
                with lh.Context(model) as context:  # a new context has no held prefixes
                    counts = measure(context, prompt, is_label=is_label)
                rows.append([Path(path).stem, way, *counts])
                print(*rows[-1], flush=True)
    return rows


def main() -> None:
    """Measure and write."""
    head = ["model", "way", f"right, of {len(TEXTS)}", "one of the labels"]
    table = marked.table(head, measured(sys.argv[1:]), 2)
    marked.write("docs/labelling.md", {"labelling: labelling": table})


if __name__ == "__main__":
    main()
