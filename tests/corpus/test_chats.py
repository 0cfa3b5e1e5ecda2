"""Chats that people export: recognized as dialogues of the person who answers."""

import json
from datetime import datetime, timedelta

import pytest

import minigpt
from minigpt.config.loading import load_new_config
from minigpt.corpus.chats import is_whatsapp, whatsapp
from minigpt.corpus.dialogues import Dialogues
from minigpt.corpus.sources import read_own
from minigpt.corpus.split import split, split_corpus
from minigpt.errors import UserError
from minigpt.training.start import complete_settings
from tests.cli.running import SMALL, called, refused
from tests.corpus.test_formats import zipped
from tests.corpus.test_text_files import read, write
from tests.settings import data_config

IPHONE = """\u200e[20.06.19, 15:58:57] Ana & Ben: \u200eMessages and calls are end-to-end encrypted.
[20.06.19, 15:58:58] Ana: I was first
[20.06.19, 15:59:00] ~\u202fBen: Hello:
two lines
[20.06.19, 15:59:01] ~\u202fBen: and more
\u200e[20.06.19, 15:59:02] Ana: \u200eimage omitted
[20.06.19, 15:59:10] Ana: Hi! \u200e<This message was edited>
[20.06.19, 16:10:10] Ana: bye
[21.06.19, 09:00:00] ~\u202fBen: Morning
[21.06.19, 09:00:07] Ana: Yes?
"""
ANDROID = """20/06/2019, 15:58 - Messages and calls are end-to-end encrypted.
20/06/2019, 15:58 - Ana: I was first
20/06/2019, 15:59 - Ben: Hello:
two lines
20/06/2019, 15:59 - Ben: and more
20/06/2019, 15:59 - Ana: <Media omitted>
20/06/2019, 15:59 - Ana: \u200eIMG-20190620-WA0001.jpg (file attached)
20/06/2019, 15:59 - Ana: Hi!
20/06/2019, 16:10 - Ana: bye
21/06/2019, 09:00 - Ben: Morning
21/06/2019, 09:00 - Ana: Yes?
"""
AMERICAN = """6/20/19, 11:58\u202fAM - Ana: I was first
6/20/19, 11:59\u202fAM - Ben: Hello:
two lines
6/20/19, 11:59\u202fAM - Ben: and more
6/20/19, 11:59\u202fAM - Ana: Hi!
6/20/19, 1:10\u202fPM - Ana: bye
6/21/19, 9:00\u202fAM - Ben: Morning
6/21/19, 9:00\u202fAM - Ana: Yes?
"""
SAID = [
    ("2019-06-20T15:58:57", "Ana", "I was first"),
    ("2019-06-20T15:59:00", "Ben", "Hello:\ntwo lines"),
    ("2019-06-20T15:59:01", "Ben", "and more"),
    ("2019-06-20T15:59:05", "Ana", ""),
    ("2019-06-20T15:59:10", "Ana", "Hi!"),
    ("2019-06-20T16:10:10", "Ana", "bye"),
    ("2019-06-21T09:00:00", "Ben", "Morning"),
    ("2019-06-21T09:00:07", "Ana", "Yes?"),
]
TELEGRAM_MESSAGES = [
    {
        "type": "message",
        "date": at,
        "from": name,
        "text": [{"type": "bold", "text": text[:2]}, text[2:]],
    }
    for at, name, text in SAID
]
PINNED = {"type": "service", "date": "2019-06-20T15:00:00", "actor": "Ben", "text": ""}
TELEGRAM = {"name": "Ben", "type": "personal_chat", "messages": [PINNED, *TELEGRAM_MESSAGES]}
DISCORD_MESSAGES = [
    {
        "type": "Default",
        "timestamp": f"{at}.123+00:00",
        "content": text,
        "author": {"name": "x", "nickname": name},
    }
    for at, name, text in SAID
]
JOINED = {**DISCORD_MESSAGES[0], "type": "GuildMemberJoin"}
DISCORD = {"guild": {"name": "Hills"}, "messages": [JOINED, *DISCORD_MESSAGES]}
FILES = {
    "_chat.txt": IPHONE,
    "android.txt": ANDROID,
    "american.txt": AMERICAN,
    "result.json": json.dumps(TELEGRAM, indent=1),
    "discord.json": json.dumps(DISCORD),
    "wide.txt": IPHONE.encode("utf-16"),
    "WhatsApp Chat.zip": zipped({"_chat.txt": IPHONE}),
}
# As the languages of phones write the same chat: times without seconds.
HEADERS = {
    "%d/%m/%Y %H:%M - ": "Portuguese, French",
    "%d.%m.%Y klo %H.%M - ": "Finnish",
    "[%Y-%m-%d %H:%M:%S] ": "Swedish",
    "[%Y/%m/%d %H:%M:%S] ": "Japanese",
    "%Y. %m. %d. 오후 %I:%M - ": "Korean",
    "%Y/%m/%d, 下午%I:%M - ": "Chinese",
    "%d.%m.%y г., %H:%M ч. - ": "Bulgarian",
    "\u200f%d\u200f/%m\u200f/%Y، %I:%M م - ": "Arabic",
    "%d/%m/%Y, %I:%M p. m. - ": "Spanish",
    "%Y-%m-%d %H h %M - ": "Canadian French",
}
# What stands in place of a message, and what remains of it.
NO_MESSAGES = {
    "Diese Nachricht wurde gelöscht.": "",
    "Du hast diese Nachricht gelöscht.": "",
    "Se eliminó este mensaje.": "",
    "Missed voice call": "",
    "POLL:\nTea?\nOPTION: Yes (2 votes)\nOPTION: No (0 votes)": "",
    "gut <Diese Nachricht wurde bearbeitet.>": "gut",
    "IMG-1.jpg (file attached)\nA cat": "A cat",
    "I deleted the message": "I deleted the message",
    "I <3 you": "I <3 you",
}
OF_ANA = [
    [["user", "Hello:\ntwo lines\nand more"], ["assistant", "Hi!\nbye"]],
    [["user", "Morning"], ["assistant", "Yes?"]],
]
TEXTS = [
    "Ana: I was first\nBen: Hello:\ntwo lines\nBen: and more\nAna: Hi!\nAna: bye",
    "Ben: Morning\nAna: Yes?",
]


def dialogues(path, me=None):
    return [json.loads(piece.text) for piece in Dialogues([path], me=me).pieces()]


@pytest.mark.parametrize("name", FILES)
def test_a_chat_is_read(tmp_path, name, messages):
    path = write(tmp_path / name, FILES[name])
    # Among other texts, it has the names of those who speak.
    assert read(path) == TEXTS
    assert dialogues(path) == OF_ANA
    config = complete_settings(load_new_config(None, [], [str(path)]), measures_speed=False)[
        0
    ].config
    assert config.data.source == "dialogues" and config.data.me == "Ana"
    assert sum("the model answers as Ana" in line for line in messages()) == 1


def test_who_answers(tmp_path):
    path = write(tmp_path / "a.txt", ANDROID)
    assert dialogues(path, "Ben") == [
        [["user", "I was first"], ["assistant", "Hello:\ntwo lines\nand more"]]
    ]
    group = ANDROID.replace("Ben: Morning", "Eve: Morning\n21/06/2019, 09:00 - Ben: Good morning")
    (_, last) = dialogues(write(tmp_path / "b.txt", group), "Ana")
    assert last[0] == ["user", "Eve: Morning\nBen: Good morning"]
    with pytest.raises(UserError, match=r"'Anna'.*did you mean Ana"):
        dialogues(path, "Anna")
    # What resembles a chat.
    assert not is_whatsapp("20/06/2019, 15:58 - it began\n20/06/2019, 15:59 - it ended\n")
    for level in ("ERROR", "local.INFO"):
        assert not is_whatsapp(f"[2024-01-05 15:58:57] {level}: it failed\n" * 9)


@pytest.mark.parametrize("header", HEADERS)
def test_the_headers_of_all_languages_are_read(header):
    times = [datetime(2019, 6, day, hour) for day in (9, 10, 13) for hour in (18, 19)]
    lines = [time.strftime(header) + f"Ana: it is {time}\n" for time in times]
    assert is_whatsapp("".join(lines))
    found = [row["speakers"] for row in whatsapp("".join(lines))]
    assert found == [[["Ana", f"it is {time}"] for time in times[n : n + 2]] for n in (0, 2, 4)]


def test_what_is_no_message_is_left_out():
    system = (
        'Ana created group "Trip: Rome"',
        "Ana changed the subject from “Rome: 1” to “Rome: 2”",
    )
    contents = [f"Ana: {content}" for content in NO_MESSAGES]
    lines = (f"20/06/2019, 15:58 - {content}\n" for content in (*system, *contents))
    (row,) = whatsapp("".join(lines))
    assert row["speakers"] == [["Ana", text] for text in NO_MESSAGES.values() if text]


def test_the_person_who_is_in_all_chats_answers(tmp_path, messages):
    chats = []
    for name, count in (("Ben", 8), ("Carl", 2)):
        said = [PINNED, *TELEGRAM_MESSAGES[:1], *[{**TELEGRAM_MESSAGES[1], "from": name}] * count]
        chats.append({"name": name, "messages": [*said, TELEGRAM_MESSAGES[4]]})
    everything = {
        "contacts": {"list": [{"first_name": "Ben"}, {"first_name": "Ben"}]},
        "chats": {"list": [*chats, {"name": "Deleted", "messages": []}]},
    }
    write(tmp_path / "all" / "result.json", json.dumps(everything))
    for number, chat in enumerate(chats):
        write(tmp_path / "each" / f"{number}.json", json.dumps(chat))
    for path in (tmp_path / "all" / "result.json", tmp_path / "each" / "*.json"):
        data = data_config(source="files", paths=[str(path)], val_fraction=0.5)
        assert read_own(data)[0].me == "Ana" and "answers as Ana" in messages()[1]
    # A chat without the person is left out.
    assert len(dialogues(tmp_path / "each" / "*.json", "Carl")) == 1


def test_a_single_conversation_is_divided(tmp_path):
    lines = [f"20/06/2019, 15:58 - {('Ana', 'Ben')[n % 2]}: {n}\n" for n in range(300)]
    path = write(tmp_path / "chat.txt", "".join(lines))
    assert len(dialogues(path)) == 10
    documents = Dialogues([path]).read()
    train, val = split_corpus(documents, data_config(source="dialogues", paths=[str(path)]))
    assert len(train) == 9 and len(val) == 1
    with pytest.raises(UserError, match="one dialogue"):
        split(val, 0.1, divides=False)


def test_chats_among_other_texts_are_texts(tmp_path):
    more = "22/06/2019, 09:00 - Ana: Good day\n22/06/2019, 09:00 - Ben: Good\n"
    write(tmp_path / "chat.txt", ANDROID + more)
    write(tmp_path / "book.txt", "Ana sat on the hill. " * 200)
    chosen = complete_settings(load_new_config(None, [], [str(tmp_path)]), measures_speed=False)[0]
    assert chosen.config.data.source == "files"
    with pytest.raises(UserError, match=r"data\.me = 'Ana'.*book\.txt"):
        complete_settings(load_new_config(None, ["data.me=Ana"], [str(tmp_path)]))
    (tmp_path / "book.txt").unlink()
    chosen = complete_settings(load_new_config(None, ["data.me=Ben"], [str(tmp_path)]))[0].config
    assert chosen.data.me == "Ben" and chosen.data.source == "dialogues"


def exported(kind: str, said: list[tuple[datetime, str, str]]) -> tuple[str, str]:
    """Returns the name and the content of the file that a program exports."""
    if kind == "whatsapp":
        lines = [f"[{at:%d.%m.%y, %H:%M:%S}] {name}: {text}\n" for at, name, text in said]
        return "_chat.txt", "".join(lines)
    if kind == "telegram":
        found = [
            {"type": "message", "date": at.isoformat(), "from": name, "text": text}
            for at, name, text in said
        ]
        return "result.json", json.dumps(TELEGRAM | {"messages": found})
    found = [
        JOINED
        | {"type": "Default", "timestamp": f"{at.isoformat()}.123+00:00", "content": text}
        | {"author": {"name": "x", "nickname": name}}
        for at, name, text in said
    ]
    return "discord.json", json.dumps(DISCORD | {"messages": found})


@pytest.mark.parametrize("kind", ["whatsapp", "telegram", "discord"])
def test_a_chat_is_trained_on_and_answers(kind, tmp_path, no_export, without_xla):
    time, said = datetime(2020, 6, 20, 9), []
    for number in range(400):
        time += timedelta(minutes=(1, 2, 300)[number % 3])
        text = "We sat on the hill." if number % 2 else f"And you ate {number} figs?"
        said.append((time, ("Ana", "Ben")[number % 2], text))
    name, content = exported(kind, said)
    write(tmp_path / name, content)
    given = ("train", "--text", name, "--run", "run", "--base", "none", *SMALL)
    given += tuple(f"--set={each}" for each in ("model.max_len=64", "training.epochs=1"))
    (line,) = refused(*given, "--me", "Eve", cwd=tmp_path)
    assert "--me 'Eve'" in line and "Ana" in line
    done = called(*given, "--me", "Ben", "--set=training.steps_per_epoch=1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert minigpt.Run(tmp_path / "run").config.data.me == "Ben"
    done = called("chat", "run", "--json", cwd=tmp_path, input="And you ate 7 figs?\n")
    assert done.returncode == 0 and json.loads(done.stdout)["question"] == "And you ate 7 figs?"
    if kind == "whatsapp":
        done = called("evaluate", "run", "--text", name, "--json", cwd=tmp_path)
        assert json.loads(done.stdout)["tokens"] > 1000


def test_me_is_for_chats(tmp_path):
    (line,) = refused("train", "--config", "default", "--me", "Ana", cwd=tmp_path)
    assert "--set" not in line
    assert "--me 'Ana': belongs to data.source = 'files' or 'dialogues', not 'stories'" in line
