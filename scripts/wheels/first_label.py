"""Labels one text with an installed llamaherd, to test its wheels.

    first_label.py [MODEL]

Prints the loaded backend of ggml (on Linux), the instructions of the processor that it
uses, and the seconds from the start of Python to the label. Fails if the label is not one
of the codebook's labels, if ggml does not compute on llamaherd's threads (except on
macOS), or if the process has loaded two copies of libllama. Without a model, prints only
the backend and the instructions.
"""

import sys
import time
from pathlib import Path

START = time.perf_counter()

import llamaherd as lh  # noqa: E402 - part of what is timed
from llamaherd.engine.native import shim  # noqa: E402

LABELS = ["positive", "negative"]


def libraries() -> set[str]:
    """Return the names of ggml's and llama.cpp's libraries in this process (Linux)."""
    maps = Path("/proc/self/maps")
    words = maps.read_text().split() if maps.exists() else []
    paths = {Path(word) for word in words if word.startswith("/")}
    return {str(p) for p in paths if p.name.startswith(("libllama.", "libggml"))}


def label(path: str) -> str | None:
    """Return the model's label of a text."""
    book = lh.Codebook(question="Is the review positive or negative?", labels=LABELS)
    with lh.Model(path) as model, lh.Context(model) as context:
        coded = lh.annotate({"text": ["A wonderful film."]}, "text", book, context)
    return coded.labels[0]


def main(path: str | None = None) -> None:
    """Label one text if a model is given, and print the backend."""
    answer = label(path) if path else None
    import llama_cpp  # shares the libraries, in this order too

    loaded = libraries()
    if sys.platform == "linux" and sum("libllama." in name for name in loaded) != 1:
        sys.exit(f"not one libllama: {sorted(loaded)}")
    backends = [Path(name).name for name in loaded if "libggml-cpu" in name]
    system = llama_cpp.llama_print_system_info().decode().strip(" |")
    print(f"ggml: {' '.join(backends)} {system}; own threads: {shim.own_threads()}")
    if sys.platform != "darwin" and not shim.own_threads():
        sys.exit("ggml does not compute on llamaherd's threads")
    if not path:
        return
    print(f"label {answer!r} after {time.perf_counter() - START:.1f} s")
    if answer not in LABELS:
        sys.exit(f"{answer!r} is none of {LABELS}")


if __name__ == "__main__":
    main(*sys.argv[1:])
