"""Write a random model, as wide as real models: random_model.py SIZE PATH.

SIZE is 1b or 7b: about one or seven billion parameters, in Q8_0. A separate process
writes the model: on one machine with CUDA, libllama crashed after `import gguf`
(segmentation fault in llama_model_load_from_file, also without llamaherd; the cause was
not found).
"""

from __future__ import annotations

import subprocess
import sys
from typing import NamedTuple

import numpy as np

N_VOCAB = 32000


class Size(NamedTuple):
    """Size of a random model with 32 heads, 8 of them for keys and values."""

    width: int
    n_layers: int
    n_ff: int


SIZES = {"1b": Size(2048, 16, 8192), "7b": Size(4096, 32, 14336)}


def write(size: str, path: str) -> str:
    """Write a random model in another process; return its path."""
    subprocess.run([sys.executable, __file__, size, path], check=True)
    return path


def _write_here(size: Size, path: str) -> None:
    import gguf  # see the top of this file

    width, n_kv = size.width, size.width // 4
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(8192)
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(size.n_ff)
    writer.add_block_count(size.n_layers)
    writer.add_head_count(32)
    writer.add_head_count_kv(8)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width // 32)
    kinds = gguf.TokenType
    in_bytes = [f"<0x{byte:02X}>" for byte in range(256)]
    others = [f"w{i}" for i in range(N_VOCAB - 259)]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(["<unk>", "<s>", "</s>", *in_bytes, *others])
    writer.add_token_scores([0.0] * N_VOCAB)
    first = [kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL, *[kinds.BYTE] * 256]
    writer.add_token_types([*first, *[kinds.NORMAL] * len(others)])
    draw = np.random.default_rng(1)
    drawn = np.empty((2**20, 34), np.uint8)  # blocks of 32 weights, repeated in order
    drawn[:, :2] = np.array([2.7e-4], np.float16).view(np.uint8)  # scale
    drawn[:, 2:] = draw.integers(0, 256, (len(drawn), 32), np.uint8)

    def add(name: str, n_out: int, n_in: int) -> None:
        start = int(draw.integers(len(drawn)))
        n_blocks = n_out * n_in // 32
        rows = np.resize(np.roll(drawn, start, axis=0), (n_blocks, 34))
        kind = gguf.GGMLQuantizationType.Q8_0
        writer.add_tensor(name, rows.reshape(n_out, -1), raw_dtype=kind)

    ones = np.ones(width, np.float32)
    add("token_embd.weight", N_VOCAB, width)
    add("output.weight", N_VOCAB, width)
    writer.add_tensor("output_norm.weight", ones)
    shapes = {
        **dict.fromkeys(("attn_q", "attn_output"), (width, width)),
        **dict.fromkeys(("attn_k", "attn_v"), (n_kv, width)),
        **dict.fromkeys(("ffn_gate", "ffn_up"), (size.n_ff, width)),
        "ffn_down": (width, size.n_ff),
    }
    for i in range(size.n_layers):
        for name in ("attn_norm", "ffn_norm"):
            writer.add_tensor(f"blk.{i}.{name}.weight", ones)
        for name, shape in shapes.items():
            add(f"blk.{i}.{name}.weight", *shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    _write_here(SIZES[sys.argv[1]], sys.argv[2])
