"""Classes of what calls return, for hints of types and `isinstance`."""

from llamaherd.calls.api.turns import Reply as Reply
from llamaherd.calls.api.turns import Turn as Turn
from llamaherd.calls.asks.continuations import Continuation as Continuation
from llamaherd.calls.asks.continuations import PerplexityResults as PerplexityResults
from llamaherd.calls.asks.continuations import ScoreResults as ScoreResults
from llamaherd.calls.asks.scores import ClassifyResults as ClassifyResults
from llamaherd.calls.asks.scores import Vote as Vote
from llamaherd.calls.journal.entry import JournalEntry as JournalEntry
from llamaherd.calls.run.embedding import Embeddings as Embeddings
from llamaherd.calls.run.embedding import EmbedJob as EmbedJob
from llamaherd.calls.run.embedding import EmbedProgress as EmbedProgress
from llamaherd.calls.run.embedding import EmbedStats as EmbedStats
from llamaherd.calls.run.handle import Handle as Handle
from llamaherd.coding.annotation.codebook_file import ReadyCodebook as ReadyCodebook
from llamaherd.coding.annotation.prompts import PromptPreview as PromptPreview
from llamaherd.coding.annotation.scales import NumberScale as NumberScale
from llamaherd.coding.estimation.estimates import Estimate as Estimate
from llamaherd.coding.estimation.estimates import Estimates as Estimates
from llamaherd.coding.estimation.estimates import Width as Width
from llamaherd.coding.estimation.recalibrated import (
    ProbabilityScores as ProbabilityScores,
)
from llamaherd.coding.estimation.recalibrated import Recalibrated as Recalibrated
from llamaherd.coding.gold.size import GoldSize as GoldSize
from llamaherd.coding.gold.size import PairedSize as PairedSize
from llamaherd.coding.pairs.agreement import ComparisonAgreement as ComparisonAgreement
from llamaherd.coding.pairs.comparison import PairComparison as PairComparison
from llamaherd.coding.pairs.comparison import TextStrength as TextStrength
from llamaherd.coding.pairs.design import ComparedPair as ComparedPair
from llamaherd.coding.reports.methods import MethodsText as MethodsText
from llamaherd.coding.reports.reproduce import Reproduction as Reproduction
from llamaherd.coding.selection.compare import CodebookCandidate as CodebookCandidate
from llamaherd.coding.selection.comparison import CodebookComparison as CodebookComparison
from llamaherd.coding.selection.disagreements import Disagreements as Disagreements
from llamaherd.coding.selection.evaluation import CodebookChoice as CodebookChoice
from llamaherd.coding.selection.evaluation import Evaluation as Evaluation
from llamaherd.coding.selection.robustness import Robustness as Robustness
from llamaherd.coding.validation.dawid_skene import DawidSkene as DawidSkene
from llamaherd.coding.validation.spans import SpanCodes as SpanCodes
from llamaherd.coding.validation.spans import SpanValidation as SpanValidation
from llamaherd.coding.validation.validation import Validation as Validation
from llamaherd.engine.core.stats import ActorStats as ActorStats
from llamaherd.engine.core.stats import Load as Load
from llamaherd.engine.core.stats import Progress as Progress
from llamaherd.engine.core.stats import RequestStats as RequestStats
from llamaherd.engine.hub.cache import CachedModel as CachedModel
from llamaherd.engine.hub.cache import OllamaModel as OllamaModel
from llamaherd.engine.hub.profile import HardwareProfile as HardwareProfile
from llamaherd.engine.hub.quantizations import ModelSuggestion as ModelSuggestion
from llamaherd.engine.memory.plan import Plan as Plan
from llamaherd.optimize.optimize import OptimizeJob as OptimizeJob
from llamaherd.optimize.optimize import OptimizeProgress as OptimizeProgress
from llamaherd.optimize.report import OptimizeReport as OptimizeReport
