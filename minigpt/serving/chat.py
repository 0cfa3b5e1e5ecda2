"""`/v1/chat/completions`: answers dialogues, as in OpenAI's protocol."""

import asyncio
from typing import Any

from minigpt.errors import UserError
from minigpt.generation.prompts import chat_prompt
from minigpt.serving.completions import Completion, read_completion
from minigpt.serving.generation import Part, TokenDescription
from minigpt.serving.schema import ChatBody, CompletionBody, RequestError, problem
from minigpt.serving.served_model import ServedModel


class ChatCompletion(Completion):
    """A request for answers of one dialogue; see `Completion`."""

    prefix, kind, streamed_kind = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def _choice(
        self, index: int, part: Part, offset: int = 0, streamed: bool = False
    ) -> dict[str, Any]:
        message: dict[str, str] = {"role": "assistant", "content": part.text}
        # The role is in the first event of a text only.
        if streamed and index in self._begun:
            del message["role"]
            if not part.text:
                message = {}
        self._begun.add(index)
        logprobs = None
        if self.body.logprobs is not None and part.tokens:
            logprobs = {"content": [_described(token) for token in part.tokens]}
        return {
            "index": index,
            "delta" if streamed else "message": message,
            "logprobs": logprobs,
            "finish_reason": part.finish_reason,
        }


def _described(token: TokenDescription) -> dict[str, Any]:
    most = sorted((token.top or {}).items(), key=lambda item: -item[1])
    top = [_named(name, logprob) for name, logprob in most]
    return {**_named(token.name, token.logprob), "top_logprobs": top}


def _named(name: str, logprob: float | None) -> dict[str, Any]:
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
