"""`/v1/completions` and `/v1/chat/completions`: continue prompts and dialogues, as in OpenAI's protocol.

`ServedModel` is the model with the limits of requests.
"""

import asyncio
import json
import math
import random
import re
import secrets
import time
from collections.abc import AsyncIterator
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

import minigpt
from minigpt.config.sampling import DISTRIBUTION, TextSettings, settings_of
from minigpt.errors import ArgumentProblem, UserError
from minigpt.generation.base_models import chat_prompt
from minigpt.serving.bodies import (
    MOST_TEXTS,
    ChatBody,
    CompletionBody,
    RequestError,
    Texts,
    problem,
)
from minigpt.serving.scheduler import Describer, Generation, TextPart, TokenDescription
from minigpt.storage.files import sha256_of
from minigpt.targets.gguf.instance import BatchEngine
from minigpt.targets.gguf.text_model import PortableTextModel
from minigpt.tokenizers.vocabulary import ContinuationText


class ServedModel:
    """A portable file with its settings, which the engine has, and the limits of requests.

    Attributes:
      longest_piece: the maximum number of characters of a token; None if a token can stand for any text.
      created: when the file was written, in seconds since 1970.
      fingerprint: begins with the first digits of the file's SHA-256.
    Raises:
      UserError: the file cannot be opened, or is a translation model.
    """

    def __init__(
        self,
        file: Path,
        name: str,
        sampling: TextSettings,
        most_prompt_tokens: int,
        most_new_tokens: int,
    ) -> None:
        model = minigpt.load_portable(file)
        if not isinstance(model, PortableTextModel):
            message = "is a translation model; the server continues texts"
            raise UserError(ArgumentProblem("run", file, message))
        self.name = name
        self.most_prompt_tokens, self.most_new_tokens = most_prompt_tokens, most_new_tokens
        self.tokenizer = model.tokenizer
        self.max_len = model.max_len
        lengths = map(len, self.tokenizer.pieces)
        self.longest_piece = max(lengths) if self.tokenizer.unknown_id is None else None
        self.created = int(file.stat().st_mtime)
        self.fingerprint = f"minigpt-{minigpt.__version__}-{sha256_of(file)[:12]}"
        self.settings = sampling


async def token_ids(model: ServedModel, texts: Texts) -> list[list[int]]:
    """Returns the token ids of each prompt.

    Raises:
      RequestError: there are too many prompts, one is too long, or one has a token that is outside the
        vocabulary.
    """
    is_one = isinstance(texts, str) or (texts and isinstance(texts[0], int))
    listed: Any = [texts] if is_one else texts
    if not 1 <= len(listed) <= MOST_TEXTS:
        message = f"prompt: has {len(listed)} texts; should have from 1 to {MOST_TEXTS}"
        raise RequestError(400, message, "prompt")
    found = []
    for text in listed:
        ids = await _encoded(model, text) if isinstance(text, str) else text
        if len(ids) > model.most_prompt_tokens:
            raise _too_long(model)
        for token in ids:
            if not 0 <= token < model.tokenizer.vocab_size:
                message = f"should be a token from 0 to {model.tokenizer.vocab_size - 1}"
                raise problem("prompt", token, message)
        found.append(ids)
    return found


async def _encoded(model: ServedModel, text: str) -> list[int]:
    # A text that is much too long is not encoded.
    longest = model.longest_piece
    if longest is not None and len(text) > model.most_prompt_tokens * longest:
        raise _too_long(model)
    # Long texts take a while. Others are answered meanwhile.
    encode = model.tokenizer.encode
    ids = encode(text) if len(text) < 1000 else await asyncio.to_thread(encode, text)
    return ids.tolist()


def _too_long(model: ServedModel) -> RequestError:
    message = f"prompt: should have at most {model.most_prompt_tokens} tokens"
    return RequestError(400, message, "prompt", "context_length_exceeded")


class Completion:
    """A request to continue prompts: its texts, and the objects of its answer.

    Attributes:
      generations: the texts: `n` for each prompt, one prompt after the other.
      event: is set when a part of a text is ready.
      work: the texts that engines have to continue.
      prefix: the beginning of the answer's id.
      kind, streamed_kind: the `object` of an answer, and of an event.
    """

    prefix, kind, streamed_kind = "cmpl", "text_completion", "text_completion"

    def __init__(
        self,
        body: CompletionBody,
        model: ServedModel,
        prompts: list[list[int]],
        settings: TextSettings,
    ) -> None:
        self.body, self.prompts = body, prompts
        self.n = body.n or 1
        self._model = model
        self._id, self._created = f"{self.prefix}-{secrets.token_hex(12)}", int(time.time())
        # The texts that a stream has begun.
        self._begun: set[int] = set()
        self.event = asyncio.Event()
        self._seed = seed = random.randrange(1_000_000) if body.seed is None else body.seed
        how: dict[str, Any] = {
            "settings": settings,
            "biases": _biases(body, model),
            "frequency_penalty": body.frequency_penalty or 0.0,
            "presence_penalty": body.presence_penalty or 0.0,
            "records": body.logprobs is not None,
        }
        # As in `minigpt sample`: text i of a prompt has the seed + i.
        self.generations = [
            Generation(
                start=partial(BatchEngine.start_slot, ids=prompt, seed=(seed + i) % 2**31, **how),
                text=ContinuationText(model.tokenizer, prompt, settings.stop),
                max_new_tokens=settings.max_new_tokens,
                describer=None
                if body.logprobs is None
                else Describer(model.tokenizer, prompt, body.logprobs),
                event=self.event,
                streams=bool(body.stream),
            )
            for prompt in prompts
            for i in range(self.n)
        ]
        self.work = self.generations if settings.max_new_tokens else []
        if not settings.max_new_tokens:
            for generation in self.generations:
                generation.deliver(TextPart(finish_reason="length"))

    async def answer(self, parts: AsyncIterator[tuple[int, TextPart]]) -> dict[str, Any]:
        """Returns the whole answer, made of the parts of the texts, by their number."""
        found = [TextPart() for _ in self.generations]
        async for number, part in parts:
            found[number] += part
        used = sum(part.token_count for part in found)
        choices = [self._choice(number, part) for number, part in enumerate(found)]
        return {**self._envelope(choices), "usage": self._usage(used)}

    async def events(self, parts: AsyncIterator[tuple[int, TextPart]]) -> AsyncIterator[str]:
        """Yields the answer as server-sent events; the last one is the error if there is one."""
        options = self.body.stream_options
        shows_usage = options is not None and options.include_usage
        offsets = dict.fromkeys(range(len(self.generations)), 0)
        used = 0

        def event(number: int, part: TextPart) -> str:
            choice = self._choice(number, part, offsets[number], streamed=True)
            envelope = self._envelope([choice])
            offsets[number] += sum(token.length for token in part.tokens)
            return _event({**envelope, "usage": None} if shows_usage else envelope)

        try:
            async for number, part in parts:
                used += part.token_count
                yield event(number, part)
        except RequestError as error:
            yield _event({"error": error.content()})
            return
        if shows_usage:
            yield _event({**self._envelope([]), "usage": self._usage(used)})
        yield "data: [DONE]\n\n"

    def _choice(
        self, index: int, part: TextPart, offset: int = 0, streamed: bool = False
    ) -> dict[str, Any]:
        """Returns an object of `choices`: a text, or a part of it after `offset` characters of tokens."""
        return {
            "index": index,
            **self._content(index, part, streamed),
            "logprobs": None if self.body.logprobs is None else self._logprobs(part, offset),
            "finish_reason": part.finish_reason,
        }

    def _content(self, index: int, part: TextPart, streamed: bool) -> dict[str, Any]:
        return {"text": part.text}

    def _logprobs(self, part: TextPart, offset: int) -> dict[str, list[Any]] | None:
        ends = list(accumulate((token.length for token in part.tokens), initial=offset))
        return {
            "tokens": [token.name for token in part.tokens],
            "token_logprobs": [token.logprob for token in part.tokens],
            "top_logprobs": [token.top for token in part.tokens],
            "text_offset": ends[:-1],
        }

    def _envelope(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        """Returns an answer, or an event of a stream."""
        return {
            "id": self._id,
            "object": self.streamed_kind if self.body.stream else self.kind,
            "created": self._created,
            "model": self._model.name,
            "system_fingerprint": self._model.fingerprint,
            "seed": self._seed,
            "choices": choices,
        }

    def _usage(self, completion_tokens: int) -> dict[str, int]:
        """Returns the numbers of tokens."""
        prompt_tokens = sum(map(len, self.prompts))
        return {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        }


async def read_completion(
    body: CompletionBody, model: ServedModel, kind: type[Completion] = Completion
) -> Completion:
    """Checks a request, and returns it as an object of a kind; a `RequestError` names a wrong field."""
    if body.stream_options is not None and not body.stream:
        raise RequestError(400, "stream_options: has an effect only with stream", "stream_options")
    if (body.max_tokens or 0) > model.most_new_tokens:
        raise problem("max_tokens", body.max_tokens, f"should be at most {model.most_new_tokens}")
    prompts = await token_ids(model, "" if body.prompt is None else body.prompt)
    if (count := len(prompts) * (body.n or 1)) > MOST_TEXTS:
        raise problem("n", body.n, f"asks for {count} texts; should be at most {MOST_TEXTS}")
    return kind(body, model, prompts, _settings(body, model))


def _settings(body: CompletionBody, model: ServedModel) -> TextSettings:
    changes = body.model_dump(include={s.name for s in DISTRIBUTION}, exclude_none=True)
    own = min(model.settings.max_new_tokens, model.most_new_tokens)
    changes["max_new_tokens"] = own if body.max_tokens is None else body.max_tokens
    if body.stop is not None:
        changes["stop"] = (body.stop,) if isinstance(body.stop, str) else tuple(body.stop)
    try:
        return settings_of({**vars(model.settings), **changes})
    except UserError as error:
        first = error.args[0]
        raise problem(first.name, first.value, first.message) from None


def _biases(body: CompletionBody, model: ServedModel) -> dict[int, float]:
    biases = {}
    most = model.tokenizer.vocab_size - 1
    for name, value in (body.logit_bias or {}).items():
        if not (re.fullmatch("0|[1-9][0-9]{0,8}", name) and int(name) <= most):
            raise problem("logit_bias", name, f"should be a token from 0 to {most}")
        if type(value) not in (int, float) or not -100 <= value <= 100:
            raise problem("logit_bias", value, "should be a number from -100 to 100")
        # OpenAI: -100 bans a token.
        biases[int(name)] = -math.inf if value == -100 else value
    return biases


def _event(value: dict[str, Any]) -> str:
    return f"data: {json.dumps(value, ensure_ascii=False, separators=(',', ':'))}\n\n"


class ChatCompletion(Completion):
    """A request for answers of one dialogue; see `Completion`."""

    prefix, kind, streamed_kind = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def _content(self, index: int, part: TextPart, streamed: bool) -> dict[str, Any]:
        message: dict[str, str] = {"role": "assistant", "content": part.text}
        # The role is in the first event of a text only.
        if streamed and index in self._begun:
            del message["role"]
            if not part.text:
                message = {}
        self._begun.add(index)
        return {"delta" if streamed else "message": message}

    def _logprobs(self, part: TextPart, offset: int) -> dict[str, list[Any]] | None:
        return {"content": list(map(_described, part.tokens))} if part.tokens else None


def _described(token: TokenDescription) -> dict[str, Any]:
    most = sorted(token.top.items(), key=lambda item: -item[1])
    top = [_named(name, logprob) for name, logprob in most]
    return {**_named(token.name, token.logprob), "top_logprobs": top}


def _named(name: str, logprob: float) -> dict[str, Any]:
    return {"token": name, "logprob": logprob, "bytes": list(name.encode())}


async def read_chat(body: ChatBody, model: ServedModel) -> Completion:
    """Checks a request.

    Raises:
      RequestError: the model was not trained on dialogues, or a field cannot be used.
    """
    if model.tokenizer.chat is None:
        message = "the model was not trained on dialogues; it continues text: use /v1/completions"
        raise RequestError(400, message, code="not_a_chat_model")
    if body.top_logprobs and not body.logprobs:
        raise problem("top_logprobs", body.top_logprobs, "has an effect only with logprobs")
    limit = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
    try:
        arguments = body.messages, model.tokenizer, model.max_len, limit
        prompt = await asyncio.to_thread(chat_prompt, *arguments)
    except UserError as error:
        raise RequestError(400, error.problems[0], "messages") from None
    if limit is None:
        limit = min(model.max_len - len(prompt.ids), model.most_new_tokens)
    own = {
        "prompt": prompt.ids.tolist(),
        "max_tokens": limit,
        "logprobs": (body.top_logprobs or 0) if body.logprobs else None,
    }
    asked = CompletionBody.model_construct(**dict(body) | own)
    return await read_completion(asked, model, ChatCompletion)
