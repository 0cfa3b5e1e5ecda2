"""The task of an encoder-decoder: to translate sentences."""

from functools import cached_property
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from minigpt.config import PairsConfig
from minigpt.corpus.pair_batches import Buckets, Pairs
from minigpt.corpus.sources import source_name
from minigpt.evaluation.pairs import PairEvaluator, skipped_pairs_message
from minigpt.evaluation.scores import pair_baselines, perplexity
from minigpt.generation.translator import Translator
from minigpt.models import EncoderDecoder
from minigpt.models.losses import SmoothedCrossentropy
from minigpt.training.console import counted
from minigpt.training.progress import Display
from minigpt.training.tasks.task import Batch, Samples, Task

# BLEU after an epoch is computed on the first held-out pairs, at most this many.
MAX_BLEU_PAIRS = 2000


class Translation(Task):
    """Sources and targets; the target of every token is the token after it, given the source."""

    def prepare(self) -> None:
        corpus, config = self.corpus, self.config
        tokenizer = corpus.tokenizer
        described = tokenizer.end_id, config.model.max_len, tokenizer.start_id
        self.train = Pairs(corpus.train.ids, *described)
        self.val = Pairs(corpus.val.ids, *described)
        assert isinstance(config.data, PairsConfig)
        self.buckets = Buckets(
            self.train,
            config.training.batch_size,
            config.data.length_buckets,
            source_name(config.data),
        )
        self.batches_in_pass = self.buckets.batches_in_pass
        self.tokens_per_batch = self.buckets.tokens_in_pass / self.batches_in_pass

    def batch(self, number: int) -> Batch:
        return self.buckets.training_batch(self.config.training.seed, number)

    @property
    def batch_signature(self) -> Any:
        # Shapes differ from bucket to bucket.
        ids = tf.TensorSpec([None, None], tf.int32)
        inputs = ids, tf.TensorSpec([None], tf.int32), ids
        return [(inputs, ids, tf.TensorSpec([None, None], tf.float32))]

    def objective(self) -> dict[str, Any]:
        # The mean over the tokens that have a weight. Padding has none.
        mean = "mean_with_sample_weight"
        smoothing = self.config.training.label_smoothing
        plain = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction=mean)
        return {"loss": SmoothedCrossentropy(smoothing, reduction=mean) if smoothing else plain}

    def set_model(self, model: EncoderDecoder) -> None:
        tokenizer, batch_size = self.corpus.tokenizer, self.config.training.batch_size
        translate = Translator(model, tokenizer).translate_all
        self.evaluator = PairEvaluator(model, tokenizer, self.val, batch_size, translate)

    @property
    def split(self) -> str:
        return (
            f"{counted(len(self.train), 'pair')} for training, {len(self.val):,} held out; no source "
            "sentence is in both parts"
        )

    @cached_property
    def baselines(self) -> tuple[float, float]:
        return pair_baselines(self.train, self.val, self.corpus.tokenizer.vocab_size)

    def describe(self) -> dict[str, str]:
        train, tokenizer, buckets = self.corpus.train, self.corpus.tokenizer, self.buckets
        uniform, unigram = self.baselines
        shapes = (bucket.shape for bucket in buckets.buckets)
        sizes = ", ".join(f"{shape.rows} x ({shape.source} + {shape.target})" for shape in shapes)
        padding = 1 - buckets.tokens_in_pass / buckets.padded_tokens_in_pass
        left_out = [
            f"of the {part} pairs {line}"
            for part, pairs in (("training", self.train), ("held-out", self.val))
            if (line := skipped_pairs_message(pairs, tokenizer))
        ]
        return {
            "Text": self.split,
            "Tokens": f"{train.tokens:,} for training, {self.corpus.val.tokens:,} held out; "
            f"{tokenizer.kind} vocabulary of {tokenizer.vocab_size:,} for both languages, "
            f"{train.bytes / train.tokens:.2f} bytes per token",
            "Batches": f"{buckets.batches_in_pass:,} per pass, of pairs x (source + target tokens): "
            f"{sizes}; {padding:.0%} padding",
            **({"Left out": "; ".join(left_out)} if left_out else {}),
            "Baselines": f"validation loss, nats per target token: uniform {uniform:.3f}, unigram "
            f"{unigram:.3f}",
        }

    def scores(self) -> dict[str, Any]:
        loss = self.evaluator.loss(self.new_breakdown().add)
        return {
            "val_loss": loss,
            "val_perplexity": perplexity(loss),
            "val_bits_per_byte": self.evaluator.bits_per_byte(loss),
            "val_bleu": self.evaluator.bleu(max_pairs=MAX_BLEU_PAIRS),
        }

    def samples(self, model: EncoderDecoder, display: Display) -> Samples:
        """Returns what translates some sentences greedily, evenly spread over the held-out text."""
        evaluator, number = self.evaluator, self.config.sampling.translations
        fitting = evaluator.indices
        # The middles of equal parts.
        places = (np.arange(number) + 0.5) * len(fitting) / max(1, number)
        indices = fitting[np.unique(places.astype(np.int64))]

        def write(epoch: float) -> list[dict[str, Any]]:
            if not len(indices):
                return []
            translate = evaluator.sources, evaluator.references, evaluator.translations
            rows = list(zip(*(texts(indices) for texts in translate), strict=True))
            display.show_translations(rows)
            return [
                {"epoch": epoch, "source": source, "reference": reference, "text": text}
                for source, reference, text in rows
            ]

        return write

    def final_scores(self, model: EncoderDecoder) -> dict[str, Any]:
        """Returns BLEU on all held-out pairs: `pairs`, `greedy_bleu` and, with beams, `beam_bleu`."""
        sampling = self.config.sampling
        self.set_model(model)
        scores = {"pairs": len(self.evaluator.indices), "greedy_bleu": self.evaluator.bleu()}
        if scores["greedy_bleu"] is not None and sampling.beams > 1:
            scores["beam_bleu"] = self.evaluator.bleu(sampling.beams, sampling.length_penalty)
        return scores
