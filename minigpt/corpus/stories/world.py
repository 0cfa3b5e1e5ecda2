"""The state of the world of one story: who has what, and where things are."""

from dataclasses import dataclass, field


class StoryError(ValueError):
    """A plot wants something to happen which cannot happen, or names what does not exist."""


@dataclass(frozen=True)
class Event:
    """Something that happened: who did it, with which thing, where or with whom."""

    kind: str
    thing: str
    who: str = ""
    other: str = ""


@dataclass
class World:
    """Every known thing is held by somebody or lies at a spot, never both."""

    holder: dict[str, str] = field(default_factory=dict)
    spot: dict[str, str] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)

    def own(self, who: str, thing: str) -> None:
        """Let a person have a thing from now on, wherever it came from."""
        self.spot.pop(thing, None)
        self.holder[thing] = who
        self.events.append(Event("own", thing, who))

    def move(self, thing: str, spot: str) -> None:
        """Let a thing come to lie at a spot by itself (it fell, the wind took it)."""
        self.holder.pop(thing, None)
        self.spot[thing] = spot
        self.events.append(Event("move", thing, other=spot))

    def put(self, who: str, thing: str, spot: str) -> None:
        """Let a person lay down at a spot a thing which that person has."""
        self._check_holder(who, thing)
        del self.holder[thing]
        self.spot[thing] = spot
        self.events.append(Event("put", thing, who, spot))

    def give(self, who: str, other: str, thing: str) -> None:
        """Let a person hand over to another a thing which the first has."""
        self._check_holder(who, thing)
        self.holder[thing] = other
        self.events.append(Event("give", thing, who, other))

    def find(self, who: str, thing: str) -> str:
        """Let a person take up a thing from where it lies; return that spot."""
        spot = self.where(thing)
        del self.spot[thing]
        self.holder[thing] = who
        self.events.append(Event("find", thing, who, spot))
        return spot

    def where(self, thing: str) -> str:
        """Return the spot at which a thing lies."""
        if thing not in self.spot:
            raise StoryError(f"{thing} lies nowhere: {self.events}")
        return self.spot[thing]

    def who_has(self, thing: str) -> str:
        """Return the person who has a thing."""
        if thing not in self.holder:
            raise StoryError(f"nobody has {thing}: {self.events}")
        return self.holder[thing]

    def _check_holder(self, who: str, thing: str) -> None:
        if self.who_has(thing) != who:
            raise StoryError(f"{who} does not have {thing}: {self.events}")
