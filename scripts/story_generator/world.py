"""The state of one story's world: who has what, and where things are."""

from dataclasses import dataclass, field


class StoryError(ValueError):
    """A plot requires an impossible event, or refers to something that does not exist."""


@dataclass(frozen=True)
class Event:
    """An event: its kind, the thing, the person, and the other person or the spot."""

    kind: str
    thing: str
    who: str = ""
    other: str = ""


@dataclass
class World:
    """The known things; each is held by a person or lies at a spot, never both."""

    holder: dict[str, str] = field(default_factory=dict)
    spot: dict[str, str] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    def own(self, who: str, thing: str) -> None:
        """Gives a thing to a person, wherever it was before."""
        self.spot.pop(thing, None)
        self.holder[thing] = who
        self.events.append(Event("own", thing, who))

    def move(self, thing: str, spot: str) -> None:
        """Moves a thing to a spot without a person (it fell, the wind took it)."""
        self.holder.pop(thing, None)
        self.spot[thing] = spot
        self.events.append(Event("move", thing, other=spot))

    def put(self, who: str, thing: str, spot: str) -> None:
        """Lets a person put a thing that they have at a spot."""
        self._check_holder(who, thing)
        del self.holder[thing]
        self.spot[thing] = spot
        self.events.append(Event("put", thing, who, spot))

    def give(self, who: str, other: str, thing: str) -> None:
        """Lets a person give a thing that they have to another person."""
        self._check_holder(who, thing)
        self.holder[thing] = other
        self.events.append(Event("give", thing, who, other))

    def find(self, who: str, thing: str) -> str:
        """Lets a person take a thing from its spot; returns the spot."""
        spot = self.where(thing)
        del self.spot[thing]
        self.holder[thing] = who
        self.events.append(Event("find", thing, who, spot))
        return spot

    def where(self, thing: str) -> str:
        """Returns the spot of a thing."""
        if thing not in self.spot:
            raise StoryError(f"{thing} lies nowhere: {self.events}")
        return self.spot[thing]

    def who_has(self, thing: str) -> str:
        """Returns the person who has a thing."""
        if thing not in self.holder:
            raise StoryError(f"nobody has {thing}: {self.events}")
        return self.holder[thing]

    def _check_holder(self, who: str, thing: str) -> None:
        if self.who_has(thing) != who:
            raise StoryError(f"{who} does not have {thing}: {self.events}")
