"""Tokenizers in TensorFlow operations, for models that are exported."""

import tensorflow as tf

from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.byte_pair import BytePairTokenizer
from minigpt.tokenizers.character import CharacterTokenizer
from minigpt.tokenizers.given import SentencePieceTokenizer
from minigpt.tokenizers.gpt2 import GPT2Tokenizer
from minigpt.tokenizers.graph import learned
from minigpt.tokenizers.graph.gpt2 import GPT2Graph
from minigpt.tokenizers.graph.graph_tokenizer import GraphTokenizer
from minigpt.tokenizers.listed import ListedTokenizer
from minigpt.tokenizers.word import WordTokenizer

# A subclass of one of these tokenizers has the same graph.
GRAPHS: dict[type[Tokenizer], type[GraphTokenizer]] = {
    WordTokenizer: learned.WordGraph,
    CharacterTokenizer: learned.CharacterGraph,
    BytePairTokenizer: learned.BytePairGraph,
    GPT2Tokenizer: GPT2Graph,
    ListedTokenizer: learned.WordGraph,
    SentencePieceTokenizer: learned.SentencePieceGraph,
}


def graph_of(tokenizer: Tokenizer) -> GraphTokenizer:
    """Returns the same tokenizer in TensorFlow operations. Keep it as long as its functions are used."""
    graph = next(GRAPHS[kind] for kind in type(tokenizer).__mro__ if kind in GRAPHS)
    with tf.init_scope():  # The call may be inside a tf.function.
        return graph(tokenizer)
