"""The language of the bundled corpus: characters, capitals, punctuation, articles."""

import re
from typing import Any


def test_only_plain_characters_and_no_template_syntax(texts: list[str]) -> None:
    for text in texts:
        assert re.fullmatch(r"[A-Za-z \n.,:!?'\"-]+", text), text
        assert text == text.strip()
        assert not re.search(r"  | \n|\n |\n\n| [.,!?:]|[.,]{2}|[!?][.,]", text), text
        # Words doubled by mistake; "very, very" and "had had" are not in the material.
        assert not re.search(r"\b(\w+) \1\b", text), text


def test_sentences_begin_with_capitals_and_end_with_marks(texts: list[str]) -> None:
    speaking = r"(he |she |they |someone |they both )?(said|asked|cried|called|whispered)\b"
    verbs = r"|(he |she )?(thought|laughed|shouted|read|was the answer)\b"
    for text in texts:
        assert re.search(r'[.!?]"?$', text), text
        for paragraph in text.split("\n"):
            assert re.search(r'[.!?:]"?$', paragraph), paragraph
            assert paragraph[0] in '"' or paragraph[0].isupper(), paragraph
            for start in re.finditer(r'[.!?]("?) (.{30})', paragraph):
                after = start[2].lstrip('"')
                # After speech, the sentence may go on: "Yes!" said Tom.
                goes_on = start[1] and re.match(speaking + verbs, after)
                assert after[0].isupper() or goes_on, start[0]
                assert not re.match("(Said|Asked|Cried|Called|Whispered|Laughed)", after), text
            for speech in re.findall(r'"([^"]*)"', paragraph):
                assert speech[0].isupper(), paragraph
                assert speech[-1] in ".,!?", paragraph


def test_no_capital_inside_a_sentence_but_names(texts: list[str], tables: dict[str, Any]) -> None:
    people = [entry for group in tables.values() for entry in group if "pronoun" in entry]
    known = {word for entry in people for word in entry["n"].split()} | {"I", "Milky", "Way"}
    known |= {"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}
    known |= {"Sundays", "June", "July", "August", "Grandma", "Grandpa", "Three", "Friends"}
    for text in texts:
        for word in re.findall(r"[a-z,] ([A-Z][a-z]*)", text):
            assert word in known, (word, text)


def test_quotes_balance_in_every_paragraph(texts: list[str]) -> None:
    for text in texts:
        for paragraph in text.split("\n"):
            assert paragraph.count('"') % 2 == 0, paragraph
            for number, match in enumerate(re.finditer(r'"', paragraph)):
                before, after = paragraph[: match.start()][-1:], paragraph[match.end() :][:1]
                if number % 2:
                    assert before in ".,!?" and after in ("", " "), paragraph
                else:
                    assert before in ("", " ") and after.isupper(), paragraph


def test_articles_agree(texts: list[str]) -> None:
    vowel_sound = re.compile(r"(?!one|once|uni|use|eu)[aeiou]|hour|honest", re.IGNORECASE)
    seen = 0
    for text in texts:
        for article, word in re.findall(r"\b([Aa]n?) (\w+)", text):
            seen += 1
            assert (article.lower() == "an") == bool(vowel_sound.match(word)), (article, word)
    assert seen > 10_000
