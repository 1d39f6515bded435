"""Labels in steps: a model and a classifier, or a small and a larger model.

    python benchmarks/steps.py MODEL.gguf LARGER.gguf EMBEDDINGS.gguf --output ROWS.json
        [--texts NAME=TEXTS.csv ...] [--n 400] [--seeds 10] [--passes FOLDER]

TEXTS.csv has columns `text` and `label`, the human code. The package's `ag_news_sample`
(100 news texts) is also measured. Eight texts of each set are the examples of the prompt.
Each model labels all texts once; then, for each seed, the steps are simulated as in
`annotate`: `until` is half of the texts (a classifier on embeddings, the head, labels the
others), `unsure` a fifth. A simple sample of half of the texts is coded. Accuracy, Brier
score and calibration error (ten bins of equal mass) are measured on the texts without a
code. The width is the mean width of 95% intervals of all shares by DSL (`target="texts"`,
from probabilities). Seconds are processor time with one thread, for the texts that each
model processes in each step; they are extrapolated from 40 texts and exclude the fitting
of heads. steps_report.py writes the rows into docs/steps.md.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import labelled
import llamaherd as lh
import numpy as np
import recalibration
from llamaherd.calls.asks.calibration import calibrate_batch
from llamaherd.coding.estimation.recalibrated import ProbabilityScores
from llamaherd.coding.statistics.heads import least_sure, text_head

SEED = 20261126
UNTIL = 0.5  # share of the texts
UNSURE = 0.2
CODED = 0.5
N_TIMED = 40  # texts

Floats = Any  # float64[n, k]


def in_steps(
    small: Floats, larger: Floats, vectors: Floats, rng: np.random.Generator
) -> dict[str, tuple[Floats, tuple[float, float, float], float]]:
    """Return, by method: probabilities, shares of texts per model, the head's agreement.

    Args:
        small: Probabilities by the model.
        larger: Probabilities by the larger model.
        vectors: Embeddings.
        rng: Generator.

    Returns:
        A dict by method with: probabilities; shares of the texts that the model, the
        model for embeddings and the larger model process; the agreement of head and
        model in cross-validation, NaN without a head.
    """
    n = len(small)
    sample = np.sort(rng.choice(n, round(n * UNTIL), replace=False))
    rest = np.setdiff1d(np.arange(n), sample)
    head = text_head(vectors[sample], small[sample], rng)
    by_head = small.copy()
    by_head[rest] = head.probs(vectors[rest])
    agreed = head.agreement().value
    unsure = rest[least_sure(by_head[rest], round(UNSURE * len(rest)))]
    again = by_head.copy()
    again[unsure] = small[unsure]
    cascade = small.copy()
    unsure_all = least_sure(small, round(UNSURE * n))
    cascade[unsure_all] = larger[unsure_all]
    asked = len(sample) / n
    more = len(unsure) / n
    none = float("nan")
    return {
        "model": (small, (1, 0, 0), none),
        "larger model": (larger, (0, 0, 1), none),
        "cascade": (cascade, (1, 0, UNSURE), none),
        "head": (by_head, (asked, 1, 0), agreed),
        "head, unsure to the model": (again, (asked + more, 1, 0), agreed),
    }


def cost(
    rows: list[dict[str, str]],
    shots: list[dict[str, str]],
    name: str,
    path: Path,
    *,
    embeds: bool = False,
) -> float:
    """Estimate a model's processor time for all texts, in seconds, from some texts."""
    texts = [row["text"] for row in rows[:N_TIMED]]
    labels = sorted({row["label"] for row in [*rows, *shots]})
    question = recalibration.QUESTIONS.get(name, recalibration.QUESTION)
    examples = [(shot["text"], shot["label"]) for shot in shots]
    book = lh.Codebook(question, labels, examples=examples)
    with lh.Model(path) as model:
        start = time.process_time()
        if embeds:
            lh.embed_parallel(model, texts, truncate=True, n_threads=1)
        else:
            with lh.Context(model, n_threads=1, n_threads_batch=1) as context:
                lh.annotate({"text": texts}, "text", book, context)
        return (time.process_time() - start) / len(texts) * len(rows)


def of_seed(
    rows: list[dict[str, str]], known: dict[str, Any], seed: int
) -> list[dict[str, Any]]:
    """Return the results of each method for one seed."""
    names = known["names"]
    codes = np.array([names.index(row["label"]) for row in rows])
    vectors = np.array(known["vectors"], dtype=np.float32)
    rng = np.random.default_rng([SEED, seed])
    small, larger = (np.array(known[each]) for each in ("small", "larger"))
    ways = in_steps(small, larger, vectors, rng)
    even = calibrate_batch(small).apply(small)
    calibrated = in_steps(even, calibrate_batch(larger).apply(larger), vectors, rng)
    for way in ("model", "larger model", "head", "head, unsure to the model"):
        ways[f"{way}, batch-calibrated"] = calibrated[way]
    n_codes = round(len(rows) * CODED)
    made = []
    for way, (probs, asked, agreed) in ways.items():
        frame = _frame(rows, probs, names)
        drawn = lh.gold_sample(
            frame, n_codes, text="text", label="label", names=names, seed=seed
        )
        gold = drawn.with_codes([rows[i]["label"] for i in drawn.rows])
        others = np.setdiff1d(np.arange(len(rows)), drawn.rows)
        own = _figures(probs, codes, others)
        own["width"] = _width(frame, gold)
        seconds = sum(
            share * known[name]
            for share, name in zip(
                asked, ("s_small", "s_vectors", "s_larger"), strict=True
            )
        )
        made.append({"way": way, **own, "seconds": seconds, "agreement": agreed})
        if way not in {"model", "head, unsure to the model", "cascade"}:
            continue
        new = lh.recalibrate(
            frame, gold, ("probs", "embeddings"), embeddings=vectors, seed=seed
        )
        own = _figures(new.probs, codes, others)
        own["width"] = _width(new, gold)
        more = 0.0 if asked[1] else known["s_vectors"]
        name = f"{way}, then recalibrated"
        made.append({"way": name, **own, "seconds": seconds + more, "agreement": None})
    return made


def _frame(rows: list[dict[str, str]], probs: Floats, names: list[str]) -> dict[str, Any]:
    return {
        "text": [row["text"] for row in rows],
        "label": [names[j] for j in probs.argmax(axis=1)],
        **{f"p_{name}": probs[:, j].tolist() for j, name in enumerate(names)},
    }


def _figures(probs: Floats, codes: Any, others: Any) -> dict[str, Any]:  # noqa: ANN401
    scores = ProbabilityScores.of(
        probs[others], codes[others], np.ones(len(others)), 0.95
    )
    return {
        "accuracy": scores.accuracy.value,
        "brier": scores.brier.value,
        "ece": scores.ece,
    }


def _width(coded: Any, gold: lh.GoldSample) -> float:  # noqa: ANN401
    found = lh.estimate(coded, gold, target="texts", predictions="probs")
    return float(np.nanmean([row.high - row.low for row in found.by("dsl")]))


def main() -> None:
    """Measure, and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("larger", type=Path)
    parser.add_argument("embeddings", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--texts", action="append", default=[], metavar="NAME=TEXTS.csv")
    parser.add_argument("--n", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--passes", type=Path, default=None)
    args = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)  # ignore warnings about few codes
    sets = {"ag_news_sample": recalibration.ag_news(SEED)}
    for each in args.texts:
        name, path = each.split("=", 1)
        sets[name] = labelled.read(Path(path), SEED)
    found = []
    for name, every in sets.items():
        shots = labelled.shots_of(every, sorted({row["label"] for row in every}))
        rows = [row for row in every if row not in shots][: args.n]
        rows = [{"text": row["text"], "label": row["label"]} for row in rows]
        small, larger = (
            recalibration.passes(rows, shots, name, (path, args.embeddings), args.passes)
            for path in (args.model, args.larger)
        )
        known = {
            "names": small["names"],
            "small": small["probs"],
            "larger": larger["probs"],
            "vectors": small["vectors"],
            "s_small": cost(rows, shots, name, args.model),
            "s_larger": cost(rows, shots, name, args.larger),
            "s_vectors": cost(rows, shots, name, args.embeddings, embeds=True),
        }
        draws = [of_seed(rows, known, seed) for seed in range(args.seeds)]
        one = {"set": name, "n_texts": len(rows), "n_codes": round(len(rows) * CODED)}
        found.append({**one, "seeds": args.seeds, "draws": draws})
        print(name, [known[each] for each in ("s_small", "s_larger", "s_vectors")])
    names = {"model": args.model, "larger": args.larger, "embeddings": args.embeddings}
    out = {**{key: path.stem for key, path in names.items()}, "sets": found}
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(out, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
