"""What the R package calls: plain lists and scalars in, a dict out, nothing raised.

reticulate's conversions decide the shape of what is here: it gives exceptions other
classes from version to version, so they are returned as data; it cuts texts at lone
surrogates and refuses NUL characters; integers beyond 32 bits become 0, so what may be
that large goes as a float.
"""

from llamaherd._r.calls import (
    generate_start,
    job_cancel,
    job_result,
    job_wait,
    journal_read,
)
from llamaherd._r.coding import (
    annotate_result,
    annotate_roles,
    annotate_start,
    codebook_make,
    codebook_preview,
    codebook_read,
    codebook_write,
    robustness_compare,
    robustness_plan,
)
from llamaherd._r.embeddings import (
    embed_result,
    embed_start,
)
from llamaherd._r.estimation import (
    estimate_means,
    estimate_regression,
    gold_codes,
    gold_draw,
    gold_read,
    gold_size,
    gold_write,
)
from llamaherd._r.models import (
    apply_chat_template,
    backend_free,
    backend_init,
    close,
    context_create,
    context_plan,
    detokenize,
    is_closed,
    model_load,
    model_metadata,
    optimize_result,
    optimize_start,
    schema_prompt,
    sha256,
    tokenize,
)
from llamaherd._r.scores import (
    calibration_apply,
    calibration_fit,
    classify_result,
    classify_start,
    perplexity_result,
    perplexity_start,
    score_result,
    score_start,
)
from llamaherd._r.validation import (
    agreement,
    confusion_tables,
    coverage_curve,
    for_people,
    reliability,
    validate,
)

__all__ = [
    "agreement",
    "annotate_result",
    "annotate_roles",
    "annotate_start",
    "apply_chat_template",
    "backend_free",
    "backend_init",
    "calibration_apply",
    "calibration_fit",
    "classify_result",
    "classify_start",
    "close",
    "codebook_make",
    "codebook_preview",
    "codebook_read",
    "codebook_write",
    "confusion_tables",
    "context_create",
    "context_plan",
    "coverage_curve",
    "detokenize",
    "embed_result",
    "embed_start",
    "estimate_means",
    "estimate_regression",
    "for_people",
    "generate_start",
    "gold_codes",
    "gold_draw",
    "gold_read",
    "gold_size",
    "gold_write",
    "is_closed",
    "job_cancel",
    "job_result",
    "job_wait",
    "journal_read",
    "model_load",
    "model_metadata",
    "optimize_result",
    "optimize_start",
    "perplexity_result",
    "perplexity_start",
    "reliability",
    "robustness_compare",
    "robustness_plan",
    "schema_prompt",
    "score_result",
    "score_start",
    "sha256",
    "tokenize",
    "validate",
]
