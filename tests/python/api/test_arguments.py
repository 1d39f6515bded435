"""Invalid arguments raise an error that names the value before any prompt runs."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING

import llamaherd as lh
import numpy as np
import pytest
from llamaherd.engine.core import checks
from llamaherd.engine.memory import hardware

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def context(smollm2: lh.Model) -> Iterator[lh.Context]:
    with lh.Context(smollm2) as context:
        yield context


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_ctx": 0}, ValueError, "n_ctx must be between 1 and 2147483392, not 0"),
        ({"n_ctx": -5}, ValueError, "n_ctx must be between 1 and 2147483392, not -5"),
        ({"n_ctx": 2**31 - 1}, ValueError, "n_ctx must be between 1 and 2147483392"),
        ({"n_ctx": "big"}, ValueError, "n_ctx must be an integer or 'auto', not 'big'"),
        ({"n_ctx": np.array([1, 2])}, TypeError, "n_ctx must be an integer"),
        ({"n_seq_max": np.array([1, 2])}, TypeError, "n_seq_max must be an integer"),
        ({"n_ctx": 1.5}, TypeError, "n_ctx must be an integer, not 1.5"),
        ({"n_ctx": None}, TypeError, "n_ctx must be an integer, not None"),
        ({"n_ctx": True}, TypeError, "n_ctx must be an integer, not True"),
        ({"n_seq_max": 0}, ValueError, "n_seq_max must be between 1 and 248, not 0"),
        ({"n_seq_max": 249}, ValueError, "n_seq_max must be between 1 and 248, not 249"),
        ({"n_threads": 0}, ValueError, "n_threads must be between 1 and 1024, not 0"),
        ({"n_threads": "2"}, TypeError, "n_threads must be an integer"),
        ({"n_threads_batch": -1}, ValueError, "n_threads_batch must be between"),
        ({"n_batch": 8}, ValueError, "n_batch must be between 9 and 65536, not 8"),
        ({"n_batch": 20, "n_seq_max": 16}, ValueError, "n_batch must be between 24"),
        ({"n_ubatch": 513}, ValueError, "n_ubatch must be between 1 and 512, not 513"),
        ({"n_ubatch": 0}, ValueError, "n_ubatch must be between 1 and 512, not 0"),
        ({"kv_layout": "split"}, ValueError, "kv_layout must be one of 'auto', 'unif"),
        ({"flash_attn": "on"}, ValueError, "flash_attn must be one of 'auto', False, T"),
        ({"flash_attn": 1}, ValueError, "flash_attn must be one of"),
        ({"type_k": "f8"}, ValueError, "type_k must be one of 'f32', 'f16'"),
        ({"type_v": 1}, ValueError, "type_v must be one of"),
        ({"offload_kqv": 1}, TypeError, "offload_kqv must be true or false"),
        ({"swa_full": "x"}, TypeError, "swa_full must be true or false"),
        ({"keep_prefixes": 0}, TypeError, "keep_prefixes must be true or false"),
        ({"rope_scaling_type": 2}, ValueError, "rope_scaling_type must be one of 'none'"),
        ({"rope_freq_base": 0}, ValueError, "rope_freq_base must be above 0"),
        ({"rope_freq_base": "x"}, TypeError, "rope_freq_base must be a number, not 'x'"),
        ({"rope_freq_scale": math.nan}, ValueError, "rope_freq_scale must be above 0"),
        ({"yarn_ext_factor": -1}, ValueError, "yarn_ext_factor must be between 0 and"),
        ({"yarn_attn_factor": True}, TypeError, "yarn_attn_factor must be a number"),
        ({"yarn_beta_fast": math.inf}, ValueError, "yarn_beta_fast must be between"),
        ({"yarn_beta_slow": 1e31}, ValueError, "yarn_beta_slow must be between"),
        ({"yarn_orig_ctx": 0}, ValueError, "yarn_orig_ctx must be at least 1, not 0"),
        ({"model": "model.gguf"}, TypeError, "model must be a llamaherd.Model"),
    ],
)
def test_bad_sizes_are_named(
    smollm2: lh.Model, arguments: dict[str, object], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        lh.Context(**({"model": smollm2} | arguments))


def test_more_memory_than_there_is_is_refused(smollm2: lh.Model) -> None:
    for layout in ("unified", "per_sequence", "auto"):
        with pytest.raises(
            lh.ContextError, match=r"GB, and this machine has .*: lower n_ctx to at most"
        ):
            lh.Context(smollm2, n_ctx=10**9, kv_layout=layout)


def test_more_memory_than_is_left_is_refused(
    smollm2: lh.Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lh.Context(smollm2, n_ctx=2**12, kv_layout="unified") as context:
        monkeypatch.setattr(hardware, "available_memory", lambda: 1_000_000)
        with pytest.raises(lh.ContextError, match=r"GB, .* are available: lower n_ctx"):
            lh.generate(context, "Hello")


def test_what_libllama_refuses_is_an_error(smollm2: lh.Model) -> None:
    with (
        lh.Context(smollm2, type_v="q8_0", flash_attn=False) as context,
        pytest.raises(lh.ContextError, match="no llama_context could be made"),
    ):
        lh.generate(context, "Hello")


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"prompts": "Hello"}, TypeError, "prompts must be a list of prompts, not str"),
        ({"prompts": b"Hello"}, TypeError, "prompts must be a list of prompts"),
        ({"prompts": 5}, TypeError, "prompts must be a list of prompts, not int"),
        ({"prompts": {"a": 1}}, TypeError, "prompts must be a list of prompts, not dic"),
        ({"prompts": ["a", 1.5]}, TypeError, r"prompts\[1\] must be text or a sequence"),
        ({"prompts": [5]}, TypeError, r"prompts\[0\] must be text or a sequence.*5"),
        ({"prompts": [b"a"]}, TypeError, r"prompts\[0\] must be text.*bytes"),
        ({"prompts": [["a"]]}, TypeError, r"prompts\[0\]\[0\] must be an integer"),
        ({"prompts": np.array([["a"]])}, TypeError, r"prompts\[0\]\[0\] must be an int"),
        ({"prompts": [[1.5]]}, TypeError, r"prompts\[0\]\[0\] must be an integer, not 1"),
        ({"prompts": [[1, True]]}, TypeError, r"prompts\[0\]\[1\] must be an integer"),
        ({"max_tokens": 0}, ValueError, "max_tokens must be at least 1, not 0"),
        ({"temperature": math.nan}, ValueError, "temperature must be between"),
        ({"temperature": 10**400}, ValueError, r"temperature must be .*, not 1e\+400"),
        ({"temperature": -3 * 10**5000}, ValueError, r"temperature .*, not -3e\+5000"),
        (
            {"logit_bias": {True: 1}},
            TypeError,
            r"\['True'\] needs a token id.*, not True",
        ),
        ({"schema": " "}, ValueError, "schema must not be empty"),
        ({"journal": ""}, ValueError, "journal must be a path, not an empty text"),
        ({"grammar": " "}, ValueError, "grammar must not be empty"),
        ({"regex": ""}, ValueError, "regex must not be empty"),
        ({"chat": True, "template": ""}, ValueError, "template must not be empty"),
        (
            {"regex": "x\n/é(y"},
            ValueError,
            r"regex 'x\\n/é\(y' cannot be parsed: unclosed group, at character 5$",
        ),
        (
            {"regex": "(?P<a>b)(?P<a>c)"},
            ValueError,
            r"cannot be parsed: duplicate capture group name, at character 5$",
        ),
        ({"regex": "(" * 200}, ValueError, r"regex '\({57}\.\.\.' cannot be parsed$"),
        (
            {"regex": r"a\b"},
            ValueError,
            r"regex 'a\\\\b' cannot be used: lookarounds not supported yet[^\n]*$",
        ),
        ({"top_k": None}, TypeError, "top_k must be an integer"),
        ({"max_tokens": 10**300}, ValueError, "not 1e\\+300"),
        ({"penalty_repeat": 0}, ValueError, "penalty_repeat must be above 0"),
        ({"seed": 1.5}, TypeError, "seed must be an integer"),
        ({"stop": ""}, ValueError, r"stop\[0\] must not be empty"),
        ({"stop": 5}, TypeError, "stop must be a text or a list of texts"),
        ({"ignore_eos": "no"}, TypeError, "ignore_eos must be true or false"),
        ({"params": "hot"}, TypeError, r"params\[0\] must be SamplingParams, not 'h'"),
        ({"params": 5}, TypeError, "params must be SamplingParams, or one for each"),
        ({"params": [None]}, TypeError, r"params\[0\] must be SamplingParams, not None"),
        (
            {"params": [lh.SamplingParams()] * 2},
            ValueError,
            r"params must have one element per prompt \(1\), not 2",
        ),
        (
            {"params": lh.SamplingParams(), "top_k": 3},
            ValueError,
            "top_k is given in addition to params",
        ),
        ({"chat": 1}, TypeError, "chat must be true or false, not 1"),
        ({"system": "Be brief."}, ValueError, "system needs chat=True.*'Be brief.'"),
        ({"thinking": 5}, ValueError, "thinking needs chat=True"),
        ({"thinking": "on"}, TypeError, "thinking must be None, True, False"),
        ({"prefix": "A"}, ValueError, "prefix needs chat=True.*'A'"),
        ({"template": "{{ a }}"}, ValueError, "template needs chat=True"),
        ({"merge_system": True}, ValueError, "merge_system needs chat=True"),
        ({"variables": {"a": 1}}, ValueError, "variables needs chat=True"),
        ({"chat": True, "variables": [1]}, TypeError, "variables must be a mapping"),
        ({"chat": True, "variables": {1: 1}}, TypeError, "variables must have texts as"),
        ({"chat": True, "template": 1}, TypeError, "template must be a text, not 1"),
        ({"chat": True, "prefix": 1}, TypeError, "prefix must be a text, not 1"),
        (
            {"chat": True, "merge_system": 1},
            TypeError,
            "merge_system must be true or false",
        ),
        ({"chat": True, "system": 5}, TypeError, "system must be a text, not 5"),
        ({"chat": True, "prompts": "a"}, TypeError, "prompts must be a list of prompts"),
        (
            {"chat": True, "prompts": [5]},
            TypeError,
            r"prompts\[0\] must be a list of mes",
        ),
        ({"chat": True, "prompts": [[5]]}, TypeError, r"prompts\[0\]\[0\] must be a map"),
        ({"parse_special": "yes"}, ValueError, "parse_special must be one of 'auto'"),
        ({"parse_special": 1}, ValueError, "parse_special must be one of"),
        ({"on_error": "ignore"}, ValueError, "on_error must be one of 'continue'"),
        ({"progress": "yes"}, TypeError, "progress must be true or false, or a function"),
        ({"context": "none"}, TypeError, "context must be a llamaherd.Context.*not str"),
        ({"context": None}, TypeError, "context must be a llamaherd.Context"),
    ],
)
def test_bad_arguments_of_a_call_are_named(
    context: lh.Context,
    arguments: dict[str, object],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        lh.generate_parallel(**({"context": context, "prompts": ["a"]} | arguments))
    assert context.plan is None


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"prompt": None}, TypeError, r"prompt must be text .*, not None"),
        ({"stream": 1}, ValueError, "stream must be one of False, True, 'all'"),
        ({"stream": True, "logprobs": 2}, ValueError, "stream=True returns only text"),
        ({"stream": True, "retries": -1}, ValueError, "retries must be"),
        ({"max_tokens": 0}, ValueError, "max_tokens must be at least 1"),
        ({"params": [lh.SamplingParams()] * 2}, ValueError, "one element per prompt"),
    ],
)
def test_bad_arguments_of_a_single_prompt_are_named(
    context: lh.Context,
    arguments: dict[str, object],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        lh.generate(**({"context": context, "prompt": "a"} | arguments))


def test_numpy_arrays_are_token_ids(smollm2: lh.Model) -> None:
    ids = lh.tokenize(smollm2, "The sea is")
    with lh.Context(smollm2) as context:
        out = lh.generate_parallel(
            context,
            [ids, tuple(ids), np.array(ids), "The sea is"],
            max_tokens=np.int64(2),
            temperature=np.float32(0),
        )
        assert len(set(out.texts)) == 1
        with pytest.raises(TypeError, match=r"prompts\[0\]\[0\] must be an integer"):
            lh.generate_parallel(context, [np.array([1.5])])


def test_names_of_other_libraries_lead_to_ours(smollm2: lh.Model) -> None:
    """An option that another library names differently is suggested by our name."""
    calls: list[Callable[..., object]] = [lh.generate_parallel, lh.Context, lh.Model]
    ours = {name for call in calls for name in inspect.signature(call).parameters}
    assert set(checks.OTHER_NAMES.values()) <= ours
    assert not ours & checks.OTHER_NAMES.keys()
    with pytest.raises(TypeError, match="did you mean 'penalty_repeat'"):
        lh.SamplingParams(repeat_penalty=1.1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"max_model_len .* did you mean 'n_ctx'"):
        lh.Context(smollm2, max_model_len=99)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="bogus is not an argument of Model; it has path"):
        lh.Model("a", bogus=1)  # type: ignore[call-arg]
