"""Exported chats of WhatsApp, Telegram and Discord, as conversations.

A conversation is a row: its `text`, for a model of text, and its `speakers`, pairs of name and message, for
dialogues. System messages and omitted media are left out.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

# A pause of so many hours begins another conversation, and so do so many messages.
PAUSE_HOURS, MOST_MESSAGES = 4, 500
SPEAKERS = "speakers"
# "[20.06.19, 15:58:57] Ana: ..." and "20/06/2019, 15:58 - Ana: ...", with marks of direction.
_HEADER = re.compile(
    r"[\u200e\u200f]*\[?(\d{1,4})[./-](\d{1,2})[./-](\d{1,4})[,،] "
    r"(\d{1,2})[:.](\d{2})(?:[:.](\d{2}))?(?:\s?([ap])\.?\s?m\.?)?(?:\] | - )(.*)",
    re.IGNORECASE | re.DOTALL,
)
_MARKS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
_EDITED = re.compile(r"\s*\u200e<[^<>]*>\s*$")
_OMITTED = re.compile(
    r"<[^<>]{3,60}>|(?:image|video|audio|sticker|gif|document|contact card) omitted"
    r"|\S+\.\w{2,5} \([^()]*\)|this message was deleted\.?|you deleted this message\.?|null",
    re.IGNORECASE,
)


class Message(NamedTuple):
    time: datetime
    name: str
    text: str


def is_whatsapp(head: str) -> bool:
    """Returns whether the beginning of a text is that of a chat that WhatsApp has exported."""
    lines = [line for line in head.splitlines() if line.strip()]
    found = [match for line in lines if (match := _HEADER.match(line))]
    spoken = sum(": " in match[8] for match in found)
    return bool(found) and bool(_HEADER.match(lines[0])) and spoken >= max(2, len(lines) // 10)


def whatsapp(text: str) -> Iterator[dict[str, Any]]:
    """Yields the conversations of a text for which `is_whatsapp` is true."""
    found: list[re.Match[str]] = []
    bodies: list[list[str]] = []
    for line in text.splitlines():
        if match := _HEADER.match(line):
            found.append(match)
            bodies.append([match[8]])
        elif bodies and not line.startswith("\u200e"):
            bodies[-1].append(line)
    dates = [tuple(map(int, match.group(1, 2, 3))) for match in found]
    twelve_hours = any(match[7] for match in found)
    if any(first > 31 for first, _, _ in dates):
        order = (0, 1, 2)
    elif any(d[1] > 12 for d in dates) or (twelve_hours and all(d[0] <= 12 for d in dates)):
        order = (2, 0, 1)
    else:
        order = (2, 1, 0)
    messages, time = [], datetime.min
    for match, date, body in zip(found, dates, bodies, strict=True):
        year, month, day = (date[place] for place in order)
        hour = int(match[4]) % 12 + 12 * (match[7] in "pP") if match[7] else int(match[4])
        try:
            year += 2000 * (year < 100)
            time = datetime(year, month, day, hour, int(match[5]), int(match[6] or 0))
        except ValueError:
            pass  # That of the message before.
        name, colon, content = "\n".join(body).partition(": ")
        # Media and notices begin with a mark.
        if colon and "\n" not in name and not content.startswith("\u200e"):
            name = _MARKS.sub("", name).removeprefix("~").strip()
            messages.append(Message(time, name, _MARKS.sub("", _EDITED.sub("", content))))
    return conversations(message for message in messages if not _OMITTED.fullmatch(message.text))


def exported(content: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """Returns the conversations of Telegram's or Discord's JSON; None if it is something else."""
    listed = content.get("chats")
    chats = listed.get("list") if isinstance(listed, dict) else [content]
    found = []
    for chat in chats if isinstance(chats, list) else ():
        messages = chat.get("messages") if isinstance(chat, dict) else None
        objects = [each for each in messages or () if isinstance(each, dict)]
        if any("date" in each and "text" in each for each in objects):
            found += conversations(_telegram(objects))
        elif any("timestamp" in each and "author" in each for each in objects):
            found += conversations(_discord(objects))
    return found or None


def _telegram(messages: Iterable[dict[str, Any]]) -> Iterator[Message]:
    for each in messages:
        if each.get("type") == "message":
            parts = each["text"] if isinstance(each["text"], list) else [each["text"]]
            text = "".join(p if isinstance(p, str) else str(p.get("text", "")) for p in parts)
            name = str(each.get("from") or each.get("from_id"))
            yield Message(datetime.fromisoformat(each["date"]), name, text)


def _discord(messages: Iterable[dict[str, Any]]) -> Iterator[Message]:
    for each in messages:
        if each.get("type") in ("Default", "Reply"):
            name = str(each["author"].get("nickname") or each["author"]["name"])
            yield Message(datetime.fromisoformat(each["timestamp"]), name, each["content"])


def conversations(messages: Iterable[Message]) -> Iterator[dict[str, Any]]:
    """Yields a row for each conversation; messages without text are left out."""
    row: list[Message] = []
    for message in messages:
        if not message.text.strip():
            continue
        if row and (
            abs((message.time - row[-1].time).total_seconds()) > 3600 * PAUSE_HOURS
            or len(row) >= MOST_MESSAGES
        ):
            yield _row(row)
            row = []
        row.append(message)
    if row:
        yield _row(row)


def _row(messages: Sequence[Message]) -> dict[str, Any]:
    speakers = [[message.name, message.text.strip()] for message in messages]
    return {"text": "\n".join(map(": ".join, speakers)), SPEAKERS: speakers}


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


def count_messages(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Returns the number of messages of each person."""
    return Counter(name for row in rows for name, _ in row.get(SPEAKERS, ()))
