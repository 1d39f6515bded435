"""Replaces `llamaherd._r` in the tests of the R package, without a model and libllama.

The answer to a prompt is "<prompt>!", unless its first word is one of these:
    fail REASON   the prompt fails
    raw TEXT      the answer is TEXT, cut off
    json TEXT     the answer is TEXT
    slow          the prompt ends only when the job is cancelled; the file that the
                  environment variable FAKE_SLOW_FILE names, if set, is created when R
                  waits for the job
    full          as "slow", and R receives the problem "the disk is full" of a journal
    break         the job ends with an error, and keeps the answers before
    warn          the start and the result of the job have a warning
    draw A B ...  the first sample is A, the second sample is B
The answer to token ids is their sum. `seen()` returns the arguments of the calls of a
function, in Python's notation; `n_left()` returns the number of jobs that neither ended
nor were cancelled.
"""

import functools
import hashlib
import json
import math
import os
import struct
import sys
import time
from pathlib import Path

NAN = math.nan

_seen = {}


def _boundary(function):
    @functools.wraps(function)
    def call(*args):
        _seen[function.__name__] = repr(args)
        status = {"ok": True, "value": None, "warnings": []}
        try:
            if function.__name__.endswith("_result"):
                _check_broken(args[0])
            status["value"] = function(*args)
        except Exception as error:
            status["ok"] = False
            status["error_type"] = type(error).__name__
            status["message"] = str(error)
            status["traceback"] = "Traceback (most recent call last): ..."
        if isinstance(status["value"], dict) and "warning" in status["value"]:
            status["warnings"].append(status["value"].pop("warning"))
        if _warns(function.__name__, args, status["value"]):
            status["warnings"].append("it warns")
        return status

    return call


def _check_broken(job):
    if getattr(job, "is_broken", False):
        raise RuntimeError("the engine failed")


def _warns(name, args, value):
    job = args[0] if name.endswith("_result") else None
    if isinstance(value, dict):
        job = value.get("job", job)
    return "warn" in getattr(job, "prompts", [])


def seen(name):
    return _seen.get(name)


_jobs = []


def n_left():
    left = sum(not job.is_done for job in _jobs)
    _jobs.clear()
    return left


class ModelLoadError(Exception):
    pass


class JournalError(Exception):
    pass


class ContextClosedError(Exception):
    pass


class Thing:
    """A fake model or context."""

    def __init__(self):
        self.is_closed = False


def _sample(prompt, j):
    if isinstance(prompt, str) and prompt.startswith("draw "):
        word = prompt.split()[1 + j]
        return "fail none" if word == "fail" else f"raw {word}"
    return prompt


class Job:
    unit, line, messages = "prompts", "7 prompts/s", []
    is_broken = False

    def __init__(self, prompts, options):
        n = options.get("n", 1)
        self.prompts = [_sample(p, j) for p in prompts for j in range(n)]
        self.options = options
        self.n_done = 0
        self.n_actors = 0
        self.is_cancelled = False
        _jobs.append(self)

    def step(self):
        if self.n_done == len(self.prompts):
            return
        if self.prompts[self.n_done] == "break":
            self.is_broken = self.is_cancelled = True
        elif self.prompts[self.n_done] not in ("slow", "full"):
            self.n_done += 1
        elif "FAKE_SLOW_FILE" in os.environ:
            Path(os.environ["FAKE_SLOW_FILE"]).touch()

    def cancel(self):
        self.is_cancelled = True

    @property
    def n_total(self):
        return len(self.prompts)

    @property
    def problem(self):
        return "the disk is full" if "full" in self.prompts[self.n_done :][:1] else ""

    @property
    def is_done(self):
        return self.is_cancelled or self.n_done == len(self.prompts)


class OptimizeJob:
    unit, line, messages, n_total = "steps", "writing {Q8_0}", [], 3

    def __init__(self, path, out, options):
        self.path = path
        self.options = options
        self.n_done = 0
        self.is_cancelled = False

    def step(self):
        if self.options.get("text") != "slow":
            self.n_done = min(3, self.n_done + 1)

    def cancel(self):
        self.is_cancelled = True

    @property
    def is_done(self):
        return self.is_cancelled or self.n_done == 3


class QuantizeError(Exception):
    pass


@_boundary
def backend_init():
    pass


@_boundary
def backend_free():
    pass


@_boundary
def model_load(path, options):
    with open(path, "rb") as file:
        if file.read(4) != b"GGUF":
            raise ModelLoadError(f"path is not a GGUF file: {path!r} {{braces}}")
        if options["check_memory"] and len(file.read()) > 1e6:
            raise ModelLoadError(f"path: {path!r} does not fit into memory")
    value = {
        "python": Thing(),
        "description": "fake 1B Q4_0",
        "size_bytes": 5e9,
        "n_ctx_train": 8192,
        "n_vocab": 100,
    }
    if options["n_gpu_layers"] > 0:
        value["warning"] = "there is no GPU {in this fake}"
    return value


@_boundary
def model_metadata(model):
    return {"keys": ["general.architecture", "größe"], "values": ["fake", "ä"]}


@_boundary
def context_create(model, options):
    if options["n_ctx"] == 13:
        raise ValueError("n_ctx must not be 13")
    if options["n_ctx"] == 14:
        raise RuntimeError("no {luck} today")
    return {"python": Thing()}


class ClusterError(Exception):
    pass


class Cluster(Thing):
    """Fake cluster with the actors 0 to n - 1, which are never ready for "slow:1"."""

    def __init__(self, address, n_actors):
        super().__init__()
        self.address = address
        self.n_actors = n_actors


class ClusterJob:
    unit, line, messages, n_total = "clusters", "", [], 0

    def __init__(self, cluster):
        self.cluster = cluster
        self.n_done = 0

    def step(self):
        self.n_done = int(self.cluster.address != "slow:1")

    def cancel(self):
        self.cluster.is_closed = True

    @property
    def is_done(self):
        return self.n_done == 1


@_boundary
def cluster_start(model, cluster, options):
    return {"job": ClusterJob(Cluster(cluster, options.get("n_actors", 1)))}


@_boundary
def cluster_result(job):
    if job.cluster.address == "nowhere:1":
        raise ClusterError("cluster: there is no Ray at 'nowhere:1': {refused}")
    return {"python": job.cluster}


@_boundary
def clusters_end():
    return None


@_boundary
def cluster_actors(context):
    if not isinstance(context, Cluster):
        return None
    n = context.n_actors
    return {
        "actor": list(range(n)),
        "node": ["größe"] * n,
        "n_threads": [1 + i for i in range(n)],
        "memory_bytes": [5e8] * n,
    }


@_boundary
def context_plan(context):
    return None


@_boundary
def is_closed(thing):
    return thing.is_closed


@_boundary
def close(thing):
    thing.is_closed = True


@_boundary
def tokenize(model, texts, add_special, parse_special):
    return [[1] * add_special + [ord(c) for c in text] for text in texts]


@_boundary
def detokenize(model, tokens, remove_special, unparse_special):
    return ["".join(chr(token) for token in ids) for ids in tokens]


@_boundary
def apply_chat_template(model, conversations, template, add_assistant, variables):
    texts = ["".join(f"<{m['role']}>{m['content']}" for m in c) for c in conversations]
    return [text + "<assistant>" * add_assistant for text in texts]


@_boundary
def schema_columns(schemas):
    """Read simple schemas; tests of other schemas use the real package."""
    first, *others = [_column(json.loads(schema)) for schema in schemas]
    for other in others:
        pairs = zip(other.get("names", []), other.get("fields", []), strict=True)
        for name, field in pairs:
            if name not in first["names"]:
                first["names"].append(name)
                first["fields"].append(field)
            elif field["kind"] == "enum":
                own = first["fields"][first["names"].index(name)]
                own["levels"] = [*own["levels"], *field["levels"]]
    return first


def _column(schema):
    if "enum" in schema:
        return {"kind": "enum", "levels": schema["enum"]}
    kind = schema.get("type", "any")
    if kind == "object":
        fields = schema["properties"]
        each = [_column(field) for field in fields.values()]
        return {"kind": kind, "names": list(fields), "fields": each}
    if kind == "array":
        return {"kind": kind, "items": _column(schema["items"])}
    return {"kind": kind}


@_boundary
def schema_prompt(schemas):
    for schema in schemas:
        if "no_such_type" in schema:
            raise ValueError("schema: 'no_such_type' is {no} type")
    return [f"Answer with {schema}." for schema in schemas]


@_boundary
def sha256(texts):
    return [t and hashlib.sha256(t.encode()).hexdigest() for t in texts]


@_boundary
def optimize_start(path, out, options):
    if out == "full":
        raise QuantizeError("out: 'full' has {0} MB free")
    return {"job": OptimizeJob(path, out, options)}


@_boundary
def optimize_result(job):
    if job.is_cancelled:
        return None
    kept = job.options["max_kl"] >= 0.002
    return {
        "path": "new.Q8_0.llamaherd.gguf" if kept else job.path,
        "chosen": "Q8_0" if kept else None,
        "verdict": "Kept {this} one." if kept else "Kept the original.",
        "files": {
            "type": ["Q4_1", "Q8_0"],
            "size_bytes": [98e6, 3.2e9],
            "prefill_tokens_per_s": [500.0, 1100.0],
            "decode_tokens_per_s": [330.0, 350.4],
            "speedup": [1.0, 1.53],
            "perplexity": [14.0, 14.013],
            "mean_kl": [0.0, 0.0021],
            "p99_kl": [0.0, 0.0151],
            "same_top": [1.0, 0.976],
            "same_answers": [1.0, 0.8],
        },
    }


class DownloadError(Exception):
    pass


class FetchJob:
    """Fake download: "hf:there/PATH" is the file /PATH; "hf:slow/x" never ends."""

    unit, line, n_total = "B", "9 MB/s", 4e9

    def __init__(self, source, options):
        self.source = source
        self.options = options
        self.n_looks = 0
        self.is_cancelled = False

    def step(self):
        self.n_looks += 1

    def cancel(self):
        self.is_cancelled = True

    @property
    def n_done(self):
        return 1e9 * min(self.n_looks, 4)

    @property
    def messages(self):
        return ["taking {Q4_K_M}"]

    @property
    def is_done(self):
        is_slow = self.source.startswith("hf:slow")
        return self.is_cancelled or (self.n_looks > 3 and not is_slow)


@_boundary
def fetch_start(source, options):
    return {"job": FetchJob(source, options)}


@_boundary
def fetch_result(job):
    if job.is_cancelled:
        return None
    if not job.source.startswith("hf:there"):
        raise DownloadError(f"{job.source} {{is}} not there")
    return job.source.removeprefix("hf:there")


@_boundary
def cache_dir():
    return "/cache"


def _table(n, cls=None, **columns):
    made = []
    for name, (kind, *values) in columns.items():
        made.append({"type": kind, "name": name, "values": values[:n]})
    attributes = {"class": f"llamaherd_{cls}", "attributes": []} if cls else {}
    return {"type": "table", "columns": made, "n": n, **attributes}


@_boundary
def cached_models(folder):
    return _table(
        0 if folder == "/empty" else 2,
        name=("text", "base.gguf", "small-Instruct.gguf"),
        path=("text", "/cache/base.gguf", "/cache/small-Instruct.gguf"),
        size_bytes=("number", 5e9, 1e9),
        modified=("time", 1.7e9, 1.6e9),
        source=("text", "hf:a/b", ""),
    )


@_boundary
def ollama_models():
    return _table(
        2,
        name=("text", "llama3.2:1b", "tiny:latest"),
        path=("text", "/o/a", "/o/b"),
        size_bytes=("number", 1.3e9, 1e6),
        sha256=("text", "a" * 64, "b" * 64),
        modified=("time", 1.7e9, 1.7e9),
    )


@_boundary
def supports_gpu():
    return False


@_boundary
def lib_path():
    return "/lib/libllama.so"


@_boundary
def hardware_profile():
    return {
        "os": "Linux",
        "release": "6",
        "cpu": "fake",
        "cpu_cores": 2.0,
        "memory_bytes": 16e9,
        "available_bytes": 8e9,
        "uses_gpu": False,
        "bandwidth_bytes_per_s": 1e10,
        "flops": 1e11,
        "cpu_features": ["avx2"],
        "gpus": [],
        "sizes": {
            "billions": [1.0, 8.0],
            "quantization": ["Q4_K_M", "Q8_0"],
            "size_bytes": [6e8, 8.5e9],
            "fits": [True, False],
            "decode_per_s": [16.0, 1.2],
            "prefill_per_s": [50.0, 6.0],
        },
        "text": "a machine\nwith {two} lines",
    }


@_boundary
def optimized_look(path, folder):
    known = path if folder == "/known" else None
    return {"path": known, "work": None if known else "/cache/optimized/.new-1"}


@_boundary
def optimized_keep(path, work, best, verdict, folder):
    return path


@_boundary
def optimized_drop(work):
    pass


@_boundary
def file_sha256(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


@_boundary
def generate_start(context, prompts, options):
    if context.is_closed:
        raise ContextClosedError("the context is closed")
    if options.get("journal") == "bad.sqlite":
        raise JournalError("journal: 'bad.sqlite' is {damaged}")
    job = Job(prompts, options)
    job.n_actors = context.n_actors if isinstance(context, Cluster) else 0
    return {"job": job}


@_boundary
def job_wait(job, timeout_s):
    time.sleep(0.01)
    job.step()
    return {
        "done": job.is_done,
        "problem": getattr(job, "problem", ""),
        "n_done": float(job.n_done),
        "n_total": float(job.n_total),
        "unit": job.unit,
        "line": job.line,
        "messages": job.messages,
    }


@_boundary
def job_cancel(job):
    job.cancel()


@_boundary
def job_keep(job):
    job.is_broken = False


def _answer(prompt):
    """Return text, error and finish reason."""
    if prompt is None:
        return None, "no tokens", "error"
    if isinstance(prompt, list) and isinstance(prompt[0], dict):
        return f"chat {prompt[-1]['content']}", None, "stop"
    if isinstance(prompt, list):
        return str(sum(prompt)), None, "stop"
    if prompt.startswith("fail"):
        return None, prompt[5:], "error"
    word, _, text = prompt.partition(" ")
    ends = {"json": "stop", "raw": "length"}
    return (text, None, ends[word]) if word in ends else (prompt + "!", None, "stop")


@_boundary
def job_result(job):
    n = len(job.prompts)
    answers = [_answer(prompt) for prompt in job.prompts[: job.n_done]]
    answers += [(None, None, "cancelled")] * (n - job.n_done)
    reasons = [answer[2] for answer in answers]
    started = next((i for i, r in enumerate(reasons) if r == "cancelled"), None)
    texts = [answer[0] for answer in answers]
    return {
        "texts": texts,
        "errors": [answer[1] for answer in answers],
        "partials": ["half an" if i == started else None for i in range(n)],
        "finish_reasons": reasons,
        "complete": [reason == "stop" for reason in reasons],
        "n_prompt_tokens": list(range(1, n + 1)),
        "n_reused_tokens": [0] * n,
        "n_generated_tokens": [len(text or "") for text in texts],
        "seeds": [4e9 + i for i in range(n)],
        "thoughts": None,
        "timing": {
            "queue_s": [0.0] * n,
            "first_token_s": [0.5] * n,
            "wall_s": [1.0] * n,
        },
        "logprobs": _logprobs(job.options.get("logprobs"), texts),
        "stats": {
            "n_prompts": float(n),
            "seed": 4e9,
            "actors": {
                "actor": [float(i) for i in range(job.n_actors)],
                "node": ["größe"] * job.n_actors,
                "n_done": [float(n)] * job.n_actors,
            },
            "line": f"{n} prompts in no time",
        },
    }


def _logprobs(k, texts):
    """Return alternatives: tokens are characters, the next letters are most likely."""
    if k is None:
        return [None] * len(texts)
    ids = [text and [ord(c) for c in text] for text in texts]
    return [
        tokens
        and {
            "tokens": tokens,
            "logprobs": [-0.5] * (len(tokens) - 1) + [float("nan")],
            "n_top": [k] * (len(tokens) - 1) + [0],
            "top_tokens": [t + i for t in tokens[:-1] for i in range(k)],
            "top_logprobs": [-0.5 - i for _ in tokens[:-1] for i in range(k)],
        }
        for tokens in ids
    ]


@_boundary
def embed_start(model, texts, options):
    if model.is_closed:
        raise ModelLoadError("the model is closed")
    return {"job": Job(texts, {})}


@_boundary
def embed_result(job):
    """Return the vector of a text: its length, and 0.5."""
    vectors, errors = [], []
    for i, text in enumerate(job.prompts):
        failed = text is None or i >= job.n_done or str(text).startswith("fail")
        errors.append("it {failed}" if failed else None)
        vectors += [float("nan")] * 2 if failed else [float(len(text)), 0.5]
    return {
        "vectors": bytearray(struct.pack(f"<{len(vectors)}f", *vectors)),
        "n_embd": 2,
        "errors": errors,
        "stats": {"n_texts": len(errors), "line": f"{len(errors)} texts in no time"},
    }


@_boundary
def classify_start(context, prompts, options):
    if context.is_closed:
        raise ContextClosedError("the context is closed")
    return {"job": Job(prompts, options)}


def _outcome(job):
    n = len(job.prompts)
    answers = [_answer(prompt) for prompt in job.prompts[: job.n_done]]
    answers += [(None, None, "cancelled")] * (n - job.n_done)
    return {
        "errors": [answer[1] for answer in answers],
        "finish_reasons": ["stop" if a[0] else a[2] for a in answers],
        "stats": {"n_prompts": float(n), "seed": 0.0, "line": f"{n} prompts in no time"},
    }


@_boundary
def classify_result(job):
    """Return probabilities: each label is twice as likely as the next label."""
    outcome = _outcome(job)
    names = list(dict.fromkeys(job.options["names"]))
    k = len(names)
    weights = [2.0**-j for j in range(k)]
    probs = [weight / sum(weights) for weight in weights]
    rows = [probs if r == "stop" else [NAN] * k for r in outcome["finish_reasons"]]
    good = [reason == "stop" for reason in outcome["finish_reasons"]]
    return {
        "names": names,
        "labels": [names[0] if each else None for each in good],
        "probs": rows,
        "logprobs": [[math.log(p / 2) for p in row] for row in rows],
        "prob": [row[0] for row in rows],
        "margin": [row[0] - row[1] if k > 1 else row[0] for row in rows],
        "entropy": [-sum(p * math.log(p) for p in row) for row in rows],
        "coverage": [0.5 if each else NAN for each in good],
        **_thoughts(job.options, good, k),
        "notes": ["median {coverage} is 0.001"] if "rare" in names else [],
        **outcome,
    }


def _thoughts(options, good, k=0):
    """Return one thought per prompt; the standard deviations are 0, 0.1 and so on."""
    if not options.get("thinking"):
        return {"thoughts": None, "between": None}
    n = options.get("n_thoughts", 1)
    return {
        "thoughts": {
            "thinking": ["Hm." if each else None for each in good],
            "n_thinking_tokens": [3 * n if each else None for each in good],
            "thinking_complete": [True if each else None for each in good],
        },
        "between": None
        if n == 1
        else [[0.1 * j if each else NAN for j in range(k)] for each in good],
    }


@_boundary
def contextual_check(thinking):
    if thinking:
        raise ValueError("method: 'contextual' cannot be combined with thinking")


@_boundary
def score_start(context, prompts, options):
    return {"job": Job(prompts, options)}


@_boundary
def score_result(job):
    """Return scores: a token is a character and has probability 0.5."""
    outcome = _outcome(job)
    rows = [
        [-math.log(2)] * len(text) if reason == "stop" else None
        for texts, reason in zip(
            job.options["continuations"], outcome["finish_reasons"], strict=True
        )
        for text in texts
    ]
    return {
        "logprobs": [NAN if row is None else sum(row) for row in rows],
        "token_logprobs": rows,
        **outcome,
    }


@_boundary
def perplexity_start(context, texts, options):
    return {"job": Job(texts, options)}


@_boundary
def perplexity_result(job):
    outcome = _outcome(job)
    good = [reason == "stop" for reason in outcome["finish_reasons"]]
    return {
        "perplexities": [2.0 if each else NAN for each in good],
        "n_tokens": [
            float(len(text)) if each else NAN
            for text, each in zip(job.prompts, good, strict=True)
        ],
        **outcome,
    }


@_boundary
def calibration_fit(probs, names, method):
    n = len(probs)
    prior = [sum(column) / n for column in zip(*probs, strict=True)]
    return json.dumps({"names": names, "prior": prior, "method": method, "n": n})


@_boundary
def calibration_apply(calibration, probs, names):
    stored = json.loads(calibration)
    if stored["names"] and stored["names"] != list(names):
        raise ValueError(f"the calibration is for the labels {stored['names']}")
    rows = []
    for row in probs:
        shares = [p / q for p, q in zip(row, stored["prior"], strict=True)]
        rows.append([share / sum(shares) for share in shares])
    return {
        "labels": [names[row.index(max(row))] for row in rows],
        "probs": rows,
        "prob": [max(row) for row in rows],
        "margin": [max(row) - sorted(row)[-2] for row in rows],
        "entropy": [-sum(p * math.log(p) for p in row) for row in rows],
    }


class _Unreadable:
    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


@_boundary
def unreadable(text):
    return _Unreadable(text)


@_boundary
def chat_date_enter(date):
    return None


@_boundary
def chat_date_leave(before):
    pass


@_boundary
def journal_read(path):
    if path == "bad.sqlite":
        raise JournalError("path: 'bad.sqlite' is {damaged}")
    return _table(
        0 if path == "empty.sqlite" else 2,
        "journal",
        prompt=("text", "a", "größe"),
        text=("text", "a!", None),
        finish_reason=("text", "stop", "error"),
        complete=("flag", True, False),
        error=("text", None, "too long"),
        n_prompt_tokens=("integer", 1.0, 2.0),
        n_generated_tokens=("integer", 3.0, 0.0),
        seed=("number", 4e9, 5.0),
        thinking=("text", None, None),
        n_thinking_tokens=("integer", 0.0, 0.0),
        thinking_complete=("flag", None, None),
        model=("text", "fake.gguf", "fake.gguf"),
        model_sha256=("text", "ab" * 32, "ab" * 32),
        settings=("text", '{"max_tokens": 3}', '{"max_tokens": 3}'),
        created=("time", 1.5e9, 1.5e9),
        version=("text", "0.1.0", "0.1.0"),
    )


# ---- functions of the other files ----

sys.path.insert(0, str(Path(__file__).parent))
import fake_chats  # noqa: E402
import fake_coding  # noqa: E402
import fake_composites  # noqa: E402
import fake_estimation  # noqa: E402
import fake_telling  # noqa: E402

fake_chats.Job = fake_coding.Job = Job
_parts = (fake_chats, fake_coding, fake_composites, fake_estimation, fake_telling)
for _module in _parts:
    for _name in _module.__all__:
        globals()[_name] = _boundary(getattr(_module, _name))
call_result = fake_composites.call_result
fake_composites.functions = globals()
