"""A suffix automaton that grows token by token: every earlier place the end of a text matches.

Blumer et al. 1985, *The smallest automaton recognizing the subwords of a text*. Each state is a
set of substrings that end at the same places; its link leads to their longest suffix that also
ends elsewhere. Adding a token takes O(1) amortised time; there are at most twice as many states as
tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

#: How many suffixes of a match are followed, the longest first. In text a chain of suffix links
#: is rarely longer; in "aaaa…" it is as long as the text, and following all would cost O(n).
_MOST_SUFFIXES = 16

START = 0


class Match(NamedTuple):
    """A substring of the text: its state, and its length (a state holds several)."""

    state: int
    length: int


#: The empty substring.
NOTHING = Match(START, 0)


class SuffixAutomaton:
    """All substrings of a growing text, what followed each, and how often.

    Attributes:
        steps: elementary operations so far, for those who want to see what a token costs.
    """

    def __init__(self, tokens: Iterable[int] = ()):
        self.steps = 0
        self._next: list[dict[int, int]] = [{}]
        self._link = [-1]
        self._length = [0]
        self._count = [0]  # places it ended at; exact for the `_MOST_SUFFIXES` longest suffixes
        self._last = START
        for token in tokens:
            self.add(token)

    def __len__(self) -> int:
        """Tokens of the text."""
        return self._length[self._last]

    @property
    def whole(self) -> Match:
        """The text itself, whose suffixes are what its continuation can be looked up by."""
        return Match(self._last, len(self))

    def add(self, token: int) -> None:
        """Append a token to the text."""
        before = self._last
        new = self._last = self._state({}, self._length[before] + 1, 0)
        state = before
        while state != -1 and token not in self._next[state]:
            self._next[state][token] = new
            state = self._link[state]
            self.steps += 1
        if state == -1:
            self._link[new] = START
        else:
            self._link[new] = self._ending_at_both(state, token)
        for _, suffix in self.suffixes(Match(new, len(self))):
            self._count[suffix] += 1
        # The continuations of a state are kept in the order of their last occurrence.
        for _, suffix in self.suffixes(Match(before, self._length[before])):
            following = self._next[suffix]
            following[token] = following.pop(token)

    def _ending_at_both(self, state: int, token: int) -> int:
        """The state of ``state``'s string followed by ``token``, which now ends here too."""
        other = self._next[state][token]
        if self._length[state] + 1 == self._length[other]:
            return other
        # Longer strings of `other` do not end here: split off those that do.
        self.steps += len(self._next[other])  # O(1) amortised: there are at most 3n transitions
        clone = self._state(
            dict(self._next[other]), self._length[state] + 1, self._link[other], self._count[other]
        )
        self._link[other] = clone
        while state != -1 and self._next[state].get(token) == other:
            self._next[state][token] = clone
            state = self._link[state]
            self.steps += 1
        return clone

    def _state(self, following: dict[int, int], length: int, link: int, count: int = 0) -> int:
        self._next.append(following)
        self._length.append(length)
        self._link.append(link)
        self._count.append(count)
        self.steps += 1
        return len(self._next) - 1

    def suffixes(self, match: Match) -> Iterator[tuple[int, int]]:
        """(length, state) of a match and of its suffixes that end elsewhere too, longest first; not
        the empty one, and no more than `_MOST_SUFFIXES`."""
        length, state = match.length, match.state
        for _ in range(_MOST_SUFFIXES):
            if state == START:
                return
            self.steps += 1
            yield length, state
            state = self._link[state]
            length = self._length[state]

    def after(self, match: Match, token: int) -> Match:
        """The longest known suffix of a match followed by ``token``; empty where there is none."""
        for length, state in self.suffixes(match):
            if token in self._next[state]:
                return Match(self._next[state][token], length + 1)
        following = self._next[START].get(token)
        return NOTHING if following is None else Match(following, 1)

    def continuations(self, state: int, most: int) -> list[tuple[int, int]]:
        """(token, times) of what followed a state, the ``most`` latest ones, latest first."""
        latest = islice(reversed(self._next[state].items()), most)
        found = [(token, self._count[following]) for token, following in latest]
        self.steps += len(found)
        return found
