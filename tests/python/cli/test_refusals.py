"""Command lines that are refused: the exit status, and words of the message."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from llamaherd.cli import main
from llamaherd.remote.server import KEY_VARIABLE

START = 'input = "in.csv"\n\n[sampling]\n'
FILES = {
    "in.csv": b"id,text\n0,text number 0\n",
    "any.json": b"{}",
    "run.toml": b"input = 'in.csv'",
    "no-toml.toml": b"prompt: x",
    "wrong.toml": f"{START}seed = 1\ntopp = 1\n".encode(),
    "seed.toml": f"{START}seed = -1\n".encode(),
    "one.txt": b"yes\n",
    "bytes.txt": b"\xff\n",
}
RUN, SERVE = "run in.csv -m no.gguf", "serve no.gguf --port 0"
PAIRS = "pairs in.csv --question Which? -m no.gguf"
LABELS = "classify in.csv -m no.gguf --labels"
OPEN = "serve no.gguf --port 0 --host 0.0.0.0"
GPU = "recalibrate in.csv --gold g.csv -o o.csv"
# Status 2: nothing was computed.
REFUSED = [
    ("", "Usage: llamaherd"),
    ("serv", "Did you mean 'serve'?"),
    ("serve m.gguf --timeouts 3", "Did you mean '--timeout'?"),
    ("nonsense", "No such command 'nonsense'"),
    ("slurm run.toml --tasks 50 --submit", "`llamaherd slurm` was removed: "),
    ("slurm --help", "--shard I/N"),
    ("keep-journal a b", "`cp` copies a journal"),
    ("run", "Missing argument 'INPUT'"),
    ("run in.csv", "Missing option '-m'"),
    (f"{RUN} --shard 0/3", "'0/3' is not a part such as 1/50"),
    (f"{RUN} --shard 4/3", "'4/3' is not a part such as 1/50"),
    (f"{RUN} --shard 1/2", "--journal"),
    (f"{RUN} --max-tokens abc", "'abc' is not a whole number of at least 1."),
    (f"{RUN} --temperature -1", "llamaherd: --temperature must be between 0 and"),
    (f"{RUN} --set sampling.topp=1", "mean 'top_p'"),
    (f"{RUN} --set n_ctx", "not KEY=VALUE"),
    (f"{RUN} --set top_p=1", "did you mean 'sampling.top_p'?"),
    (f"{RUN} --set seed=3", "mean 'sampling.seed' or 'classify.seed' or"),
    (
        f"{RUN} --set model.n_gpu_layers=0.5",
        "--set model.n_gpu_layers must be an integer",
    ),
    (f"{RUN} --schema no.json", "llamaherd: --schema is neither JSON nor a file"),
    (f"{RUN} --labels A,B --schema any.json", "schema"),
    (f"{RUN} --labels A,A", "must be at least two different"),
    (f"{RUN} --labels no.txt", "there is no file 'no.txt'"),
    (f"{RUN} -o x.xlsx", "llamaherd: --out must end in"),
    (f"{RUN} -o in.csv", "is the input"),
    (f"{RUN} --column txt", "no column 'txt'"),
    (f"{RUN} --prompt '{{text'", "single '{'"),
    (f"{RUN} --prompt text", "llamaherd: --prompt names no column"),
    (f"{RUN} --system brief", "llamaherd: --system needs chat = true (--chat)"),
    (f"{RUN} --encoding utf-9", "llamaherd: --encoding is not known: 'utf-9'"),
    (f"{RUN} --thinking much", "'much' is neither a number nor on or off."),
    (f"{RUN} --thinking 8", "llamaherd: --thinking needs chat = true"),
    (f"{RUN} --var low", "'low' is not NAME=VALUE"),
    (f"""{RUN} --var 'a={{"b": 1, "b": 2}}'""", 'a: an object has the key "b" twice'),
    (f"{RUN} --chat --template no.jinja", "--template 'no.jinja' cannot be read"),
    (f"{RUN} --delimiter ab", "--delimiter must be one character, such as ';', not 'ab'"),
    (f"{RUN} --set limit=0", "llamaherd: --set limit must be at least 1, not 0"),
    (f"{RUN} --set sampling.top_p=7", "--set sampling.top_p must be between 0 and 1"),
    (
        "classify in.csv -m no.gguf --labels A,B --n-thoughts 2000",
        "llamaherd: --n-thoughts must be between 1 and 1000, not 2000",
    ),
    ("annotate in.csv -m no.gguf --codebook no.yaml", "--codebook 'no.yaml' cannot be"),
    ("run seed.toml -m no.gguf --delimiter ab", "line 4: [sampling] seed must be at"),
    ("run no.csv -m no.gguf", "No such file"),
    ("run no.toml -m no.gguf", "no.toml: No such file"),
    ("run wrong.toml -m no.gguf", "line 5: [sampling] has no key 'topp'"),
    ("run seed.toml -m no.gguf", "line 4: [sampling] seed must be at least 0, not -1"),
    ("run no-toml.toml -m no.gguf", "no-toml.toml: not TOML: "),
    ("classify in.csv -m m.gguf", "Missing option '--labels'"),
    (f"{LABELS} A,,B", "'--labels': label 2 of 'A,,B' is empty: remove the comma"),
    (f"{LABELS} A,", "label 2 of 'A,' is empty"),
    (f"""{LABELS} '"rivers, lakes",towns'""", "divide labels, also between quotation"),
    (f"{LABELS} no.txt", "there is no file 'no.txt'"),
    (f"{LABELS} one.txt", "must be at least two different labels, not only 'yes'"),
    (f"{LABELS} bytes.txt", "the file bytes.txt is not in UTF-8"),
    ("codebooks best bytes.txt", "'bytes.txt' is not in UTF-8: byte 0xff in line 1"),
    ("codebooks best no.json", "'no.json' cannot be used: No such file or directory; r"),
    ("chat no.gguf --continue bytes.txt", "'bytes.txt' is not in UTF-8: byte 0xff in l"),
    (f"{PAIRS} --layout bytes.txt", "layout: 'bytes.txt' is not in UTF-8: byte 0xff"),
    ("embed run.toml", "describes a run of task 'generate'"),
    ("embed in.csv --chat", "No such option"),
    ("merge --out x.csv", "Missing argument 'JOURNAL...'"),
    ("merge a", "Missing option '-o'"),
    ("bench no.gguf --n-gpu-layers 1.5", "'1.5' is not a whole number or 'auto'."),
    ("bench no.gguf --tensor-split 1,,2", "'1,,2' is not a list of numbers such as 3,1."),
    *((f"bench x --n-seq-max '{n}'", "such as 1,8,32") for n in ("", "0", "1,x", "9999")),
    (f"{GPU} --n-gpu-layers 1", "--n-gpu-layers is for the model of --embeddings"),
    (f"{GPU} --main-gpu 0", "--main-gpu is for the model of --embeddings"),
    ("serve", "Missing argument 'MODEL.gguf', or --model."),
    ("serve m.gguf --port 70000", "'70000' is not a whole number from 0 to 65535."),
    ("serve m.gguf --port -5", "'-5' is not a whole number from 0 to 65535."),
    ("serve m.gguf --queue -1", "'-1' is not a whole number of at least 0."),
    ("serve m.gguf --timeout 0", "'--timeout': 0 is not a positive number."),
    ("serve m.gguf --timeout nan", "nan is not a positive number."),
    ("serve m.gguf --n-ctx much", "'much' is not a whole number"),
    (f"{SERVE} --connections 0", "--connections"),
    (f"{SERVE} --alias a --alias ' '", "'--alias': a name must not be empty."),
    *(
        (f"{SERVE} --allowed-host '{h}'", "--allowed-host")
        for h in ("", "http://a", "a:8")
    ),
    *(
        (f"{SERVE} --memory '{size}'", "is not a size, such as 16GB")
        for size in ("", "0", "much", "-1GB", "1GiB", "GB", "nan", "0.1")
    ),
    ("serve a b c --port 0", "add more with --model b --model c"),
    ("serve a.gguf --model b/a.gguf", "two models have the name 'a'"),
    ("serve --model =a.gguf", "neither FILE nor NAME=FILE"),
    ("serve --model a=", "neither FILE nor NAME=FILE"),
    ("serve a.gguf --lora x.gguf", "is not NAME=FILE"),
    ("serve a.gguf --lora a=x.gguf", "two models have the name 'a'"),
    ("serve a.gguf --lora x=x.gguf@b", "the models are a."),
    ("serve a.gguf --model b.gguf --alias c", "--model NAME=FILE"),
    ("serve a.gguf --lora b=b --template any.json", "--template is for one"),
    ("serve a --model b --embedding-model c", "another --model"),
    ("serve a.gguf --model-wait 0", "--model-wait"),
    (f"{SERVE} --set context.type_k", "is not KEY=VALUE"),
    (f"{SERVE} --set type_k=q8_0", "a key is model.NAME or context.NAME"),
    (f"{SERVE} --set sampling.top_p=1", "a key is model.NAME or context.NAME"),
    (f"{SERVE} --set model.path=x", "give it as MODEL or --model"),
    (f"{SERVE} --set model.lora=x", "give it as --lora"),
    (f"{SERVE} --set context.typ_k=q8_0", "did you mean 'type_k'?"),
    (f"{SERVE} --set model.interrupt=1", "[model] has no key 'interrupt'"),
    (f"{SERVE} --n-ctx 64 --set context.n_ctx=64", "--n-ctx already sets it"),
    (
        f"{SERVE} --deterministic --set context.deterministic=false",
        "--deterministic already sets it",
    ),
    (
        f"{SERVE} --n-gpu-layers 0 --set model.n_gpu_layers=1",
        "--n-gpu-layers already sets it",
    ),
    (
        f"{SERVE} --set context.n_batch=64 --set context.n_batch=64",
        "another --set already sets it",
    ),
    *((f"{OPEN} --api-key '{key}'", "must not be empty") for key in ("", "  ", "\n")),
    *(
        (f"{OPEN} --api-key '{key}'", "no spaces and no control")
        for key in ("a b", "a\tb")
    ),
    *(
        (f"{OPEN} --api-key '{key}'", "no control")
        for key in ("a\x07b", "a\nb", "a\ud800")
    ),
    (f"{OPEN} --api-key ключ", "--api-key must have only Latin-1"),
]
# Status 1: a name of a model that is not there, named as in the help.
FAILED = [
    (RUN, 'model names no file: "no.gguf"'),
    ("bench no.gguf", 'MODEL names no file: "no.gguf"'),
    (SERVE, 'MODEL names no file: "no.gguf"'),
    ("models path no.gguf", 'SOURCE names no file: "no.gguf"'),
]


@pytest.mark.parametrize(
    ("line", "status", "message"),
    [*((line, 2, message) for line, message in REFUSED),
     *((line, 1, f"llamaherd: {message}") for line, message in FAILED)],
)  # fmt: skip
def test_a_command_line_is_refused(
    line: str,
    status: int,
    message: str,
    *,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        Path(name).write_bytes(content)
    assert main(shlex.split(line)) == status
    told = capsys.readouterr()
    assert message in " ".join((told.err or told.out).split())
    assert "Traceback" not in told.err


@pytest.mark.parametrize("key", ["  ", "a b", "a\x07b", "ключ"])
def test_a_key_of_the_environment_is_checked_too(
    key: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(KEY_VARIABLE, key)
    assert main(shlex.split(OPEN)) == 2
    assert f"{KEY_VARIABLE} must" in capsys.readouterr().err
