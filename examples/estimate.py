"""Estimates the correct shares of labels in a file of texts, in spite of wrong labels.

    python examples/estimate.py TEXTS.csv MODEL.gguf

TEXTS.csv has the columns text and label, the human code. For most texts the code is used
only to show how accurate the estimates are: a real project has human codes only for the
gold sample. Needs pandas, and matplotlib for the plot.
"""

import sys

import llamaherd as lh
import pandas as pd

texts = pd.read_csv(sys.argv[1])
labels = sorted(texts["label"].unique())

shots = texts.groupby("label").sample(3, random_state=1).sample(frac=1, random_state=1)
examples = list(zip(shots["text"], shots["label"], strict=True))
book = lh.Codebook(question="Label the text.", labels=labels, examples=examples)

rest = texts.drop(shots.index).reset_index(drop=True)
with lh.Model(sys.argv[2]) as model, lh.Context(model, deterministic=True) as context:
    coded = lh.annotate(rest[["text"]], "text", book, context, calibrate="batch")

gold = lh.gold_sample(coded, len(rest) // 4, seed=1)  # texts for people to code
gold = gold.with_codes(rest["label"].iloc[gold.rows].tolist())
print(lh.validate(coded, gold))

fit = lh.estimate(coded, gold)
print(fit)
lh.plot(fit).figure.savefig("estimate.png")
