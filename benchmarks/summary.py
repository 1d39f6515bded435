"""Condenses sessions of the benchmark into benchmarks/summary.json.

python benchmarks/summary.py SESSION.jsonl ... [--output FILE]

A ratio is computed from the times of one round, because a machine's speed drifts less
within a round than between rounds; the summary has the median of the ratios over the
rounds.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from statistics import mean, median

from session import read
from shape import Shape, ideal_seconds

SUMMARY = Path(__file__).parent / "summary.json"
OWN = ("llamaherd", "deterministic")
REFERENCES = {"count", "alone", "alone-deterministic"}  # engines whose time is not shown
ABOUT = (
    *("session", "quick", "seed", "n_threads", "llamaherd", "commit"),
    *("llama_cpp_python", "python", "machine", "processor", "n_processors"),
)

ORDER = ("distinct", "annotate", "tree", "mixed", "samples", "long")
TITLES = {"SmolLM2": "SmolLM2-135M, Q4_1", "gemma": "gemma-3-270m, Q4_K_M"}

Summary = dict
Row = dict
Record = dict
Runs = dict[int, Record]  # by round
Engines = dict[str, Runs]


def title(model: str) -> str:
    """Return a model's name in the form used in the documents."""
    return TITLES.get(model.split("-", maxsplit=1)[0], model)


def workloads(summary: Summary, model: str) -> list[tuple[str, Row]]:
    """Return the workloads with a model's results, in the order of the documents."""
    results = summary["models"][model]
    return [(name, results[name]) for name in ORDER if name in results]


def summarise(records: list[Record]) -> dict[str, object]:
    """Return the data for the tables and the plot."""
    grouped: dict[str, dict[str, Engines]] = defaultdict(
        lambda: defaultdict(lambda: defaultdict(dict))
    )
    for record in records:
        engines = grouped[record["model"]][record["workload"]]
        engines[record["engine"]][record["i_run"]] = record
    about = {
        record["session"]: {name: record.get(name) for name in ABOUT}
        for record in records
    }
    for session, settings in about.items():
        engines = {r["engine"] for r in records if r["session"] == session}
        settings["is_reference"] = engines <= REFERENCES
    tried = {r["engine"].removeprefix("server-") for r in records}
    slots = {int(name.split("-")[0]) for name in tried if name[0].isdigit()}
    others = [r["others_cpus"] for r in records if r.get("others_cpus") is not None]
    return {
        "sessions": list(about.values()),
        "server_slots": sorted(slots),
        "others_cpus": round(median(others), 3) if others else None,
        "models": {
            model: {
                name: summary
                for name, engines in workloads.items()
                if (summary := _workload(name, engines))
            }
            for model, workloads in sorted(grouped.items())
        },
    }


def _workload(name: str, engines: Engines) -> dict[str, object] | None:
    """Summarize a workload of a model; None if this project did not run it."""
    if "llamaherd" not in engines:
        return None
    if name == "repeat":
        return _repeat(engines["llamaherd"])
    if name == "many":
        return _many(engines)
    return _compare(engines)


def _compare(engines: Engines) -> dict[str, object]:
    """Summarize a workload that all engines run."""
    shape = Shape(**engines["count"][0]["shape"])
    ideals = _ideals(shape, engines)
    server = _best_server(engines)
    keys = {name: name for name in (*OWN, "loop")} | {"server": server}
    rows = {
        name: _engine(name, key, engines, ideals)
        for name, key in keys.items()
        if key in engines
    }
    if server:
        rows["server"]["setting"] = server.removeprefix("server-")
    summary: dict[str, object] = {
        "n_prompts": shape.n_prompts,
        "n_prompt_tokens": shape.n_prompt_tokens,
        "n_unique_tokens": shape.n_unique_tokens,
        "n_generated": sum(shape.lengths),
        "ideal_s": round(median(ideals.values()), 3) if ideals else None,
        "engines": rows,
    }
    if "r" in engines:
        summary["bridge"] = _bridge(engines)
    return summary


def _ideals(shape: Shape, engines: Engines) -> dict[int, float]:
    """Return T* of each round, from the rates before and after this project's runs."""
    seconds = defaultdict(list)
    for when in ("before", "after"):
        for i_run, rates in engines.get(f"rates-{when}", {}).items():
            seconds[i_run].append(ideal_of(shape, rates))
    return {i_run: mean(both) for i_run, both in seconds.items()}


def ideal_of(shape: Shape, rates: Record) -> float:
    """Return T* in seconds, from one measurement of the rates."""
    decode = {int(size): rate for size, rate in rates["decode"].items()}
    return ideal_seconds(shape, rates["prefill"], decode)


def _best_server(engines: Engines) -> str | None:
    """Return the setting of llama-server with the shortest time in any round."""
    servers = {
        name: min(record["seconds"][0] for record in runs.values())
        for name, runs in engines.items()
        if name.startswith("server-")
    }
    return min(servers, key=servers.__getitem__) if servers else None


def _engine(
    name: str, key: str, engines: Engines, ideals: dict[int, float]
) -> dict[str, object]:
    """Summarize one engine in one workload."""
    runs = engines[key]
    count = engines["count"][0]
    seconds = {i: record["seconds"][0] for i, record in runs.items()}
    n_generated = sum(count["shape"]["lengths"])
    last = runs[max(runs)]
    row: dict[str, object] = {
        "n_runs": len(runs),
        "seconds": round(median(seconds.values()), 3),
        "tokens_per_s": round(n_generated / median(seconds.values()), 1),
    }
    if ratio := _ratio(seconds, ideals):
        row["to_ideal"] = ratio
    herd_s = {i: record["seconds"][0] for i, record in engines["llamaherd"].items()}
    if name != "llamaherd" and (ratio := _ratio(seconds, herd_s)):
        row["to_llamaherd"] = ratio
    if peaks := [r["peak_bytes"] for r in runs.values() if r.get("peak_bytes")]:
        row["peak_bytes"] = max(peaks)
        if last.get("kv_bytes"):
            row["kv_bytes"] = last["kv_bytes"]
            row["over_bytes"] = max(peaks) - last["model_bytes"] - last["kv_bytes"]
    if setups := [r["setup_s"] for r in runs.values() if "setup_s" in r]:
        row["setup_s"] = round(median(setups), 3)
    # Sampled texts are not compared, because they have no reference.
    if "alone" in engines:
        alone = "alone-deterministic" if name == "deterministic" else "alone"
        row |= _equal("alone", last, engines.get(alone))
        row |= _equal("loop", last, engines.get("loop") if name in OWN else None)
    return row


def _ratio(seconds: dict[int, float], others: dict[int, float]) -> float | None:
    """Return the median ratio over the rounds that have both values."""
    both = seconds.keys() & others.keys()
    return round(median(seconds[i] / others[i] for i in both), 4) if both else None


def _equal(name: str, record: Record, references: Runs | None) -> dict[str, float]:
    """Return the share of texts that equal the reference."""
    if not references:
        return {}
    reference = references[max(references)]["texts"]
    pairs = zip(record["texts"], reference, strict=True)
    equal = [a == b for a, b in pairs]
    return {f"equal_{name}": round(sum(equal) / len(equal), 4)}


def _bridge(engines: Engines) -> dict[str, object]:
    """Summarize the overhead of R per call."""
    runs = engines["r"]
    # A call from R includes the creation of its context.
    herd_s = {
        i: record["seconds"][0] + record.get("setup_s", 0.0)
        for i, record in engines["llamaherd"].items()
    }
    through_r = {i: record["seconds"][0] for i, record in runs.items()}
    return {
        "n_runs": len(runs),
        "seconds": round(median(through_r.values()), 3),
        "to_llamaherd": _ratio(through_r, herd_s),
        "outside_s": round(median(r["bridge_s"] for r in runs.values()), 4),
        "convert_s": round(median(r["convert_s"] for r in runs.values()), 3),
    }


def _repeat(runs: Runs) -> dict[str, object]:
    """Summarize the first, the second and the last call on a context."""
    calls = [0, 1, -1]
    return {
        "n_runs": len(runs),
        "n_calls": len(runs[0]["seconds"]),
        "seconds": [
            round(median(r["seconds"][i] for r in runs.values()), 3) for i in calls
        ],
        "decoded": [runs[0]["decoded"][i] for i in calls],
        "to_new": _to_new(runs),
    }


def _many(engines: Engines) -> dict[str, object]:
    """Summarize many small calls (first and last tenth) and scheduling."""
    runs = engines["llamaherd"]
    record = runs[0]
    seconds, resident = record["seconds"], record["resident_bytes"]
    tenth = len(seconds) // 10
    summary: dict[str, object] = {
        "n_calls": len(seconds),
        "seconds": [
            round(median(seconds[:tenth]), 5),
            round(median(seconds[-tenth:]), 5),
        ],
        "resident_bytes": [resident[tenth - 1], resident[-1]],
        "to_new": _to_new(runs),
    }
    if scheduling := engines.get("scheduling"):
        summary["scheduling"] = {
            "n_prompts": scheduling[0]["n_prompts"],
            "seconds": round(median(r["seconds"][0] for r in scheduling.values()), 3),
        }
    return summary


def _to_new(runs: Runs) -> float:
    """Return the time of late calls, as a multiple of calls on a new context."""
    return round(median(ratio for run in runs.values() for ratio in run["to_new"]), 4)


def main() -> None:
    """Write the summary."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("sessions", nargs="+", type=Path)
    parser.add_argument("--output", type=Path, default=SUMMARY)
    options = parser.parse_args()
    summary = summarise(list(read(options.sessions).values()))
    options.output.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
