"""Share of valid and invalid instances of JSON Schemas that are accepted.

python benchmarks/maskbench.py SAMPLE MODEL...

SAMPLE has a schema per line, `{"name", "schema", "tests": [{"valid", "data"}]}`, as in
MaskBench (guidance-ai/jsonschemabench), optionally compressed by gzip. Instances are
accepted by the masks of llguidance alone, and after llamaherd's check of the complete
answer. The table is written into docs/structured.md.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import marked
from instances import ways_to_write
from llamaherd.calls.structured.shape import shape_of

if TYPE_CHECKING:
    from llamaherd.calls.structured.shape import Shape

_NO_ROW = {"valid_refused": 0, "invalid_let_through": 0, "invalid_accepted": 0}


def read(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a sample."""
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    return [json.loads(line) for line in text.decode().split("\n") if line]


def judge(model: lh.Model, row: dict[str, Any]) -> dict[str, Any]:
    """Return the results for a schema and its instances."""
    schema = row["schema"]
    result: dict[str, Any] = {"name": row["name"], "refused": "", "left": [], **_NO_ROW}
    try:
        shape = shape_of(schema)
    except ValueError as error:
        return {**result, "refused": str(error)}
    result["left"] = list(shape.left)
    for test in row["tests"]:
        texts = ways_to_write(schema, test["data"]) if test["valid"] else []
        texts = texts or [
            json.dumps(test["data"], ensure_ascii=False, separators=(",", ":"))
        ]
        is_let_through = any(lh.structured.accepts(model, schema, text) for text in texts)
        is_right = _passes(shape, texts[0])
        if test["valid"]:
            result["valid_refused"] += not (is_let_through and is_right)
        else:
            result["invalid_let_through"] += is_let_through
            result["invalid_accepted"] += is_let_through and is_right
    return result


def _passes(shape: Shape, text: str) -> bool:
    try:
        shape.read(text)
    except ValueError:
        return False
    return True


def summary(rows: list[dict[str, Any]], sample: list[dict[str, Any]]) -> dict[str, Any]:
    """Return counts over all rows."""
    tests = [test["valid"] for row in sample for test in row["tests"]]
    good = [row for row in rows if not (row["refused"] or row["valid_refused"])]
    return {
        "schemas": len(rows),
        "valid": sum(tests),
        "invalid": len(tests) - sum(tests),
        "refused": sum(bool(row["refused"]) for row in rows),
        "valid_refused": sum(row["valid_refused"] for row in rows),
        "invalid_let_through": sum(row["invalid_let_through"] for row in rows),
        "invalid_accepted": sum(row["invalid_accepted"] for row in rows),
        "pass_masks": sum(
            not row["left"] and not row["invalid_let_through"] for row in good
        ),
        "pass_with_check": sum(not row["invalid_accepted"] for row in good),
        "failed": [
            row["name"] for row in rows if row not in good or row["invalid_accepted"]
        ],
    }


def table(summaries: dict[str, Any]) -> str:
    """Return the table of docs/structured.md, with a column per model."""
    cells = {
        "valid instances accepted": lambda f: (
            f"{f['valid'] - f['valid_refused']:,} of {f['valid']:,}"
        ),
        "invalid instances accepted by the masks": lambda f: (
            f"{f['invalid_let_through']:,} of {f['invalid']:,}"
        ),
        "invalid instances accepted after check": lambda f: f"{f['invalid_accepted']}",
        "schemas refused": lambda f: f"{f['refused']}",
        "schemas correct by masks alone": lambda f: (
            f"{f['pass_masks']} of {f['schemas']}"
        ),
        "schemas correct after the check": lambda f: (
            f"{f['pass_with_check']} of {f['schemas']}"
        ),
    }
    rows = [[title, *map(cell, summaries.values())] for title, cell in cells.items()]
    return marked.table(["", *(name.split("-")[0] for name in summaries)], rows)


def main() -> None:
    """Write the table into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sample", type=Path)
    parser.add_argument("model", nargs="+")
    args = parser.parse_args()
    sample = read(args.sample)
    summaries: dict[str, Any] = {}
    for path in args.model:
        with lh.Model(path) as model:
            rows = [judge(model, row) for row in sample]
        summaries[Path(path).name] = summary(rows, sample)
        print(path, json.dumps(summaries[Path(path).name], indent=1), flush=True)
    marked.write("docs/structured.md", {"structured: maskbench": table(summaries)})


if __name__ == "__main__":
    main()
