"""Draws the plot of a summary. The tables do not need this module or matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib import pyplot as plt
from summary import ORDER, Summary, title, workloads

if TYPE_CHECKING:
    from pathlib import Path


def draw(summary: Summary, path: Path) -> None:
    """Plot the time of each engine as a multiple of T*, with a line per workload."""
    mpl.use("Agg")
    # Colours that colour-blind people can distinguish, and shapes for grey print.
    styles = {
        "server": ("llama-server, best -np", "s", "#E69F00"),
        "loop": ("llama-cpp-python, one by one", "^", "#56B4E9"),
        "deterministic": ("llamaherd, deterministic", "D", "#009E73"),
        "llamaherd": ("llamaherd", "o", "#D55E00"),
    }
    models = list(summary["models"])
    measured = {name for model in models for name, _ in workloads(summary, model)}
    places = {name: i for i, name in enumerate(n for n in ORDER if n in measured)}
    figure, axes = plt.subplots(
        1, len(models), figsize=(4.6 * len(models), 3.3), sharey=True, squeeze=False
    )
    for axis, model in zip(axes[0], models, strict=True):
        loads = workloads(summary, model)
        for name, (label, marker, colour) in styles.items():
            points = [
                (load["engines"][name]["to_ideal"], places[workload])
                for workload, load in loads
                if "to_ideal" in load["engines"].get(name, {})
            ]
            if points:
                axis.scatter(
                    *zip(*points, strict=True),
                    s=42,
                    c=colour,
                    marker=marker,
                    label=label,
                    zorder=2,
                )
        axis.axvline(1, color="black", linewidth=1, zorder=1)
        axis.set_xscale("log", base=2)
        axis.set_xlim(0.8, 10)
        axis.set_ylim(len(places) - 0.5, -0.5)
        axis.set_xticks([1, 2, 4, 8], ["1", "2", "4", "8"])
        axis.minorticks_off()
        axis.set_yticks(range(len(places)), list(places))
        axis.set_title(title(model), loc="left", fontsize=10)
        axis.set_xlabel("time / T* (1: as fast as the machine allows)", fontsize=9)
        axis.grid(visible=True, axis="both", color="#e6e6e6", linewidth=0.7)
        axis.set_axisbelow(True)
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.tick_params(length=0)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(
        handles[::-1],
        labels[::-1],
        loc="lower center",
        ncols=4,
        frameon=False,
        fontsize=9,
    )
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=160, metadata={"Software": None})
