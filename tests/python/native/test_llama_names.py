"""The names in libllama on which gguf_hazards.cpp is based.

That file refuses models on which an assertion of libllama fails. Its architectures,
keys and conditions come from llama.cpp's sources. For another version of llama.cpp, new
names must be reviewed, and this list must be written again, by `python
tests/python/native/test_llama_names.py`.
"""

from __future__ import annotations

import ctypes
import json
import re
from pathlib import Path

import llama_cpp

ROOT = Path(__file__).resolve().parents[3]
RECORD = Path(__file__).with_suffix(".json")
HAZARDS = ROOT / "capi_shim" / "model" / "gguf_hazards.cpp"


def _library() -> Path:
    folder = Path(llama_cpp.__file__).parent / "lib"
    return next(folder.glob("libllama.so")).resolve()


def _architectures(library: Path) -> list[str]:
    """Return the architectures from libllama's own C++ function."""
    name_of = ctypes.CDLL(str(library))["_Z13llm_arch_name8llm_arch"]
    name_of.restype = ctypes.c_char_p
    names = []
    while (name := name_of(len(names)).decode()) != "unknown":
        names.append(name)
    return sorted(names)


def names() -> dict[str, list[str]]:
    """Return architectures, keys of files, source files and conditions of assertions."""
    library = _library()
    found = re.findall(rb"[ -~]{4,}(?=\0)", library.read_bytes())
    texts = sorted({text.decode() for text in found})
    size = re.compile(
        r"hparams|n_(embd|rot|expert|head|group|layer)|ssm_|d_(inner|state)"
    )
    comparison = re.compile(r" (==|!=|>=|<=|>|<|%|&&) ")
    source = re.compile(r".*/src/models/([\w-]+\.cpp)")
    return {
        "architectures": _architectures(library),
        "keys": [t[3:] for t in texts if re.fullmatch(r"%s\.[a-z0-9_.]+", t)],
        "asserting_sources": [m[1] for t in texts if (m := source.fullmatch(t))],
        "conditions": [t for t in texts if size.search(t) and comparison.search(t)],
    }


def test_names_are_those_that_the_checks_of_files_were_written_after() -> None:
    recorded = json.loads(RECORD.read_text())
    for kind, found in names().items():
        changed = sorted({*found} ^ {*recorded[kind]})
        assert changed == [], (
            f"libllama's {kind} changed: see what gguf_hazards.cpp must know of them, "
            "then record them (see this file)"
        )


def test_the_checks_name_what_there_is() -> None:
    recorded = json.loads(RECORD.read_text())
    source = HAZARDS.read_text()
    lists = re.findall(r"string_view k\w+\[\] = \{([^}]*)\}", source)
    named = set(re.findall(r'"([^"]+)"', "".join(lists)))
    assert len(named) > 60
    assert sorted(named - set(recorded["architectures"])) == []
    keys = re.findall(r'(?:number|single)\("([^"]+)"', source)
    assert len(keys) > 10
    assert sorted(set(keys) - set(recorded["keys"])) == []


if __name__ == "__main__":
    RECORD.write_text(json.dumps(names(), indent=1) + "\n")
