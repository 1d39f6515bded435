"""Checks of model files before loading, on tiny models."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import llamaherd as lh
import numpy as np
import pytest
import tiny_models
from llamaherd.engine.memory import hardware

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    TinyPath = Callable[[str], Path]


@pytest.mark.parametrize("content", [b"", b"GGU", b"PK\3\4" * 100])
def test_what_is_no_gguf_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(lh.ModelLoadError, match=r'model\.gguf" is not a GGUF file: it'):
        lh.Model(path)


def test_an_incomplete_download_is_refused(tmp_path: Path, tiny_path: TinyPath) -> None:
    whole = tiny_path("llama").read_bytes()
    path = tmp_path / "model.gguf"
    path.write_bytes(whole[:-1])
    message = rf"is cut off: it has {len(whole) - 1} bytes of {len(whole)}, and tensor"
    with pytest.raises(lh.ModelLoadError, match=message):
        lh.Model(path)
    path.write_bytes(whole[:1000])
    with pytest.raises(lh.ModelLoadError, match="is damaged or cut off near byte"):
        lh.Model(path)


def test_the_reason_is_an_error_and_no_warning(
    tmp_path: Path, tiny_path: TinyPath
) -> None:
    """libllama warns of the markup in this tokenizer before it finds the error."""
    content = bytearray(tiny_path("mamba2").read_bytes())
    name = b"mamba2.ssm.group_count"
    at = content.index(name) + len(name) + 4  # behind the type
    content[at : at + 4] = (1).to_bytes(4, "little")
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(lh.ModelLoadError, match=r"ssm_in\.weight' has wrong shape"):
        lh.Model(path)


def test_a_model_that_does_not_fit_is_refused(
    tiny_path: TinyPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hardware, "available_memory", lambda: 100_000)
    path = tiny_path("llama")
    message = r"its tensors take \d{6} bytes, and 100000 bytes are available"
    with pytest.raises(lh.ModelLoadError, match=message):
        lh.Model(path)
    lh.Model(path, check_memory=False).close()
    with pytest.raises(TypeError, match="check_memory must be true or false"):
        lh.Model(path, check_memory=1)


def test_a_cache_that_does_not_fit_is_refused(
    tiny_path: TinyPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lh.Model(tiny_path("mamba")) as model:
        context = lh.Context(model, n_ctx=512)
        monkeypatch.setattr(hardware, "available_memory", lambda: 2000)
        # The cells need little memory, but every sequence has its states.
        with pytest.raises(
            lh.ContextError, match=r"for \d+ sequences takes .* available"
        ):
            lh.generate(context, "Hello", max_tokens=1)
        monkeypatch.undo()
        assert lh.generate(context, "Hello", max_tokens=1).error is None


HAMMER = """
import random, sys
from pathlib import Path
import llamaherd as lh
whole, path = Path(sys.argv[1]).read_bytes(), Path(sys.argv[2])
n_header = whole.index(b"output.weight") + 200
rng = random.Random(int(sys.argv[3]))
n_refused = 0
for _ in range(60):
    damaged = bytearray(whole)
    for _ in range(rng.randint(1, 4)):
        damaged[rng.randrange(n_header)] = rng.choice([0, 1, 127, 128, 255])
    path.write_bytes(damaged)
    try:
        lh.Model(path).close()
    except lh.ModelLoadError as error:
        assert str(path) in str(error)
        n_refused += 1
print(n_refused)
"""


def test_damaged_headers_never_end_the_process(
    tmp_path: Path, tiny_path: TinyPath
) -> None:
    files = (tiny_path("jamba"), tmp_path / "damaged.gguf")
    run = subprocess.run(
        [sys.executable, "-c", HAMMER, *map(str, files), "1"],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) > 10


# Values for which an assertion or a division of libllama fails while it loads or uses a
# file.
HOSTILE = [
    ("llama", {"attention.value_length": 8}, {"attn_v.weight": (32, 16)}),
    ("qwen2", {"rope.dimension_count": 8}, {}),
    ("qwen2", {"rope.dimension_count": 17}, {}),
    ("qwen2", {"block_count": 0}, {}),
    ("llama", {"context_length": 0}, {}),
    ("llama", {"context_length": 2**32 - 1}, {}),
    ("qwen2", {"expert_used_count": 3}, {}),
    (
        "mamba2",
        {"ssm.time_step_rank": 7},
        {
            "ssm_in.weight": (32, 64 + 96 + 7),
            "ssm_dt.bias": (7,),
            "ssm_a": (1, 7),
            "ssm_d": (1, 7),
        },
    ),
    (
        "mamba2",
        {"ssm.group_count": 0},
        {
            "ssm_in.weight": (32, 64 + 64 + 4),
            "ssm_conv1d.weight": (4, 64),
            "ssm_conv1d.bias": (64,),
        },
    ),
    ("jamba", {"ssm.inner_size": 32}, {}),
]
USE = """
import sys
import llamaherd as lh
try:
    with lh.Model(sys.argv[1]) as model, lh.Context(model, n_threads=1) as context:
        lh.generate(context, "a", max_tokens=2)
except lh.ModelLoadError as error:
    print(error)
"""


@pytest.mark.more(reason="a process or a long template for each case", cases=1)
@pytest.mark.parametrize(("kind", "changes", "reshaped"), HOSTILE)
def test_a_hostile_file_does_not_end_the_process(
    tmp_path: Path,
    kind: str,
    changes: dict[str, int],
    reshaped: dict[str, tuple[int, ...]],
) -> None:
    path = tmp_path / "hostile.gguf"
    tiny_models.write(path, kind, changes=changes, reshaped=reshaped)
    run = subprocess.run(
        [sys.executable, "-c", USE, str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
    assert f'hostile.gguf" has {kind}.' in run.stdout
    assert ", but it must be " in run.stdout


@pytest.mark.parametrize(
    ("kind", "name", "to"),
    [
        ("mamba", "ssm_conv1d.weight", np.float16),
        ("mamba2", "ssm_conv1d.bias", np.int32),
        ("mamba2", "ssm_dt.bias", np.float64),
        ("mamba2", "ssm_a", np.float16),
        ("jamba", "ssm_d", np.int8),
    ],
)
def test_a_state_in_a_type_that_cannot_be_computed_with_is_refused(
    tmp_path: Path, kind: str, name: str, to: type[np.generic]
) -> None:
    path = tiny_models.write(tmp_path / "typed.gguf", kind, retyped={name: to})
    with pytest.raises(lh.ModelLoadError, match=rf"{name}\" in type .* it must be f32"):
        lh.Model(path)


def test_the_hint_for_other_files_depends_on_their_content(tmp_path: Path) -> None:
    cut = tmp_path / "is not a GGUF file"
    cut.write_bytes(b"GGUF\3\0\0\0")
    other = tmp_path / "other"
    other.write_bytes(b"pytorch")
    with pytest.raises(lh.ModelLoadError) as caught:
        lh.Model(cut)
    assert "end in .gguf" not in str(caught.value)
    with pytest.raises(lh.ModelLoadError, match=r"end in \.gguf"):
        lh.Model(other)
