"""Compares the names in llama.cpp's sources that the checks of model files depend on.

    llama_names.py review VERSION [OUTPUT]   what changed since the recorded version
    llama_names.py record VERSION            records VERSION; see docs/moving-llama.md

VERSION is a version of llama-cpp-python, whose source distribution contains llama.cpp; a
folder with its sources is accepted, too. The record, capi_shim/model/gguf_reviewed.hpp,
lists the architectures whose files llamaherd loads. After `record`, it lacks those that
are new, and those whose source files have new assertions or optional tensors: llamaherd
refuses their files until somebody reviews them and adds the names by hand.
"""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "capi_shim" / "model" / "gguf_reviewed.hpp"
RULES = tuple(
    ROOT / "capi_shim" / "model" / name
    for name in ("gguf_hazards.cpp", "gguf_missing.cpp")
)
# Statements about values of a file: an assertion that fails ends the process, and a
# tensor that may be missing is a null pointer where a graph uses it.
_STATEMENT = re.compile(r"GGML_ASSERT\s*\(|GGML_ABORT\s*\(|TENSOR_NOT_REQUIRED")


@dataclass(frozen=True, slots=True)
class Names:
    """Names in the sources of one version."""

    classes: dict[str, str]  # class of the model of each architecture
    keys: frozenset[str]  # metadata keys, with "%s" for the architecture
    # Assertions and optional tensors of each source file.
    statements: dict[str, frozenset[str]]
    files: dict[str, frozenset[str]]  # source files that define members of each class
    bases: dict[str, str]  # base class of each class

    def of(self, architecture: str) -> frozenset[str]:
        """Return the statements in the source files of an architecture's classes."""
        files: set[str] = set()
        name: str | None = self.classes[architecture]
        while name:
            files |= self.files.get(name, frozenset())
            name = self.bases.get(name)
        return frozenset().union(*(self.statements[file] for file in files))


def statements(text: str) -> frozenset[str]:
    """Return the lines of a C++ source with an assertion or an optional tensor."""
    lines = (
        re.sub(r"\s+", " ", line.partition("//")[0]).strip() for line in text.split("\n")
    )
    return frozenset(line for line in lines if _STATEMENT.search(line))


def names_of(folder: Path) -> Names:
    """Read the names from the folder `src` of llama.cpp."""
    arch = (folder / "llama-arch.cpp").read_text(encoding="utf-8")
    model = (folder / "llama-model.cpp").read_text(encoding="utf-8")
    enums = dict(re.findall(r'\{\s*(LLM_ARCH_\w+)\s*,\s*"([^"]+)"\s*\}', arch))
    enums.pop("LLM_ARCH_UNKNOWN", None)
    keys = frozenset(re.findall(r'\{\s*LLM_KV_\w+\s*,\s*"([^"]+)"\s*\}', arch))
    factories = re.findall(
        r"((?:case LLM_ARCH_\w+:\s*)+)return new (llama_model_\w+)\(", model
    )
    classes = dict.fromkeys(enums.values(), "")
    for cases, name in factories:
        for enum in re.findall(r"LLM_ARCH_\w+", cases):
            classes[enums[enum]] = name
    paths = sorted((*folder.glob("*.cpp"), *folder.glob("models/*.cpp")))
    texts = {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in paths
    }
    header = (folder / "models" / "models.h").read_text(encoding="utf-8")
    bases = re.findall(
        r"(?:struct|class) (llama_model_\w+) : public (llama_model_\w+)", header
    )
    files: dict[str, set[str]] = {}
    for file, text in texts.items():
        if file.startswith("models/"):
            for name in re.findall(r"\b(llama_model_\w+)::", text):
                files.setdefault(name, set()).add(file)
    if len(enums) < 2 or not keys or not factories:
        sys.exit(f"error: {folder}: no names of architectures or keys were found")
    return Names(
        classes,
        keys,
        {file: statements(text) for file, text in texts.items()},
        {name: frozenset(members) for name, members in files.items()},
        dict(bases),
    )


def changed(old: Names, new: Names) -> dict[str, str]:
    """Return the architectures that need a review, with the reason."""
    reasons = {}
    for name in sorted(new.classes):
        if name not in old.classes:
            reasons[name] = "new"
        elif more := new.of(name) - old.of(name):
            reasons[name] = f"{len(more)} new assertions or optional tensors"
    return reasons


def review(old: Names, new: Names) -> str:
    """Return the list to review, as Markdown."""
    reasons = changed(old, new)
    gone = sorted(old.classes.keys() - new.classes.keys())
    parts = [
        (
            "Architectures, refused until they are reviewed",
            [f"`{n}`: {r}" for n, r in reasons.items()],
        ),
        ("Architectures that are gone", gone),
        ("New keys", sorted(new.keys - old.keys)),
        ("Keys that are gone", sorted(old.keys - new.keys)),
    ]
    for file, checks in sorted(new.statements.items()):
        if more := sorted(checks - old.statements.get(file, frozenset())):
            parts.append((f"New in {file}", [f"`{line}`" for line in more]))
    lines = [
        "\n".join((f"## {title} ({len(items)})", "", *(f"- {item}" for item in items)))
        for title, items in parts
        if items
    ]
    return "\n\n".join(lines) + "\n"


def recorded(text: str) -> tuple[str, list[str]]:
    """Return the version and the architectures of the record."""
    version = re.search(r"llama-cpp-python (\d+\.\d+\.\d+)", text)
    if version is None:
        sys.exit(f"error: {RECORD} names no version")
    return version[1], re.findall(r'"([^"]+)"', text)


def record(version: str, architectures: list[str]) -> str:
    """Return the text of the record."""
    names = ", ".join(f'"{name}"' for name in sorted(architectures))
    rows = textwrap.indent(textwrap.fill(names, 86, break_on_hyphens=False), "    ")
    return (
        "// Architectures whose files are loaded. The assertions and optional tensors\n"
        f"// of their sources in llama-cpp-python {version} were reviewed:\n"
        "// gguf_hazards.cpp and gguf_missing.cpp refuse files that would end the\n"
        "// process. Written by scripts/llama_names.py; add a name after its review\n"
        "// (docs/moving-llama.md).\n"
        "#pragma once\n\n#include <string_view>\n\nnamespace lh {\n\n"
        "// clang-format off\n"
        f"constexpr std::string_view kReviewed[] = {{\n{rows},\n}};\n"
        "// clang-format on\n\n}  // namespace lh\n"
    )


def unknown_rules(new: Names) -> list[str]:
    """Return the architectures and keys in the rules of files that libllama lacks."""
    texts = [path.read_text(encoding="utf-8") for path in RULES]
    lists = re.findall(r"string_view k\w+\[\] = \{([^}]*)\}", texts[0])
    named = set(re.findall(r'"([^"]+)"', "".join(lists)))
    rules = re.findall(r'^    \{"([a-z0-9_ -]+)", *"', texts[1], re.MULTILINE)
    named |= {name for rule in rules for name in rule.split()}
    keys = set(re.findall(r'(?:number|single)\("([^"]+)"', texts[0]))
    known = {key.removeprefix("%s.") for key in new.keys}
    return sorted((named - new.classes.keys()) | (keys - known))


def sources(version: str) -> Path:
    """Return the folder `src` of llama.cpp, after a download if necessary."""
    if Path(version, "llama-arch.cpp").is_file():
        return Path(version)
    folder = ROOT / "build" / "llama-names" / version
    source = folder / "vendor" / "llama.cpp" / "src"
    if not source.is_dir():
        script = (
            "source scripts/common.sh; source scripts/llama_source.sh; "
            'fetch_llama_source "$1" "$2" "*/vendor/llama.cpp/src/*"'
        )
        command = ["/bin/bash", "-c", script, "bash", version, str(folder)]
        subprocess.run(command, check=True, cwd=ROOT)
    return source


def main(argv: list[str]) -> None:
    """Run `review` or `record`."""
    if argv[:1] not in (["review"], ["record"]) or not 2 <= len(argv) <= 3:
        sys.exit(__doc__)
    version, reviewed = recorded(RECORD.read_text(encoding="utf-8"))
    old, new = names_of(sources(version)), names_of(sources(argv[1]))
    text = f"# llama.cpp of {version} and of {argv[1]}\n\n{review(old, new)}"
    if unknown := unknown_rules(new):
        text += f"\n## The checks name what libllama lacks\n\n- {', '.join(unknown)}\n"
    if len(argv) == 3:
        Path(argv[2]).write_text(text, encoding="utf-8")
    else:
        print(text)
    if argv[0] == "record":
        kept = {name for name in reviewed if name in new.classes} - changed(
            old, new
        ).keys()
        RECORD.write_text(record(argv[1], sorted(kept)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
