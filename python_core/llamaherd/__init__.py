"""Many prompts at once through one llama.cpp context.

import llamaherd as lh

model = lh.Model("model.gguf")
out = lh.generate_parallel(lh.Context(model), ["One.", "Two."], max_tokens=20)
print(out.texts, out.stats)
"""

from llamaherd.core import starting as _starting  # noqa: F401 - before all that takes long

# isort: split
from importlib import import_module as _import_module
from importlib.metadata import version as _version

from llamaherd import structured
from llamaherd.api.chat import Chat, chat
from llamaherd.api.classify import classify_calibrated, classify_parallel, start_classify
from llamaherd.api.embed import embed_parallel, start_embed
from llamaherd.api.generate import generate, generate_parallel, start_parallel
from llamaherd.api.replies import Reply
from llamaherd.api.score import (
    perplexity,
    score_parallel,
    start_perplexity,
    start_score,
)
from llamaherd.api.turns import Turn
from llamaherd.asks.calibration import (
    Calibration,
    calibrate_batch,
    calibrate_contextual,
)
from llamaherd.asks.continuations import (
    Continuation,
    PerplexityResults,
    ScoreResults,
)
from llamaherd.asks.keywords import CodingSettings
from llamaherd.asks.scores import ClassifyResults
from llamaherd.asks.votes import Vote, vote
from llamaherd.coding_page.code_texts import code_texts
from llamaherd.core.embeddings import Embeddings, EmbedProgress, EmbedStats
from llamaherd.core.errors import (
    AbiMismatchError,
    AnswerError,
    ArgumentError,
    ArgumentTypeError,
    BadArgumentError,
    ChatFullError,
    ChatTemplateError,
    ClusterError,
    ContextClosedError,
    ContextError,
    CutOffError,
    CutOffWarning,
    DownloadError,
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
    PromptError,
    QuantizeError,
    SamplerError,
    ServerError,
    ThinkingWarning,
)
from llamaherd.core.results import Result, Results
from llamaherd.core.sampling import SamplingParams
from llamaherd.core.stats import ActorStats, Load, Progress, RequestStats, Stats
from llamaherd.core.thinking import Thinking
from llamaherd.hub.fetch import download_model
from llamaherd.hub.folders import CachedModel, list_cached_models, model_cache_dir
from llamaherd.hub.ollama import OllamaModel, list_ollama_models
from llamaherd.hub.profile import HardwareProfile, hardware_profile
from llamaherd.hub.recommended import ModelSuggestion, recommended_models
from llamaherd.hub.tokens import set_hf_token
from llamaherd.journal.entry import JournalEntry
from llamaherd.journal.journal import journal_read
from llamaherd.memory.plan import Plan
from llamaherd.model.chat import apply_chat_template
from llamaherd.model.dates import chat_date
from llamaherd.model.model import Model, model_metadata
from llamaherd.model.tokens import detokenize, tokenize
from llamaherd.optimize.fastest_files import optimized_model
from llamaherd.optimize.job import OptimizeJob, OptimizeProgress
from llamaherd.optimize.optimize import model_optimize, start_optimize
from llamaherd.optimize.report import OptimizeReport
from llamaherd.research.coding.annotate import annotate, start_annotate
from llamaherd.research.coding.codebook import Codebook, Example
from llamaherd.research.coding.codebook_file import read_codebook, write_codebook
from llamaherd.research.coding.coded import Coded
from llamaherd.research.coding.prompts import PromptPreview, prompt_preview
from llamaherd.research.coding.ready_codebooks import (
    ReadyCodebook,
    list_ready_codebooks,
    ready_codebook,
)
from llamaherd.research.coding.scales import NumberScale, number_scale
from llamaherd.research.estimation.consensus import DawidSkene, dawid_skene
from llamaherd.research.estimation.estimate import estimate
from llamaherd.research.estimation.estimates import Estimate, Estimates
from llamaherd.research.estimation.gold import gold_sample
from llamaherd.research.estimation.gold_drawn import GoldSample
from llamaherd.research.estimation.gold_read import read_gold
from llamaherd.research.estimation.recalibrated import ProbabilityScores, Recalibrated
from llamaherd.research.estimation.recalibration import recalibrate
from llamaherd.research.estimation.robustness import robustness
from llamaherd.research.estimation.robustness_result import Robustness
from llamaherd.research.estimation.widths import Width
from llamaherd.research.pairs.agreement import ComparisonAgreement, pair_agreement
from llamaherd.research.pairs.compare import compare_pairs, start_compare_pairs
from llamaherd.research.pairs.comparison import PairComparison, TextStrength
from llamaherd.research.pairs.design import ComparedPair
from llamaherd.research.reports.methods import MethodsText
from llamaherd.research.reports.methods_text import methods_text
from llamaherd.research.reports.plots import plot
from llamaherd.research.reports.report import report
from llamaherd.research.reports.reproduce import reproduce
from llamaherd.research.reports.reproduction import Reproduction
from llamaherd.research.selection.candidates import CodebookCandidate, candidate
from llamaherd.research.selection.choice import CodebookChoice, best_codebook
from llamaherd.research.selection.compare import compare_codebooks
from llamaherd.research.selection.comparison import CodebookComparison
from llamaherd.research.selection.disagreements import Disagreements, disagreements
from llamaherd.research.selection.evaluation import Evaluation, evaluate_codebook
from llamaherd.research.selection.examples import choose_examples
from llamaherd.research.selection.split import gold_part, gold_split
from llamaherd.research.statistics import (
    cohen_kappa,
    gwet_ac1,
    krippendorff_alpha,
    percent_agreement,
)
from llamaherd.research.statistics.gold_size import GoldSize, gold_size
from llamaherd.research.statistics.paired_number_size import NumberSize
from llamaherd.research.statistics.paired_size import PairedSize
from llamaherd.research.validation.reliability import (
    compute_confusion_matrices,
    intercoder_reliability,
)
from llamaherd.research.validation.spans import (
    SpanCodes,
    SpanValidation,
    read_spans,
    validate_spans,
)
from llamaherd.research.validation.validate import validate
from llamaherd.research.validation.validation import Validation
from llamaherd.run.context import Context
from llamaherd.run.embed_job import EmbedJob
from llamaherd.run.handle import Handle
from llamaherd.run.job import Job

__all__ = [
    "AbiMismatchError",
    "ActorStats",
    "AnswerError",
    "ArgumentError",
    "ArgumentTypeError",
    "BadArgumentError",
    "CachedModel",
    "Calibration",
    "Chat",
    "ChatFullError",
    "ChatTemplateError",
    "ClassifyResults",
    "ClusterError",
    "Codebook",
    "CodebookCandidate",
    "CodebookChoice",
    "CodebookComparison",
    "Coded",
    "CodingSettings",
    "ComparedPair",
    "ComparisonAgreement",
    "Context",
    "ContextClosedError",
    "ContextError",
    "Continuation",
    "CutOffError",
    "CutOffWarning",
    "DawidSkene",
    "Disagreements",
    "DownloadError",
    "EmbedJob",
    "EmbedProgress",
    "EmbedStats",
    "Embeddings",
    "Estimate",
    "Estimates",
    "Evaluation",
    "Example",
    "ForkError",
    "GenerationError",
    "GoldSample",
    "GoldSize",
    "Handle",
    "HardwareProfile",
    "Interrupted",
    "Job",
    "JournalEntry",
    "JournalError",
    "JournalWarning",
    "LlamaHerdError",
    "Load",
    "MethodsText",
    "Model",
    "ModelClosedError",
    "ModelLoadError",
    "ModelSuggestion",
    "NativeError",
    "NoSpaceError",
    "NumberScale",
    "NumberSize",
    "OllamaModel",
    "OptimizeJob",
    "OptimizeProgress",
    "OptimizeReport",
    "PairComparison",
    "PairedSize",
    "PerplexityResults",
    "Plan",
    "ProbabilityScores",
    "Progress",
    "PromptError",
    "PromptPreview",
    "QuantizeError",
    "ReadyCodebook",
    "Recalibrated",
    "Reply",
    "Reproduction",
    "RequestStats",
    "Result",
    "Results",
    "Robustness",
    "SamplerError",
    "SamplingParams",
    "ScoreResults",
    "ServerError",
    "SpanCodes",
    "SpanValidation",
    "Stats",
    "TextStrength",
    "Thinking",
    "ThinkingWarning",
    "Turn",
    "Validation",
    "Vote",
    "Width",
    "annotate",
    "apply_chat_template",
    "best_codebook",
    "calibrate_batch",
    "calibrate_contextual",
    "candidate",
    "chat",
    "chat_date",
    "choose_examples",
    "classify_calibrated",
    "classify_parallel",
    "code_texts",
    "cohen_kappa",
    "compare_codebooks",
    "compare_pairs",
    "compute_confusion_matrices",
    "dawid_skene",
    "detokenize",
    "disagreements",
    "download_model",
    "embed_parallel",
    "estimate",
    "evaluate_codebook",
    "generate",
    "generate_parallel",
    "gold_part",
    "gold_sample",
    "gold_size",
    "gold_split",
    "gwet_ac1",
    "hardware_profile",
    "intercoder_reliability",
    "journal_read",
    "krippendorff_alpha",
    "list_cached_models",
    "list_ollama_models",
    "list_ready_codebooks",
    "methods_text",
    "model_cache_dir",
    "model_metadata",
    "model_optimize",
    "number_scale",
    "optimized_model",
    "pair_agreement",
    "percent_agreement",
    "perplexity",
    "plot",
    "prompt_preview",
    "read_codebook",
    "read_gold",
    "read_spans",
    "ready_codebook",
    "recalibrate",
    "recommended_models",
    "report",
    "reproduce",
    "robustness",
    "score_parallel",
    "set_hf_token",
    "start_annotate",
    "start_classify",
    "start_compare_pairs",
    "start_embed",
    "start_optimize",
    "start_parallel",
    "start_perplexity",
    "start_score",
    "structured",
    "tokenize",
    "validate",
    "validate_spans",
    "vote",
    "write_codebook",
]
__version__ = _version("llamaherd")


def __dir__() -> list[str]:
    """Return the public names, without the modules that they are imported from."""
    return sorted({*__all__, "__all__", "__doc__", "__file__", "__name__", "__version__"})


def __getattr__(name: str) -> object:
    """Import rarely needed modules on first use."""
    if name == "ray":
        return _import_module("llamaherd.ray")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
