"""Tiny models with random weights, one of each kind, written with the `gguf` package.

Their vocabularies have the features of real files: pieces of several characters, byte
fallback, a space before a text (SentencePiece), tokens of markup that libllama always
parses (USER_DEFINED). Their answers are noise, but noise that depends on all earlier
tokens: a text is right only if the memory of its sequence is right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import gguf
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

N_EMBD = 32
N_HEAD = 2
N_FF = 48
N_CTX = 512
N_STATE = 8  # size of the state of a recurrent layer
N_CONV = 4
N_RANK = 4
N_GROUP = 2
SPECIAL = ("<unk>", "<s>", "</s>")
TURNS = ("[INST]", "[/INST]")  # CONTROL
MARKUP = (
    "<think>",
    "</think>",
    "<tool_call>",
    "<|start|>",
    "<|message|>",
    "[gMASK]",
    "/nothink",
)
# Pieces, each joined from two earlier pieces or from characters.
PIECES = (
    *"aehnorstwy .,:!-<>|/",
    *("th", "the", " the", "er", "an", " an", "ans", "answ", "answer", " answer"),
    *("ye", "yes", " yes", "no", " no", " a", "re", "st", " s", " .", ": ", "  a"),
)
N_VOCAB = len(SPECIAL) + 256 + len(TURNS) + len(MARKUP) + len(PIECES)


def token_of(piece: str) -> int:
    """Return the token of one of PIECES."""
    return N_VOCAB - len(PIECES) + PIECES.index(piece)


# Name: shape as libllama writes it, the fastest axis first.
Shapes = dict[str, tuple[int, ...]]

CHAT = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
# Name: architecture, kinds of the layers.
KINDS = {
    "llama": ("llama", ("attention", "attention")),
    "qwen2": ("qwen2", ("attention", "attention")),
    "mamba": ("mamba", ("recurrent", "recurrent")),
    "mamba2": ("mamba2", ("recurrent in heads", "recurrent in heads")),
    "jamba": ("jamba", ("recurrent", "attention")),  # a hybrid of both
    "t5": ("t5", ()),  # encoder and decoder
    "bert": ("bert", ()),  # embeddings only
}


def write(
    path: Path,
    kind: str,
    seed: int = 1,
    *,
    changes: Mapping[str, int] | None = None,
    reshaped: Shapes | None = None,
    retyped: Mapping[str, type[np.generic]] | None = None,
    broken_token: int | None = None,
    chat_template: str | None = None,
    tokenizer: Literal["llama", "gpt2"] = "llama",
    pre: str = "gpt-2",
) -> Path:
    """Write a model of one of KINDS and return `path`.

    Args:
        path: Path of the file.
        kind: Key of KINDS.
        seed: Seed of the weights.
        changes: Numbers of the architecture's metadata that differ from a valid file.
        reshaped: Other shapes of tensors, by the ends of their names, to fit `changes`.
        retyped: Other types of tensors, by the ends of their names.
        broken_token: A token whose embedding is NaN.
        chat_template: Chat template in Jinja; None for a model without one.
        tokenizer: SentencePiece, or BPE over bytes.
        pre: Pre-tokenizer of BPE.
    """
    architecture, layers = KINDS[kind]
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name(f"tiny {kind}")
    if chat_template is not None:
        writer.add_chat_template(chat_template)
    writer.add_context_length(N_CTX)
    writer.add_embedding_length(N_EMBD)
    writer.add_feed_forward_length(N_FF)
    writer.add_head_count(N_HEAD)
    writer.add_layer_norm_eps(1e-5)
    writer.add_layer_norm_rms_eps(1e-5)
    _add_sentencepiece(writer) if tokenizer == "llama" else _add_bpe(writer, pre)
    if kind == "t5":
        shapes = _t5(writer)
    elif kind == "bert":
        shapes = _bert(writer)
    else:
        shapes = _decoder(writer, layers, with_ffn="mamba" not in kind)
    random = np.random.default_rng(seed)
    for name, shape in shapes.items():
        for end, other in (reshaped or {}).items():
            shape = other if name.endswith(end) else shape  # noqa: PLW2901
        values = random.normal(0, 0.4, shape[::-1]).astype(np.float32)
        if name.endswith("ssm_a"):
            values = -np.abs(values)  # the state decays and does not grow
        if "norm" in name:
            values = 1 + values / 4
        if name == "token_embd.weight" and broken_token is not None:
            values[broken_token] = np.nan
        kinds = [to for end, to in (retyped or {}).items() if name.endswith(end)]
        writer.add_tensor(name, values.astype(kinds[0]) if kinds else values)
    for key, value in (changes or {}).items():
        kind_of_value = gguf.GGUFValueType.UINT32
        item = gguf.gguf_writer.GGUFValue(value, kind_of_value)
        writer.kv_data[0][f"{architecture}.{key}"] = item
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_sentencepiece(writer: gguf.GGUFWriter) -> None:
    types = gguf.TokenType
    in_bytes = [f"<0x{byte:02X}>" for byte in range(256)]
    pieces = [piece.replace(" ", "\u2581") for piece in PIECES]
    writer.add_tokenizer_model("llama")
    writer.add_token_list([*SPECIAL, *in_bytes, *TURNS, *MARKUP, *pieces])
    n_unscored = N_VOCAB - len(PIECES)
    writer.add_token_scores([0.0] * n_unscored + [float(-i) for i in range(len(PIECES))])
    writer.add_token_types(
        [
            types.UNKNOWN,
            types.CONTROL,
            types.CONTROL,
            *[types.BYTE] * 256,
            *[types.CONTROL] * len(TURNS),
            *[types.USER_DEFINED] * len(MARKUP),
            *[types.NORMAL] * len(PIECES),
        ]
    )
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_space_prefix(value=True)


def _add_bpe(writer: gguf.GGUFWriter, pre: str) -> None:
    types = gguf.TokenType
    letters = letters_of_bytes()

    def written(text: str) -> str:
        return "".join(letters[byte] for byte in text.encode())

    longer = [piece for piece in PIECES if len(piece) > 1]
    merges = [f"{written(piece[:-1])} {written(piece[-1])}" for piece in longer]
    # The same number of tokens as with SentencePiece.
    names = [written(piece) for piece in longer]
    names += [f"<|unused{i}|>" for i in range(len(PIECES) - len(longer))]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(pre)
    writer.add_token_list([*SPECIAL, *letters, *TURNS, *MARKUP, *names])
    writer.add_token_merges(merges)
    n_special = len(SPECIAL)
    writer.add_token_types(
        [
            *[types.CONTROL] * n_special,
            *[types.NORMAL] * 256,
            *[types.CONTROL] * len(TURNS),
            *[types.USER_DEFINED] * len(MARKUP),
            *[types.NORMAL] * len(longer),
            *[types.CONTROL] * (len(PIECES) - len(longer)),
        ]
    )
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(value=True)


def letters_of_bytes() -> list[str]:
    """Return a visible character for each byte, as in GPT-2's vocabulary."""
    visible = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte if byte in visible else next(others)) for byte in range(256)]


def _decoder(
    writer: gguf.GGUFWriter, layers: tuple[str, ...], *, with_ffn: bool
) -> Shapes:
    writer.add_block_count(len(layers))
    heads = [N_HEAD if kind == "attention" else 0 for kind in layers]
    writer.add_head_count_kv(heads)
    if any("recurrent" in kind for kind in layers):
        writer.add_ssm_conv_kernel(N_CONV)
        writer.add_ssm_inner_size(2 * N_EMBD)
        writer.add_ssm_state_size(N_STATE)
        writer.add_ssm_time_step_rank(N_RANK)
        writer.add_ssm_group_count(N_GROUP if "heads" in layers[0] else 0)
    shapes: Shapes = {
        "token_embd.weight": (N_EMBD, N_VOCAB),
        "output_norm.weight": (N_EMBD,),
        "output.weight": (N_EMBD, N_VOCAB),
    }
    for i, kind in enumerate(layers):
        block = f"blk.{i}."
        shapes[f"{block}attn_norm.weight"] = (N_EMBD,)
        if kind == "attention":
            shapes |= _attention(block, "attn_output")
        elif kind == "recurrent in heads":
            shapes |= _recurrent_in_heads(block)
        else:
            shapes |= _recurrent(block, with_norms=with_ffn)
        if with_ffn:
            shapes |= _feed_forward(block, gate=True)
    return shapes


def _attention(block: str, output: str, kind: str = "attn") -> Shapes:
    names = (f"{kind}_q", f"{kind}_k", f"{kind}_v", output)
    return {f"{block}{name}.weight": (N_EMBD, N_EMBD) for name in names}


def _feed_forward(block: str, *, gate: bool) -> Shapes:
    shapes: Shapes = {
        f"{block}ffn_norm.weight": (N_EMBD,),
        f"{block}ffn_up.weight": (N_EMBD, N_FF),
        f"{block}ffn_down.weight": (N_FF, N_EMBD),
    }
    if gate:
        shapes[f"{block}ffn_gate.weight"] = (N_EMBD, N_FF)
    return shapes


def _recurrent(block: str, *, with_norms: bool) -> Shapes:
    n_inner = 2 * N_EMBD
    shapes: Shapes = {
        f"{block}ssm_in.weight": (N_EMBD, 2 * n_inner),
        f"{block}ssm_conv1d.weight": (N_CONV, n_inner),
        f"{block}ssm_conv1d.bias": (n_inner,),
        f"{block}ssm_x.weight": (n_inner, N_RANK + 2 * N_STATE),
        f"{block}ssm_dt.weight": (N_RANK, n_inner),
        f"{block}ssm_dt.bias": (n_inner,),
        f"{block}ssm_a": (N_STATE, n_inner),
        f"{block}ssm_d": (n_inner,),
        f"{block}ssm_out.weight": (n_inner, N_EMBD),
    }
    if with_norms:
        shapes[f"{block}ssm_dt_norm.weight"] = (N_RANK,)
        shapes[f"{block}ssm_b_norm.weight"] = (N_STATE,)
        shapes[f"{block}ssm_c_norm.weight"] = (N_STATE,)
    return shapes


def _recurrent_in_heads(block: str) -> Shapes:
    n_inner = 2 * N_EMBD
    n_conv = n_inner + 2 * N_GROUP * N_STATE
    return {
        f"{block}ssm_in.weight": (N_EMBD, n_inner + n_conv + N_RANK),
        f"{block}ssm_conv1d.weight": (N_CONV, n_conv),
        f"{block}ssm_conv1d.bias": (n_conv,),
        f"{block}ssm_dt.bias": (N_RANK,),
        f"{block}ssm_a": (1, N_RANK),
        f"{block}ssm_d": (1, N_RANK),
        f"{block}ssm_norm.weight": (n_inner // N_GROUP, N_GROUP),
        f"{block}ssm_out.weight": (n_inner, N_EMBD),
    }


def _t5(writer: gguf.GGUFWriter) -> Shapes:
    writer.add_block_count(1)
    writer.add_relative_attn_buckets_count(8)
    writer.add_decoder_start_token_id(0)
    shapes: Shapes = {
        "token_embd.weight": (N_EMBD, N_VOCAB),
        "enc.output_norm.weight": (N_EMBD,),
        "dec.output_norm.weight": (N_EMBD,),
    }
    for half in ("enc", "dec"):
        block = f"{half}.blk.0."
        shapes[f"{block}attn_norm.weight"] = (N_EMBD,)
        shapes[f"{block}attn_rel_b.weight"] = (N_HEAD, 8)
        shapes |= _attention(block, "attn_o") | _feed_forward(block, gate=False)
    shapes["dec.blk.0.cross_attn_norm.weight"] = (N_EMBD,)
    return shapes | _attention("dec.blk.0.", "cross_attn_o", kind="cross_attn")


def _bert(writer: gguf.GGUFWriter) -> Shapes:
    writer.add_block_count(1)
    writer.add_causal_attention(value=False)
    writer.add_token_type_count(2)
    shapes: Shapes = {
        "token_embd.weight": (N_EMBD, N_VOCAB),
        "token_types.weight": (N_EMBD, 2),
        "position_embd.weight": (N_EMBD, N_CTX),
        "blk.0.ffn_up.weight": (N_EMBD, N_FF),
        "blk.0.ffn_down.weight": (N_FF, N_EMBD),
    }
    for norm in ("token_embd_norm", "blk.0.attn_output_norm", "blk.0.layer_output_norm"):
        shapes |= {f"{norm}.weight": (N_EMBD,), f"{norm}.bias": (N_EMBD,)}
    return shapes | _attention("blk.0.", "attn_output")
