"""Writes the tables of the summaries into the documents, and draws the plot.

python benchmarks/report.py [--check | --print SUMMARY] [--plot]

Tables are between marker comments in the documents. `--check` writes nothing and exits
with 1 if the tables of a document differ from its summary. `--print` writes the tables of
one summary only to the terminal.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path

from marked import at_least, at_most, table
from summary import Row, Summary, title, workloads

ROOT = Path(__file__).resolve().parents[1]
SUMMARY = ROOT / "benchmarks/summary.json"
PLOT = ROOT / "docs/images/performance.png"  # plot of this summary
DOCUMENTS = {
    ROOT / "README.md": SUMMARY,
    ROOT / "docs/performance.md": SUMMARY,
    ROOT / "docs/performance-avx512.md": ROOT / "benchmarks/summary-avx512.json",
}
_MARKED = re.compile(
    r"(<!-- figures: (\w+) -->\n).*?(<!-- end of figures -->)", re.DOTALL
)
_NONE = "-"
_NOT_MEASURED = "Not measured yet: `make bench`, then `make bench-report`.\n"


def read(path: Path) -> Summary:
    """Read the output of summary.py."""
    summary: Summary = json.loads(path.read_text(encoding="utf-8"))
    return summary


def number(row: Row | None, key: str, form: str = "{:.2f}") -> str:
    """Format a number of a row; a dash if it was not measured."""
    value = (row or {}).get(key)
    return _NONE if value is None else form.format(value)


def mebibytes(row: Row | None, key: str) -> str:
    """Format a size in MiB."""
    value = (row or {}).get(key)
    return _NONE if value is None else f"{value / 2**20:.0f}"


# ---- parts of the documents -----------------------------------------------------------


def overview(summary: Summary) -> str:
    """Return the README's sentence: times relative to T* and to other programs."""
    model = next(iter(summary["models"]))
    load = dict(workloads(summary, model))["distinct"]
    engines = load["engines"]
    name = title(model).partition(",")[0]
    ideal = number(engines["llamaherd"], "to_ideal")
    loop, server = (
        number(engines.get(other), "to_llamaherd", "{:.1f}")
        for other in ("loop", "server")
    )
    return (
        f"With {name} on two cores, {load['n_prompts']} prompts take {ideal} times the "
        "shortest possible time; a loop over llama-cpp-python "
        f"takes {loop} times as long as llamaherd, llama-server {server} times.\n"
    )


def times(summary: Summary) -> str:
    """Return the times of each engine, one table per model."""
    parts = []
    for model in summary["models"]:
        rows = []
        for name, load in workloads(summary, model):
            engines = load["engines"]
            herd, server = engines["llamaherd"], engines.get("server")
            setting = f" ({server['setting']})" if server else ""
            rows.append(
                [
                    name,
                    str(load["n_prompts"]),
                    f"{load['n_prompt_tokens']:,}",
                    f"{load['n_unique_tokens']:,}",
                    f"{load['n_generated']:,}",
                    number(load, "ideal_s"),
                    number(herd, "seconds"),
                    number(herd, "to_ideal"),
                    number(herd, "tokens_per_s", "{:.0f}"),
                    number(engines.get("deterministic"), "to_llamaherd"),
                    number(engines.get("loop"), "to_llamaherd"),
                    number(server, "to_llamaherd") + setting,
                ]
            )
        head = ["workload", "prompts", "prompt tokens", "different", "generated", "T*, s"]
        head += ["llamaherd, s", "time / T*", "tokens/s", "deterministic", "loop"]
        parts.append(f"**{title(model)}**\n\n{table([*head, 'llama-server'], rows)}")
    return "\n".join(parts)


def memory_and_texts(summary: Summary) -> str:
    """Return tables of peak memory, and of the shares of texts as when run alone."""
    parts = []
    for model in summary["models"]:
        rows = []
        for name, load in workloads(summary, model):
            engines = load["engines"]
            herd, exact = engines["llamaherd"], engines.get("deterministic")
            rows.append(
                [
                    name,
                    mebibytes(herd, "peak_bytes"),
                    mebibytes(herd, "kv_bytes"),
                    mebibytes(herd, "over_bytes"),
                    mebibytes(engines.get("loop"), "peak_bytes"),
                    mebibytes(engines.get("server"), "peak_bytes"),
                    number(herd, "equal_alone", "{:.0%}"),
                    number(herd, "equal_loop", "{:.0%}"),
                    number(exact, "equal_alone", "{:.0%}"),
                    number(engines.get("server"), "equal_alone", "{:.0%}"),
                ]
            )
        head = ["workload", "peak, MiB", "KV", "above model + KV", "loop", "llama-server"]
        head += ["texts as alone", "as the loop", "deterministic", "llama-server"]
        parts.append(f"**{title(model)}**\n\n{table(head, rows)}")
    return "\n".join(parts)


def steadiness(summary: Summary) -> str:
    """Return sentences on repeated calls, many small calls, scheduling and R."""
    lines = []
    for model, loads in summary["models"].items():
        if repeat := loads.get("repeat"):
            first, second, last = repeat["seconds"]
            lines.append(
                f"- {title(model)}, `annotate` {repeat['n_calls']} times on one context: "
                f"the first call took {first:.2f} s, the second {second:.2f} s and the "
                f"last {last:.2f} s. {_age(repeat)} Decoded tokens: "
                f"{', '.join(f'{n:,}' for n in repeat['decoded'])}."
            )
        if many := loads.get("many"):
            (first, last), sizes = many["seconds"], many["resident_bytes"]
            lines.append(
                f"- {title(model)}, {many['n_calls']:,} small calls: the first tenth "
                f"took {1000 * first:.1f} ms each, the last {1000 * last:.1f} ms each. "
                f"{_age(many)} Resident memory was {sizes[0] / 2**20:.1f} MiB after "
                f"the first tenth and {sizes[1] / 2**20:.1f} MiB at the end."
            )
            if cost := many.get("scheduling"):
                lines.append(
                    f"- Scheduling {cost['n_prompts']:,} prompts of 500 tokens (prefix "
                    "tree, admission, results, but no computation) took "
                    f"{cost['seconds']:.2f} s."
                )
        if bridge := loads.get("annotate", {}).get("bridge"):
            lines.append(
                f"- {title(model)}, `annotate` from R took "
                f"{bridge['to_llamaherd']:.3f} times as long as from Python; "
                f"{bridge['outside_s']:.2f} s of this time were outside of Python. R "
                f"needed {bridge['convert_s']:.2f} s to convert 10,000 prompts and "
                "results."
            )
    return "".join(f"{line}\n" for line in lines)


def _age(calls: Row) -> str:
    """Return a sentence about the time of late calls relative to a new context."""
    return (
        f"Late calls took {calls['to_new']:.3f} times as long as calls on a new context "
        "after its first call. The calls on both contexts ran alternately."
    )


def conditions(summary: Summary) -> str:
    """Return the conditions of the figures."""
    lines = []
    for about in summary["sessions"]:
        quick = "**a quick look, no figures to quote**, " if about["quick"] else ""
        use = (
            " (only for texts of prompts that ran alone)" if about["is_reference"] else ""
        )
        lines.append(
            f"- {quick}{about['processor']}, {about['n_threads']} threads; llamaherd "
            f"{about['llamaherd']} ({about['commit']}), llama-cpp-python "
            f"{about['llama_cpp_python']}, Python {about['python']}; "
            f"seed {about['seed']}{use}."
        )
    if summary.get("others_cpus") is not None:
        lines.append(
            f"- Other programs used {summary['others_cpus']:.2f} processors during the "
            "measurements (median)."
        )
    if slots := summary.get("server_slots"):
        lines.append(f"- llama-server ran with {', '.join(map(str, slots))} slots.")
    records = [
        load["engines"]["llamaherd"]
        for model in summary["models"]
        for _, load in workloads(summary, model)
    ]
    if runs := sorted({row["n_runs"] for row in records}):
        counts = " or ".join(map(str, runs))
        lines.append(f"- Times are medians of {counts} runs; peers may have fewer runs.")
    if setups := [row["setup_s"] for row in records if "setup_s" in row]:
        lines.append(
            "- Before the measured time, llamaherd allocated its KV cache in "
            f"{at_least(min(setups), 2)} to {at_most(max(setups), 2)} s."
        )
    return "".join(f"{line}\n" for line in lines)


def plot(summary: Summary) -> str:
    """Return the Markdown of the plot that `--plot` draws."""
    del summary
    what = "Time of each engine as a multiple of T*, for each workload"
    return f"![{what}](images/{PLOT.name})\n"


PARTS = {
    "plot": plot,
    "overview": overview,
    "times": times,
    "memory": memory_and_texts,
    "steadiness": steadiness,
    "conditions": conditions,
}


def fill(text: str, summary: Summary) -> str:
    """Return a document with the summary's tables between its markers."""
    measured = bool(summary["models"])
    return _MARKED.sub(
        lambda m: m[1] + (PARTS[m[2]](summary) if measured else _NOT_MEASURED) + m[3],
        text,
    )


def main() -> None:
    """Write or check the documents."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--print", type=Path, metavar="SUMMARY")
    parser.add_argument("--plot", action="store_true", help=f"draw {PLOT.name} as well")
    options = parser.parse_args()
    if options.print:
        summary = read(options.print)
        print("\n".join(part(summary) for part in PARTS.values()))
        return
    stale = []
    for path, summary in DOCUMENTS.items():
        text = path.read_text(encoding="utf-8")
        filled = fill(text, read(summary))
        if filled != text:
            stale.append(path.name)
            if not options.check:
                path.write_text(filled, encoding="utf-8")
    if options.plot and not options.check:
        from plot import draw  # needs matplotlib

        draw(read(SUMMARY), PLOT)
    if options.check and stale:
        sys.exit(f"tables differ from the summaries: {', '.join(stale)}")


if __name__ == "__main__":
    main()
