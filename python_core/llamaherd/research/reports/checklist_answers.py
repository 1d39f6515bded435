"""Answers to the checklist on model, prompt, settings and data, from a report's content.

A function returns None if the data do not answer its item.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llamaherd.core.decimals import percents
from llamaherd.core.plurals import count_of
from llamaherd.core.words import call
from llamaherd.research.coding.codebook import Codebook
from llamaherd.research.coding.ready_codebooks import sources_of
from llamaherd.research.references import REFERENCES
from llamaherd.research.reports.methods_words import listed, short_hash
from llamaherd.research.reports.report_data import sha256_of

if TYPE_CHECKING:
    from llamaherd.research.reports.report_data import Contents

_METADATA = {"general.size_label": "", "general.license": "licence "}


def concept(contents: Contents) -> str | None:
    """Name the published definitions that a ready codebook follows."""
    keys = sources_of(Codebook.from_dict(contents["run"]["codebook"]["content"]))
    if not keys:
        return None
    works = listed([REFERENCES[key].short for key in keys])
    return f"by a ready codebook, based on {works}"


def model(contents: Contents) -> str | None:
    """Identify the model's file."""
    found = contents["run"]["model"]
    if not found["file"] or not found["sha256"]:
        return None
    known = found.get("metadata") or {}
    facts = [found["file"], short_hash(found["sha256"])]
    if found.get("size_bytes") is not None:
        facts.insert(1, f"{found['size_bytes'] / 1e9:.2f} GB")
    facts += [f"{word}{known[key]}" for key, word in _METADATA.items() if known.get(key)]
    return f"{', '.join(facts)} (Model)"


def changed_model(contents: Contents) -> str:
    """Name adapters of the model."""
    loras = contents["run"]["model"].get("loras") or ()
    if not loras:
        return "not by llamaherd: the file's weights were used, without adapters (Model)"
    files = listed([str(each["file"] or "an unnamed file") for each in loras])
    return f"by {count_of(len(loras), 'LoRA adapter')}: {files} (Model)"


def prompt(contents: Contents) -> str:
    """Count examples and definitions of the codebook."""
    content = contents["run"]["codebook"]["content"]
    n = len(content.get("examples", ()))
    book = Codebook.from_dict(content)
    n_labels = len(book.names)
    n_defined = sum(1 for each in book.definitions.values() if each)
    defined = (
        f", {n_defined} of {count_of(n_labels, 'label')} with a definition"
        if n_labels
        else ""
    )
    return f"in full, with {count_of(n, 'example')}{defined} (Codebook, Prompts)"


def alone(contents: Contents) -> str:
    """State whether labels depend on other texts, by calibration or recalibration."""
    run = contents["run"]
    shared = []
    if run["settings"].get("calibrate") == "batch":
        shared.append("calibration uses the probabilities of all texts")
    if run.get("recalibration") is not None:
        shared.append("recalibration uses human codes of other texts")
    rest = f"; {' and '.join(shared)}" if shared else ""
    return f"each prompt has one text to code, and no answers to other coded texts{rest}"


def settings(contents: Contents) -> str:
    """State sampling, seed and calibration."""
    found = contents["run"]["settings"]
    if found.get("method") == "classify":
        drawn = "labels are scored, not sampled"
    else:
        drawn = f"temperature {found.get('temperature')}, seed {found.get('seed')}"
    return f"{drawn}; calibration: {found.get('calibrate') or 'none'} (Settings)"


def varies(contents: Contents) -> str | None:
    """State that labels are not sampled, or the agreement of runs with other seeds."""
    found = contents["run"]["settings"]
    if found.get("method") == "classify":
        return "labels are scored, not sampled"
    if not float(found.get("temperature") or 0):
        return "answers are the most probable ones (temperature 0), not sampled"
    variants = contents["robustness"]
    if variants is None or variants["agreement"] is None:
        return None
    seeds = {each["settings"].get("seed") for each in variants["runs"]}
    if len(seeds) < 2:
        return None
    agreement = percents(variants["agreement"], 0)
    return f"{len(seeds)} seeds, mean agreement {agreement} (Robustness)"


def versions(contents: Contents) -> str:
    """State software versions, processor and date."""
    run = contents["run"]
    kept = ("llamaherd", "llama-cpp-python")
    named = [
        f"{name} {run['versions'][name]}" for name in kept if name in run["versions"]
    ]
    return f"{', '.join(named)}; {run['machine']['processor']}; {run['started'][:10]}"


def computing(contents: Contents) -> str | None:
    """State the number of prompts and their computing time."""
    run = contents["run"]
    if run.get("seconds") is None or run.get("n_prompts") is None:
        return None
    n_stored = run.get("n_journal", 0)
    stored = f", {n_stored:,} of them from the journal" if n_stored else ""
    seconds = f"{run['seconds']:,.1f} s on {run['machine']['processor']}"
    return f"{count_of(run['n_prompts'], 'prompt')}{stored}, in {seconds}"


def reproduced(contents: Contents) -> str | None:
    """State that the context was deterministic."""
    if not contents["run"]["context"].get("deterministic"):
        return None
    return f"the context was deterministic; {call('reproduce')} compares every label"


def shared(contents: Contents) -> str | None:
    """State that the report contains the texts."""
    if "texts" not in contents["data"]:
        return None
    return "this report contains texts, labels and probabilities"


def missing(contents: Contents) -> str:
    """Count texts without a label."""
    n = len(contents["errors"])
    return f"{count_of(n, 'different text')} without a label" if n else "all have a label"


def edited(contents: Contents) -> str:
    """State calibration and recalibration; reports refuse other changes of labels."""
    run = contents["run"]
    ways = []
    if run["settings"].get("calibrate"):
        ways.append(f"probabilities are calibrated ({run['settings']['calibrate']})")
    found = run.get("recalibration")
    if found is not None:
        ways.append(f"labels are recalibrated with {found['n_codes']:,} human codes")
    return f"{listed(ways)}; nothing else" if ways else "no: labels are the model's own"


def examples(contents: Contents) -> str | None:
    """State that no example of the prompt is one of the coded texts."""
    shown = Codebook.from_dict(contents["run"]["codebook"]["content"]).examples
    if not shown:
        return "the prompt has no examples"
    if contents.get("evaluation") is not None:
        return (
            f"yes: {call('evaluate_codebook')} refuses examples from select and evaluate"
        )
    data = contents["data"]
    texts = [each.text for each in shown]
    if "texts" in data:
        there = {text.strip() for text in data["texts"]}
        n = sum(text.strip() in there for text in texts)
    else:
        hashes = set(data["texts_sha256"])
        n = sum(sha256_of(text) in hashes for text in texts)
    return None if n else "yes: no example is one of the coded texts"
