"""The vocabulary of a tokenizer as llama.cpp reads it: the keys `tokenizer.ggml.*`."""

from dataclasses import dataclass

import gguf
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from minigpt.tokenizers import Tokenizer
from minigpt.tokenizers.byte_pair import BytePairTokenizer
from minigpt.tokenizers.character import CharacterTokenizer
from minigpt.tokenizers.gpt2 import GPT2Tokenizer
from minigpt.tokenizers.gpt2_files import byte_alphabet
from minigpt.tokenizers.vocabulary import SPACE

END, PADDING, UNKNOWN = "<end>", "[PAD]", "<unk>"


@dataclass(frozen=True)
class LlamaVocabulary:
    """A vocabulary in the form of llama.cpp.

    Attributes:
      model: "gpt2" merges the bytes of words, "llama" the characters of the text.
      tokens: the text of each token.
      types: the kind of each token.
      scores: for "llama", the priority of each token; merging takes the highest one first.
      merges: for "gpt2", pairs of tokens, the first one first.
    """

    model: str
    tokens: list[str]
    types: list[gguf.TokenType]
    scores: list[float] | None = None
    merges: list[str] | None = None

    def write(self, writer: gguf.GGUFWriter, tokenizer: Tokenizer) -> None:
        """Adds the keys to a file."""
        writer.add_tokenizer_model(self.model)
        writer.add_tokenizer_pre("gpt-2" if self.model == "gpt2" else "default")
        writer.add_token_list(self.tokens)
        writer.add_token_types(self.types)
        if self.scores is not None:
            writer.add_token_scores(self.scores)
            writer.add_unk_token_id(0)
            writer.add_add_space_prefix(False)
            writer.add_remove_extra_whitespaces(False)
        if self.merges is not None:
            writer.add_token_merges(self.merges)
        writer.add_bos_token_id(tokenizer.end_id)
        writer.add_eos_token_id(tokenizer.end_id)
        writer.add_add_bos_token(False)
        writer.add_add_eos_token(False)


def llama_vocabulary(tokenizer: Tokenizer) -> LlamaVocabulary | None:
    """Returns the vocabulary of a tokenizer; None if llama.cpp cannot encode every text as it does."""
    if tokenizer.lowercase:
        return None
    if isinstance(tokenizer, GPT2Tokenizer):
        # llama.cpp does not normalize text, and has no flags of added tokens.
        flagged = any(t.single_word or t.lstrip or t.rstrip for t in tokenizer.added)
        return None if flagged or tokenizer.splitting != "gpt2" else _gpt2(tokenizer)
    if isinstance(tokenizer, BytePairTokenizer):
        return _byte_pair(tokenizer)
    # llama.cpp writes a space as the character SPACE, and ends a token at NUL.
    if isinstance(tokenizer, CharacterTokenizer) and not {SPACE, "\0"} & set(tokenizer.characters):
        return _character(tokenizer)
    return None


def _gpt2(tokenizer: GPT2Tokenizer) -> LlamaVocabulary:
    alphabet = {byte: character for character, byte in byte_alphabet().items()}
    tokens = ["".join(alphabet[byte] for byte in piece) for piece in tokenizer.pieces]
    types = [gguf.TokenType.NORMAL] * len(tokens)
    special = {i: name for name, i in tokenizer.special.items()}
    for i, token in enumerate(tokens):
        if not token:
            tokens[i] = special.get(i, f"[UNUSED{i}]")
            types[i] = gguf.TokenType.CONTROL if i in special else gguf.TokenType.UNUSED
    for added in tokenizer.added:
        tokens[added.id] = added.content
        # Control tokens are found in a text only if the program asks for special tokens.
        kinds = gguf.TokenType.USER_DEFINED, gguf.TokenType.CONTROL
        types[added.id] = kinds[added.special]
    merges = [" ".join(pair) for pair in tokenizer.merges]
    return LlamaVocabulary("gpt2", tokens, types, merges=merges)


def _byte_pair(tokenizer: BytePairTokenizer) -> LlamaVocabulary:
    pieces = ModelProto.FromString(tokenizer.model).pieces
    tokens = [piece.piece for piece in pieces]
    # sentencepiece has the same numbers for the kinds of pieces.
    types = [gguf.TokenType(piece.type) for piece in pieces]
    scores = [piece.score for piece in pieces]
    return LlamaVocabulary("llama", tokens, types, scores)


def _character(tokenizer: CharacterTokenizer) -> LlamaVocabulary:
    tokens = [PADDING, END]
    tokens += [f"<0x{tokenizer.pieces[i][0]:02X}>" for i in tokenizer.byte_ids]
    tokens += [character.replace(" ", SPACE) for character in tokenizer.characters]
    types = [gguf.TokenType.CONTROL] * 2 + [gguf.TokenType.BYTE] * len(tokenizer.byte_ids)
    types += [gguf.TokenType.NORMAL] * (len(tokens) - len(types))
    return LlamaVocabulary("llama", tokens, types, [0.0] * len(tokens))
