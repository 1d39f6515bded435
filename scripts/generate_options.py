"""Writes the files that follow from the declared options.

    python scripts/generate_options.py           writes them (make generated)
    python scripts/generate_options.py --check   only compares them

The declarations are in `engine/core/sampling.py`, `calls/asks/options.py` and
`calls/asks/annotate_options.py`.
"""

from __future__ import annotations

import ast
import importlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from llamaherd.calls.asks.annotate_options import AnnotateOptions
from llamaherd.calls.asks.options import (
    ClassifyOptions,
    EmbedOptions,
    GenerateOptions,
    PerplexityOptions,
    ScoreOptions,
)
from llamaherd.engine.core.declaration import REQUIRED, options_of
from llamaherd.engine.core.sampling import PER_PROMPT, SamplingParams
from llamaherd.engine.core.values import Real, Whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from llamaherd.engine.core.declaration import Option, Options

ROOT = Path(__file__).resolve().parents[1]
MARK = "Written by scripts/generate_options.py (make generated). Do not edit."
# Classes of keyword arguments: the options, the interface, and the functions.
KEYWORDS: dict[str, tuple[type[Options], str, str]] = {
    "SamplingSettings": (SamplingParams, "many", "calls that generate"),
    "GenerateSettings": (GenerateOptions, "many", "`generate_parallel`"),
    "PromptSettings": (GenerateOptions, "single", "`generate`"),
    "SubmitSettings": (GenerateOptions, "submit", "`Context.submit`"),
    "ChatSettings": (GenerateOptions, "chat", "`chat` and of its questions"),
    "ClassifySettings": (ClassifyOptions, "many", "`classify_parallel`"),
    "PairSettings": (ClassifyOptions, "pairs", "`compare_pairs`"),
    "ScoreSettings": (ScoreOptions, "many", "`score_parallel`"),
    "PerplexitySettings": (PerplexityOptions, "many", "`perplexity`"),
    "EmbedSettings": (EmbedOptions, "many", "`embed_parallel`"),
    "CodingSettings": (AnnotateOptions, "many", "`annotate`"),
}
# Arguments that the functions declare themselves, because they change the result's type.
_OWN_ARGUMENTS = ("progress", "stream")
# Only a call with many prompts can have settings for each prompt.
_OF_ONE = {"params": "SamplingParams | None"}
_WITHOUT_SCHEMA = {"GenerateSettings": "GenerateRest", "PromptSettings": "PromptRest"}
_OF_EACH = {
    "schema": "str | Mapping[str, object] | type[object] | "
    "Sequence[str | Mapping[str, object] | type[object] | None] | None",
    "regex": "str | Sequence[str | None] | None",
    "grammar": "str | Sequence[str | None] | None",
    "choices": "Collection[str] | Sequence[Collection[str] | None] | None",
    "quote_from": "str | Sequence[str | None] | None",
}

# Bases of these classes: the fields that all classes of a list declare alike, and that no
# base before it has.
_SHARED: dict[str, tuple[str, ...]] = {
    "_Sampling": (
        *("SamplingSettings", "GenerateRest", "PromptRest", "SubmitSettings"),
        "ChatSettings",
    ),
    "_Constraints": ("SamplingSettings", "PromptRest", "SubmitSettings", "ChatSettings"),
    "_Rendering": (
        *("GenerateRest", "PromptRest", "SubmitSettings", "ChatSettings"),
        *("ClassifySettings", "PairSettings", "ScoreSettings"),
    ),
    "_Answers": ("GenerateRest", "PromptRest", "SubmitSettings", "ChatSettings"),
    "_Prompts": (
        *("GenerateRest", "PromptRest", "SubmitSettings", "ClassifySettings"),
        *("PairSettings", "ScoreSettings"),
    ),
    "_Call": (
        *("GenerateRest", "ClassifySettings", "ScoreSettings", "PerplexitySettings"),
    ),
}


def keywords() -> str:
    """Return the module of the classes of keyword arguments."""
    types: dict[str, dict[str, str]] = {}
    bases: dict[str, list[str]] = {}
    docs: dict[str, str] = {}
    for name, (options, interface, functions) in KEYWORDS.items():
        types[name] = _types(options, interface, of_prompts=name == "GenerateSettings")
        bases[name] = []
        docs[name] = f"Keyword arguments of {functions}, see `{options.__name__}`."
        if name in _WITHOUT_SCHEMA:  # overloads declare the schema themselves
            rest = _WITHOUT_SCHEMA[name]
            schema = types[name].pop("schema")
            types[rest], types[name] = types[name], {"schema": schema}
            bases[rest], bases[name] = [], [rest]
            docs[rest] = f"Keyword arguments of {functions}, without the schema."
    for base, heirs in _SHARED.items():
        first, *others = (types[heir].items() for heir in heirs)
        types[base] = dict(
            item for item in first if all(item in other for other in others)
        )
        for heir in heirs:
            bases[heir].append(base)
            types[heir] = {n: t for n, t in types[heir].items() if n not in types[base]}
    names = [*_SHARED]
    for name in KEYWORDS:
        names += [*filter(None, [_WITHOUT_SCHEMA.get(name)]), name]
    classes = []
    for name in names:
        parents = ", ".join(bases.get(name) or ["TypedDict"])
        lines = [f"class {name}({parents}, total=False):"]
        if name in docs:
            lines.append(f'    """{docs[name]}"""')
        fields = [f"    {field}: {text}" for field, text in types[name].items()]
        lines += ["", *fields] if fields and name in docs else fields
        classes.append("\n".join(lines))
    written = " ".join(text for fields in types.values() for text in fields.values())
    used = set(re.findall(r"(?<![.\w])[A-Za-z]\w*", re.sub('".*?"', "", written)))
    imports = _imports(used)
    runtime = [line for line in imports if line.startswith("from collections.abc")]
    imports = [line for line in imports if line not in runtime]
    return "\n".join(
        [
            f'"""Keyword arguments of the public calls.\n\n{MARK}\n"""\n',
            "from __future__ import annotations\n",
            "# At run time, for typing.get_type_hints.",
            *(f"{line}  # noqa: TC003" for line in runtime),
            "from typing import TYPE_CHECKING, TypedDict\n",
            "if TYPE_CHECKING:",
            *(f"    {line}" for line in imports),
            "\n",
            "\n\n\n".join(classes) + "\n",
        ]
    )


def _types(options: type[Options], interface: str, *, of_prompts: bool) -> dict[str, str]:
    """Return the type of each keyword argument, by name."""
    of_each = {name: _OF_EACH[name] for name in PER_PROMPT}
    types = of_each if of_prompts else {} if interface == "many" else _OF_ONE
    return {
        option.name: types.get(option.name, option.type)
        for option in options_of(options, interface).values()
        if option.name not in _OWN_ARGUMENTS and option.default is not REQUIRED
    }


def _imports(names: Iterable[str]) -> list[str]:
    """Return the import statements of names that the declaring modules use."""
    places: dict[str, set[str]] = {}
    plain: set[str] = set()
    sources = (
        *("engine.core.sampling", "calls.asks.options"),
        "calls.asks.annotate_options",
    )
    for source in sources:
        module = importlib.import_module(f"llamaherd.{source}")
        tree = ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                for part in node.names:
                    if part.name in names and not part.asname:
                        places.setdefault(str(node.module), set()).add(part.name)
            elif isinstance(node, ast.Import):
                plain |= {
                    f"import {part.name}" + (f" as {part.asname}" if part.asname else "")
                    for part in node.names
                    if (part.asname or part.name) in names
                }
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    if isinstance(target, ast.Name) and target.id in names:
                        places.setdefault(module.__name__, set()).add(target.id)
    lines = [f"from {m} import {', '.join(sorted(n))}" for m, n in sorted(places.items())]
    ours = [line for line in lines if line.startswith("from llamaherd")]
    standard = [line for line in lines if line not in ours]
    return [*sorted(plain), *standard, "", *ours]


def sampling_fields() -> str:
    """Return the C file of the plain sampling settings: name, default, limits."""
    lines = [f"// {MARK}", "// LH_REAL, LH_WHOLE: name, default, least, most."]
    for name, option in SamplingParams.declared.items():
        if option.native and isinstance(option.kind, Real):
            numbers = (option.default, option.kind.low, option.kind.high)
            lines.append(f"LH_REAL({name}, {', '.join(map(_c_float, numbers))})")
        elif option.native:
            low, high = -(2**31), 2**31 - 1  # any number but 0 is true
            if isinstance(option.kind, Whole):
                low, high = option.kind.low, option.kind.high
            limits = ", ".join(map(_c_integer, (int(option.default), low, high)))
            lines.append(f"LH_WHOLE({name}, {limits})")
    return "\n".join(lines) + "\n"


def _c_float(number: float) -> str:
    return f"{float(number)!r}F".replace("e-0", "e-").replace("e+0", "e+")


def _c_integer(number: int) -> str:
    names = {-(2**31): "INT32_MIN", 2**31 - 1: "INT32_MAX"}
    return names.get(number, str(number))


# Parts of docs/options.md: title, class, words about the calls.
_PARTS: dict[str, tuple[type[Options], str]] = {
    "Sampling": (
        SamplingParams,
        (
            "Fields of `SamplingParams`, and arguments of `generate_parallel`, "
            "`generate`, `chat` and `Context.submit`. The order is llama.cpp's: logit "
            "bias, penalties, DRY, top-n-sigma, top-k, typical-p, top-p, min-p, XTC, "
            "temperature, draw."
        ),
    ),
    "Generation": (
        GenerateOptions,
        (
            "Further arguments of `generate_parallel`, `generate`, `chat` and "
            "`Context.submit`."
        ),
    ),
    "Classification": (ClassifyOptions, "Arguments of `classify_parallel`."),
    "Scores": (ScoreOptions, "Arguments of `score_parallel`."),
    "Perplexity": (PerplexityOptions, "Arguments of `perplexity`."),
    "Embeddings": (EmbedOptions, "Arguments of `embed_parallel`."),
    "Annotation": (AnnotateOptions, "Arguments of `annotate`."),
}
_INTERFACES = {
    "many": "many prompts",
    "single": "`generate`",
    "submit": "`submit`",
    "chat": "`chat`",
    "pairs": "`compare_pairs`",
    "rows": "run files",
    "http": "HTTP",
    "completions": "`/v1/completions`",
    "chats": "`/v1/chat/completions`",
}


_TECHNICAL = 1e6  # a limit of this size is no advice, but keeps numbers in C's types
_BEGIN = """
```r
generate_parallel(context, prompts, temperature = 0.7, max_tokens = 50, seed = 1)
```

```python
lh.generate_parallel(context, prompts, temperature=0.7, max_tokens=50, seed=1)
```

Every option has one declaration, from which Python's and R's arguments, flags, keys of
run files and fields of requests follow. A setting that has no effect because of other
settings causes a warning with the reason. Limits of a million or more are not listed:
numbers with decimals are at most 1e6, whole numbers have 32 bits.""".strip()


def page() -> str:
    """Return docs/options.md."""
    lines = [
        "# Options",
        "",
        f"<!-- {MARK} -->",
        "",
        _BEGIN,
    ]
    known: set[str] = set()
    for title, (kind, words) in _PARTS.items():
        options = [
            option
            for option in kind.declared.values()
            if f"{option.name} {option.doc}" not in known and "group" not in option.facts
        ]
        known |= {f"{option.name} {option.doc}" for option in options}
        lines += ["", f"## {title}", "", words]
        parent = kind.__mro__[1].__name__
        if parent == "PromptOptions" and title != "Generation":
            lines[-1] += " They also have the options of [prompts](#generation) that "
            lines[-1] += "are about chats, failures and the journal."
        lines += _idle(options)
        for option in options:
            lines += ["", *_described(option)]
    return "\n".join(lines) + "\n"


def _idle(options: Iterable[Option]) -> list[str]:
    """Return the reasons for which options have no effect, each with its options."""
    reasons: dict[str, list[str]] = {}
    for option in options:
        for condition in option.idle:
            reasons.setdefault(condition.why, []).append(f"`{option.name}`")
    lines = [f"- {why}: {', '.join(names)}." for why, names in reasons.items()]
    return ["", "No effect if", "", *lines] if lines else []


def _range(low: float, high: float) -> str:
    """Return the words for a range; limits of a million or more are technical."""
    ends = [f"from {low:,}"] if abs(low) < _TECHNICAL else []
    ends += [f"to {high:,}"] if abs(high) < _TECHNICAL else []
    return f"Range: {' '.join(ends)}." if ends else ""


def _described(option: Option) -> list[str]:
    facts = []
    if option.default is not REQUIRED:
        facts.append(f"Default: `{option.default!r}`.")
    schema = option.kind.schema
    if isinstance(option.kind, (Whole, Real)):
        facts.append(_range(schema["minimum"], schema["maximum"]))
    elif "enum" in schema:
        facts.append(f"One of {', '.join(f'`{value!r}`' for value in schema['enum'])}.")
    names = [
        f"`{name}` in {where}"
        for name, where in ((option.key, "run files"), (option.openai, "OpenAI's API"))
        if name != option.name
    ]
    if names:
        facts.append(f"Name: {', '.join(names)}.")
    lacking = [_INTERFACES[key] for key in _INTERFACES if key not in option.interfaces]
    having = [_INTERFACES[key] for key in _INTERFACES if key in option.interfaces]
    if lacking:
        is_few = len(having) < len(lacking)
        names = having if is_few else lacking
        facts.append(f"{'Only' if is_few else 'Not'} in {', '.join(names)}.")
    text = " ".join(fact for fact in (option.doc, *facts) if fact)
    return [f"### `{option.name}`", "", text]


# ---- R ------------------------------------------------------------------------------

# Sampling settings that generate_parallel() has as arguments of its own; all others are
# arguments of sampling_options().
_R_ARGUMENTS = (
    *("max_tokens", "top_k", "top_p", "temperature", "repeat_last_n", "penalty_repeat"),
    *("seed", "min_p", "stop", "ignore_eos", "grammar", "choices", "schema", "regex"),
    "quote_from",
)
_R_DATA = "data, text, codebook, context, ..."
# Options of annotate_texts() that R itself handles.
_R_ITSELF = ("columns", "progress", "versions")
_R_WORDS = {
    "None": "NULL",
    "True": "TRUE",
    "False": "FALSE",
    "-inf": "-Inf",
    "`classify_parallel`": "[classify_parallel()]",
    "`ClassifyOptions`": "[classify_parallel()]",
    "`generate_parallel`": "[generate_parallel()]",
    "`Thinking`": "[thinking()]",
    "`Calibration`": "[calibrate_batch()]",
    "`structured.type_quote`": "[type_quote()]",
    "`reproduce`": "[reproduce()]",
    "raises `GenerationError`": "signals an error",
    "A function is called with a `Progress` repeatedly, on the calling thread.": "",
}


def r_options() -> str:
    """Return the R file: kinds of options, and functions that have them as arguments."""
    sampling = SamplingParams.declared
    further = {n: option for n, option in sampling.items() if n not in _R_ARGUMENTS}
    coding = options_of(AnnotateOptions, "many")
    passed_on = {n: option for n, option in coding.items() if n not in _R_ITSELF}
    arguments = {n: option for n, option in coding.items() if n != "versions"}
    of_r = {name: sampling[name] for name in _R_ARGUMENTS}
    formals = _r_formals(arguments.values())
    return "\n".join(
        [
            f"# {MARK}",
            "",
            "# Conversions of the options, see as_option() and check_sampling().",
            _r_kinds("sampling_kinds", of_r),
            _r_kinds("further_kinds", further),
            _r_kinds("annotate_kinds", passed_on),
            "",
            "#' @rdname sampling_options",
            *_r_params(further.values()),
            "#' @export",
            f"sampling_options <- function(..., {_r_formals(further.values())}) {{",
            "  call <- match.call()",
            "  given_settings(rlang::enquos(...), call, rlang::current_env())",
            "}",
            "",
            "#' @rdname annotate_texts",
            *_r_params(arguments.values()),
            "#' @export",
            f"annotate_texts <- function({_R_DATA}, {formals}, verbosity = 0L) {{",
            "  check_dots(rlang::enquos(...))",
            "  env <- rlang::current_env()",
            "  code_data(data, text, rlang::enquo(text), codebook, context, env)",
            "}",
            "",
        ]
    )


def _r_kinds(name: str, options: Mapping[str, Option]) -> str:
    kinds = ", ".join(f'{key} = "{one.kind.r}"' for key, one in options.items())
    return f"{name} <- c({kinds})"


def _r_formals(options: Iterable[Option]) -> str:
    return ", ".join(f"{option.name} = {_r_default(option)}" for option in options)


def _r_default(option: Option) -> str:
    choices = getattr(option.kind, "choices", ())
    if option.name == "progress":
        return "interactive()"
    if choices and all(isinstance(choice, str) for choice in choices):
        return _r_value((option.default, *(c for c in choices if c != option.default)))
    return _r_value(option.default)


def _r_value(value: object) -> str:
    if value is None or value == ():
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int):
        return f"{value}L"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple):
        return f"c({', '.join(map(_r_value, value))})"
    return json.dumps(value, ensure_ascii=False)


def _r_params(options: Iterable[Option]) -> list[str]:
    """Return roxygen entries of options, with the words of R."""
    lines = []
    for option in options:
        text = str(option.facts.get("r_doc", ""))
        if not text:
            text = re.sub(r'"([^"]*)"', r'`"\1"`', option.doc)
            for word, of_r in _R_WORDS.items():
                text = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", of_r, text)
        head, rest = f"#' @param {option.name} ", "#'   "
        lines += textwrap.wrap(
            text,
            width=100,
            initial_indent=head,
            subsequent_indent=rest,
            break_long_words=False,
            break_on_hyphens=False,
        )
    return lines


def formatted_r(text: str) -> str:
    """Return R code in the project's format."""
    with tempfile.TemporaryDirectory(prefix="llamaherd-") as name:
        file = Path(name, "options.R")
        file.write_text(text, encoding="utf-8")
        shutil.copy(ROOT / "r_package/air.toml", name)
        air = Path(sys.executable).with_name("air")
        subprocess.run([air, "format", file], check=True, stdout=subprocess.DEVNULL)
        return file.read_text(encoding="utf-8")


def formatted(text: str) -> str:
    """Return Python code in the project's format."""
    for command in (["check", "--fix-only", "--select", "I"], ["format"]):
        text = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", "a.py", "-"],
            input=text,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            cwd=ROOT,
        ).stdout
    return text


def files() -> dict[Path, str]:
    """Return the content of each generated file, by path."""
    return {
        ROOT / "python_core/llamaherd/calls/asks/keywords.py": formatted(keywords()),
        ROOT / "capi_shim/sampling/plain_settings.inc": sampling_fields(),
        ROOT / "r_package/R/generated_options.R": formatted_r(r_options()),
        ROOT / "docs/options.md": page(),
    }


def main() -> None:
    """Write or compare the files."""
    different = [
        path
        for path, text in files().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    if "--check" in sys.argv[1:]:
        names = ", ".join(str(path.relative_to(ROOT)) for path in different)
        sys.exit(f"run `make generated`: {names} differ" if different else 0)
    for path in different:
        path.write_text(files()[path], encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
