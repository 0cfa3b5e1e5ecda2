"""Measures minigpt: training, the start, sampling, the exported model, the engine, the first word."""

import itertools
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.measuring import (
    DEFAULT,
    ENGINE,
    PROMPT,
    SMALL,
    WORDS,
    Finished,
    Outcome,
    Sizes,
    SteadySpeed,
    seconds_since_start,
    seconds_to_word,
    timed,
    watching,
    words,
    write_text,
)

if TYPE_CHECKING:
    from minigpt.targets.targets import WeightsType

MODELS = {"small": SMALL, **ENGINE}
# One token. Its computation is in the engine's time, but not in that of llama.cpp.
ENGINE_PROMPT = "A"


def model_settings(sizes: Sizes) -> dict[str, Any]:
    """Returns the settings of a GPT-2, or of the miniature GPT."""
    post_norm = sizes is WORDS
    return {
        "max_len": sizes.context,
        "embed_dim": sizes.embed_dim,
        "num_heads": sizes.num_heads,
        "head_dim": sizes.head_dim,
        "ff_dim": sizes.ff_dim,
        "num_layers": sizes.num_layers,
        "position": "learned",
        "qkv_bias": True,
        "block": "post_norm" if post_norm else "pre_norm",
        "activation": "relu" if post_norm else "gelu_tanh",
        "tie_embeddings": not post_norm,
    }


def settings(system: str) -> Any:
    """Returns the configuration of "words" or "default", on a text that exists on every machine."""
    import minigpt

    sizes = WORDS if system == "words" else DEFAULT
    changes = {f"model.{name}": value for name, value in model_settings(sizes).items()} | {
        "training.batch_size": sizes.batch_size,
        "training.sequence_length": sizes.length,
        "tokenizer.vocab_size": sizes.vocab_size,
        # Within a few steps, checkpoints would take all of the time or none of it.
        "training.checkpoint_every_seconds": 1e6,
        "training.max_minutes": 1000,
    }
    overrides = [f"{name}={json.dumps(value)}" for name, value in changes.items()]
    if system == "default":
        return minigpt.load_config("default", ["tokenizer.kind=byte_pair", *overrides])
    # The text has more words than the vocabulary; the rarest are [UNK], as in any text.
    path = Path("words.txt").absolute()
    write_text(path, 200 * sizes.vocab_size, sizes.vocab_size + 1000)
    return minigpt.load_config("imdb_keras_example", overrides, [str(path)])


def prepare(system: str) -> Outcome:
    """Creates the text and the token ids before the measurements."""
    from minigpt.corpus.token_store import open_corpus

    config = settings(system)
    corpus = open_corpus(config.data, config.tokenizer)
    if corpus.tokenizer.vocab_size != config.tokenizer.vocab_size:
        raise ValueError(f"{system}: a vocabulary of {corpus.tokenizer.vocab_size}")
    return {"value": corpus.train.tokens}


def train(config: Any, observe: Any) -> None:
    """Trains until `observe` raises `Finished`."""
    import minigpt

    with TemporaryDirectory(dir=".") as folder:
        try:
            minigpt.train(config, Path(folder) / "run", callbacks=[watching(observe)])
        except Finished:
            return
    raise RuntimeError("the training ended before the measurement did")


def speed(system: str, steps: int, seconds: float) -> Outcome:
    """Measures tokens per second in steady steps, and peak memory above the imports."""
    config = settings(system)
    import keras  # noqa: F401

    sizes = WORDS if system == "words" else DEFAULT
    steady = SteadySpeed(sizes.tokens_per_step, steps, seconds)

    def observe(model: Any, step: int) -> None:
        if step and steady.seen(step):
            raise Finished

    train(config, observe)
    return steady.outcome()


def start(steps: int) -> Outcome:
    """Measures seconds from the start of the process to the end of an update, default configuration."""
    seconds = 0.0

    def observe(model: Any, step: int) -> None:
        nonlocal seconds
        if step >= steps:
            seconds = seconds_since_start()
            raise Finished

    train(settings("default"), observe)
    return {"value": seconds}


def prepare_run(model: str) -> Outcome:
    """Creates a run with an untrained model; sampling from it costs the same."""
    import minigpt
    from minigpt.config import Config
    from minigpt.corpus.token_store import open_corpus
    from minigpt.models import GPT
    from minigpt.runs.run import Run

    path = Path(f"run-{model}")
    if path.exists():
        return {"value": 0}
    if model == "default":
        config = minigpt.load_config("default")
        tokenizer = open_corpus(config.data, config.tokenizer).tokenizer
    else:
        sizes = MODELS[model]
        kind = "character" if model in ENGINE else "word"
        config = Config.model_validate(
            {"tokenizer": {"kind": kind}, "model": model_settings(sizes)}
        )
        tokenizer = _characters(sizes.vocab_size) if kind == "character" else _words(sizes)
    gpt = GPT(config.model, tokenizer.vocab_size)
    Run.create(path, config, tokenizer, None, gpt)
    return {"value": gpt.count_params()}


def _words(sizes: Sizes) -> Any:
    from minigpt.tokenizers.word import SPECIAL_TOKENS, WordTokenizer

    known = [*PROMPT.split(), *words(sizes.vocab_size)][: sizes.vocab_size - SPECIAL_TOKENS]
    return WordTokenizer([word.encode() for word in known], lowercase=False)


def _characters(vocab_size: int) -> Any:
    """Returns a tokenizer of characters that llama.cpp has too: ASCII, Chinese, Korean, no NUL."""
    from minigpt.tokenizers.character import CharacterTokenizer

    ascii_characters = [chr(code) for code in range(1, 128)]
    ranges = range(0x3400, 0xA000), range(0xAC00, 0xD7A4), range(0x20000, 0x2A6E0)
    others = [chr(code) for code in itertools.chain(*ranges)]
    special = CharacterTokenizer(ascii_characters, b"", False).vocab_size - len(ascii_characters)
    characters = [*ascii_characters, *others][: vocab_size - special]
    return CharacterTokenizer(characters, b"", lowercase=False)


def _samples(opened: Any, prompts: list[str], new_tokens: int, **settings: Any) -> None:
    # Without the ban, a text might end early.
    banned = [opened.tokenizer.end_id]
    samples = opened.samples(prompts, new_tokens, banned_tokens=banned, **settings)
    if any(len(sample.tokens) != new_tokens for sample in samples):
        raise ValueError("a text ended early")


def generation(rows: int, new_tokens: int, calls: int) -> Outcome:
    """Measures tokens per second of `samples` with top-k 10."""
    import minigpt

    opened, prompts = minigpt.load("run-small"), [PROMPT] * rows

    def call(number: int) -> None:
        seeds = list(range(rows * number, rows * (number + 1)))
        _samples(opened, prompts, new_tokens, top_k=10, seed=seeds)

    seconds, _ = timed(call, calls)
    return {"value": rows * new_tokens / seconds}


def prepare_export() -> Outcome:
    import minigpt

    folder = Path("exported")
    if not folder.exists():
        minigpt.export_run("run-default", "saved_model", folder)
    return {"value": sum(file.stat().st_size for file in folder.rglob("*"))}


def in_process(new_tokens: int, calls: int) -> Outcome:
    """Measures the seconds of one `generate` call with minigpt; call i uses seed i."""
    import minigpt

    opened: Any = minigpt.load("run-default")
    settings: dict[str, Any] = {"top_k": 10, "temperature": 1.0}
    seconds, texts = timed(
        lambda seed: opened.generate(PROMPT, new_tokens, seed=seed, **settings)[0], calls
    )
    return {"value": seconds, "text": "\n".join(texts)}


def exported(new_tokens: int, calls: int) -> Outcome:
    """Measures the seconds of one call of the exported signature, without minigpt."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    serve = tf.saved_model.load("exported").signatures["serving_default"]

    def call(seed: int) -> str:
        answer = serve(
            prompt=tf.constant([PROMPT]),
            max_new_tokens=tf.constant(new_tokens),
            temperature=tf.constant(1.0),
            top_k=tf.constant(10),
            top_p=tf.constant(1.0),
            seed=tf.constant(seed),
        )
        text: str = answer["text"].numpy()[0].decode()
        return text

    seconds, texts = timed(call, calls)
    return {"value": seconds, "text": "\n".join(texts)}


def prepare_engine(model: str, weights: "WeightsType") -> Outcome:
    """Creates a run with an untrained model, and its portable file."""
    import minigpt

    file = portable_file(model, weights)
    prepare_run(model)
    if not file.exists():
        minigpt.export_run(f"run-{model}", "gguf", file, weights=weights)
    return {"value": file.stat().st_size}


def portable_file(model: str, weights: str) -> Path:
    return Path(f"engine-{model}.{weights}.gguf")


def engine(model: str, weights: str, new_tokens: int, calls: int) -> Outcome:
    """Measures tokens per second of one greedy text in the engine, which has one thread."""
    import minigpt

    opened = minigpt.load_portable(portable_file(model, weights))
    seconds, _ = timed(
        lambda _: _samples(opened, [ENGINE_PROMPT], new_tokens, temperature=0.0), calls
    )
    return {"value": new_tokens / seconds}


def prepare_first_word() -> Outcome:
    """Trains the default configuration for 50 updates: enough for words in place of arbitrary tokens."""
    import minigpt

    folder = Path("run-first-word")
    if not (folder / "model.gguf").exists():
        settings = ["training.steps_per_epoch=50", "training.epochs=1", "training.max_minutes=20"]
        # llama.cpp has no other parts.
        settings += ["model.standard_parts=true", "sampling.prompts=[]"]
        minigpt.train(minigpt.load_config("default", settings), folder)
    return {"value": (folder / "model.gguf").stat().st_size}


def first_word() -> Outcome:
    """Measures `minigpt sample --stream`."""
    command = ["-m", "minigpt", "sample", "run-first-word", "--prompt", PROMPT, "--seed", "1"]
    return seconds_to_word([sys.executable, *command, "--stream"])
