"""Methods paragraph of the demo's 60 news texts, for docs/reports.md.

    python benchmarks/methods.py MODEL.gguf

The second coder is simulated: every tenth text gets another label.
"""

from __future__ import annotations

import sys
import textwrap
import warnings

import llamaherd as lh
import marked
from labelled import demo

TOPICS = ["Sports", "Business", "Science", "Politics"]


def main() -> None:
    """Code the texts, and write the paragraph into the page."""
    warnings.simplefilter("ignore")
    rows = demo("headlines.csv")
    shots = [(row["text"], row["topic"]) for row in demo("shots.csv")]
    book = lh.Codebook("Label the topic of each news text.", TOPICS, examples=shots)
    frame = {"text": [row["text"] for row in rows]}
    context = lh.Context(lh.Model(sys.argv[1]), deterministic=True)
    coded = lh.annotate(frame, "text", book, context, calibrate="batch")
    gold = lh.gold_sample(coded, 30, seed=1)
    anna = [rows[row]["topic"] for row in gold.rows]
    ben = ["Politics" if i % 10 == 9 else code for i, code in enumerate(anna)]
    gold = gold.with_codes(anna, "anna").with_codes(ben, "ben")
    report = lh.methods_text(coded, lh.validate(coded, gold), lh.estimate(coded, gold))
    quoted = textwrap.indent(textwrap.fill(report.text.split("\n\n")[0], 140), "> ")
    rest = [textwrap.fill(paragraph, 140) for paragraph in report.text.split("\n\n")[1:]]
    lines = [quoted, *(textwrap.indent(paragraph, "> ") for paragraph in rest)]
    cited = ", ".join(f"`{key}`" for key in report.references)
    part = "\n>\n".join(lines)
    marked.write("docs/reports.md", {"methods": f"{part}\n\nIts references are {cited}."})


if __name__ == "__main__":
    main()
