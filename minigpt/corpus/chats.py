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
# A longer pause begins another conversation, and so do the most messages; or a tenth, if they are enough.
_PAUSE, _LEAST_MESSAGES, _MOST_MESSAGES = timedelta(hours=4), 10, 500
# "[20.06.19, 15:58:57] Ana: ...", "20/06/2019 15:58 - Ana: ...", "2024/1/5, 下午3:58 - Ana: ...", with
# marks of direction. A name is no level of a log, and has no quotation marks, as notices about groups have.
_HEADER = re.compile(
    r"^[\u200e\u200f\ufeff]*(\[)?(\d{1,4})[^\w\n:]{1,3}(\d{1,2})[^\w\n:]{1,3}(\d{1,4})"
    r"([^\d\n:\[\]]{1,14}?)(\d{1,2})(?:[:.]| ?h ?)(\d{2})(?:[:.](\d{2}))?([^\d\n:\[\]]{0,9}?)"
    r"(?(1)\] | [-–] )(?!\S*(?:DEBUG|INFO|WARN|ERROR|CRITICAL|FATAL))(?:([^:\n\"“”„«»]+): )?",
    re.MULTILINE,
)
_AFTERNOON = re.compile(r"p\.?\s?m|下午|晚上|午後|오후|μ\.?μ|م", re.IGNORECASE)
_MARKS = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
# A line that begins with a mark, the name of a file, and a remark at the end are WhatsApp's.
_NOTICES = re.compile(
    r"(?m)^\u200e.*|\A\S+\.\w{2,5} \([^()\n]*\)$|\s*\u200e?<[^<>=\"/\n]* [^<>=\"\n]*>\s*\Z"
)
# Media, polls, deleted messages and calls; what has no mark is known in seven languages.
_OMITTED = re.compile(
    r"<[^<>]{3,60}>|[^\W\d_a-z]{4,} ?:\n(?s:.*)\(\d+ [\w ]+\)|(?i:null"
    r"|(?:image|video|audio|sticker|gif|document|contact card) omitted"
    r"|(?=.*(?:delet|gelöscht|elimin|apag|supprim|verwijder)).{,25}(?:this message|diese nachricht"
    r"|este mensaje|mensagem|ce message|questo messaggio|dit bericht).{,25}"
    r"|(?:missed|verpasste\w?|gemiste) .{,20}(?:call|anruf|oproep).{,30}"
    r"|\w*(?:llamada|chamada|appel|chiamata) .{,20}(?:perdida|manqué|persa))"
)


def is_whatsapp(head: str) -> bool:
    """Returns whether the beginning of a text is that of a chat that WhatsApp has exported."""
    spoken = sum(bool(match[10]) for match in _HEADER.finditer(head))
    is_first = bool(_HEADER.match(head.lstrip()))
    return is_first and spoken >= max(2, head.count("\n") // 10)


def whatsapp(text: str) -> list[dict[str, Any]]:
    """Returns the conversations of a text for which `is_whatsapp` is true."""
    found = list(_HEADER.finditer(text))
    # Hours are up to 12 if one of them is in the afternoon.
    is_half = any(_AFTERNOON.search(match[5] + match[9]) for match in found)

    def messages(order: tuple[int, int, int]) -> Iterator[Message]:
        for match, after in zip(found, [*found[1:], None], strict=True):
            content = text[match.end() : after.start() if after else None]
            content = _MARKS.sub("", _NOTICES.sub("", content)).strip()
            name = _MARKS.sub("", match[10] or "").removeprefix("~").strip()
            year, month, day, hour, minute = (int(match[group]) for group in (*order, 6, 7))
            if is_half:
                hour = hour % 12 + 12 * bool(_AFTERNOON.search(match[5] + match[9]))
            # Other lines can look like the first one of a message.
            with suppress(ValueError):
                time = datetime(year % 100 + 2000, month, day, hour, minute, int(match[8] or 0))
                if name and not _OMITTED.fullmatch(content):
                    yield time, name, content

    # The order of day and month is that in which the messages follow each other.
    orders = [*sorted([(4, 2, 3), (4, 3, 2)], reverse=not is_half), (2, 3, 4)]
    read = (list(messages(order)) for order in orders)
    return conversations(max(read, key=lambda ms: sum(a <= b for (a, *_), (b, *_) in pairwise(ms))))


def exported(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the conversations of Telegram's or Discord's JSON; [] if it is something else."""
    # All chats of a person: the rows have the number of their chat.
    if isinstance(chats := content.get("chats"), dict) and isinstance(chats.get("list"), list):
        found = enumerate(exported(chat) for chat in chats["list"] if isinstance(chat, dict))
        return [row | {"chat": number} for number, rows in found for row in rows]
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
    most = min(_MOST_MESSAGES, max(_LEAST_MESSAGES, len(with_text) // 10))
    rows: list[list[list[str]]] = [[]]
    for before, (time, name, text) in pairwise([*with_text[:1], *with_text]):
        if abs(time - before[0]) > _PAUSE or len(rows[-1]) >= most:
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
