"""Texts of a given form, by the library llguidance (https://github.com/guidance-ai/llguidance)."""

import json
import re
from typing import Any

import numpy as np

from minigpt.environment import install_command
from minigpt.errors import ArgumentProblem, UserError
from minigpt.generation.controls import LogitsProcessor, Processor
from minigpt.tokenizers.vocabulary import Vocabulary

# White space in JSON as `json.dumps` writes it. Otherwise, it may be anywhere and of any length.
_JSON: Any = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}


class Grammar(LogitsProcessor):
    """Has a model write only what a grammar allows. The text ends when it is complete.

    Args:
      kind: "grammar": one of llama.cpp (GBNF); "regex": a regular expression that the whole text matches,
        in the syntax of Rust's crate `regex`; "json_schema": a schema of JSON.
      source: the grammar, the expression, or the schema as JSON.
      given: what messages show in its place, such as a file.
    Raises:
      UserError: it cannot be read, or llguidance is not installed.
    """

    def __init__(self, kind: str, source: str, given: Any = None) -> None:
        try:
            import llguidance
            from llguidance.gbnf_to_lark import gbnf_to_lark
        except ModuleNotFoundError:
            raise UserError(f"llguidance is not installed: {install_command('grammar')}") from None
        self._library: Any = llguidance
        matcher = llguidance.LLMatcher
        try:
            if kind == "json_schema":
                json.loads(source)
                self._grammar = matcher.grammar_from_json_schema(source, overrides=_JSON)
            elif kind == "grammar":
                self._grammar = matcher.grammar_from_lark(gbnf_to_lark(source))
            else:
                self._grammar = matcher.grammar_from_regex(source)
            problem = matcher.validate_grammar(self._grammar)
        except Exception as error:  # Of several types, such as IndexError.
            problem = str(error)
        if problem and not problem.startswith("WARNING"):
            problem = f"not a valid {kind.replace('_', ' ')}: {_reason(problem)}"
            raise UserError(ArgumentProblem(kind, given or source, problem))
        self._kind, self._given = kind, given or source
        self._tokens: tuple[Any, Any] = None, None

    def start(self, tokenizer: Vocabulary, prompt_ids: np.ndarray) -> Processor:
        if tokenizer.separator:
            raise UserError("a vocabulary of words cannot follow a grammar; train with another one")
        if self._tokens[0] is not tokenizer:
            tokens = self._library.TokenizerWrapper(_Tokens(tokenizer))
            self._tokens = tokenizer, self._library.LLTokenizer(tokens)
        matcher = self._library.LLMatcher(self._tokens[1], self._grammar, log_level=0)
        read = len(prompt_ids)

        def masked(ids: np.ndarray, logits: np.ndarray) -> np.ndarray:
            nonlocal read
            matcher.consume_tokens(ids[read:].tolist())
            read = len(ids)
            allowed = np.zeros(len(logits), bool)
            found = np.frombuffer(matcher.compute_logit_bias(), np.uint8)
            allowed[: len(found)] = found > 0
            text = tokenizer.decode(ids[len(prompt_ids) :])
            if matcher.is_error():
                reason = f"no text can follow {text!r}: {_reason(matcher.get_error())}"
                raise UserError(ArgumentProblem(self._kind, self._given, reason))
            if not np.isfinite(logits[allowed]).any():
                reason = f"no token of the vocabulary, or only banned ones, can follow {text!r}"
                raise UserError(ArgumentProblem(self._kind, self._given, reason))
            return np.where(allowed, logits, -np.inf)

        return masked


class _Tokens:
    """A vocabulary as llguidance takes it."""

    bos_token_id = None

    def __init__(self, tokenizer: Vocabulary) -> None:
        self.eos_token_id, self.tokens = tokenizer.end_id, tokenizer.pieces
        self.special_token_ids = [i for i, piece in enumerate(self.tokens) if not piece]
        self._encode = tokenizer.encode

    def __call__(self, text: str) -> list[int]:
        return self._encode(text).tolist()


def _reason(problem: str) -> str:
    """Returns the reason in an error of several lines."""
    reason = re.search("^error: (.*)", problem, re.M)
    return reason[1] if reason else re.sub(r"^at \d+\(\d+\): ", "", problem).partition("\n")[0]
