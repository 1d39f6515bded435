"""A real model that follows a script: a thought, its end, an answer.

The weights of a tiny GGUF make the next token a function of the current token alone, so
that a real engine thinks, closes its thought, forgets to close it, opens it twice, or
ends it in the middle of a token, whatever came before::

    script = scripted_model.write(tmp_path / "m.gguf", "<think>", "Hm", "</think>", "yes")
    model = lh.Model(script.path)
    script.tokens("<think>", "Hm")  # their ids

Each entry is one token with this text, used once; texts are tokenized into entries. An
entry is followed by the next one, the last one by the end of the turn. Any other token is
followed by the first entry, so that every prompt begins the script. `links` changes what
follows, such as the blank line that is forced behind an end marker::

    write(path, "Hm", "</think>", "yes", links={"\n": "yes"})
    write(path, "a", "b", links={"b": "a"})  # never ends: "abababab"
    write(path, "a", "b", "c", links={"a": END})  # ends its turn after "a"

`bytes` are one byte that need not be a character: `b"\xe2"`. Entries in `MARKS` are
USER_DEFINED tokens, which are compared by id. With `is_plain` they are usual tokens, and
a script may spell them in other ones, such as "</think", ">".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import gguf
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

MARKS = ("<think>", "</think>")
CONTROL = ("<|im_start|>", "<|im_end|>")
SPECIAL = ("<unk>", "<s>", "</s>")
END = "</s>"
_N_BYTES = 256
_STRENGTH = 12.0  # logit of the next token; the noise has about 1


@dataclass(frozen=True)
class Script:
    """A model file with its vocabulary."""

    path: Path
    ids: Mapping[str | bytes, int]

    def tokens(self, *texts: str | bytes) -> tuple[int, ...]:
        """Return the tokens of entries, or of single ASCII characters."""
        return tuple(_id_of(self.ids, text) for text in texts)


def write(
    path: Path,
    *script: str | bytes,
    links: Mapping[str | bytes, str | bytes] | None = None,
    is_plain: bool = False,
    chat_template: str | None = None,
    n_ctx: int = 4096,
) -> Script:
    """Write a model that follows a script to `path`."""
    if len(set(script)) != len(script):
        raise ValueError("each entry of a script may be used once")
    marks = () if is_plain else MARKS
    entries = [t for t in script if isinstance(t, str) and t not in (*marks, " ")]
    # The tokenizer joins a text from left to right, so the vocabulary needs all
    # beginnings.
    parts = [part for text in entries for part in (*text, *_beginnings(text))]
    # "▁" is a space.
    pieces = list(dict.fromkeys(["▁", *(part for part in parts if part != " ")]))
    names = [
        *SPECIAL,
        *(f"<0x{byte:02X}>" for byte in range(_N_BYTES)),
        *CONTROL,
        *marks,
        *(piece.replace(" ", "▁") for piece in pieces),
    ]
    first = len(names) - len(pieces)
    ids: dict[str | bytes, int] = {bytes([i]): len(SPECIAL) + i for i in range(_N_BYTES)}
    ids |= {
        name: i for i, name in enumerate(names) if name in (*SPECIAL, *CONTROL, *MARKS)
    }
    ids |= {piece: first + i for i, piece in enumerate(pieces)} | {" ": first}
    writer = gguf.GGUFWriter(path, "llama")
    _add_vocabulary(writer, names, len(marks), len(pieces))
    if chat_template is not None:
        writer.add_chat_template(chat_template)
    following = _following(ids, len(names), script, links or {})
    _add_weights(writer, following, n_ctx)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Script(path, ids)


def _beginnings(text: str) -> list[str]:
    return [text[:n] for n in range(1, len(text) + 1)]


def _id_of(ids: Mapping[str | bytes, int], text: str | bytes) -> int:
    return ids[text] if text in ids else ids[text.encode()]  # type: ignore[union-attr]


def _following(
    ids: Mapping[str | bytes, int],
    n_vocab: int,
    script: tuple[str | bytes, ...],
    links: Mapping[str | bytes, str | bytes],
) -> list[int]:
    entries = [_id_of(ids, text) for text in script]
    following = [entries[0]] * n_vocab
    for token, after in zip(entries, [*entries[1:], ids[END]], strict=True):
        following[token] = after
    for text, after in links.items():
        following[_id_of(ids, text)] = _id_of(ids, after)
    return following


def _add_vocabulary(
    writer: gguf.GGUFWriter, names: list[str], n_marks: int, n_pieces: int
) -> None:
    types = gguf.TokenType
    writer.add_tokenizer_model("llama")
    writer.add_token_list(names)
    writer.add_token_scores([-float(i) for i in range(len(names))])
    writer.add_token_types(
        [
            types.UNKNOWN,
            types.CONTROL,
            types.CONTROL,
            *[types.BYTE] * _N_BYTES,
            *[types.CONTROL] * len(CONTROL),
            *[types.USER_DEFINED] * n_marks,
            *[types.NORMAL] * n_pieces,
        ]
    )
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(value=True)
    writer.add_add_space_prefix(value=False)


def _add_weights(writer: gguf.GGUFWriter, following: list[int], n_ctx: int) -> None:
    """Add a layer that changes nothing: only the current token affects the output."""
    n_vocab = len(following)
    n_embd = -(-n_vocab // 32) * 32
    zeros = np.zeros((n_embd, n_embd), np.float32)
    ones = np.ones(n_embd, np.float32)
    embedding = np.eye(n_vocab, n_embd, dtype=np.float32)
    # The norm multiplies an embedding by the root of its length.
    output = np.random.default_rng(1).normal(0, 1, (n_vocab, n_embd)).astype(np.float32)
    for token, after in enumerate(following):
        output[after, token] = _STRENGTH
    writer.add_context_length(n_ctx)
    writer.add_embedding_length(n_embd)
    writer.add_feed_forward_length(32)
    writer.add_head_count(n_embd // 32)
    writer.add_head_count_kv(n_embd // 32)
    writer.add_block_count(1)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_tensor("token_embd.weight", embedding)
    writer.add_tensor("output_norm.weight", ones)
    writer.add_tensor("output.weight", output / np.sqrt(np.float32(n_embd)))
    for name in ("attn_norm", "ffn_norm"):
        writer.add_tensor(f"blk.0.{name}.weight", ones)
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        writer.add_tensor(f"blk.0.{name}.weight", zeros)
    for name in ("ffn_gate", "ffn_up"):
        writer.add_tensor(f"blk.0.{name}.weight", zeros[:32])
    writer.add_tensor("blk.0.ffn_down.weight", np.ascontiguousarray(zeros[:, :32]))
