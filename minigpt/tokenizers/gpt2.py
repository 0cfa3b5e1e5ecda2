"""GPT-2's tokenizer: byte-level byte-pair encoding with a published vocabulary.

Radford et al. (2019), "Language Models are Unsupervised Multitask Learners", section 2.2. The text is
split into words by the pattern of the published encoder. Then neighbors among the UTF-8 bytes of a word
are merged, in the order of the published list of merges.

sentencepiece does the merging, as for `byte_pair`. Its model works on Latin-1 text, in which every
character is one byte.
"""

import array
import functools
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
import sentencepiece
from pydantic import Field
from sentencepiece.sentencepiece_model_pb2 import ModelProto  # type: ignore[attr-defined]

from minigpt.errors import UserError
from minigpt.tokenizers.base import Tokenizer
from minigpt.tokenizers.chunks import encode_chunks
from minigpt.tokenizers.gpt2_files import (
    ENCODER_FILE,
    MAX_IDS,
    MERGES_FILE,
    checked_vocabulary,
    encoder_file,
    merges_file,
    read_encoder,
    read_merges,
    token_bytes,
)
from minigpt.tokenizers.tokenizer_file import read_checked_file, setting
from minigpt.tokenizers.unicode_tables import one_or_more, one_or_more_outside, parse_ranges, ranges

if TYPE_CHECKING:
    from minigpt.tokenizers.graph.gpt2 import GPT2Graph

Id = Annotated[int, Field(ge=0, lt=MAX_IDS)]

WHITE_SPACE = parse_ranges("9-D 20 85 A0 1680 2000-200A 2028-2029 202F 205F 3000")
# A byte that never occurs in UTF-8. The graph separates words with it.
SEPARATOR = 0xFF
# sentencepiece does not accept NUL as a character. The first character after Latin-1 replaces it.
NUL = "\u0100"
_UNNAMED = "\u0101"
START = "<|startoftext|>"


class GPT2Tokenizer(Tokenizer):
    """GPT-2's published vocabulary, or another one in the same two file formats.

    Ids without text (special tokens, and unused ids below `size`) decode to nothing and are never
    drawn. The end token is an exception: it can be drawn.
    """

    kind: ClassVar[str] = "gpt2"
    cut_after: ClassVar[re.Pattern[str]] = re.compile(r"\S(?=[ \n])")
    unknown_id = None

    def __init__(
        self,
        encoder: Mapping[str, int],
        merges: Sequence[tuple[str, str]],
        special: Mapping[str, int],
        end_id: int,
        size: int | None = None,
    ) -> None:
        """Takes a vocabulary without checking it; `from_files` and `from_tables` check it.

        Args:
          encoder: token → id, as in encoder.json, without special tokens.
          merges: pairs of tokens in the order of merging.
          special: special token → id.
          end_id: the id of the end token, one of `special`.
          size: the number of ids, if it is larger than the number of tokens.
        """
        self.encoder = dict(encoder)
        self.merges = list(merges)
        self.special = dict(special)
        size = max(size or 0, 1 + max([*encoder.values(), *special.values()]))
        pieces = [b""] * size
        for token, i in encoder.items():
            pieces[i] = token_bytes(token)
        super().__init__(pieces, lowercase=False)
        self.end_id = end_id
        self.undrawable_ids = tuple(
            i for i, piece in enumerate(pieces) if not piece and i != end_id
        )

    @classmethod
    def from_files(
        cls,
        encoder: bytes,
        merges: bytes,
        names: tuple[str, str] = (ENCODER_FILE, MERGES_FILE),
        special: Mapping[str, int] | None = None,
        end_id: int | None = None,
        size: int | None = None,
    ) -> Self:
        """Reads and checks the two published files, or two files of the same form.

        Args:
          encoder: JSON, token → id.
          merges: a line with the version, then two tokens in each line.
          names: the names of the two files, for messages.
          special: special token → id. Not needed for `<|endoftext|>` in `encoder`.
          end_id: the id of the end token; None means that of `<|endoftext|>`.
          size: the number of ids, if it is larger than the number of tokens.
        Raises:
          UserError: a file is damaged, or the two files do not match.
        """
        tokens, pairs = read_encoder(encoder, names[0]), read_merges(merges, names[1])
        return cls.from_tables(tokens, pairs, names, special, end_id, size)

    @classmethod
    def from_tables(
        cls,
        tokens: Mapping[str, int],
        merges: Sequence[tuple[str, str]],
        names: tuple[str, str],
        special: Mapping[str, int] | None = None,
        end_id: int | None = None,
        size: int | None = None,
    ) -> Self:
        """Checks the content of the two files. `tokens` may include special tokens."""
        encoder, special, end_id = checked_vocabulary(tokens, merges, names, special, end_id, size)
        return cls(encoder, merges, special, end_id, size)

    @classmethod
    def learn(cls, texts: Iterable[str], *args: Any, **kwargs: Any) -> Self:
        """Raises a `UserError`: the vocabulary is published, not learned."""
        raise UserError(
            "tokenizer.kind = 'gpt2': is read from published files, not learned from text; "
            "to learn a vocabulary, tokenizer.kind should be 'byte_pair'"
        )

    def with_start(self) -> Self:
        """Returns a copy whose last id is a beginning-of-sentence token: no published id is free."""
        special = self.special | {START: self.vocab_size}
        tokenizer = type(self)(self.encoder, self.merges, special, self.end_id)
        tokenizer.own_start_id = self.vocab_size
        return tokenizer

    def _encode_group(self, texts: list[str]) -> list[np.ndarray]:
        return encode_chunks(texts, _word_pattern().findall, self._encode_words)

    def _encode_words(self, words: list[str]) -> list[bytes]:
        latin = [word.encode().decode("latin-1").replace("\0", NUL) for word in words]
        encoded = self._processor.encode(latin, num_threads=1)
        return [array.array("i", ids).tobytes() for ids in encoded]

    @functools.cached_property
    def _processor(self) -> sentencepiece.SentencePieceProcessor:
        return sentencepiece.SentencePieceProcessor(model_proto=self.sentencepiece_model())

    def _build_graph(self) -> "GPT2Graph":
        from minigpt.tokenizers.graph.gpt2 import GPT2Graph

        return GPT2Graph(self)

    def _files(self) -> dict[str, bytes]:
        return {ENCODER_FILE: encoder_file(self.encoder), MERGES_FILE: merges_file(self.merges)}

    def _settings(self) -> dict[str, Any]:
        return {
            "sha256": {
                name: hashlib.sha256(data).hexdigest() for name, data in self._files().items()
            },
            "special": self.special,
            "end_id": self.end_id,
            "size": self.vocab_size,
        }

    @classmethod
    def _from_settings(cls, settings: dict[str, Any], folder: Path) -> Self:
        hashes = setting(settings, "sha256", dict[str, str])
        encoder_data, merges_data = (
            read_checked_file(folder / name, hashes[name]) for name in (ENCODER_FILE, MERGES_FILE)
        )
        encoder = read_encoder(encoder_data, ENCODER_FILE)
        special = setting(settings, "special", dict[str, Id])
        end_id, size = setting(settings, "end_id", Id), setting(settings, "size", Id)
        if end_id not in special.values() or max([*encoder.values(), *special.values()]) >= size:
            raise ValueError("an id is outside the vocabulary")
        merges = read_merges(merges_data, MERGES_FILE)
        return cls(encoder, merges, special, end_id, size)

    def sentencepiece_model(self) -> bytes:
        """Returns the merges as a serialized sentencepiece `ModelProto` for Latin-1 text.

        sentencepiece merges the neighbors whose joined text has the best score; the published encoder
        merges the first pair in a list. The two are the same if no token can be made of two different
        pairs, which `from_tables` checks.
        """
        rank = {a + b: number for number, (a, b) in enumerate(self.merges)}
        proto = ModelProto()
        pieces = [proto.pieces.add(piece=f"{_UNNAMED}{i}", type=3) for i in range(self.vocab_size)]
        for token, i in self.encoder.items():
            text = self.pieces[i]
            if len(text) > 1 and SEPARATOR in text:
                continue  # No text contains it, and it would merge with a separator.
            pieces[i].piece = text.decode("latin-1").replace("\0", NUL)
            pieces[i].type = pieces[i].NORMAL
            pieces[i].score = -float(rank.get(token, 0))
        unknown = proto.pieces.add(piece=f"{_UNNAMED}unknown")
        unknown.type = unknown.UNKNOWN
        trainer, normalizer = proto.trainer_spec, proto.normalizer_spec
        trainer.model_type = trainer.BPE
        trainer.vocab_size = len(proto.pieces)
        trainer.unk_id = self.vocab_size
        trainer.bos_id = trainer.eos_id = trainer.pad_id = -1
        normalizer.name = "identity"
        normalizer.add_dummy_prefix = False
        normalizer.remove_extra_whitespaces = False
        normalizer.escape_whitespaces = False
        return proto.SerializeToString(deterministic=True)


@functools.cache
def _word_pattern() -> re.Pattern[str]:
    r"""Returns the published pattern, with the classes of TensorFlow's RE2.

    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
    """
    letters, digits = one_or_more(ranges("L")), one_or_more(ranges("N"))
    signs = one_or_more_outside(ranges("L", "N") + WHITE_SPACE)
    spaces = "[" + "".join(f"\\u{first:04x}-\\u{last:04x}" for first, last in WHITE_SPACE) + "]"
    not_space = spaces.replace("[", "[^")
    return re.compile(
        rf"'(?:[stmd]|re|ve|ll)| ?{letters}| ?{digits}| ?{signs}|{spaces}+(?!{not_space})|{spaces}+"
    )
