"""Labels in steps: a model and a classifier, or a small and a larger model.

    python benchmarks/steps.py MODEL.gguf LARGER.gguf EMBEDDINGS.gguf
        [--texts NAME=TEXTS.csv ...] [--n 400] [--seeds 10]

TEXTS.csv has columns `text` and `label`, the human code. The package's `ag_news_sample`
(100 news texts) is also measured. Eight texts of each set are the examples of the prompt.
Each model labels all texts once; then, for each seed, the steps are simulated as in
`annotate`: `until` is half of the texts (a classifier on embeddings, the head, labels the
others), `unsure` a fifth. A simple sample of half of the texts is coded. Accuracy, Brier
score and calibration error (ten bins of equal mass) are measured on the texts without a
code. The width is the mean width of 95% intervals of all shares by DSL (`target="texts"`,
from probabilities). Seconds are processor time with one thread, for the texts that each
model processes in each step; they are extrapolated from 40 texts and exclude the fitting
of heads. The table is written into docs/steps.md.
"""

from __future__ import annotations

import argparse
import random
import time
import warnings
from pathlib import Path
from typing import Any

import labelled
import llamaherd as lh
import marked
import numpy as np
from llamaherd.calls.asks.calibration import calibrate_batch
from llamaherd.coding.estimation.recalibrated import ProbabilityScores
from llamaherd.coding.statistics.heads import least_sure, text_head

AG_NEWS = marked.ROOT / "r_package/data/ag_news_sample.R"
QUESTIONS = {"ag_news_sample": "Name the topic of the news text."}
QUESTION = "Name the sentiment of the text."
SEED = 20261126
UNTIL = 0.5  # share of the texts
UNSURE = 0.2
CODED = 0.5
N_TIMED = 40  # texts

Floats = Any  # float64[n, k]


def in_steps(
    small: Floats, larger: Floats, vectors: Floats, rng: np.random.Generator
) -> dict[str, tuple[Floats, tuple[float, float, float], float]]:
    """Return probabilities, shares of texts per model and the head's agreement."""
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
    sampled = len(sample) / n
    more = len(unsure) / n
    none = float("nan")
    return {
        "model": (small, (1, 0, 0), none),
        "larger model": (larger, (0, 0, 1), none),
        "cascade": (cascade, (1, 0, UNSURE), none),
        "head": (by_head, (sampled, 1, 0), agreed),
        "head, unsure to the model": (again, (sampled + more, 1, 0), agreed),
    }


def ag_news() -> list[dict[str, str]]:
    """Return the shuffled rows of the package's sample."""
    lines = AG_NEWS.read_text(encoding="utf-8").splitlines()
    split = [line.split("|") for line in lines if line.count("|") == 2]
    rows = [{"text": text, "label": label} for label, _, text in split[1:]]
    random.Random(SEED).shuffle(rows)  # noqa: S311 - the same each time, no secret
    return rows


def passes(
    rows: list[dict[str, str]], book: lh.Codebook, paths: dict[str, Path]
) -> dict[str, Any]:
    """Return probabilities by both models, embeddings, and seconds of each model.

    The seconds are the processor time for all texts with one thread, estimated from the
    first texts.
    """
    texts = [row["text"] for row in rows]
    results: dict[str, Any] = {}
    for name, path in paths.items():
        with lh.Model(path) as model:
            start = time.process_time()
            applied(name, model, texts[:N_TIMED], book, n_threads=1)
            results[f"s_{name}"] = (time.process_time() - start) / N_TIMED * len(texts)
            output = applied(name, model, texts, book)
        results[name] = output if name == "vectors" else output.probs
        if name != "vectors":
            results["names"] = list(output.names)
    return results


def applied(
    name: str, model: lh.Model, texts: list[str], book: lh.Codebook, **threads: int
) -> Any:
    """Return embeddings for the name "vectors", otherwise labels."""
    if name == "vectors":
        return lh.embed_parallel(model, texts, truncate=True, **threads).vectors
    with lh.Context(model, **threads) as context:
        return lh.annotate({"text": texts}, "text", book, context)


def of_seed(
    rows: list[dict[str, str]], known: dict[str, Any], seed: int
) -> list[dict[str, Any]]:
    """Return the results of each method for one seed."""
    names = known["names"]
    codes = np.array([names.index(row["label"]) for row in rows])
    vectors = np.array(known["vectors"], dtype=np.float32)
    rng = np.random.default_rng([SEED, seed])
    small, larger = (np.array(known[model]) for model in ("small", "larger"))
    ways = in_steps(small, larger, vectors, rng)
    even = calibrate_batch(small).apply(small)
    calibrated = in_steps(even, calibrate_batch(larger).apply(larger), vectors, rng)
    for way in ("model", "larger model", "head", "head, unsure to the model"):
        ways[f"{way}, batch-calibrated"] = calibrated[way]
    n_codes = round(len(rows) * CODED)
    results = []
    for way, (probs, shares, agreed) in ways.items():
        frame = _frame(rows, probs, names)
        drawn = lh.gold_sample(
            frame, n_codes, text="text", label="label", names=names, seed=seed
        )
        gold = drawn.with_codes([rows[i]["label"] for i in drawn.rows])
        others = np.setdiff1d(np.arange(len(rows)), drawn.rows)
        figures = _figures(probs, codes, others, frame, gold)
        seconds = sum(
            share * known[name]
            for share, name in zip(
                shares, ("s_small", "s_vectors", "s_larger"), strict=True
            )
        )
        results.append({"way": way, **figures, "seconds": seconds, "agreement": agreed})
        if way not in {"model", "head, unsure to the model", "cascade"}:
            continue
        new = lh.recalibrate(
            frame, gold, ("probs", "embeddings"), embeddings=vectors, seed=seed
        )
        figures = _figures(new.probs, codes, others, new, gold)
        more = 0.0 if shares[1] else known["s_vectors"]
        name = f"{way}, then recalibrated"
        results.append(
            {"way": name, **figures, "seconds": seconds + more, "agreement": float("nan")}
        )
    return results


def _frame(rows: list[dict[str, str]], probs: Floats, names: list[str]) -> dict[str, Any]:
    return {
        "text": [row["text"] for row in rows],
        "label": [names[j] for j in probs.argmax(axis=1)],
        **{f"p_{name}": probs[:, j].tolist() for j, name in enumerate(names)},
    }


def _figures(
    probs: Floats, codes: Any, others: Any, coded: Any, gold: lh.GoldSample
) -> dict[str, Any]:
    scores = ProbabilityScores.of(
        probs[others], codes[others], np.ones(len(others)), 0.95
    )
    estimates = lh.estimate(coded, gold, target="texts", predictions="probs")
    widths = [row.high - row.low for row in estimates.by("dsl")]
    return {
        "accuracy": scores.accuracy.value,
        "brier": scores.brier.value,
        "ece": scores.ece,
        "width": float(np.nanmean(widths)),
    }


def table(sets: dict[str, tuple[int, list[list[dict[str, Any]]]]]) -> str:
    """Return a table of means over seeds, by set and method."""
    head = (
        "texts",
        "way",
        "accuracy",
        "Brier score",
        "ECE",
        "width",
        "agrees",
        "seconds",
    )
    rows = []
    for set_name, (n, draws) in sets.items():
        name = f"{set_name}, {n}, {round(n * CODED)} coded"
        for of_way in zip(*draws, strict=True):
            values = {
                key: np.array([draw[key] for draw in of_way], dtype=float)
                for key in ("accuracy", "brier", "ece", "width", "agreement", "seconds")
            }
            cells = [f"{values['accuracy'].mean():.3f} ± {values['accuracy'].std():.3f}"]
            cells += [f"{values[key].mean():.3f}" for key in ("brier", "ece", "width")]
            agreement = values["agreement"].mean()
            cells.append("" if np.isnan(agreement) else f"{agreement:.3f}")
            cells.append(f"{values['seconds'].mean():.1f}")
            rows.append([name, of_way[0]["way"], *cells])
            name = ""
    return marked.table([*head, "seconds"], rows, 2)


def main() -> None:
    """Measure, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("larger", type=Path)
    parser.add_argument("embeddings", type=Path)
    parser.add_argument("--texts", action="append", default=[], metavar="NAME=TEXTS.csv")
    parser.add_argument("--n", type=int, default=400)
    parser.add_argument("--seeds", type=int, default=10)
    args = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)  # ignore warnings about few codes
    paths = {"small": args.model, "larger": args.larger, "vectors": args.embeddings}
    sets = {"ag_news_sample": ag_news()}
    for pair in args.texts:
        name, path = pair.split("=", 1)
        sets[name] = labelled.read(Path(path), SEED)
    results = {}
    for name, every in sets.items():
        labels = sorted({row["label"] for row in every})
        shots = labelled.shots_of(every, labels)
        book = lh.Codebook(
            QUESTIONS.get(name, QUESTION),
            labels,
            examples=[(shot["text"], shot["label"]) for shot in shots],
        )
        rows = [row for row in every if row not in shots][: args.n]
        known = passes(rows, book, paths)
        results[name] = len(rows), [of_seed(rows, known, k) for k in range(args.seeds)]
    head = (
        f"Model {args.model.stem}, larger model {args.larger.stem}, embeddings by "
        f"{args.embeddings.stem}, 8 examples, {args.seeds} seeds. Seconds are of "
        "processor time, one thread.\n"
    )
    marked.write("docs/steps.md", {"steps": f"{head}\n{table(results)}"})


if __name__ == "__main__":
    main()
