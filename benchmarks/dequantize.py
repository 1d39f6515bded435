"""Write the weights of a quantized Llama as BF16: a GGUF file, and a folder for vLLM.

python benchmarks/dequantize.py MODEL.gguf OUTPUT.gguf FOLDER

Both outputs have the same weights, so programs that read GGUF files can be compared with
programs that read the files of Hugging Face's transformers (`config.json`,
`model.safetensors`, `tokenizer.json`). The model must be a Llama with a byte-level BPE
vocabulary that splits off single digits, such as SmolLM2's.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np

_LAYER = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_OUTER = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_CONTROL = 3  # token type of GGUF


def read(source: Path) -> tuple[gguf.GGUFReader, dict[str, np.ndarray]]:
    """Return a file's reader, and its tensors as the bits of BF16 numbers (uint16)."""
    reader = gguf.GGUFReader(source)
    tensors = {}
    for each in reader.tensors:
        values = gguf.dequantize(each.data, each.tensor_type)
        tensors[each.name] = to_bf16(values.reshape(tuple(map(int, each.shape[::-1]))))
    return reader, tensors


def to_bf16(values: np.ndarray) -> np.ndarray:
    """Return the bits of the nearest BF16 numbers; ties round to even."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


# ---- GGUF -----------------------------------------------------------------------------


def write_gguf(
    reader: gguf.GGUFReader, tensors: dict[str, np.ndarray], output: Path
) -> None:
    """Write a GGUF file with the reader's metadata and BF16 weights.

    Vectors are stored as float32 numbers with the same values.
    """
    writer = gguf.GGUFWriter(output, "llama")
    for name, field in reader.fields.items():
        if name.startswith(("GGUF.", "general.arch", "general.file")):
            continue
        array = field.types[0] == gguf.GGUFValueType.ARRAY
        sub_type = field.types[-1] if array else None
        writer.add_key_value(name, field.contents(), field.types[0], sub_type=sub_type)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    for name, bits in tensors.items():
        if bits.ndim == 1:
            values = (bits.astype(np.uint32) << 16).view(np.float32)
            writer.add_tensor(name, values)
        else:
            kind = gguf.GGMLQuantizationType.BF16
            writer.add_tensor(name, bits.view(np.uint8), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


# ---- the folder -----------------------------------------------------------------------


def write_folder(
    reader: gguf.GGUFReader, tensors: dict[str, np.ndarray], folder: Path
) -> None:
    """Write the files of transformers for the same model."""
    folder.mkdir(parents=True, exist_ok=True)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    n_heads = fields["llama.attention.head_count"]
    n_heads_kv = fields.setdefault("llama.attention.head_count_kv", n_heads)
    heads = {"attn_q": n_heads, "attn_k": n_heads_kv}
    named = {}
    for name, bits in tensors.items():
        if name in _OUTER:
            named[_OUTER[name]] = bits
            continue
        _, i_layer, kind, _ = name.split(".")
        in_halves = to_halves(bits, heads[kind]) if kind in heads else bits
        named[f"model.layers.{i_layer}.{_LAYER[kind]}.weight"] = in_halves
    write_safetensors(named, folder / "model.safetensors")
    files = {
        "config.json": _config(fields, tied="output.weight" not in tensors),
        "tokenizer.json": _tokenizer(fields),
        "tokenizer_config.json": _names(fields),
    }
    for name, content in files.items():
        text = json.dumps(content, ensure_ascii=False, indent=1)
        (folder / name).write_text(text, encoding="utf-8")


def to_halves(bits: np.ndarray, n_heads: int) -> np.ndarray:
    """Return rows of Q or K in the order of transformers.

    GGUF files of Llamas have the two rows of a rotation side by side; transformers has
    the first rows of all rotations of a head before the second rows.
    """
    pairs = bits.reshape(n_heads, -1, 2, bits.shape[1])
    return np.ascontiguousarray(pairs.swapaxes(1, 2)).reshape(bits.shape)


def write_safetensors(tensors: dict[str, np.ndarray], path: Path) -> None:
    """Write BF16 tensors: the length of the header, the header in JSON, all numbers."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, bits in tensors.items():
        start, end = end, end + bits.nbytes
        header[name] = {"dtype": "BF16", "shape": bits.shape}
        header[name]["data_offsets"] = [start, end]
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for bits in tensors.values():
            file.write(bits.tobytes())


def _config(fields: dict[str, Any], *, tied: bool) -> dict[str, object]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "torch_dtype": "bfloat16",
        "vocab_size": len(fields["tokenizer.ggml.tokens"]),
        "hidden_size": fields["llama.embedding_length"],
        "intermediate_size": fields["llama.feed_forward_length"],
        "num_hidden_layers": fields["llama.block_count"],
        "num_attention_heads": fields["llama.attention.head_count"],
        "num_key_value_heads": fields["llama.attention.head_count_kv"],
        "max_position_embeddings": fields["llama.context_length"],
        "rms_norm_eps": fields["llama.attention.layer_norm_rms_epsilon"],
        "rope_theta": fields.get("llama.rope.freq_base", 10_000.0),
        "hidden_act": "silu",
        "tie_word_embeddings": tied,
        "bos_token_id": fields["tokenizer.ggml.bos_token_id"],
        "eos_token_id": fields["tokenizer.ggml.eos_token_id"],
    }


def _tokenizer(fields: dict[str, Any]) -> dict[str, object]:
    tokens = fields["tokenizer.ggml.tokens"]
    kinds = fields["tokenizer.ggml.token_type"]
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    bytes_ = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    split = [{"type": "Digits", "individual_digits": True}, {**bytes_, "use_regex": True}]
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": i, "content": token, "special": True, **plain}
            for i, (token, kind) in enumerate(zip(tokens, kinds, strict=True))
            if kind == _CONTROL
        ],
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": split},
        "decoder": {**bytes_, "use_regex": True},
        "model": {
            "type": "BPE",
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": [pair.split(" ") for pair in fields["tokenizer.ggml.merges"]],
        },
    }


def _names(fields: dict[str, Any]) -> dict[str, object]:
    tokens = fields["tokenizer.ggml.tokens"]
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": tokens[fields["tokenizer.ggml.bos_token_id"]],
        "eos_token": tokens[fields["tokenizer.ggml.eos_token_id"]],
        "model_max_length": fields["llama.context_length"],
        "clean_up_tokenization_spaces": False,
    }


def main(source: Path, output: Path, folder: Path) -> None:
    """Write a model's weights in both formats."""
    reader, tensors = read(source)
    write_gguf(reader, tensors, output)
    write_folder(reader, tensors, folder)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
