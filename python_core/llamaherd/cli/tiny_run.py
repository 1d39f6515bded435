"""Run of a few prompts for `llamaherd doctor`, in a process that may crash."""

from __future__ import annotations

import json
import struct
import sys
import tempfile
import warnings
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from llamaherd.calls.api.generate import generate_parallel
from llamaherd.calls.run.context import Context
from llamaherd.engine.core.errors import ContextError, CutOffWarning
from llamaherd.engine.model.model import Model

_N_EMBD = 32
_N_FF = 64
_N_HEAD = 2
_N_CTX = 512
_ALIGNMENT = 32  # bytes, for each tensor
_BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
_TOKENS = [
    "<unk>",
    "<s>",
    "</s>",
    *_BYTES,
]  # the vocabulary covers any text
_TOKEN_TYPES = [2, 3, 3, *[6] * 256]  # unknown, control, control, bytes

# Types of values in the header, with their struct formats.
_UINT32, _INT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9
_FORMATS = {_UINT32: "<I", _INT32: "<i", _FLOAT32: "<f", _BOOL: "<?"}


def write_tiny_model(path: Path) -> Path:
    """Write a one-layer llama model whose answers are noise, and return `path`.

    Source: GGUF, version 3, see docs/gguf.md of ggml.
    """
    tensors = _tensors()
    header = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(_metadata()))]
    for key, kind, value in _metadata():
        header += [_text(key), struct.pack("<I", kind), _pack_value(kind, value)]
    offset = 0
    for name, values in tensors.items():
        shape = values.shape[::-1]  # the fastest axis first
        header.append(_text(name))
        header.append(struct.pack(f"<I{len(shape)}Q", len(shape), *shape))
        header.append(struct.pack("<IQ", 0, offset))  # float32
        offset += len(_pad_tensor(values.tobytes()))
    content = _pad_tensor(b"".join(header))
    path.write_bytes(
        content + b"".join(_pad_tensor(x.tobytes()) for x in tensors.values())
    )
    return path


def _metadata() -> list[tuple[str, int, object]]:
    n_tokens = len(_TOKENS)
    return [
        ("general.architecture", _STRING, "llama"),
        ("general.name", _STRING, "llamaherd's tiny model"),
        ("llama.context_length", _UINT32, _N_CTX),
        ("llama.embedding_length", _UINT32, _N_EMBD),
        ("llama.block_count", _UINT32, 1),
        ("llama.feed_forward_length", _UINT32, _N_FF),
        ("llama.attention.head_count", _UINT32, _N_HEAD),
        ("llama.attention.layer_norm_rms_epsilon", _FLOAT32, 1e-5),
        ("tokenizer.ggml.model", _STRING, "llama"),
        ("tokenizer.ggml.tokens", _ARRAY, (_STRING, _TOKENS)),
        ("tokenizer.ggml.scores", _ARRAY, (_FLOAT32, [0.0] * n_tokens)),
        ("tokenizer.ggml.token_type", _ARRAY, (_INT32, _TOKEN_TYPES)),
        ("tokenizer.ggml.unknown_token_id", _UINT32, 0),
        ("tokenizer.ggml.bos_token_id", _UINT32, 1),
        ("tokenizer.ggml.eos_token_id", _UINT32, 2),
        ("tokenizer.ggml.add_space_prefix", _BOOL, False),
    ]


def _tensors() -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float32]]]:
    n_vocab = len(_TOKENS)
    matrices = {
        "token_embd": (n_vocab, _N_EMBD),
        "output": (n_vocab, _N_EMBD),
        **{
            f"blk.0.attn_{name}": (_N_EMBD, _N_EMBD) for name in ("q", "k", "v", "output")
        },
        "blk.0.ffn_gate": (_N_FF, _N_EMBD),
        "blk.0.ffn_up": (_N_FF, _N_EMBD),
        "blk.0.ffn_down": (_N_EMBD, _N_FF),
    }
    random = np.random.default_rng(1)
    tensors = {
        f"{name}.weight": random.normal(0, 0.4, shape).astype(np.float32)
        for name, shape in matrices.items()
    }
    for name in ("output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"):
        tensors[f"{name}.weight"] = np.ones(_N_EMBD, dtype=np.float32)
    return tensors


def _pack_value(kind: int, value: object) -> bytes:
    if kind == _STRING:
        return _text(str(value))
    if isinstance(value, tuple):
        of, values = value
        head = struct.pack("<IQ", of, len(values))
        return head + b"".join(_pack_value(of, item) for item in values)
    return struct.pack(_FORMATS[kind], value)


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _pad_tensor(content: bytes) -> bytes:
    return content + bytes(-len(content) % _ALIGNMENT)


_PROMPTS = [f"Item {i} of the list is" for i in range(8)]
_N_ANSWER = 8
_N_ALONE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TinyRun:
    """Results of the run."""

    model: str  # name of the model file; "" for a model with random weights
    is_same: bool  # whether prompts got the same answers when they ran together and alone
    prompts_per_s: float  # prompts per second when they run together


def tiny_run(paths: list[str]) -> TinyRun:
    """Run the first model that generates text; without such a model, run a tiny model."""
    for path in map(Path, paths):
        with suppress(ContextError):  # a model that only computes embeddings
            return _run(path, path.name)
    with tempfile.TemporaryDirectory(prefix="llamaherd-") as folder:
        return _run(write_tiny_model(Path(folder) / "tiny.gguf"), "")


def _run(path: Path, name: str) -> TinyRun:
    with (
        Model(path) as model,
        Context(model, deterministic=True) as context,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", CutOffWarning)  # short answers are enough
        together = generate_parallel(context, _PROMPTS, max_tokens=_N_ANSWER)
        alone = [
            generate_parallel(context, [prompt], max_tokens=_N_ANSWER).texts[0]
            for prompt in _PROMPTS[:_N_ALONE]
        ]
    failures = [result.error for result in together if result.error is not None]
    if failures:
        raise RuntimeError(failures[0])
    return TinyRun(
        model=name,
        is_same=together.texts[:_N_ALONE] == alone,
        prompts_per_s=len(_PROMPTS) / together.stats.wall_s,
    )


if __name__ == "__main__":
    print(json.dumps(asdict(tiny_run(sys.argv[1:]))))  # noqa: T201 - read by the parent process
