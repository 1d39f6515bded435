"""Runs the examples of README.md and of pages in docs/, as a reader would run them.

    python scripts/run_readme.py [--check] [PAGE ...]

Arguments are the pages to run; without arguments all pages are run. The pictures that
examples draw are written to docs/images; with --check it is an error if a picture shows
something else than its example draws. A picture carries a record of the words and numbers
that it shows: another machine may draw other pixels, so only these records are compared.

Model and texts are linked into a temporary folder under the names that the examples use.
The example of HTTP is sent to a server that `llamaherd serve` starts.
"""

from __future__ import annotations

import io
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple
from urllib.request import Request, urlopen

import llamaherd
from PIL import Image
from PIL.PngImagePlugin import PngInfo

ROOT = Path(__file__).resolve().parent.parent
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
HERD = llamaherd.__path__[0]
# Page, language, and number n: the first n code blocks of the page in this language form
# one program.
EXAMPLES = (
    ("README.md", "r", 1),
    ("README.md", "python", 1),
    ("README.md", "sh", 1),
    ("README.md", "curl", 1),
    ("examples/demo.R", "r", 1),
    ("docs/prompts.md", "r", 5),
    ("docs/prompts.md", "python", 5),
    ("docs/codebooks.md", "r", 1),
    ("docs/codebooks.md", "python", 1),
    ("docs/selection.md", "r", 1),
    ("docs/selection.md", "python", 1),
    ("docs/c.md", "c", 1),
)
_KEY = "llamaherd"
_DRAWN = """
options(device = function(...) {{
  grDevices::png("picture.png", {width}, {height}, "in", res = {dots})
}})
"""
_RECORDED = """
grDevices::graphics.off()
shown <- as.data.frame({object})
shown <- shown[intersect(c("estimate", "value", "low", "high"), names(shown))]
shown <- Filter(is.finite, unlist(shown, use.names = FALSE))
suppressWarnings(grDevices::xfig("picture.fig", width = {width}, height = {height}))
print({call})
invisible(grDevices::dev.off())
writeLines(jsonlite::toJSON(shown, digits = 4), "picture.json")
"""


class Picture(NamedTuple):
    """A picture and the R example that draws it."""

    path: str  # path in the repository
    object: str  # name of the object of the example that is plotted
    call: str  # call that plots it
    width: float  # width in inches
    height: float  # height in inches
    dots: int  # dots per inch
    # Largest difference of two numbers. Rounding on another processor may change the
    # label of a text.
    tolerance: float

    def drawing(self, code: str) -> str:
        """Return an example that also writes the picture and record, see `content`."""
        size = {"width": self.width, "height": self.height, "dots": self.dots}
        before = _DRAWN.format(**size)
        after = _RECORDED.format(object=self.object, call=self.call, **size)
        return f"{before}\n{code}\n{after}"

    def content(self, folder: Path) -> tuple[bytes, dict[str, Any]]:
        """Return the picture that an example wrote to a folder, and its record."""
        text = (folder / "picture.fig").read_text(encoding="latin-1")
        drawn = re.findall(r"^4(?: \S+){12} (.*)\\001$", text, re.MULTILINE)
        words = sorted(word for line in drawn for word in line.split())
        numbers = json.loads((folder / "picture.json").read_text())
        record = {"words": words, "numbers": numbers}
        return with_record((folder / "picture.png").read_bytes(), record), record

    def problem(self, known: dict[str, Any] | None, record: dict[str, Any]) -> str:
        """Return how the record of a picture differs from another; "" if it does not."""
        if known is None:
            return "it has no record"
        old, new = set(known["words"]), set(record["words"])
        if old != new:
            return f"it shows {sorted(old - new)} in place of {sorted(new - old)}"
        pairs = list(zip(known["numbers"], record["numbers"], strict=False))
        n_old, n_new = len(known["numbers"]), len(record["numbers"])
        if n_old != n_new:
            return f"it shows {n_old} numbers, not {n_new}"
        far = [pair for pair in pairs if abs(pair[0] - pair[1]) > self.tolerance]
        return f"it shows {far[0][0]} in place of {far[0][1]}" if far else ""


def with_record(picture: bytes, record: dict[str, Any]) -> bytes:
    """Return a PNG with a record in its texts."""
    texts = PngInfo()
    texts.add_text(_KEY, json.dumps(record, separators=(",", ":")))
    with Image.open(io.BytesIO(picture)) as image:
        stored = io.BytesIO()
        image.save(stored, "PNG", pnginfo=texts, dpi=image.info.get("dpi"))
    return stored.getvalue()


def record_of(picture: bytes) -> dict[str, Any] | None:
    """Return the record in a PNG; None without one."""
    with Image.open(io.BytesIO(picture)) as image:
        text = getattr(image, "text", {}).get(_KEY)
    record: dict[str, Any] | None = None if text is None else json.loads(text)
    return record


PICTURES = {
    "README.md": Picture(
        "docs/images/shares.png", "fit", "plot(fit)", 6.5, 4.2, 130, 0.05
    ),
    "examples/demo.R": Picture(
        "docs/images/demo-labels.png",
        "checked",
        'plot(checked, type = "labels")',
        6.5,
        4,
        200,
        0.1,
    ),
}
SKIPPED = re.compile("remotes::install|^pip install|^make |^cc ", re.MULTILINE)
FILES = {"r": "answers.R", "python": "answers.py", "c": "answers.c", "sh": "answers.sh"}


def blocks(page: str, language: str, n: int) -> str:
    """Return the first n code blocks of a page in a language, joined.

    For a block of type "sh" that begins with curl, the language is "curl".
    """
    text = (ROOT / page).read_text(encoding="utf-8")
    if page.endswith(".R"):
        return text
    codes = []
    for name, code in re.findall(
        r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL
    ):
        is_curl = name == "sh" and code.startswith("curl ")
        if ("curl" if is_curl else name) == language and not SKIPPED.search(code):
            codes.append(code)
    if len(codes) < n:
        raise SystemExit(f"{page} has {len(codes)} examples in {language}, not {n}")
    return "\n".join(codes[:n])


def commands(language: str, code: str, folder: Path) -> list[list[str]]:
    """Write an example to `folder`; return the commands that compile and run it."""
    path = folder / FILES[language]
    path.write_text(code, encoding="utf-8")
    if language == "r":
        return [["Rscript", "--vanilla", str(path), MODEL, "picture.png"]]
    if language == "python":
        return [[sys.executable, str(path)]]
    if language == "sh":
        return [["bash", "-eu", str(path)]]
    build = ["cc", "-Wall", "-Werror", str(path), f"-I{HERD}/include", f"-L{HERD}"]
    build += ["-lllamaherd", f"-Wl,-rpath,{HERD}", "-o", "answers"]
    return [build, ["./answers"]]


def post(line: str, address: str) -> None:
    """Send a line `curl URL -d JSON` to the server at `address`; print the answer."""
    _, url, flag, body = shlex.split(line)
    if flag != "-d" or not url.startswith("http://127.0.0.1:8080/"):
        raise SystemExit(f"not `curl http://127.0.0.1:8080/PATH -d JSON`: {line}")
    url = url.replace("http://127.0.0.1:8080", address)
    headers = {"Content-Type": "application/x-www-form-urlencoded"}  # as curl sends it
    request = Request(url, body.encode(), headers)  # noqa: S310 - http, see above
    with urlopen(request) as answer:  # noqa: S310
        print(json.dumps(json.load(answer), indent=1), flush=True)


def ask_server(line: str, folder: Path, env: dict[str, str]) -> bool:
    """Start a server at a free port, send it the line, and return True if it answers."""
    command = [sys.executable, "-m", "llamaherd.cli", "serve", MODEL, "--port", "0"]
    server = subprocess.Popen(
        command, cwd=folder, env=env, stdout=subprocess.PIPE, encoding="utf-8"
    )
    try:
        ready = server.stdout.readline() if server.stdout else ""
        address = re.search(r"http://\S+", ready)
        if address is None:
            return False
        post(line, address[0])
    except OSError as error:
        print(error, flush=True)
        return False
    finally:
        server.terminate()
        server.wait()
    return True


def keep(picture: Picture, folder: Path, *, is_check: bool) -> bool:
    """Compare the picture that an example drew with the one in the repository."""
    path = ROOT / picture.path
    image, record = picture.content(folder)
    problem = picture.problem(record_of(path.read_bytes()), record)
    if problem and not is_check:
        path.write_bytes(image)
    if problem:
        print(f"{picture.path} was not what its example draws: {problem}", flush=True)
    return not (problem and is_check)


def main() -> None:
    """Run each example; exit with 1 if one fails."""
    model = Path(os.environ["LLAMAHERD_TEST_SMOLLM2"]).with_name(MODEL)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "MPLBACKEND": "agg", "PATH": path}  # no window
    is_check = "--check" in sys.argv
    pages = [page for page in sys.argv[1:] if page != "--check"]
    examples = [example for example in EXAMPLES if not pages or example[0] in pages]
    failed = []
    for page, language, n in examples:
        print(f"--- {page}: {language}", flush=True)
        code = blocks(page, language, n)
        picture = PICTURES.get(page) if language == "r" else None
        if picture is not None:
            code = picture.drawing(code)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            texts = ROOT / "r_package/inst/extdata/headlines.csv"
            (folder / texts.name).symlink_to(texts)
            (folder / MODEL).symlink_to(model)
            (folder / "examples").symlink_to(ROOT / "examples")
            if language == "curl":
                is_good = ask_server(code, folder, env)
            else:
                is_good = all(
                    subprocess.run(step, cwd=folder, env=env, check=False).returncode == 0
                    for step in commands(language, code, folder)
                )
                if is_good and picture is not None:
                    is_good = keep(picture, folder, is_check=is_check)
        if not is_good:
            failed.append(f"{page}: {language}")
    print(f"{len(examples) - len(failed)} passed, {len(failed)} failed", *failed)
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
