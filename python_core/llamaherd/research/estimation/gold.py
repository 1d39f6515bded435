"""Drawing gold samples, and reading what people coded."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from llamaherd.core import checks
from llamaherd.research.estimation import gold_file
from llamaherd.research.estimation.gold_data import Population
from llamaherd.research.estimation.gold_drawn import OURS, GoldSample, sidecar
from llamaherd.research.statistics import sampling

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llamaherd.research.statistics.sampling import Allocation


def gold_sample(
    data: Any,  # noqa: ANN401 - Coded, or a data frame of any kind
    n: int,
    by: str | Sequence[str] | None = None,
    prob: str | Sequence[float] | None = None,
    *,
    text: str | None = None,
    label: str | None = None,
    id: str | None = None,  # noqa: A002 - what the column is called
    confidence: str | Sequence[float] | None = None,
    floor: float = 0.3,
    allocation: Allocation | Mapping[str, int] = "proportional",
    names: Sequence[str] = (),
    seed: int | None = None,
) -> GoldSample:
    """Draws texts that people are to code, with known inclusion probabilities.

    Args:
        data: What `annotate` returned, or a data frame with a row for each of N texts.
        n: How many to draw; `gold_size` says how many are needed.
        by: Columns whose combinations are strata; for `prob="stratified"` the label if
            not given.
        prob: "simple": all equally probable. "stratified": simple within strata.
            "uncertainty": the less sure the model is the more probable, by 1 -
            `confidence`. Or N probabilities that sum to n. None: "stratified" if there is
            `by`, "simple" else.
        text: Column of texts; None: that of `data`.
        label: Column of the model's labels; None: that of `data`.
        id: Column of identifiers, no two the same; None: numbers of rows, from 1.
        confidence: For "uncertainty": column, or N numbers, from 0 to 1; None: the margin
            between the two most probable labels. Missing is 0.
        floor: For "uncertainty": the share of the sample that is given out evenly. No
            text's probability is below floor * n / N.
        allocation: For "stratified": "proportional" to the strata's sizes, "equal", or
            the number for each stratum by its name; at least 2 where it has them.
        names: Labels that codes may be; (): those of `data`, or those in `label`.
        seed: Of the draw; None: a random one, which `design` tells.

    Returns:
        The sample. Texts that are missing are never drawn.

    Raises:
        ValueError: An argument does not fit the data, or n does not fit the strata.
        TypeError: An argument is of another type.
    """
    texts = Population.of(data, text=text, label=label, id=id, names=names)
    if seed is None:
        seed = int(np.random.default_rng().integers(2**53))
    checks.integer("seed", seed, 0, 2**53)
    kind = prob if isinstance(prob, str) else None
    if prob is None:
        kind = "simple" if by is None else "stratified"
    rng = np.random.default_rng(seed)
    there = texts.there
    checks.integer("n", n, 1, max(len(there), 1))
    more: dict[str, Any] = {}
    if kind is None:
        given = np.asarray(prob, dtype=np.float64)
        draw = sampling.draw_unequal(texts.of_rows(given, "prob"), rng)
        _check_n(n, draw)
        more["given"] = True
    elif kind == "stratified":
        strata = texts.strata(by)
        draw = sampling.draw_stratified(strata, n, rng, allocation)
        more = {"by": by or "label", "strata": dict(Counter(strata))}
        more["allocation"] = (
            allocation if isinstance(allocation, str) else dict(allocation)
        )
    elif kind == "uncertainty":
        sizes = 1 - texts.confidence(confidence)
        draw = sampling.draw_unequal(sampling.inclusion_probs(sizes, n, floor), rng)
        more = {"floor": floor}
    else:
        checks.choice("prob", kind, ("simple", "stratified", "uncertainty"))
        draw = sampling.draw_simple(len(there), n, rng)
    if by is not None and kind != "stratified":
        raise ValueError(f"by is for prob='stratified', not {checks.shown(prob)}")
    design = {
        "kind": kind or "given",
        "n": n,
        "N": len(texts),
        "n_missing": len(texts) - len(there),
        "seed": seed,
        "sha256": texts.sha256,
        "text": texts.text_column,
        "label": texts.label_column,
        "id": texts.id_column,
        **more,
    }
    return texts.sample(draw, design)


def _check_n(n: int, draw: sampling.Draw) -> None:
    if len(draw.rows) != n:
        raise ValueError(f"prob must sum to n = {n}, not to {len(draw.rows)}")


def read_gold(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    sample: GoldSample | None = None,
) -> GoldSample:
    """Reads what people coded.

    Args:
        path: A CSV that `GoldSample.write` made and people filled in, in part or in full;
            or several of them, of a coder each. Columns of codes that have the same name
            in several files get the files' names.
        sample: The sample that was written; None: from the sidecar `path`.json.

    Returns:
        The sample with the codes.

    Raises:
        ValueError: It is no such file; ids, texts or inclusion probabilities are not the
            sample's; a code is none of its labels. The message names column, row and id.
        OSError: It cannot be read.
    """
    paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
    if not paths:
        raise ValueError("path must name a file")
    if sample is None:
        try:
            sample = GoldSample.from_json(sidecar(paths[0]).read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise ValueError(
                f"sample must be given: there is no {sidecar(paths[0])} with the "
                "inclusion probabilities beside the file"
            ) from error
    found = [(Path(each), _codes_of(each, sample)) for each in paths]
    columns = [name for _, codes in found for name in codes]
    for each, codes in found:
        named = {
            (name if columns.count(name) == 1 else _of_file(each, name, codes)): values
            for name, values in codes.items()
        }
        sample = sample.with_codes(named)
    return sample


def _codes_of(
    path: str | os.PathLike[str], sample: GoldSample
) -> dict[str, list[str | None]]:
    """Codes by coder, in the order of the sample."""
    name = str(path)
    header, *lines = gold_file.parsed(Path(path).read_bytes(), name)
    header = [cell.strip() for cell in header]
    coders = [column for column in header if column and column not in OURS]
    if "id" not in header or not coders or len(set(header)) < len(header):
        raise ValueError(
            f"{name} must have a column id and one for each coder, not {header}"
        )
    at = {identifier: i for i, identifier in enumerate(sample.ids)}
    codes: dict[str, list[str | None]] = {each: [None] * len(sample) for each in coders}
    seen: dict[int, int] = {}
    for number, line in enumerate(lines, start=2):
        cells = dict(zip(header, line, strict=False))
        i = at.get(cells.get("id", "").strip())
        if i is None:
            raise ValueError(
                f"{name}, row {number}: id {checks.shown(cells.get('id', ''))} is none "
                "of the sample's"
            )
        where = f"{name}, row {number} (id {sample.ids[i]})"
        if i in seen:
            raise ValueError(f"{where}: that id is in row {seen[i]}, too")
        seen[i] = number
        _check_line(cells, sample, i, where)
        for coder in coders:
            codes[coder][i] = _code(cells.get(coder, ""), sample, coder, where)
    return codes


def _check_line(cells: dict[str, str], sample: GoldSample, i: int, where: str) -> None:
    text = sample.texts[i]
    if (
        text is not None
        and "text" in cells
        and not gold_file.same_text(cells["text"], text)
    ):
        raise ValueError(f"{where}: text is not the one that was drawn")
    if "label" in cells and cells["label"] != (sample.labels[i] or ""):
        raise ValueError(f"{where}: label is not the one that the model gave")
    prob = float(sample.probs[i])
    if "prob" in cells and _number(cells["prob"]) != prob:
        raise ValueError(
            f"{where}: prob must be {prob!r}, the inclusion probability that the text "
            f"was drawn with, not {checks.shown(cells['prob'])}"
        )


def _number(cell: str) -> float | None:
    try:
        return float(cell.replace(",", "."))
    except ValueError:
        return None


def _code(cell: str, sample: GoldSample, coder: str, where: str) -> str | None:
    code = cell.strip()
    if not code:
        return None
    if sample.names and code not in sample.names:
        raise ValueError(
            f"{where}, column {coder}: {checks.shown(code)} is none of the labels "
            f"{', '.join(sample.names)}"
        )
    return code


def _of_file(path: Path, column: str, codes: dict[str, list[str | None]]) -> str:
    return path.stem if len(codes) == 1 else f"{path.stem}.{column}"
