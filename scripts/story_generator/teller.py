"""Tells one story: chooses the cast of a plot, then the words.

Forms of people: `{a}` is the name; `{a.he}`, `{a.him}`, `{a.his}` and `{a.himself}` are pronouns;
`{a.name}` and `{a.s}` are always the name and its possessive; `{a.n}` is the name used in speech;
`{a.kind}` is girl, boy or an animal. A pronoun is written only where it is unambiguous; elsewhere the
name is written. `{a.only_his}` is the pronoun of a person who has not been named yet. The plain form
can become a pronoun at the start of a sentence about the same person as the last sentence.

Forms of things: `{x}` with "the", `{x.a}` with "a", `{x.an}` without an article, `{x.n}` the noun
alone, `{x.where}` its spot, `{x.holder}` the person who has it. Any other form of a member is the
entry of that name in the material, which is itself a template.
"""

import re
from dataclasses import dataclass, field
from random import Random

from story_generator.material import Entry, Material, Plot
from story_generator.template import Call, Choice, Nodes, Slot, parse, tidy, with_arguments
from story_generator.world import Event, StoryError, World

PRONOUNS = {
    "she": {"he": "she", "him": "her", "his": "her", "himself": "herself"},
    "he": {"he": "he", "him": "him", "his": "his", "himself": "himself"},
}
PERSON_FORMS = {"", "s", "name", "only_his", *PRONOUNS["he"]}
OTHER_PRONOUN = {"she": "he", "he": "she"}
SILENT = ("own", "move", "give", "get", "swap")  # events that the plots describe in their own words
SENTENCE_OPENING = re.compile(r'([.!?]"?\s+)((Then|But|So|And) )?$')
PRONOUN_AGAIN = (
    0.65  # share of sentences about the same person as the last that begin with a pronoun
)
FRIENDS_DIFFER = 0.8  # share of pairs of a boy and a girl, whose pronouns are unambiguous


@dataclass(frozen=True)
class Story:
    """A story: its text, the name of its plot, its cast and its events."""

    text: str
    plot: str
    cast: dict[str, Entry]
    events: list[Event]


def tell_plot(number: int, material: Material, rng: Random) -> Story:
    """Returns a story with plot `number`; `rng` makes all choices."""
    plot = material.plots[number]
    teller = _Teller(material, plot, rng)
    for line in plot.cast:
        teller.choose(line)
    teller.tell(parse(plot.text))
    return Story(tidy("".join(teller.out)), plot.name, teller.cast, teller.world.events)


def _label(entry: Entry) -> str:
    """Returns the name that identifies an entry in its group."""
    return entry.get("n") or entry["name"]


@dataclass
class _Teller:
    """The state of a story while it is told."""

    material: Material
    plot: Plot
    rng: Random
    cast: dict[str, Entry] = field(default_factory=dict)
    world: World = field(default_factory=World)
    out: list[str] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)
    episodes: list[str] = field(default_factory=list)
    last: dict[str, str] = field(default_factory=dict)  # the person named last, by pronoun
    subject: str = ""  # the person named first in this sentence
    topic: str = ""  # the person named first in the last sentence about a person

    # The cast

    def choose(self, line: str) -> None:
        """Adds a cast member for a line of the plot: "key group" or "key group other"."""
        key, group, *rest = line.split()
        other = self.cast[rest[0]] if rest else {}
        if group in ("friend", "sibling"):
            entry = self._second_child(other)
        elif group in ("parent", "grandparent"):
            # All relatives in a story are named in the same way: "Mom" or "her mother".
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
        """Returns an entry of a group, or of groups joined by "+", that is not in the cast."""
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
        """Writes the nodes of a template in order."""
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
            self.last.clear()  # a new paragraph starts with names
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
        """Returns the template of a form of a thing."""
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
        """Writes a name or a pronoun and records who was named."""
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
        """Writes a name, or for a relative the relation to the child, such as "her mother"."""
        if "of" in entry and self.labels["kin"]:
            self._person(entry["of"], self.cast[entry["of"]], owner_form)
            self.out.append(" " + entry["noun"])
        else:
            self.out.append(entry["n"])

    # Events and phrases

    def _call(self, call: Call) -> None:
        """Applies and tells an event, or tells a phrase or episodes of the plot."""
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
        """Changes the world if the call is an event; the phrase told next may use `{x.spot}`."""
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
            # The phrase of a find needs the spot, which the world drops when the thing is taken.
            spot = self.world.find(*args)
            self.cast[args[1]] = {**self.cast[args[1]], "spot": spot}
        elif call.name == "swap":
            first, second, mine, yours = args
            self.world.give(first, second, mine)
            self.world.give(second, first, yours)

    def _tell_episodes(self, count: int) -> None:
        """Tells `count` episodes of the plot in random order, none twice in a story."""
        if not self.episodes:
            self.episodes = self.rng.sample(self.plot.episodes, len(self.plot.episodes))
        for _ in range(count):
            self.tell(parse(self.episodes.pop()))
            self.out.append(" ")
