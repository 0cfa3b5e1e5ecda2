"""The loss of the answers of dialogues."""

import numpy as np

from minigpt.corpus.dialogue_batches import PackedDialogues
from minigpt.evaluation.scores import Evaluation, bits_per_byte, perplexity
from minigpt.evaluation.text import Evaluator, Record
from minigpt.tokenizers.vocabulary import Vocabulary


def evaluate_dialogues(
    evaluator: Evaluator,
    tokenizer: Vocabulary,
    dialogues: PackedDialogues,
    record: Record | None = None,
) -> Evaluation:
    """Returns the scores of a model on the targets of dialogues that have a weight.

    Args:
      evaluator: that of the model.
      tokenizer: the tokenizer of the dialogues.
      dialogues: the dialogues.
      record: called with each batch and the losses of its targets.
    """
    loss = evaluator.loss_of(dialogues.once(evaluator.batch_size), record)
    counts = dialogues.target_counts(tokenizer.vocab_size)
    sizes = np.array([len(piece) for piece in tokenizer.pieces])
    tokens, size = int(counts.sum()), int(sizes @ counts)
    is_exact = getattr(tokenizer, "lossless", False) and size > 0
    bits = bits_per_byte(loss, tokens, size) if is_exact else None
    return Evaluation(loss, perplexity(loss), bits, tokens, size)
