# The public names, for type checkers: those of the tables in __init__.py.

from minigpt.app import export_run as export_run
from minigpt.app import resume as resume
from minigpt.app import train as train
from minigpt.app import verify as verify
from minigpt.config import Config as Config
from minigpt.config import load_config as load_config
from minigpt.errors import UserError as UserError
from minigpt.evaluation.scores import Evaluation as Evaluation
from minigpt.evaluation.scores import PairEvaluation as PairEvaluation
from minigpt.generation.run_scores import evaluate_run as evaluate_run
from minigpt.generation.text_models import TextModel as TextModel
from minigpt.generation.text_models import TranslationModel as TranslationModel
from minigpt.generation.text_models import load as load
from minigpt.insight.examination import examine as examine
from minigpt.insight.memorization import measure_memorization as measure_memorization
from minigpt.insight.plan import Plan as Plan
from minigpt.insight.plan import plan as plan
from minigpt.insight.report.report import write_report as write_report
from minigpt.insight.run_list import RunSummary as RunSummary
from minigpt.insight.run_list import list_runs as list_runs
from minigpt.insight.sweep import sweep as sweep
from minigpt.layers import TokenAndPositionEmbedding as TokenAndPositionEmbedding
from minigpt.layers import TransformerBlock as TransformerBlock
from minigpt.models import GPT as GPT
from minigpt.models import EncoderDecoder as EncoderDecoder
from minigpt.pages.notebook import InlinePage as InlinePage
from minigpt.runs.analysis import Memorization as Memorization
from minigpt.runs.analysis import Verdict as Verdict
from minigpt.runs.run import Run as Run
from minigpt.targets.gguf.text_model import PortableTextModel as PortableTextModel
from minigpt.targets.gguf.text_model import PortableTranslationModel as PortableTranslationModel
from minigpt.targets.gguf.text_model import load_portable as load_portable
from minigpt.targets.huggingface.folders import import_run as import_run
from minigpt.targets.open_model import open_model as open_model
from minigpt.tokenizers.base import Tokenizer as Tokenizer
from minigpt.tokenizers.byte_pair import BytePairTokenizer as BytePairTokenizer
from minigpt.tokenizers.character import CharacterTokenizer as CharacterTokenizer
from minigpt.tokenizers.gpt2 import GPT2Tokenizer as GPT2Tokenizer
from minigpt.tokenizers.word import WordTokenizer as WordTokenizer
from minigpt.training.samples import TextGenerator as TextGenerator
from minigpt.training.start import config_for_text as config_for_text

__version__: str
__all__: list[str]
