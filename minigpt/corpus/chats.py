"""Exported chats of WhatsApp, Telegram and Discord, as conversations.

A conversation is a row: its `text`, for a model of text, and its `speakers`, pairs of name and message, for
dialogues. System messages and omitted media are left out.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

# Time, name and text.
Message = tuple[datetime, str, str]
SPEAKERS = "speakers"
# A longer pause begins another conversation, and so does the message after this number.
_PAUSE, _MOST_MESSAGES = timedelta(hours=4), 500
# "[20.06.19, 15:58:57] Ana: ..." and "20/06/2019, 15:58 - Ana: ...", with marks of direction.
_HEADER = re.compile(
    r"^[\u200e\u200f\ufeff]*\[?(\d{1,4})[./-](\d{1,2})[./-](\d{1,4})[,،] "
    r"(\d{1,2})[:.](\d{2})(?:[:.](\d{2}))?(?:\s?([ap])\.?\s?m\.?)?(?:\] | - )(?:([^:\n]+): )?",
    re.IGNORECASE | re.MULTILINE,
)
_MARKS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
# A line that begins with a mark, and a remark at the end, are WhatsApp's.
_NOTICES = re.compile(r"(?m)^\u200e.*|\s*\u200e<[^<>]*>\s*\Z")
_OMITTED = re.compile(
    r"<[^<>]{3,60}>|(?:image|video|audio|sticker|gif|document|contact card) omitted"
    r"|\S+\.\w{2,5} \([^()]*\)|this message was deleted\.?|you deleted this message\.?|null",
    re.IGNORECASE,
)


def is_whatsapp(head: str) -> bool:
    """Returns whether the beginning of a text is that of a chat that WhatsApp has exported."""
    spoken = sum(bool(match[8]) for match in _HEADER.finditer(head))
    is_first = bool(_HEADER.match(head.lstrip()))
    return is_first and spoken >= max(2, head.count("\n") // 10)


def whatsapp(text: str) -> list[dict[str, Any]]:
    """Returns the conversations of a text for which `is_whatsapp` is true."""
    found = list(_HEADER.finditer(text))
    dates = [tuple(map(int, match.group(1, 2, 3))) for match in found]
    # Day and month are told apart by numbers above 12; with a.m. and p.m., the month is first.
    largest = max(date[0] for date in dates)
    is_month_first = any(date[1] > 12 for date in dates) or any(match[7] for match in found)
    order = (
        (0, 1, 2) if largest > 31 else (2, 0, 1) if is_month_first and largest < 13 else (2, 1, 0)
    )
    messages: list[Message] = []
    ends = [*(match.start() for match in found[1:]), len(text)]
    for match, date, end in zip(found, dates, ends, strict=True):
        year, month, day = (date[place] for place in order)
        hour = int(match[4]) % 12 + 12 * (match[7] in "pP") if match[7] else int(match[4])
        content = _MARKS.sub("", _NOTICES.sub("", text[match.end() : end])).strip()
        name = _MARKS.sub("", match[8] or "").removeprefix("~").strip()
        # Other lines can look like the first one of a message.
        with suppress(ValueError):
            time = datetime(year % 100 + 2000, month, day, hour, int(match[5]), int(match[6] or 0))
            if name and not _OMITTED.fullmatch(content):
                messages.append((time, name, content))
    return conversations(messages)


def exported(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the conversations of Telegram's or Discord's JSON; [] if it is something else."""
    messages = content.get("messages")
    if not isinstance(messages, list) or {type(each) for each in messages} != {dict}:
        return []
    return conversations(_messages(messages))


def _messages(messages: Iterable[Mapping[str, Any]]) -> Iterator[Message]:
    """Yields the messages of people; those of other types are the program's."""
    for each in messages:
        if each.get("type") == "message" and "date" in each:
            parts = each["text"] if isinstance(each["text"], list) else [each["text"]]
            text = "".join(part if isinstance(part, str) else part["text"] for part in parts)
            name = each.get("from") or each.get("from_id")
            yield datetime.fromisoformat(each["date"]), str(name), text
        elif each.get("type") in ("Default", "Reply") and "timestamp" in each:
            name = each["author"].get("nickname") or each["author"]["name"]
            yield datetime.fromisoformat(each["timestamp"]), name, each["content"]


def conversations(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Returns a row for each conversation; messages without text are left out."""
    with_text = [message for message in messages if message[2].strip()]
    rows: list[list[list[str]]] = [[]]
    for before, (time, name, text) in pairwise([*with_text[:1], *with_text]):
        if abs(time - before[0]) > _PAUSE or len(rows[-1]) >= _MOST_MESSAGES:
            rows.append([])
        rows[-1].append([name, text.strip()])
    return [{"text": "\n".join(map(": ".join, row)), SPEAKERS: row} for row in rows if row]


def turns(speakers: Sequence[Sequence[str]], me: str) -> list[dict[str, str]]:
    """Returns a conversation as questions and answers: the messages of one person are the answers.

    The messages between two answers are one question. They begin with the name if there are several other
    people. What precedes the first question and follows the last answer is left out.
    """
    is_group = len({name for name, _ in speakers} - {me}) > 1
    found: list[dict[str, str]] = []
    for name, text in speakers:
        role = "assistant" if name == me else "user"
        text = f"{name}: {text}" if is_group and name != me else text
        if found and found[-1]["role"] == role:
            found[-1]["content"] += f"\n{text}"
        elif found or role == "user":
            found.append({"role": role, "content": text})
    return found[: len(found) // 2 * 2]
