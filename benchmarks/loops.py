"""Time of loops of single calls, in turns with llama-cpp-python's loops.

    loops.py model.gguf [--encoder encoder.gguf] [--steps 15] [--only WORD] [--r] [--http]
        [--write]

People call a function once per text, in a loop, and each text follows the same
instruction. Both libraries use the same number of threads and flash attention; each step
of a loop is timed with one library, then with the other. The program prints the median
milliseconds of a step without the first three, which meet the instruction for the first
time, and the ratio of the medians. --only measures the loops whose names contain a
word. With --r the loop also runs in R, with --http by requests to `llamaherd serve` in
turns with requests to llama-server (which benchmarks/build_peers.sh builds). With --write
it also writes the table into docs/decisions/0050-kept-beginnings.md, after the mark of
the model's file.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import warnings
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

import llamaherd as lh
import marked
import peers
from llama_cpp import Llama
from llamaherd.engine.memory import hardware
from server import llamaherd_server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Step = Callable[[int], object]
    Ask = Callable[[str, dict[str, object]], dict[str, Any]]

NOVEL = Path(__file__).with_name("data") / "pride_and_prejudice.txt"
PAGE = "docs/decisions/0050-kept-beginnings.md"
LABELS = [" good", " bad", " new", " old", " other"]
N_FIRST = 3  # steps that are not counted
N_SHORT = 20  # prompts of a call that alternates with a long prompt
N_CTX = 4096


class Texts:
    """Prompts as token ids, from a novel."""

    def __init__(self, model: lh.Model) -> None:
        novel = NOVEL.read_text(encoding="utf-8")[20_000:220_000]
        self._model = model
        self._tokens = lh.tokenize(model, novel)

    def part(self, first: int, n: int) -> list[int]:
        """Return n tokens."""
        return self._tokens[first : first + n]

    def prompt(self, n_instruction: int, k: int, n_own: int = 8) -> list[int]:
        """Return an instruction with the k-th text."""
        return [*self.part(0, n_instruction), *self.part(5000 + 31 * k, n_own)]

    def text(self, n_instruction: int, k: int) -> str:
        """Return the prompt as text."""
        return lh.detokenize(self._model, self.prompt(n_instruction, k))

    def short(self, k: int) -> list[list[int]]:
        """Return short prompts for step k."""
        return [self.part(12 * (N_SHORT * k + i), 12) for i in range(N_SHORT)]


def complete(llama: Llama, prompt: Sequence[int], n: int) -> object:
    """Complete a prompt with llama-cpp-python, which keeps its last prompt."""
    return llama.create_completion(list(prompt), max_tokens=n, temperature=0)


def answer_of(llama: Llama, prompt: Sequence[int], n: int) -> list[int]:
    """Return the tokens of llama-cpp-python's answer."""
    answer: list[int] = []
    for token in llama.generate(prompt, temp=0):
        answer.append(token)
        if len(answer) == n:
            break
    return answer


def conversation(
    texts: Texts, answer: Callable[[list[int]], object], *, is_own: bool
) -> Step:
    """Return a step that adds a question and an answer to a prompt."""
    talk = texts.part(0, 60)

    def turn(k: int) -> None:
        talk.extend(texts.part(400 * k, 25))
        tokens = answer(talk)
        other = texts.part(9000 + 50 * k, 12)
        talk.extend(tokens if is_own and isinstance(tokens, list) else other)

    return turn


def cases(
    context: lh.Context, exact: lh.Context, llama: Llama, texts: Texts
) -> dict[str, tuple[Step, Step]]:
    """Return for each loop a step of llamaherd and a step of llama-cpp-python."""

    def ours(n_instruction: int, n: int, on: lh.Context = context) -> Step:
        return lambda k: lh.generate(on, texts.prompt(n_instruction, k), max_tokens=n)

    def theirs(n_instruction: int, n: int) -> Step:
        return lambda k: complete(llama, texts.prompt(n_instruction, k), n)

    def mixed(k: int) -> object:
        prompt = texts.prompt(450, k)
        if k % 3 == 0:
            return lh.generate(context, prompt, max_tokens=4)
        if k % 3 == 1:
            return context.submit(prompt, max_tokens=4).result()
        return lh.generate_parallel(context, [prompt], max_tokens=4)

    def in_turns(k: int) -> object:
        if k % 2:
            return lh.generate(context, texts.prompt(600, k), max_tokens=4)
        return lh.generate_parallel(context, texts.short(k), max_tokens=4)

    def in_turns_of_theirs(k: int) -> object:
        prompts = [texts.prompt(600, k)] if k % 2 else texts.short(k)
        return [complete(llama, prompt, 4) for prompt in prompts]

    def classify(k: int) -> object:
        return lh.classify_parallel(context, [texts.prompt(450, k)], LABELS)

    return {
        "generate, instruction of 450 tokens": (ours(450, 4), theirs(450, 4)),
        "the same, deterministic": (ours(450, 4, exact), theirs(450, 4)),
        "generate, instruction of 2,000 tokens": (ours(2000, 4), theirs(2000, 4)),
        "three kinds of calls": (mixed, theirs(450, 4)),
        "classify, 5 labels / one token": (classify, theirs(450, 1)),
        "short prompts, one token": (ours(0, 1), theirs(0, 1)),
        "turns of a conversation": (
            conversation(
                texts,
                lambda talk: (
                    lh.generate(context, talk, ignore_eos=True, max_tokens=24).tokens
                ),
                is_own=True,
            ),
            conversation(texts, lambda talk: answer_of(llama, talk, 24), is_own=True),
        ),
        "the same, other answers": (
            conversation(
                texts,
                lambda talk: lh.generate(context, talk, max_tokens=12),
                is_own=False,
            ),
            conversation(texts, lambda talk: complete(llama, talk, 12), is_own=False),
        ),
        "20 short, 1 long in turns": (in_turns, in_turns_of_theirs),
    }


def milliseconds(step: Step, k: int) -> float:
    """Return the time of a step."""
    start = perf_counter()
    step(k)
    return 1000 * (perf_counter() - start)


def row(name: str, ours: Step, theirs: Step, n_steps: int) -> list[str]:
    """Return the row of a loop in the table."""
    times = [
        (milliseconds(ours, k), milliseconds(theirs, k)) for k in range(N_FIRST + n_steps)
    ]
    one, other = (median(column) for column in zip(*times[N_FIRST:], strict=True))
    cells = [name, f"{one:.0f}", f"{other:.0f}", f"{one / other:.2f}"]
    print(*cells, sep=" | ", flush=True)
    return cells


@contextmanager
def r_session(path: str, n_threads: int) -> Iterator[Callable[..., object]]:
    """Run loops.R until the block ends; yield a function that makes a call in it."""
    script = str(Path(__file__).with_suffix(".R"))
    command = ["Rscript", "--vanilla", script, path, str(n_threads)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        requests, answers = process.stdin, process.stdout
        if requests is None or answers is None or answers.readline() != "ready\n":
            raise peers.PeerError("loops.R did not start")

        def call(**fields: object) -> None:
            requests.write(f"{json.dumps(fields)}\n")
            requests.flush()
            if not answers.readline():
                raise peers.PeerError("loops.R has ended")

        yield call
        requests.close()


def r_cases(
    call: Callable[..., object], llama: Llama, texts: Texts
) -> dict[str, tuple[Step, Step]]:
    """Return for each loop a step in R and a step of llama-cpp-python."""

    def steps(n_instruction: int, n: int, kind: str) -> tuple[Step, Step]:
        return (
            lambda k: call(kind=kind, prompt=texts.text(n_instruction, k), n=n),
            lambda k: complete(llama, texts.prompt(n_instruction, k), n),
        )

    return {
        "R: generate, instruction of 450 tokens": steps(450, 4, "generate"),
        "R: generate, instruction of 2,000 tokens": steps(2000, 4, "generate"),
        "R: classify, 5 labels / one token": steps(450, 1, "classify"),
        "R: short prompts, one token": steps(0, 1, "generate"),
    }


def http_cases(herd_port: int, peer: int, texts: Texts) -> dict[str, tuple[Step, Step]]:
    """Return for each loop a request to `llamaherd serve` and one to llama-server."""

    def client(port: int) -> Ask:
        pool = peers.connect(port)
        return lambda path, body: peers.post(pool, path, body).json()

    ours, theirs = client(herd_port), client(peer)

    def complete(n_instruction: int, n: int) -> tuple[Step, Step]:
        def step(post: Ask) -> Step:
            fixed = {"max_tokens": n, "temperature": 0}
            return lambda k: post(
                "/v1/completions", {"prompt": texts.text(n_instruction, k), **fixed}
            )

        return step(ours), step(theirs)

    def chat(post: Ask) -> Step:
        talk = [{"role": "system", "content": texts.text(60, 0)}]

        def turn(k: int) -> None:
            talk.append({"role": "user", "content": texts.text(25, k)})
            body = {"messages": talk, "max_tokens": 24, "temperature": 0}
            answer = post("/v1/chat/completions", body)
            talk.append(answer["choices"][0]["message"])

        return turn

    return {
        "HTTP: completion, instruction of 450 tokens": complete(450, 4),
        "HTTP: completion, instruction of 2,000 tokens": complete(2000, 4),
        "HTTP: short prompts, one token": complete(0, 1),
        "HTTP: turns of a chat": (chat(ours), chat(theirs)),
    }


def measured(
    loops: dict[str, tuple[Step, Step]], options: argparse.Namespace
) -> list[list[str]]:
    """Return the rows of loops whose names contain the word of --only."""
    return [
        row(name, *steps, options.steps)
        for name, steps in loops.items()
        if options.only in name
    ]


def rows(options: argparse.Namespace, settings: dict[str, Any]) -> list[list[str]]:
    """Return the rows of the loops that generate text."""
    path = options.model
    llama = Llama(path, n_ctx=N_CTX, verbose=False, flash_attn=True, **settings)
    with (
        lh.Model(path) as model,
        lh.Context(model, **settings) as context,
        lh.Context(model, deterministic=True, **settings) as exact,
    ):
        texts = Texts(model)
        lines = measured(cases(context, exact, llama, texts), options)
        if options.r:
            with r_session(path, settings["n_threads"]) as call:
                lines += measured(r_cases(call, llama, texts), options)
        if options.http:
            sizes = ["-np", "1", "-c", str(N_CTX)]
            with (
                llamaherd_server(path, settings["n_threads"], 4) as (herd, _),
                peers.llama_server(path, settings["n_threads"], sizes) as (peer, _),
            ):
                lines += measured(http_cases(herd, peer, texts), options)
    llama.close()
    return lines


def embedding_row(path: str, n_steps: int, options: dict[str, Any]) -> list[str]:
    """Return the row of a loop that computes embeddings."""
    llama = Llama(
        path, embedding=True, n_ctx=512, verbose=False, flash_attn=True, **options
    )
    with lh.Model(path) as model:
        text = "This is sentence number {} about a small matter."
        line = row(
            "embeddings of one sentence",
            lambda k: lh.embed_parallel(model, [text.format(k)], **options),
            lambda k: llama.embed(text.format(k)),
            n_steps,
        )
    llama.close()
    return line


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--encoder")
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--only", default="")
    parser.add_argument("--r", action="store_true")
    parser.add_argument("--http", action="store_true")
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    options: dict[str, Any] = {"n_threads": hardware.n_cores()}
    columns = ["loop", "llamaherd, ms", "llama-cpp-python (HTTP: llama-server), ms"]
    lines = rows(args, options)
    if args.encoder:
        lines.append(embedding_row(args.encoder, 20 * args.steps, options))
    if args.write:
        name = Path(args.model).stem
        head = f"{name}, {args.steps} steps, {options['n_threads']} threads"
        table = marked.table([*columns, "ratio"], lines)
        marked.write(PAGE, {f"loops {name}": f"{head}:\n\n{table}"})


if __name__ == "__main__":
    main()
