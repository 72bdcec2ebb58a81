"""A sequence as a model with another tokenizer reads it: piece by piece, the last part of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from multidraft.errors import InvalidInput
from multidraft.models.base import PREFIX, Extension


@dataclass
class Node:
    """An open node.

    Attributes:
        token: its token.
        parent: its parent among the open nodes, or ``PREFIX``.
        length: tokens of the sequence up to it, itself included.
        end: pieces of the sequence up to it, its own included.
        inner: its pieces' numbers in the reader's open tree; None where they are not in it.
    """

    token: int
    parent: int
    length: int
    end: int
    inner: range | None = None

    @property
    def last(self) -> int:
        """The reader's node that it ends with; ``PREFIX`` where all it reads is committed."""
        return self.inner[-1] if self.inner else PREFIX


class Reading:
    """A sequence in pieces, and which part of it the reader has in its slot.

    A context of more pieces than ``2 * half`` is read from a multiple of ``half`` on, so that more
    than ``half`` of them are seen. Where it begins depends on the number of pieces alone: the law
    of a context is the same in every round, which a carry relies on.

    Args:
        pieces: of every token.
        half: of what fits into the reader's context.

    Attributes:
        tokens: the committed tokens.
        nodes: the open tree.
        first: the reader's slot holds the committed pieces from this one on, and the open tree;
            None: it holds nothing that counts.
    """

    def __init__(self, pieces: Sequence[tuple[int, ...]], half: int):
        self._pieces_of = pieces
        self._half = half
        self._pieces: list[int] = []
        self.tokens: list[int] = []
        self.nodes: list[Node] = []
        self.first: int | None = None

    def window(self, end: int) -> int:
        """The first piece that is read in a context of ``end`` pieces."""
        return max(0, -(-end // self._half) - 2) * self._half

    @property
    def next_window(self) -> int:
        """Of the shortest context to come."""
        return self.window(len(self._pieces) + 1)

    def windows(self, numbers: Sequence[int], new: int) -> list[int]:
        """Where the contexts of these nodes begin, in order; of none, the longest of the nodes from
        ``new`` on."""
        ends = [self.nodes[number].end for number in numbers]
        if not ends:
            ends = sorted(node.end for node in self.nodes[new:])[-1:]
        return sorted({self.window(end) for end in ends})

    def committed(self, first: int) -> list[int]:
        """The committed pieces from ``first`` on."""
        return self._pieces[first:]

    def append(self, tokens: Sequence[int]) -> list[int]:
        """Commit tokens; returns their pieces."""
        new = [piece for token in tokens for piece in self._pieces_of[token]]
        self.tokens += tokens
        self._pieces += new
        return new

    def add(self, extension: Extension) -> None:
        """Add an extension's nodes to the open tree; the reader does not have them yet.

        Raises InvalidInput where a parent does not come first.
        """
        for token, parent in zip(extension.tokens, extension.parents, strict=True):
            if not PREFIX <= parent < len(self.nodes):
                raise InvalidInput(
                    f"Node {len(self.nodes)} has parent {parent}, which does not precede it."
                )
            length, end = len(self.tokens), len(self._pieces)
            if parent != PREFIX:
                length, end = self.nodes[parent].length, self.nodes[parent].end
            end += len(self._pieces_of[token])
            self.nodes.append(Node(token, parent, length + 1, end))

    def place(
        self, new: int, window: int, stop: int | None = None
    ) -> tuple[list[int], list[int], int]:
        """Put the nodes from ``new`` up to ``stop`` into the reader's open tree.

        Returns their tokens and parents there, and how many nodes that tree has already. What lies
        before ``window`` is left out, and nodes so far behind it that they do not fit.
        """
        tokens: list[int] = []
        parents: list[int] = []
        known = sum(len(node.inner or ()) for node in self.nodes[:new])
        for node in self.nodes[new:stop]:
            if node.end - window > 2 * self._half:
                node.inner = None
                continue
            pieces = self._pieces_of[node.token]
            shown = pieces[max(0, window + len(pieces) - node.end) :]
            start = known + len(tokens)
            node.inner = range(start, start + len(shown))
            above = PREFIX if node.parent == PREFIX else self.nodes[node.parent].last
            tokens += shown
            parents += [above, *node.inner[:-1]][: len(shown)]
        return tokens, parents, known

    def path(self, numbers: Sequence[int]) -> list[int] | None:
        """A path of open nodes in the reader's open tree; None where it has not all of it.

        Raises InvalidInput where the nodes are no path.
        """
        for previous, number in zip([PREFIX, *numbers], numbers, strict=False):
            if not 0 <= number < len(self.nodes) or self.nodes[number].parent != previous:
                raise InvalidInput(f"Node {number} is no child of node {previous}.")
        nodes = [self.nodes[number] for number in numbers]
        if self.first is None or any(node.inner is None for node in nodes):
            return None
        return [inner for node in nodes for inner in node.inner or ()]

    def commit(self, numbers: Sequence[int]) -> None:
        """Commit a path and forget the rest of the open tree."""
        self.append([self.nodes[number].token for number in numbers])
        self.nodes = []

    def truncate(self, length: int) -> int:
        """Keep the first ``length`` tokens and no open tree; returns how many pieces they have."""
        kept = sum(len(self._pieces_of[token]) for token in self.tokens[:length])
        del self.tokens[length:], self._pieces[kept:]
        self.nodes = []
        return kept
