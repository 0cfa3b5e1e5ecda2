"""Telling one story: choosing the cast of a plot, then its words.

Forms of people: `{a}` name, `{a.he}`, `{a.him}`, `{a.his}`, `{a.himself}` pronouns, `{a.name}` and
`{a.s}` the name and its possessive in any case, `{a.n}` the name as others call it (in speech),
`{a.kind}` girl, boy or animal. A pronoun is written only where nobody could take it for another
person; elsewhere the name is written (`{a.only_his}` is for a person not named yet). The plain
name may come out as a pronoun too, when a sentence begins with the person whom the last was about.

Forms of things: `{x}` with "the", `{x.a}` with "a", `{x.an}` without article, `{x.n}` the noun
alone, `{x.where}` the spot where it lies, `{x.holder}` who has it. Every other form of any member
is what the material says under that name, itself a template.
"""

import re
from dataclasses import dataclass, field
from random import Random

from .material import Entry, Material, Plot
from .template import Call, Choice, Nodes, Slot, parse, tidy, with_arguments
from .world import Event, StoryError, World

PRONOUNS = {
    "she": {"he": "she", "him": "her", "his": "her", "himself": "herself"},
    "he": {"he": "he", "him": "him", "his": "his", "himself": "himself"},
}
PERSON_FORMS = {"", "s", "name", "only_his", *PRONOUNS["he"]}
OTHER_PRONOUN = {"she": "he", "he": "she"}
SILENT = ("own", "move", "give", "get", "swap")  # events the plots tell in their own words
SENTENCE_OPENING = re.compile(r'([.!?]"?\s+)((Then|But|So|And) )?$')
PRONOUN_AGAIN = 0.65  # how often a sentence about the same person as the last begins with he or she
FRIENDS_DIFFER = 0.8  # most pairs are a boy and a girl: then every pronoun can be used


@dataclass(frozen=True)
class Story:
    """A told story: its text, the name of its plot, its cast and what happened."""

    text: str
    plot: str
    cast: dict[str, Entry]
    events: list[Event]


def tell_plot(number: int, material: Material, rng: Random) -> Story:
    """Return a story with the plot of this number, all its choices made by `rng`."""
    plot = material.plots[number]
    teller = _Teller(material, plot, rng)
    for line in plot.cast:
        teller.choose(line)
    teller.tell(parse(plot.text))
    return Story(tidy("".join(teller.out)), plot.name, teller.cast, teller.world.events)


def _label(entry: Entry) -> str:
    """Return what tells an entry from the others of its group."""
    return entry.get("n") or entry["name"]


@dataclass
class _Teller:
    """One story being told."""

    material: Material
    plot: Plot
    rng: Random
    cast: dict[str, Entry] = field(default_factory=dict)
    world: World = field(default_factory=World)
    out: list[str] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    episodes: list[str] = field(default_factory=list)
    last: dict[str, str] = field(default_factory=dict)  # pronoun: who was named last
    subject: str = ""  # who was named first in this sentence
    topic: str = ""  # who was named first in the last sentence about anybody

    # The cast

    def choose(self, line: str) -> None:
        """Add the member a line of the plot's cast asks for: "key group", or "key group other"."""
        key, group, *rest = line.split()
        other = self.cast[rest[0]] if rest else {}
        if group in ("friend", "sibling"):
            entry = self._second_child(other)
        elif group in ("parent", "grandparent"):
            # All kin in one story are spoken of in the same way: "Mom" or "her mother".
            self.labels.setdefault("kin", self.rng.randrange(2))
            entry = {**self._pick(group), "of": rest[0]}
        elif group == "spot":
            entry = {"name": self._new_spot(other["spots"])}
        else:
            entry = self._pick(group)
        if "adj" in entry:
            entry = {**entry, "adj": self.rng.choice(entry["adj"].split("|"))}
        self.cast[key] = entry

    def _pick(self, group: str) -> Entry:
        """Return an entry of the group, or of groups joined by "+", which is not cast yet."""
        used = {_label(member) for member in self.cast.values()}
        entries = [entry for name in group.split("+") for entry in self.material.groups[name]]
        return self.rng.choice([entry for entry in entries if _label(entry) not in used])

    def _second_child(self, first: Entry) -> Entry:
        pronoun = first["pronoun"]
        if self.rng.random() < FRIENDS_DIFFER:
            pronoun = OTHER_PRONOUN[pronoun]
        groups = self.material.groups
        animals = groups["little_animal"] + groups["large_animal"]
        used = {_label(member) for member in self.cast.values()}
        kinds = {member.get("kind") for member in self.cast.values() if "animal" in member}
        return self.rng.choice(
            [
                entry
                for entry in (animals if "animal" in first else groups["child"])
                if entry["pronoun"] == pronoun
                and entry["n"] not in used
                and entry["kind"] not in kinds
            ]
        )

    def _new_spot(self, spots: str) -> str:
        used = {member.get("name") for member in self.cast.values()}
        return self.rng.choice([spot for spot in spots.split("|") if spot not in used])

    # The words

    def tell(self, nodes: Nodes) -> None:
        """Write the parts of a template in order."""
        for node in nodes:
            if isinstance(node, str):
                self._literal(node)
            elif isinstance(node, Slot):
                self._slot(node)
            elif isinstance(node, Call):
                self._call(node)
            else:
                self.tell(self._option(node))

    def _option(self, choice: Choice) -> Nodes:
        if not choice.label:
            return self.rng.choice(choice.options)
        if choice.label not in self.labels:
            self.labels[choice.label] = self.rng.randrange(len(choice.options))
        return choice.options[self.labels[choice.label]]

    def _literal(self, text: str) -> None:
        if any(mark in text for mark in ".!?"):
            self.topic, self.subject = self.subject or self.topic, ""
        if "\n\n" in text:
            self.last.clear()  # a new paragraph begins with names
        self.out.append(text)

    def _slot(self, slot: Slot) -> None:
        if slot.key not in self.cast:
            raise StoryError(f"{self.plot.name}: no cast member {slot.key}")
        entry = self.cast[slot.key]
        if "pronoun" in entry and slot.form in PERSON_FORMS:
            self._person(slot.key, entry, slot.form)
        elif slot.form == "where":
            self.out.append(self.world.where(slot.key))
        elif slot.form == "holder":
            holder = self.world.who_has(slot.key)
            self._person(holder, self.cast[holder], "")
        else:
            self.tell(parse(self._form(entry, slot)))

    def _form(self, entry: Entry, slot: Slot) -> str:
        """Return the template for a form of a thing."""
        if slot.form in entry:
            return entry[slot.form]
        full = f"{entry['adj']} {entry['n']}" if "adj" in entry else entry.get("n", "")
        if slot.form == "an":
            return full
        if slot.form == "a":
            return f"a {full}"
        if slot.form == "":
            if "name" in entry:
                return entry["name"]
            return f"the {full}" if self.rng.random() < 0.3 else f"the {entry['n']}"
        raise StoryError(f"{self.plot.name}: {slot.key} has no form {slot.form}")

    def _person(self, key: str, entry: Entry, form: str) -> None:
        """Write a name or a pronoun and remember who was named."""
        pronoun = entry["pronoun"]
        clear = self.last.get(pronoun) == key
        opening = SENTENCE_OPENING.search("".join(self.out[-4:]))
        if (
            not form
            and opening
            and clear
            and self.topic == key
            and self.rng.random() < PRONOUN_AGAIN
        ):
            form = "he"
        allowed = clear or self.subject == key
        self.subject = self.subject or key
        if form.startswith("only_"):
            self.out.append(PRONOUNS[pronoun][form.removeprefix("only_")])
        elif form == "himself" or (form not in ("", "s", "name") and allowed):
            self.out.append(PRONOUNS[pronoun][form])
        else:
            self._name(entry, "s" if form == "name" else "his")
            if form in ("his", "s"):
                self.out.append("'s")
        self.last[pronoun] = key

    def _name(self, entry: Entry, owner_form: str) -> None:
        """Write a name; for kin perhaps what they are to the child, "her mother"."""
        if "of" in entry and self.labels["kin"]:
            self._person(entry["of"], self.cast[entry["of"]], owner_form)
            self.out.append(" " + entry["noun"])
        else:
            self.out.append(entry["n"])

    # Events and phrases

    def _call(self, call: Call) -> None:
        """Let an event happen and tell it, or say a phrase, or tell episodes of the plot."""
        if call.name == "episodes":
            self._tell_episodes(int(call.args[0]))
            return
        self._happen(call)
        if call.name in self.material.phrases:
            phrase = self.rng.choice(self.material.phrases[call.name])
            self.tell(parse(with_arguments(phrase, call.args)))
        elif call.name not in SILENT:
            raise StoryError(f"{self.plot.name}: no phrase {call.name}")

    def _happen(self, call: Call) -> None:
        """Change the world if the call is an event; its phrase, told next, may use `{x.spot}`."""
        args = call.args
        if call.name in ("own", "has"):
            self.world.own(*args)
        elif call.name == "move":
            self.world.move(args[0], self.cast[args[1]]["name"])
        elif call.name in ("put", "hide"):
            self.world.put(args[0], args[1], self.cast[args[2]]["name"])
        elif call.name == "give":
            self.world.give(*args)
        elif call.name in ("find", "findagain", "get"):
            # The phrase of a find needs the spot, which the world forgets when the thing is taken.
            spot = self.world.find(*args)
            self.cast[args[1]] = {**self.cast[args[1]], "spot": spot}
        elif call.name == "swap":
            first, second, mine, yours = args
            self.world.give(first, second, mine)
            self.world.give(second, first, yours)

    def _tell_episodes(self, count: int) -> None:
        """Tell this many episodes of the plot, in any order, none twice in a story."""
        if not self.episodes:
            self.episodes = self.rng.sample(self.plot.episodes, len(self.plot.episodes))
        for _ in range(count):
            self.tell(parse(self.episodes.pop()))
            self.out.append(" ")
