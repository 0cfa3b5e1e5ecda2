"""From the fields of a request to token ids."""

import asyncio

from minigpt.errors import UserError
from minigpt.generation.prompts import check_prompt
from minigpt.serving.errors import RequestError, as_request_error, problem
from minigpt.serving.schema import MOST_TEXTS, Texts
from minigpt.serving.served_model import ServedModel


async def token_ids(model: ServedModel, texts: Texts, field: str, most: int) -> list[list[int]]:
    """Returns the token ids of each text of a field.

    Args:
      model: the model.
      texts: the value of the field.
      field: its name.
      most: the maximum number of tokens of a text.
    Raises:
      RequestError: there are too many texts, one is too long, is not valid Unicode, or has a token that is
        outside the vocabulary.
    """
    listed = _as_list(texts)
    if not 1 <= len(listed) <= MOST_TEXTS:
        message = f"{field}: has {len(listed)} texts; should have from 1 to {MOST_TEXTS}"
        raise RequestError(400, message, field)
    found = []
    for text in listed:
        ids = await _encoded(model, text, field, most) if isinstance(text, str) else text
        if len(ids) > most:
            raise _too_long(field, most)
        for token in ids:
            if not 0 <= token < model.tokenizer.vocab_size:
                message = f"should be a token from 0 to {model.tokenizer.vocab_size - 1}"
                raise problem(field, token, message)
        found.append(ids)
    return found


def _as_list(texts: Texts) -> list[str] | list[list[int]]:
    if isinstance(texts, str):
        return [texts]
    if texts and isinstance(texts[0], int):
        return [texts]
    return texts  # type: ignore[return-value]


async def _encoded(model: ServedModel, text: str, field: str, most: int) -> list[int]:
    try:
        check_prompt(text, field)
    except UserError as error:
        raise as_request_error(error.args[0]) from None
    # A text that is much too long is not encoded.
    if model.longest_piece is not None and len(text) > most * model.longest_piece:
        raise _too_long(field, most)
    # Long texts take a while. Others are answered meanwhile.
    encode = model.tokenizer.encode
    ids = encode(text) if len(text) < 1000 else await asyncio.to_thread(encode, text)
    return ids.tolist()


def _too_long(field: str, most: int) -> RequestError:
    message = f"{field}: should have at most {most} tokens"
    return RequestError(400, message, field, "context_length_exceeded")
