"""Every setting: its name, default, check and one line of help.

A configuration is a TOML file with one table a section (`[data]`, `[tokenizer]`, `[model]`, `[training]`,
`[sampling]`). What a file leaves out has the default given here. All that is wrong with a file and its
overrides is reported together, as one `UserError`.
"""

import difflib
import re
import reprlib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from minigpt.errors import UserError

MOST_NEW_TOKENS = 1_000_000
IMDB_URL = "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"
IMDB_SHA256 = "c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe"
SHAKESPEARE_URL = (
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
)
SHAKESPEARE_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
# As OpenAI publishes them, for all sizes of GPT-2.
GPT2_ENCODER_URL = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/encoder.json"
GPT2_ENCODER_SHA256 = "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783"
GPT2_MERGES_URL = "https://openaipublic.blob.core.windows.net/gpt-2/encodings/main/vocab.bpe"
GPT2_MERGES_SHA256 = "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5"
GPT2_VOCAB_SIZE = 50257
_DOWNLOADS = {
    "imdb": (IMDB_URL, IMDB_SHA256),
    "shakespeare": (SHAKESPEARE_URL, SHAKESPEARE_SHA256),
}

# Sources whose text is files of the user's.
TAKES_PATHS = ("files", "pairs")
_SHA256 = "^[0-9a-f]{64}$"

Fraction = Annotated[float, Field(gt=0, lt=1)]
Rate = Annotated[float, Field(ge=0, lt=1)]
Positive = Annotated[int, Field(ge=1)]


class Section(BaseModel):
    # Strict: "10" is not 10 and true is not 1; a slip in a file should be seen, not guessed at.
    model_config = ConfigDict(
        extra="forbid", strict=True, validate_default=True, frozen=True, allow_inf_nan=False
    )


class DataConfig(Section):
    source: Literal["stories", "files", "imdb", "shakespeare", "python", "pairs"] = Field(
        "stories", description="where the text comes from; pairs: of sentences to translate"
    )
    paths: list[str] = Field(
        [], description="files, folders and globs, for source = 'files' and 'pairs'"
    )
    document_separator: str | None = Field(
        None, min_length=1, description="text that stands between two documents of one file"
    )
    val_fraction: Fraction = Field(
        0.1, description="share of the documents held out from everything that is learned"
    )
    val_pairs: Positive | None = Field(
        None, description="pairs held out, in place of a share of them, for source = 'pairs'"
    )
    length_buckets: Positive = Field(
        4, description="shapes of batches at most, for source = 'pairs'; each is compiled once"
    )
    url: str | None = Field(None, description="address of a download; file:// works too")
    sha256: str | None = Field(None, pattern=_SHA256, description="what the download must hash to")

    @field_validator("paths")
    @classmethod
    def _files_need_paths(cls, paths: list[str], info: ValidationInfo) -> list[str]:
        source = info.data.get("source")
        if source in TAKES_PATHS and not paths:
            raise PydanticCustomError(
                "paths", "should name at least one file for source = '{source}'", {"source": source}
            )
        if source and paths and source not in TAKES_PATHS:
            raise PydanticCustomError(
                "paths",
                "should not be set for source = '{source}', which reads none; is source = 'files' meant?",
                {"source": source},
            )
        return paths

    @field_validator("document_separator", "val_pairs")
    @classmethod
    def _lines_of_pairs(cls, value: Any, info: ValidationInfo) -> Any:
        pairs = info.data.get("source") == "pairs"
        if (
            value is not None
            and "source" in info.data
            and pairs != (info.field_name == "val_pairs")
        ):
            raise PydanticCustomError(
                "pairs",
                "should not be set for source = '{source}'",
                {"source": info.data["source"]},
            )
        return value

    @field_validator("document_separator")
    @classmethod
    def _separates_files(cls, value: str | None, info: ValidationInfo) -> str | None:
        source = info.data.get("source")
        if value and source in ("stories", "imdb", "python"):
            raise PydanticCustomError(
                "document_separator",
                "should not be set for source = '{source}', whose documents are known",
                {"source": source},
            )
        return value

    @field_validator("url", "sha256")
    @classmethod
    def _published_download(cls, value: str | None, info: ValidationInfo) -> str | None:
        published = _DOWNLOADS.get(info.data.get("source", ""))
        if value and not published and "source" in info.data:
            raise PydanticCustomError(
                "download",
                "should not be set for source = '{source}', which downloads nothing",
                {"source": info.data["source"]},
            )
        if value is None and published:
            return published[0 if info.field_name == "url" else 1]
        return value


class TokenizerConfig(Section):
    kind: Literal["word", "character", "byte_pair", "gpt2"] = Field(
        "byte_pair", description="what a token is"
    )
    vocab_size: int = Field(
        2048, ge=4, description="most entries of the vocabulary, special tokens included"
    )
    lowercase: bool = Field(False, description="lower-case all text first (what is lost is lost)")
    encoder_url: str | None = Field(
        None, description="for kind = 'gpt2': address of encoder.json; file:// works too"
    )
    encoder_sha256: str | None = Field(
        None, pattern=_SHA256, description="what encoder.json must hash to"
    )
    merges_url: str | None = Field(
        None, description="for kind = 'gpt2': address of vocab.bpe; file:// works too"
    )
    merges_sha256: str | None = Field(
        None, pattern=_SHA256, description="what vocab.bpe must hash to"
    )

    @model_validator(mode="before")
    @classmethod
    def _published_vocabulary(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and given.get("kind") == "gpt2":
            return {
                "vocab_size": GPT2_VOCAB_SIZE,
                "encoder_url": GPT2_ENCODER_URL,
                "encoder_sha256": GPT2_ENCODER_SHA256,
                "merges_url": GPT2_MERGES_URL,
                "merges_sha256": GPT2_MERGES_SHA256,
                **given,
            }
        return given

    @field_validator("vocab_size")
    @classmethod
    def _room_for_bytes(cls, vocab_size: int, info: ValidationInfo) -> int:
        # 256 bytes, <end>, the unknown token, and at least one pair.
        if info.data.get("kind") == "byte_pair" and vocab_size < 259:
            raise PydanticCustomError(
                "vocab_size",
                "should be at least 259 for kind = 'byte_pair': all 256 bytes are in it",
            )
        return vocab_size

    @field_validator("lowercase")
    @classmethod
    def _case_is_published_too(cls, lowercase: bool, info: ValidationInfo) -> bool:
        if lowercase and info.data.get("kind") == "gpt2":
            raise PydanticCustomError(
                "lowercase", "should be false for kind = 'gpt2': its vocabulary has both cases"
            )
        return lowercase

    @field_validator("encoder_url", "encoder_sha256", "merges_url", "merges_sha256")
    @classmethod
    def _files_are_gpt2s(cls, value: str | None, info: ValidationInfo) -> str | None:
        if value is not None and info.data.get("kind", "gpt2") != "gpt2":
            raise PydanticCustomError("files", "is for kind = 'gpt2' alone")
        return value


class ModelConfig(Section):
    kind: Literal["gpt", "encoder_decoder"] = Field(
        "gpt", description="encoder_decoder: reads one sequence, writes another, for pairs"
    )
    max_len: int = Field(
        128, ge=2, description="T, the context: tokens the model sees at once (of each sequence)"
    )
    embed_dim: Positive = Field(192, description="D, the width of a token's vector")
    head_dim: Positive | None = Field(
        None, validate_default=True, description="K, the width of a head; embed_dim / num_heads"
    )
    num_heads: Positive = Field(4, description="H, attention heads in a block")
    value_dim: Positive | None = Field(
        None, description="U, the width of a head's values; head_dim"
    )
    ff_dim: Positive | None = Field(
        None, description="F, the inner width of the feed-forward part; 4 x embed_dim"
    )
    num_layers: Positive = Field(4, description="L, transformer blocks")
    dropout_rate: Rate = Field(
        0.0,
        description="share of each sublayer's output (pre: the embeddings' too) dropped in training",
    )
    attention_dropout_rate: Rate = Field(0.0, description="the same of the attention weights")
    ff_dropout_rate: Rate = Field(0.0, description="the same inside the feed-forward part")
    norm: Literal["post", "pre"] = Field(
        "pre", description="LayerNorm after each sublayer's sum (post) or before the sublayer (pre)"
    )
    norm_epsilon: float = Field(1e-6, gt=0, description="of LayerNorm, inside the root")
    qkv_bias: bool = Field(True, description="whether queries, keys and values have a bias")
    scale_embeddings: bool = Field(False, description="token vectors times sqrt(embed_dim)")
    position: Literal["learned", "sinusoidal"] = Field(
        "learned", description="how a token's place is told to the model"
    )
    activation: Literal["relu", "gelu", "gelu_tanh", "silu", "relu_squared"] = Field(
        "gelu_tanh", description="the non-linearity of the feed-forward part"
    )
    tie_embeddings: bool = Field(
        True, description="the head's matrix is the token table, transposed"
    )

    @field_validator("norm")
    @classmethod
    def _norm_of_the_kind(cls, norm: str, info: ValidationInfo) -> str:
        if info.data.get("kind") == "encoder_decoder" and norm != "post":
            raise PydanticCustomError("norm", "should be 'post' for kind = 'encoder_decoder'")
        return norm

    @field_validator("num_heads")
    @classmethod
    def _heads_share_the_width(cls, num_heads: int, info: ValidationInfo) -> int:
        width = info.data.get("embed_dim")
        shared = "head_dim" in info.data and info.data["head_dim"] is None
        if width and shared and width % num_heads:
            raise PydanticCustomError(
                "num_heads",
                "should divide model.embed_dim = {embed_dim}, or model.head_dim be set",
                {"embed_dim": width},
            )
        return num_heads

    def resolved(self) -> "ModelConfig":
        """The same with `head_dim`, `value_dim` and `ff_dim` written out."""
        head_dim = self.head_dim or self.embed_dim // self.num_heads
        return self.model_copy(
            update={
                "head_dim": head_dim,
                "value_dim": self.value_dim or head_dim,
                "ff_dim": self.ff_dim or 4 * self.embed_dim,
            }
        )


class TrainingConfig(Section):
    init_from: str | None = Field(
        None, description="a run whose best model, sizes and tokenizer to start from (fine-tuning)"
    )
    lora_rank: Positive | None = Field(
        None, description="with init_from: train additions of this rank to its matrices, no more"
    )
    sequence_length: int | None = Field(
        None, ge=2, description="tokens of a sequence in training at most; model.max_len"
    )
    epochs: Positive = Field(5, description="times samples, validation and a checkpoint are made")
    steps_per_epoch: Positive | None = Field(
        None, description="weight updates in an epoch; once over the training text"
    )
    max_minutes: float | None = Field(
        None, gt=0, description="end in good order after this time, the learning rate decayed"
    )
    plan: list[Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=2, max_length=2)]] = (
        Field(
            [],
            description="what max_minutes made of the steps, written by a run: [at step, last step]",
        )
    )
    batch_size: Positive = Field(32, description="B, sequences in a batch")
    accumulate_steps: Positive = Field(
        1, description="batches whose gradients are averaged for one weight update"
    )
    learning_rate: float = Field(1e-3, gt=0, description="the highest learning rate")
    schedule: Literal["constant", "linear", "cosine"] = Field(
        "cosine", description="how the learning rate falls to zero after the warm-up, if it does"
    )
    warmup_steps: int = Field(
        0, ge=0, description="updates over which the learning rate rises from zero"
    )
    optimizer: Literal["adam", "adamw", "muon", "sgd"] = Field(
        "adamw", description="muon: for the blocks' matrices, AdamW for the rest"
    )
    adam_beta_2: Rate = Field(0.999, description="decay of Adam's mean of squared gradients")
    weight_decay: float = Field(0.0, ge=0, description="decoupled; on matrices only")
    clip_norm: float | None = Field(
        None, gt=0, description="largest norm of all gradients together"
    )
    label_smoothing: Rate = Field(
        0.0, description="share of a target's probability spread over all tokens, for pairs"
    )
    early_stopping_patience: Positive | None = Field(
        None, description="stop after so many epochs without a better validation loss"
    )
    checkpoint_every_steps: Positive | None = Field(
        None, description="save the state after so many weight updates, however long that takes"
    )
    checkpoint_every_seconds: float | None = Field(
        120.0,
        gt=0,
        description="save it after so long; less often where that takes over 2% of the time",
    )
    keep_checkpoints: Positive = Field(
        2, description="newest states to keep; the best by validation loss is kept beside them"
    )
    precision: Literal["float32", "mixed_bfloat16", "mixed_float16"] = Field(
        "float32", description="what the products are computed in"
    )
    device: str = Field(
        "auto", pattern=r"^(auto|cpu|gpu(:\d+)?)$", description="auto, cpu, gpu or gpu:N"
    )
    seed: int = Field(0, ge=0, lt=2**31, description="initial weights, batches and dropout")
    deterministic: bool = Field(
        False, description="the same bits on every run on this machine; slower (no XLA)"
    )

    @field_validator("lora_rank")
    @classmethod
    def _lora_adds_to_something(cls, lora_rank: int | None, info: ValidationInfo) -> int | None:
        if lora_rank is not None and info.data.get("init_from") is None:
            raise PydanticCustomError("lora_rank", "needs training.init_from: a run to add to")
        return lora_rank


class SamplingConfig(Section):
    prompts: list[str] = Field([""], description="what the samples after an epoch continue")
    max_new_tokens: int = Field(40, ge=0, le=MOST_NEW_TOKENS, description="tokens to add at most")
    temperature: float = Field(
        1.0, ge=0, description="0 is greedy, 1 is the model's own distribution"
    )
    top_k: int = Field(
        10, ge=0, lt=2**31, description="draw from the k likeliest tokens; 0: no limit"
    )
    top_p: float = Field(
        1.0, gt=0, le=1, description="draw from the fewest tokens with this much probability"
    )
    min_p: float = Field(
        0.0,
        ge=0,
        le=1,
        description="draw from tokens at least p times as probable as the likeliest",
    )
    repetition_penalty: float = Field(
        1.0, gt=0, description="above 1: what the text holds comes less often"
    )
    beams: Positive = Field(
        1, le=1000, description="above 1: beam search for the likeliest text; nothing is drawn"
    )
    length_penalty: float = Field(
        1.0, description="of beam search: higher favours longer texts; 0: none"
    )
    stop: list[Annotated[str, Field(min_length=1)]] = Field(
        [], description="strings that end a text; not part of it"
    )
    banned_tokens: list[Annotated[int, Field(ge=0)]] = Field([], description="ids never to draw")
    seed: int = Field(0, ge=0, lt=2**31, description="the same seed gives the same text")
    print_every: Positive = Field(1, description="epochs between two looks at what it writes")
    translations: int = Field(
        5, ge=0, description="held-out sentences whose translation is shown, for pairs"
    )

    @field_validator("prompts")
    @classmethod
    def _prompts_are_unicode(cls, prompts: list[str]) -> list[str]:
        if any(re.search("[\ud800-\udfff]", prompt) for prompt in prompts):
            raise ValueError("should be valid Unicode, without halves of surrogate pairs")
        return prompts


class Config(Section):
    """All settings of a run."""

    data: DataConfig = DataConfig()
    tokenizer: TokenizerConfig = TokenizerConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    sampling: SamplingConfig = SamplingConfig()

    @property
    def sequence_length(self) -> int:
        """Tokens of a sequence in training."""
        most = self.model.max_len
        return min(self.training.sequence_length or most, most)

    @field_validator("model")
    @classmethod
    def _kind_of_the_source(cls, model: ModelConfig, info: ValidationInfo) -> ModelConfig:
        data = info.data.get("data")
        if data and (data.source == "pairs") != (model.kind == "encoder_decoder"):
            right = "encoder_decoder" if data.source == "pairs" else "gpt"
            raise _combination(
                "model.kind", model.kind, f"should be {right!r} for data.source = {data.source!r}"
            )
        return model

    @field_validator("training")
    @classmethod
    def _smoothing_is_for_pairs(cls, value: TrainingConfig, info: ValidationInfo) -> TrainingConfig:
        data = info.data.get("data")
        if data and data.source == "pairs" and value.sequence_length:
            raise _combination(
                "training.sequence_length",
                value.sequence_length,
                "plays no part for data.source = 'pairs', whose sentences have their own lengths",
            )
        if data and data.source != "pairs" and value.label_smoothing:
            raise _combination(
                "training.label_smoothing",
                value.label_smoothing,
                f"should be 0 for data.source = {data.source!r}",
            )
        return value

    @field_validator("sampling")
    @classmethod
    def _no_idle_sampling(cls, value: SamplingConfig, info: ValidationInfo) -> SamplingConfig:
        data = info.data.get("data")
        pairs = data is not None and data.source == "pairs"
        acting = {"beams", "length_penalty", "print_every", "translations"}
        for name in SamplingConfig.model_fields:
            acts = name in acting if pairs else name != "translations"
            default = SamplingConfig.model_fields[name].default
            if data and not acts and getattr(value, name) != default:
                raise _combination(
                    f"sampling.{name}",
                    getattr(value, name),
                    f"plays no part for data.source = {data.source!r}; should be left out",
                )
        return value


def _combination(setting: str, given: Any, message: str) -> PydanticCustomError:
    """Two sections that do not go together; `_problem` names the setting, not its section."""
    return PydanticCustomError("combination", message, {"setting": setting, "given": given})


SECTIONS = tuple(Config.model_fields)


def _settings(section: str) -> Mapping[str, Any]:
    annotation: Any = Config.model_fields[section].annotation
    return annotation.model_fields


def shipped_configs() -> dict[str, Path]:
    """Name → path of every configuration that travels with the package, `default` first."""
    here = Path(__file__).resolve().parents[1]
    # An installed wheel holds them beside this file, a checkout one level up.
    folder = here / "configs" if (here / "configs").is_dir() else here.parent / "configs"
    names = sorted(folder.glob("*.toml"), key=lambda path: (path.stem != "default", path.stem))
    return {path.stem: path for path in names}


def load_config(
    source: str | Path | Mapping[str, Any] | None = None,
    overrides: Sequence[str] = (),
    text: Sequence[str] = (),
) -> Config:
    """Reads and checks a configuration.

    Args:
      source: a path, the name of a shipped configuration, a nested dictionary, or None for the
        defaults of this file.
      overrides: `"SECTION.KEY=VALUE"` strings; VALUE is TOML, or plain text where TOML does not read it.
      text: paths that become `data.paths`, with `data.source = "files"` unless the source takes paths
        of another kind.
    Raises:
      UserError: with every problem found, one line each.
    """
    origin, raw = _read(source)
    if text and isinstance(data := raw.setdefault("data", {}), dict):
        if data.get("source") not in TAKES_PATHS:
            data["source"] = "files"
        data["paths"] = list(text)
        # The address of a download belongs to the source that is not used now.
        data.pop("url", None), data.pop("sha256", None)
    problems, overridden = [], set()
    for override in overrides:
        try:
            overridden.add(_override(raw, override))
        except ValueError as error:
            problems.append(f"--set {override}: {error}")
    try:
        config = Config.model_validate(raw)
    except ValidationError as error:
        problems += [_problem(origin, overridden, details) for details in error.errors()]
    if problems:
        raise UserError(*problems)
    return config


def dump_config(config: Config, comment: str = "") -> str:
    """TOML that `load_config` reads back to an equal configuration."""
    resolved = config.model_copy(update={"model": config.model.resolved()})
    header = "".join(f"# {line}\n" for line in comment.splitlines())
    return header + tomli_w.dumps(resolved.model_dump(exclude_none=True))


def _read(source: str | Path | Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
    if source is None:
        return "", {}
    if isinstance(source, Mapping):
        return "", {key: dict(v) if isinstance(v, Mapping) else v for key, v in source.items()}
    shipped = shipped_configs()
    path = shipped.get(str(source), Path(source))
    try:
        return f"{path}: ", tomllib.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not valid UTF-8 at byte {error.start}") from None
    # Beside what is no TOML: numbers of thousands of digits, brackets in brackets.
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not valid TOML: {error}") from None
    except OSError as error:
        names = ", ".join(shipped)
        raise UserError(
            f"--config {source}: {error.strerror or error}; should be a TOML file or one of: {names}"
        ) from None


def _override(raw: dict[str, Any], text: str) -> str:
    """Puts one `SECTION.KEY=VALUE` into `raw`; returns `SECTION.KEY`."""
    name, equals, value = text.partition("=")
    section, dot, key = name.strip().partition(".")
    if not (equals and dot and key):
        raise ValueError("should be SECTION.KEY=VALUE, such as training.epochs=3")
    if section not in SECTIONS:
        raise ValueError(f"no section {section!r}{_nearest(section, SECTIONS)}")
    table = raw.setdefault(section, {})
    if isinstance(table, dict):
        table[key] = _value(section, key, value)
    return f"{section}.{key}"


def _value(section: str, key: str, text: str) -> Any:
    field = _settings(section).get(key)
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text
    # Text that happens to look like a number is still text where a setting takes text.
    takes_text = field is not None and field.annotation in (str, str | None)
    return text if takes_text and not isinstance(value, str) else value


# Of a value that a user gave: enough to know it by, whatever it is.
_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 200
_SHORT.maxlist = _SHORT.maxdict = 20


def _problem(origin: str, overridden: set[str], details: Any) -> str:
    """One line for one of pydantic's findings."""
    place = [str(part) for part in details["loc"]]
    name, given = ".".join(place[:2]), details["input"]
    if details["type"] == "combination":
        name, given = details["ctx"]["setting"], details["ctx"]["given"]
    origin = "--set " if name in overridden else origin
    if details["type"] == "extra_forbidden":
        if len(place) == 1:
            return f"{origin}unknown section [{name}]{_nearest(name, SECTIONS)}"
        return f"{origin}unknown setting {name} = {_SHORT.repr(given)}" + _nearest(
            place[1], _settings(place[0]), prefix=f"{place[0]}."
        )
    message = details["msg"].removeprefix("Value error, ").removeprefix("Input ")
    message = message.replace("valid dictionary or instance of", "table of settings like")
    return f"{origin}{name} = {_SHORT.repr(given)}: {message}"


def _nearest(name: str, known: Any, prefix: str = "") -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    if close:
        return f"; did you mean {prefix}{close[0]}?"
    return f"; known are {', '.join(known)}"
