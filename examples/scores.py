"""Computes scores with reasons, alpha, a comparison of prompts, and regressions.

    python examples/scores.py COMMENTS.csv MODEL.gguf

COMMENTS.csv is examples/data/comments.csv: 40 comments, scored from 1 to 5 by two
fictitious people. The steps follow the notebooks of a published guide (arXiv 2604.09638).
Needs pandas, and formulaic for the regressions.
"""

import sys
import warnings

import llamaherd as lh
import pandas as pd

warnings.simplefilter("ignore")  # a real project has more than 40 texts
comments = pd.read_csv(sys.argv[1])
question = "How satisfied is the customer?"
scale = {"1": "very dissatisfied", "2": "", "3": "so-so", "4": "", "5": "very satisfied"}
shots = [("Terrible, never again.", "1"), ("It is fine.", "3"), ("Great, thanks!", "5")]
plain = lh.Codebook(question, scale, type="ordinal")
examples = lh.Codebook(question, scale, type="ordinal", examples=shots)
score = {"type": "integer", "minimum": 1, "maximum": 5}
properties = {"reason": {"type": "string", "maxLength": 60}, "score": score}
schema = {"type": "object", "properties": properties, "required": ["reason", "score"]}
pairs = [
    ("Terrible, never again.", {"reason": "The customer will not return.", "score": 1}),
    ("Great, thank you!", {"reason": "The customer is grateful.", "score": 5}),
]
with_reason = lh.Codebook(
    f"{question} Give a reason, and a score from 1 to 5.",
    type="fields",
    schema=schema,
    examples=pairs,
)

codes = comments[["id", "anna", "ben"]]
gold = lh.gold_sample(comments, 40, text="text", names=list("12345"), seed=1)
gold = lh.read_gold(codes, gold)
gold = lh.gold_split(gold, explore=0, select=0.5, evaluate=0.5, seed=1)

with lh.Model(sys.argv[2]) as model, lh.Context(model, deterministic=True) as context:
    reasons = lh.annotate(
        comments[["text"]].head(4), "text", with_reason, context, max_tokens=80
    )
    print(reasons.frame[["reason", "score"]])
    candidates = {
        "plain": plain,
        "examples": examples,
        "calibrated": lh.candidate(examples, calibrate="batch"),
    }
    print(lh.compare_codebooks(comments, candidates, gold, context))
    scored = lh.annotate(comments, "text", examples, context, calibrate="batch")

checked = lh.validate(scored, gold)
print(checked)
half = lh.gold_sample(scored, 24, seed=2)
half = half.with_codes(comments["anna"].iloc[half.rows].astype(str).tolist())
print(lh.estimate(scored, half, "label ~ waited"))  # errors in the outcome
fit = lh.estimate(scored, half, "visits ~ label")  # errors in the predictor
print(fit)
print(lh.methods_text(scored, checked, fit).text)
