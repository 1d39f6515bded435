"""Tests grammars without an end, choices, and settings that could exhaust memory."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import llamaherd as lh
from llamaherd import SamplingParams
from rows import tell

NEVER = float("-inf")
REPEATED = "a b c d e f a b c d e f a b c d e f a b c"
WINDOWS = (10_000, 1_000_000, 100_000_000, 2**31 - 1, -1)
MOST_KIB = 64 * 1024
NO_END = [
    "root ::= root",
    'root ::= "a" [^\\x01-\\U0010ffff]',
    'root ::= "a" b\nb ::= b "c"',
]
LONG = ["politics and society", "sports and leisure", "science and technology"]
LISTS: list[list[str]] = [
    ["yes", "no"],
    ["no", "not sure", "not", "nothing at all"],
    [" yes", "yes", "  yes"],
    ["\u00e9t\u00e9", "\u6f22\u5b57", "\U0001f600", "\U0001f601\U0001f680"],
    ['"quoted"', "'single'", "back\\slash", "\\n", "line\nbreak", "tab\t"],
    ["[ERROR] x", "<|im_end|>", "NA", "None", 'root ::= "x"', ".*", "("],
    [f"label {i}" for i in range(5000)],
    ["the only one"],
]
NOT_GRAMMARS = ["positive", "yes | no", "yes, no", "'a'", "{}", "root ::= (", "a ::= b"]


def peak_kib() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0])


def restart_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def ends(context: lh.Context) -> None:
    tokens = range(context.model.n_vocab)
    bias = {t: NEVER for t in tokens if "n" in lh.detokenize(context.model, [t])}
    stuck = [SamplingParams(grammar=grammar) for grammar in NO_END]
    stuck += [SamplingParams(grammar='root ::= "no" "no"', logit_bias=bias)]
    prompts = [f"Text {i} is about" for i in range(24)]
    params = [stuck[i // 2 % 4] if i % 2 else SamplingParams() for i in range(24)]
    out = lh.generate_parallel(context, prompts, params=params, max_tokens=12)
    held = sum(
        ("cannot be finished" in (result.error or "")) == bool(i % 2)
        for i, result in enumerate(out)
    )
    tell(3, "a grammar that cannot be completed: only its prompt fails", 24, held)

    label = SamplingParams(grammar="root ::= " + " | ".join(f'"{x}"' for x in LONG))
    held = tries = 0
    for n in range(1, 9):
        for result in lh.generate_parallel(context, prompts, params=label, max_tokens=n):
            tries += 1
            held += result.complete == (result.text in LONG)
    tell(3, "`complete` is FALSE only for labels that max_tokens cuts off", tries, held)


def windows(context: lh.Context) -> None:
    def texts(**settings: object) -> list[str | None]:
        params = SamplingParams(temperature=0.8, **settings)  # type: ignore[arg-type]
        out = lh.generate_parallel(context, [REPEATED] * 8, params=params, max_tokens=24)
        return out.texts

    bounded = {
        "dry_penalty_last_n": texts(dry_multiplier=2.0, dry_penalty_last_n=500),
        "repeat_last_n": texts(penalty_repeat=1.2, repeat_last_n=500),
    }
    restart_peak()
    before = peak_kib()
    held = 0
    for window in WINDOWS:
        dry = texts(dry_multiplier=2.0, dry_penalty_last_n=window)
        held += dry == bounded["dry_penalty_last_n"]
        repeat = texts(penalty_repeat=1.2, repeat_last_n=window)
        held += repeat == bounded["repeat_last_n"]
    grown = peak_kib() - before
    held = held if grown < MOST_KIB else 0
    note = f"{grown / 1024:.0f} MiB more at most, and the same texts"
    tell(
        7, "windows of DRY and penalties up to 2^31 - 1 tokens, 8 prompts", 10, held, note
    )

    large = [
        {"logit_bias": dict.fromkeys(range(context.model.n_vocab), -0.5)},
        {"stop": ["x" * 1_000_000 + str(i) for i in range(16)]},
        {"top_k": 2**31 - 1},
        {"mirostat": 1, "mirostat_tau": 1e6},
        {"dry_multiplier": 1.0, "dry_allowed_length": 2**31 - 1},
        {"dry_multiplier": 1.0, "dry_breakers": list("aeioust ")},
        {"choices": [f"a rather long label number {i}" for i in range(20_000)]},
    ]
    held = 0
    most = 0
    prompts = [f"{i} {REPEATED}" for i in range(40)]
    lh.generate_parallel(context, prompts, max_tokens=2)  # creates the context
    for settings in large:
        params = SamplingParams(temperature=0.8, **settings)  # type: ignore[arg-type]
        lh.generate_parallel(context, [REPEATED], params=params, max_tokens=2)
        restart_peak()
        before = peak_kib()
        out = lh.generate_parallel(context, prompts, params=params, max_tokens=2)
        grown = peak_kib() - before
        most = max(most, grown)
        held += grown < MOST_KIB and out.errors == [None] * 40
    note = f"{most / 1024:.0f} MiB more at most for 40 prompts than for one"
    tell(
        7, "large biases, stop texts, choices and other settings", len(large), held, note
    )


def choices(context: lh.Context) -> None:
    messages = [{"role": "user", "content": "Is water wet?"}]
    prompts = ["Is water wet? Answer:", "Answer: ", "\n", "1, 2,", 'He said "']
    prompts += [lh.apply_chat_template(context.model, messages)]
    tries = held = 0
    for texts in LISTS:
        for temperature in (0.0, 1.0, 3.0):
            out = lh.generate_parallel(
                context, prompts, choices=texts, temperature=temperature
            )
            tries += len(prompts)
            held += sum(r.text in texts and r.complete for r in out)
    tell(13, "answers are exactly one of their choices, in Python", tries, held)


def common(model: lh.Model) -> None:
    settings: list[dict[str, object]] = [{"grammar": text} for text in NOT_GRAMMARS]
    settings += [{"logit_bias": {model.n_vocab: 1.0}}]
    held = 0
    for form in settings:
        bad = SamplingParams(**form)  # type: ignore[arg-type]
        with lh.Context(model) as context:
            try:
                lh.generate_parallel(context, ["a", "b"], params=bad)
            except ValueError as error:
                is_label = "::=" not in str(form.get("grammar", "::="))
                hint = not is_label or "by choices" in str(error)
                held += hint and next(iter(form)) in str(error) and context.plan is None
            out = lh.generate_parallel(
                context, ["a", "b"], params=[bad, SamplingParams()], max_tokens=2
            )
            held += out.errors[0] is not None and out.errors[1] is None
    what = "invalid settings: an error at once, or an error for one prompt"
    tell(14, what, 2 * len(settings), held)


def in_r() -> None:
    rscript = shutil.which("Rscript")
    if rscript is None:
        raise SystemExit("Rscript is missing")
    program = Path(__file__).with_suffix(".R")
    environment = {**os.environ, "RETICULATE_PYTHON": sys.executable}
    library = Path(__file__).parents[2] / ".rlib"
    environment.setdefault("R_LIBS", str(library))
    subprocess.run([rscript, "--vanilla", program], env=environment, check=True)


def main() -> None:
    with lh.Model(os.environ["LLAMAHERD_TEST_SMOLLM2"]) as model:
        with lh.Context(model, n_seq_max=40, n_ctx=40 * 256) as context:
            ends(context)
            windows(context)
            choices(context)
        common(model)
    in_r()


if __name__ == "__main__":
    main()
