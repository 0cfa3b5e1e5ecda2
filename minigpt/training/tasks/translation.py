"""The task of an encoder-decoder: to translate pairs of sentences."""

import math
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from minigpt.config import Config, PairsConfig
from minigpt.corpus.datasets import pair_dataset
from minigpt.corpus.pair_batches import Buckets, Pairs
from minigpt.corpus.sources import source_name
from minigpt.corpus.store_files import Corpus
from minigpt.evaluation import pair_baselines
from minigpt.evaluation.pairs import PairEvaluator, skipped_pairs_message
from minigpt.losses.smoothed_crossentropy import SmoothedCrossentropy
from minigpt.models import EncoderDecoder
from minigpt.runs.run import Run
from minigpt.training.callbacks.display import Display
from minigpt.training.callbacks.translation_samples import TranslationSamples
from minigpt.training.tasks.task import Task

# BLEU after an epoch is of at most so many held-out pairs, the first ones.
MOST_BLEU_PAIRS = 2000


class Translation(Task):
    """Sources and targets; a target predicts itself moved on by one, its source in sight."""

    def __init__(self, config: Config, corpus: Corpus) -> None:
        super().__init__(config, corpus)
        end_id, max_len = corpus.tokenizer.end_id, config.model.max_len
        self.train = Pairs(corpus.train.ids, end_id, max_len)
        self.val = Pairs(corpus.val.ids, end_id, max_len)
        assert isinstance(config.data, PairsConfig)
        self.buckets = Buckets(
            self.train,
            config.training.batch_size,
            config.data.length_buckets,
            source_name(config.data),
        )
        self.batches_in_pass = self.buckets.batches_in_pass
        self.tokens_per_batch = self.buckets.tokens_per_batch
        self.sequence = "pairs"

    def batches(self, first: int, count: int) -> tf.data.Dataset:
        return pair_dataset(self.buckets, self.config.training.seed, first, count)

    def objective(self) -> dict[str, Any]:
        # The mean over the tokens that have a weight; padding has none.
        mean = "mean_with_sample_weight"
        smoothing = self.config.training.label_smoothing
        plain = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=mean)
        return {"loss": SmoothedCrossentropy(smoothing, reduction=mean) if smoothing else plain}

    def watch(self, model: EncoderDecoder) -> None:
        self.evaluator = PairEvaluator(
            model, self.corpus.tokenizer, self.val, self.config.training.batch_size
        )

    def describe(self) -> dict[str, str]:
        tokenizer, buckets = self.corpus.tokenizer, self.buckets
        uniform, frequencies = pair_baselines(self.train, self.val, tokenizer.vocab_size)
        shapes = ", ".join(
            f"{bucket.shape.rows} x ({bucket.shape.source} + {bucket.shape.target})"
            for bucket in buckets.buckets
        )
        padding = 1 - buckets.tokens_in_pass / buckets.padded_tokens_in_pass
        lines = {
            "Text": f"{len(self.train):,} pairs to learn from, {len(self.val):,} held out; no source "
            "sentence is on both sides",
            "Tokens": f"{self.corpus.train.tokens:,} and {self.corpus.val.tokens:,}; "
            f"{tokenizer.kind} vocabulary of {tokenizer.vocab_size:,} for both languages, "
            f"{self.corpus.train.bytes / self.corpus.train.tokens:.2f} bytes a token",
            "Batches": f"{buckets.batches_in_pass:,} a pass, of pairs x (source + target) tokens: "
            f"{shapes}; {padding:.0%} padding",
            "To beat": "a validation loss, in nats per target token, of uniform guessing "
            f"{uniform:.3f} and plain token frequencies {frequencies:.3f}",
        }
        left_out = [
            f"of the {side} pairs {line}"
            for side, pairs in (("training", self.train), ("held-out", self.val))
            if (line := skipped_pairs_message(pairs, tokenizer))
        ]
        return lines | ({"Left out": "; ".join(left_out)} if left_out else {})

    def scores(self) -> dict[str, float | None]:
        loss = self.evaluator.loss()
        return {
            "val_loss": loss,
            "val_perplexity": math.exp(min(loss, 700)),
            "val_bits_per_byte": self.evaluator.bits_per_byte(loss),
            "val_bleu": self.evaluator.bleu(max_pairs=MOST_BLEU_PAIRS),
        }

    def samples(
        self, display: Display, record: Callable[[dict[str, Any]], None]
    ) -> keras.callbacks.Callback:
        sampling = self.config.sampling
        return TranslationSamples(
            self.evaluator,
            sampling.translations,
            sampling.print_every,
            show=display.show_translations,
            record=record,
        )

    def command(self, program: str, run: Run) -> str:
        return f"Translate with: {program} translate {run.path}"

    def last_words(self, model: EncoderDecoder) -> str:
        sampling = self.config.sampling
        self.watch(model)
        greedily = self.evaluator.bleu()
        if greedily is None:
            return "BLEU –: the tokenizer loses something of the held-out targets"
        greedy = f"{greedily:.1f} greedily"
        pairs = f"BLEU of the best model on {len(self.evaluator.indices):,} held-out pairs"
        if sampling.beams == 1:
            return f"{pairs}: {greedy}"
        searched = self.evaluator.bleu(sampling.beams, sampling.length_penalty)
        return (
            f"{pairs}: {greedy}, {searched:.1f} with {sampling.beams} beams "
            f"and length penalty {sampling.length_penalty:g}"
        )
