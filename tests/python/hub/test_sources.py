"""Names of models, selection of files, models on this machine and that fit it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

import llamaherd as lh
import pytest
from llamaherd import _r
from llamaherd.engine.hub import profile
from llamaherd.engine.hub import quantizations as q
from llamaherd.engine.hub.profile import Gpu
from llamaherd.engine.hub.sources import HubModel, LocalFile, OllamaName, WebFile, parse
from llamaherd.engine.memory import hardware
from plain_forms import plain

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("hf:a/b", HubModel("a/b", "main", None)),
        ("hf://a/b", HubModel("a/b", "main", None)),
        ("HF:a/b:Q4_K_M", HubModel("a/b", "main", "Q4_K_M")),
        ("hf:a/b.c-GGUF/d/e.gguf", HubModel("a/b.c-GGUF", "main", "d/e.gguf")),
        ("hf:a/b@v1.0:Q8_0", HubModel("a/b", "v1.0", "Q8_0")),
        ("hf:a/b@abc/x.gguf", HubModel("a/b", "abc", "x.gguf")),
        ("ollama:llama3.2:1b", OllamaName("llama3.2:1b")),
        ("ollama", OllamaName("")),
        ("https://x.org/y.gguf?z=1", WebFile("https://x.org/y.gguf?z=1")),
        ("file:///x/y.gguf", LocalFile(Path("/x/y.gguf"))),
        ("x/y.gguf", LocalFile(Path("x/y.gguf"))),
        ("C:\\models\\x.gguf", LocalFile(Path("C:\\models\\x.gguf"))),
        (Path("hf:a"), LocalFile(Path("hf:a"))),
    ],
)
def test_sources_are_told_apart(source: object, expected: object) -> None:
    assert parse(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        *("hf:", "hf:a", "hf:a/b/../c.gguf", "hf:../b", "hf:a/b/c.txt", "hf:a b/c"),
        *("hf:a/b:", "s3://x/y.gguf", "", "a\0b"),
    ],
)
def test_what_is_no_source_is_refused(source: str) -> None:
    with pytest.raises(ValueError, match=r"^source"):
        parse(source)
    with pytest.raises(TypeError, match="source must be a path, not 3"):
        parse(3)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Llama-3.2-3B-Instruct-Q4_K_M.gguf", "Q4_K_M"),
        ("gemma-3-270m-q4_k_m.gguf", "Q4_K_M"),
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "Q4_1"),
        ("q8/Qwen2.5-7B.IQ2_XXS.gguf", "IQ2_XXS"),
        ("Qwen3-8B-UD-Q4_K_XL-00001-of-00002.gguf", "Q4_K_XL"),
        ("model-bf16.gguf", "BF16"),
        ("Q-star.gguf", None),
    ],
)
def test_types_are_read_from_names(name: str, expected: str | None) -> None:
    assert q.quantization_of(name) == expected


def remote(**sizes: int) -> list[q.Offer]:
    return q.offers(
        q.RemoteFile(name=f"m-{name}.gguf", size_bytes=size, sha256=None)
        for name, size in sizes.items()
    )


GB = 1_000_000_000


@pytest.mark.parametrize(
    ("sizes", "available", "expected"),
    [
        ({"Q4_K_M": 5 * GB, "Q8_0": 8 * GB, "F16": 16 * GB}, 64 * GB, "Q4_K_M"),
        ({"Q4_K_M": GB // 2, "Q8_0": GB, "F16": 2 * GB}, 64 * GB, "Q8_0"),
        ({"Q4_K_M": GB // 2, "Q8_0": GB, "F16": 2 * GB}, 0.8 * GB, "Q4_K_M"),
        ({"Q4_K_M": 5 * GB, "Q3_K_M": 4 * GB, "Q2_K": 3 * GB}, 4.5 * GB, "Q3_K_M"),
        ({"Q4_K_M": 5 * GB, "Q2_K": 3 * GB}, None, "Q4_K_M"),
        ({"Q5_K_M": 5 * GB, "Q6_K": 6 * GB}, 64 * GB, "Q5_K_M"),
        ({"F16": 6 * GB, "WHATEVER": 3 * GB}, 64 * GB, "F16"),
    ],
)
def test_the_best_that_fits_is_taken(
    sizes: dict[str, int], available: float | None, expected: str
) -> None:
    chosen = q.choose("hf:a/b", remote(**sizes), None, available)
    assert chosen.quantization == expected


def test_projectors_and_matrices_are_no_models() -> None:
    files = ["mmproj-F16.gguf", "imatrix.gguf", "x.imatrix.gguf", "x.txt", "x-F16.gguf"]
    offers = q.offers(q.RemoteFile(name=n, size_bytes=1, sha256=None) for n in files)
    assert [offer.name for offer in offers] == ["x-F16.gguf"]


def pull(store: Path, name: str, tag: str, content: bytes) -> Path:
    """Write the files that Ollama writes when it pulls a model."""
    digest = hashlib.sha256(content).hexdigest()
    manifest = store / "manifests" / "registry.ollama.ai" / name / tag
    manifest.parent.mkdir(parents=True, exist_ok=True)
    layers = [
        {"mediaType": "application/vnd.ollama.image.template", "digest": "sha256:0"},
        {
            "mediaType": "application/vnd.ollama.image.model",
            "digest": f"sha256:{digest}",
            "size": len(content),
        },
    ]
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": layers}))
    blob = store / "blobs" / f"sha256-{digest}"
    blob.parent.mkdir(exist_ok=True)
    blob.write_bytes(content)
    return blob


def test_ollama_s_store_is_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tiny_path: Callable[[str], Path],
) -> None:
    with pytest.raises(lh.ModelLoadError, match=r"no models of Ollama.*`ollama pull x`"):
        lh.download_model("ollama:x")
    assert lh.list_ollama_models() == []
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "ollama"))
    tiny = tiny_path("llama").read_bytes()
    blob = pull(tmp_path / "ollama", "library/llama3.2", "1b", tiny)
    latest = pull(tmp_path / "ollama", "library/qwen", "latest", b"GGUF2")
    pull(tmp_path / "ollama", "library/qwen", "7b", b"GGUF3")
    pull(tmp_path / "ollama", "somebody/tuned", "q4", b"GGUF4")
    pull(tmp_path / "ollama", "library/broken", "latest", b"nothing of the kind")
    (tmp_path / "ollama/manifests/registry.ollama.ai/library/junk").write_text("{")
    models = lh.list_ollama_models()
    names = ["llama3.2:1b", "qwen:7b", "qwen:latest", "somebody/tuned:q4"]
    assert [model.name for model in models] == names
    assert models[0].size_bytes == len(tiny)
    assert models[0].sha256 == hashlib.sha256(tiny).hexdigest()
    assert lh.download_model("ollama:qwen", progress=False) == latest
    assert lh.download_model("ollama:Llama3.2:1B", progress=False) == blob
    with lh.Model("ollama:llama3.2") as model:  # the only tag
        assert model.path == blob
    with pytest.raises(lh.ModelLoadError, match=r"no such model; it has llama3\.2:1b, q"):
        lh.download_model("ollama:phi", progress=False)


def test_the_cache_is_listed_and_found_by_name(cache: Path, tmp_path: Path) -> None:
    assert lh.model_cache_dir() == cache
    assert lh.list_cached_models() == []
    for name in ("alpha-Q4_0.gguf", "sub/beta-Q4_0.gguf", ".beta.part", "x.txt"):
        path = cache / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"GGUF")
    names = {model.name for model in lh.list_cached_models()}
    assert names == {"alpha-Q4_0.gguf", "beta-Q4_0.gguf"}
    for name in ("alpha-Q4_0.gguf", "alpha-q4_0", "ALPHA"):
        assert lh.download_model(name, progress=False) == cache / "alpha-Q4_0.gguf"
    message = r"'Q4_0' is in the names of several files in the cache: .*Give the whole"
    with pytest.raises(lh.ModelLoadError, match=message):
        lh.download_model("Q4_0")
    with pytest.raises(lh.ModelLoadError, match=r"source names no file: \"a\.b\*\""):
        lh.download_model("a.b*")  # no regular expression
    assert lh.list_cached_models(tmp_path / "nothing") == []
    with pytest.raises(TypeError, match="cache_dir must be a path, not 1"):
        lh.list_cached_models(1)


def test_a_path_that_is_wrong_says_what_there_is(tmp_path: Path) -> None:
    for path in ("no/such.gguf", tmp_path / "x.gguf"):
        with pytest.raises(
            lh.ModelLoadError, match=r"path names no file: .*hf:owner/repo"
        ):
            lh.Model(path)
    with pytest.raises(lh.ModelLoadError, match="path names a folder"):
        lh.Model(tmp_path)


def test_the_best_of_several_measurements_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow, fast = iter([3.0, 9.0, 2.0]), iter([5.0, 1.0, 4.0])
    monkeypatch.setattr(profile, "_bandwidth", lambda: next(slow))
    monkeypatch.setattr(profile, "_flops", lambda: next(fast))
    assert profile._measure_speed.__wrapped__() == (9.0, 5.0)


def test_the_profile_follows_from_what_is_measured() -> None:
    profile = lh.hardware_profile()
    assert profile.cpu_cores >= 1
    assert 0 < profile.available_bytes <= profile.memory_bytes
    assert profile.bandwidth_bytes_per_s > 1e8
    for row in profile.sizes:
        assert row.decode_per_s == profile.bandwidth_bytes_per_s / row.size_bytes
        assert row.prefill_per_s == profile.flops / (2e9 * row.billions)
    text = str(profile)
    assert "Speeds are rough estimates" in text
    assert "a quarter while other programs run" in text
    assert f"{profile.cpu_cores} cores" in text


def test_what_fits_follows_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "available_memory", lambda: 6 * GB)
    profile = lh.hardware_profile(measure=False)
    fits = {(row.billions, row.quantization): row.fits for row in profile.sizes}
    assert fits[8, "Q4_K_M"]
    assert not fits[8, "Q8_0"]
    assert fits[3, "Q8_0"]
    assert profile.flops is None
    assert "?" in str(profile)


@pytest.mark.model
def test_the_rule_of_thumb_holds_for_real_models(
    smollm2_path: Path, gemma3_path: Path
) -> None:
    for path in (smollm2_path, gemma3_path):
        with lh.Model(path) as model, lh.Context(model, n_ctx=2048) as context:
            lh.generate(context, "Hello", max_tokens=1)
            needed = model.size_bytes + context.plan.memory_bytes
        assert needed < q.needed_bytes(path.stat().st_size)


PAGE = Path(__file__).resolve().parents[3] / "docs" / "models.md"


def test_larger_memory_fits_more() -> None:
    fits = [
        sum(model.fits for model in lh.recommended_models(memory))
        for memory in (0.1, 8, 16, 32)
    ]
    assert fits == [0, 2, 3, 4]
    sizes = [model.size_bytes for model in lh.recommended_models()]
    assert sizes == sorted(sizes)


def test_each_fits_the_memory_that_it_is_suggested_for() -> None:
    for model in lh.recommended_models():
        models = lh.recommended_models(model.memory_gb or 1)
        assert {one.source: one.fits for one in models}[model.source]


def test_figures_of_others_are_not_called_measured() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for model in lh.recommended_models(8):
        assert model.source in page
        assert (model.measured == "not measured") == bool(model.published)


def test_a_wrong_memory_is_named() -> None:
    for wrong in (0, -1, float("nan"), "8"):
        with pytest.raises((lh.ArgumentError, lh.ArgumentTypeError)) as caught:
            lh.recommended_models(wrong)  # type: ignore[arg-type]
        assert caught.value.argument == "memory_gb"


def test_the_memory_of_a_gpu_is_a_float(monkeypatch: pytest.MonkeyPatch) -> None:
    """R's integers have 32 bits, and reticulate cuts off the others."""
    gpu = Gpu(name="a GPU", memory_bytes=24 << 30, source="libllama")
    profile = dataclasses.replace(lh.hardware_profile(measure=False), gpus=(gpu,))
    monkeypatch.setattr(lh, "hardware_profile", lambda: profile)
    status = _r.hardware_profile()
    table = plain(status["value"])["gpu"]
    assert (table["name"], table["source"]) == (["a GPU"], "libllama")
    [size] = table["vram_bytes"]
    assert isinstance(size, float)
    assert size == 24.0 * 2**30
