"""R as an interface (door) to a model that thinks."""

from __future__ import annotations

import functools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import thinking_behaviours as data
from thinking_behaviours import BEHAVIOURS, CONTEXTS, Behaviour, Told
from thinking_desk import (
    N_SAMPLES,
    TEXT,
    Desk,
    has,
    sure,
)

HERE = Path(__file__).parent


def r_job(behaviour: Behaviour, desk: Desk) -> dict[str, Any]:
    path = str(desk.file("r.journal"))
    return {
        "name": behaviour.name,
        "is_classified": is_classified(behaviour),
        "n": N_SAMPLES if behaviour.does == "samples" else None,
        "context": behaviour.context,
        "texts": list(behaviour.texts),
        "thinking": behaviour.thinking,
        "options": {**TEXT, **behaviour.options},
        "journal": path if behaviour.does == "journal" else None,
    }


def r_rows(desk: Desk, behaviour: Behaviour) -> list[Told]:
    return r_told(from_r(desk)[behaviour.name])


def r_ask(desk: Desk, behaviour: Behaviour) -> list[Told]:
    """Return answers of generate_parallel(); compare labels of classify_parallel()."""
    columns = from_r(desk)[behaviour.name]
    if is_classified(behaviour):
        classes = columns["classes"]
        assert tuple(r_told(classes)) == (behaviour.scored or behaviour.told)
        known = [each for each in classes["coverage"] if each is not None]
        assert all(map(sure, known))
    return r_told(columns)


def r_told(columns: dict[str, Any]) -> list[Told]:
    rows = []
    for i, text in enumerate(columns["text"]):
        if columns["error"][i] is not None:
            rows.append(data.FAILED)
            continue
        thinking, n, is_complete = (columns[name][i] for name in data.COLUMNS)
        rows.append(Told(thinking, n or 0, is_complete, text))
    return rows


def is_classified(behaviour: Behaviour) -> bool:
    """Return whether R also classifies the texts."""
    return behaviour.does == "ask" and has("classify", behaviour)


def r_pause(desk: Desk, behaviour: Behaviour) -> list[Told]:
    assert from_r(desk)[behaviour.name]["n_pauses"][0] > 0
    return r_rows(desk, behaviour)


def r_journal(desk: Desk, behaviour: Behaviour) -> list[Told]:
    assert from_r(desk)[behaviour.name]["n_journal"][0] == len(behaviour.texts)
    return r_rows(desk, behaviour)


def r_samples(desk: Desk, behaviour: Behaviour) -> list[Told]:
    columns = from_r(desk)[behaviour.name]
    assert columns["n_thoughts"] == [N_SAMPLES]
    tokens = columns["n_thinking_tokens_of_samples"]
    assert len(tokens) == N_SAMPLES
    assert all(0 < n <= data.BUDGET for n in tokens)
    return r_rows(desk, behaviour)


@functools.cache
def from_r(desk: Desk) -> dict[str, Any]:
    """Return the results of R by behaviour, from a single R process."""
    job = {
        "model": str(desk.path),
        "contexts": CONTEXTS,
        "behaviours": [r_job(each, desk) for each in BEHAVIOURS if has("R", each)],
    }
    files = desk.file("job.json"), desk.file("r.json")
    files[0].write_text(json.dumps(job), encoding="utf-8")
    rscript = shutil.which("Rscript")
    assert rscript is not None, "Rscript is missing: run `make setup`"
    done = subprocess.run(
        [rscript, "--vanilla", str(HERE / "thinking_in_r.R"), *map(str, files)],
        env={**os.environ, "RETICULATE_PYTHON": sys.executable},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    found: dict[str, Any] = json.loads(files[1].read_text(encoding="utf-8"))
    return found
