"""Many prompts at once through one llama.cpp context.

import llamaherd as lh

model = lh.Model("model.gguf")
out = lh.generate_parallel(lh.Context(model), ["One.", "Two."], max_tokens=20)
print(out.texts, out.stats)
"""

from importlib.metadata import version as _version

from llamaherd.chat import apply_chat_template
from llamaherd.context import Context
from llamaherd.errors import (
    AbiMismatchError,
    ChatTemplateError,
    ContextClosedError,
    ContextError,
    ForkError,
    GenerationError,
    Interrupted,
    JournalError,
    JournalWarning,
    LlamaHerdError,
    ModelClosedError,
    ModelLoadError,
    NativeError,
    NoSpaceError,
    QuantizeError,
    SamplerError,
)
from llamaherd.generate import generate, generate_parallel, start_parallel
from llamaherd.job import Job
from llamaherd.journal import journal_read
from llamaherd.journal_entry import JournalEntry
from llamaherd.model import Model, model_metadata
from llamaherd.optimize import model_optimize, start_optimize
from llamaherd.optimize_job import OptimizeJob, OptimizeProgress
from llamaherd.optimize_report import OptimizeReport
from llamaherd.plan import Plan
from llamaherd.results import Result, Results
from llamaherd.sampling import SamplingParams
from llamaherd.stats import Progress, Stats
from llamaherd.tokens import detokenize, tokenize

__all__ = [
    "AbiMismatchError",
    "ChatTemplateError",
    "Context",
    "ContextClosedError",
    "ContextError",
    "ForkError",
    "GenerationError",
    "Interrupted",
    "Job",
    "JournalEntry",
    "JournalError",
    "JournalWarning",
    "LlamaHerdError",
    "Model",
    "ModelClosedError",
    "ModelLoadError",
    "NativeError",
    "NoSpaceError",
    "OptimizeJob",
    "OptimizeProgress",
    "OptimizeReport",
    "Plan",
    "Progress",
    "QuantizeError",
    "Result",
    "Results",
    "SamplerError",
    "SamplingParams",
    "Stats",
    "apply_chat_template",
    "detokenize",
    "generate",
    "generate_parallel",
    "journal_read",
    "model_metadata",
    "model_optimize",
    "start_optimize",
    "start_parallel",
    "tokenize",
]
__version__ = _version("llamaherd")
