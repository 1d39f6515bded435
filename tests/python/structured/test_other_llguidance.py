"""Older versions of llguidance, which other programs need, enforce schemas, too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_models

PROGRAM = """
import json, sys
import llamaherd as lh
from llamaherd.engine.native import llguidance

schema = {
    "type": "object",
    "properties": {
        "label": {"enum": ["yes", "no"]},
        "n": {"type": "integer", "minimum": 0, "maximum": 9},
    },
    "required": ["label", "n"],
    "additionalProperties": False,
}
with lh.Model(sys.argv[1]) as model, lh.Context(model) as context:
    out = lh.generate_parallel(context, ["a", "b"], schema=schema, max_tokens=60)
    lark = "%llguidance {}\\nstart: /[ab]{3}/"
    texts = [each.text for each in lh.generate_parallel(context, ["a"], grammar=lark)]
print(json.dumps([llguidance.load(), out.errors, out.parsed, texts]))
"""


FOLDER = os.environ.get("LLAMAHERD_TEST_LLGUIDANCE", "")  # a folder for each version


@pytest.mark.skipif(not FOLDER, reason="make test-neighbours installs older versions")
@pytest.mark.parametrize("version", ["1.5.0", "1.7.0", "1.7.6", "1.8.0"])
def test_an_older_version_enforces_schemas(version: str, tmp_path: Path) -> None:
    path = str(tiny_models.write(tmp_path / "m.gguf", "llama"))
    folders = [str(Path(FOLDER) / version), os.environ.get("PYTHONPATH", "")]
    first = os.pathsep.join(folders)

    def run(allowed: str) -> subprocess.CompletedProcess[str]:
        more = {"PYTHONPATH": first, "LLAMAHERD_OLD_LLGUIDANCE": allowed}
        return subprocess.run(
            [sys.executable, "-c", PROGRAM, path],
            env={**os.environ, **more},
            capture_output=True,
            text=True,
            check=False,
        )

    refused = run("")
    assert refused.returncode == 1
    assert f"AbiMismatchError: llguidance {version} may end the process" in refused.stderr
    done = run("1")
    assert done.returncode == 0, done.stderr
    loaded, errors, parsed, texts = json.loads(done.stdout)
    assert (loaded, errors) == (version, [None, None])
    for answer in parsed:
        assert answer["label"] in {"yes", "no"}
        assert 0 <= answer["n"] <= 9
    assert set(texts[0]) <= {"a", "b"}
    assert len(texts[0]) == 3
