"""Prompt lookup: what followed the last tokens when they came before. No model, no draft call."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from multidraft.draft.base import DraftRequest, check_counts, offered
from multidraft.draft.confidence import Confidence
from multidraft.draft.suffix import NOTHING, Match, SuffixAutomaton
from multidraft.errors import InvalidInput
from multidraft.models.base import LanguageModel
from multidraft.sampling import SamplingParams
from multidraft.tree import ROOT, DraftTree

#: Of what followed a context, the latest few are considered.
_MOST_CONTINUATIONS = 8


@dataclass
class _History:
    """Prompt and output of one sequence.

    Attributes:
        automaton: over the tokens so far.
        in_corpus: the longest of their suffixes that the corpus has.
        trust, trust_in_corpus: how well the two have predicted the tokens so far.
    """

    automaton: SuffixAutomaton = field(default_factory=SuffixAutomaton)
    in_corpus: Match = NOTHING
    trust: Confidence = field(default_factory=Confidence)
    trust_in_corpus: Confidence = field(default_factory=Confidence)


class _Place(NamedTuple):
    """Where the end of the sequence stands in a text, and how far that text can be trusted."""

    text: SuffixAutomaton
    match: Match
    trust: Confidence

    def after(self, token: int) -> _Place:
        return self._replace(match=self.text.after(self.match, token))


class LookupDrafter:
    """A tree of what followed the last tokens where they occurred before, in the prompt, the output
    so far, or a corpus.

    All nodes are chosen, none drawn. A round in which nothing matches has an empty tree and costs
    what a plain step costs. Longer matches count before shorter ones, and frequent continuations
    before rare ones, the latest first among equals: the estimate of prediction by partial
    matching (Cleary and Witten 1984), with escapes learnt from the text. Of all paths, the
    ``max_nodes`` likeliest nodes are proposed, those that are worth their price.

    Args:
        draft_length: L, the most tokens on a path.
        max_nodes: the most nodes below the root, each of them a position the target scores.
        min_match: the fewest tokens that must have occurred before.
        corpus: token ids of more text to look in, the same for all sequences. It is indexed once,
            here, and takes some 500 bytes a token.

    Raises:
        InvalidInput: a count below 1; (when a sequence begins) a corpus with ids outside the
            target's vocabulary.
    """

    drafts: Literal["one", "iid", "any"] = "any"
    model: LanguageModel | None = None

    def __init__(
        self,
        draft_length: int = 8,
        max_nodes: int = 12,
        min_match: int = 2,
        corpus: Sequence[int] | None = None,
    ):
        check_counts(draft_length=draft_length, max_nodes=max_nodes, min_match=min_match)
        self.draft_length = draft_length
        self.max_nodes = max_nodes
        self.min_match = min_match
        tokens = [] if corpus is None else [int(token) for token in corpus]
        self._corpus = SuffixAutomaton(tokens)
        self._smallest_id, self._largest_id = min(tokens, default=0), max(tokens, default=-1)
        self._histories: dict[int, _History] = {}
        self._handles = 0

    def open(self, prompt: Sequence[int], params: SamplingParams, vocab_size: int) -> int:
        if self._smallest_id < 0 or self._largest_id >= vocab_size:
            raise InvalidInput(
                f"The corpus has token ids outside 0..{vocab_size - 1}; encode it with the "
                "target's tokenizer."
            )
        self._handles += 1
        self._histories[self._handles] = _History()
        return self._handles

    def close(self, handle: int) -> None:
        del self._histories[handle]

    def propose(self, requests: Sequence[DraftRequest]) -> list[DraftTree]:
        return [
            tree if offered(tree, request.prices) > 0 else DraftTree.rooted_at(tree.tokens[0])
            for request, tree in zip(requests, map(self.find, requests), strict=True)
        ]

    def find(self, request: DraftRequest) -> DraftTree:
        """All that was found and is worth its nodes' price, be it worth scoring anything or not."""
        history = self._histories[request.handle]
        for token in request.tokens[len(history.automaton) :]:
            for place in self._places(history):
                self._learn(place, token)
            history.automaton.add(token)
            history.in_corpus = self._corpus.after(history.in_corpus, token)
        return self._likeliest_paths(request, self._places(history))

    def _places(self, history: _History) -> list[_Place]:
        return [
            _Place(history.automaton, history.automaton.whole, history.trust),
            _Place(self._corpus, history.in_corpus, history.trust_in_corpus),
        ]

    def _learn(self, place: _Place, token: int) -> None:
        """Was the longest context right about the next token?"""
        for length, state in place.text.suffixes(place.match):
            if length < self.min_match:
                return
            found = place.text.continuations(state, _MOST_CONTINUATIONS)
            if found:
                place.trust.learn(length, any(token == known for known, _ in found))
                return

    def _likeliest_paths(self, request: DraftRequest, places: list[_Place]) -> DraftTree:
        """Best first: of all continuations of the tree so far, always the likeliest; of equals the
        one seen first."""
        tree = DraftTree([request.tokens[-1]], [-1], [[]])
        longest = min(request.draft_length, self.draft_length)
        queue: list[tuple[float, int, int, int, int]] = []
        where = {ROOT: places}
        pushed = 0

        def push(node: int, depth: int, estimate: float) -> None:
            nonlocal pushed
            if depth < longest:
                for token, share in self._estimates(where[node]).items():
                    heapq.heappush(queue, (-estimate * share, pushed, node, depth, token))
                    pushed += 1

        push(ROOT, 0, request.prices.lookup)
        while queue and len(tree) <= self.max_nodes:
            negative, _, parent, depth, token = heapq.heappop(queue)
            if -negative < request.prices.node:
                break  # nor is anything that is left
            node = tree.add(parent, token, None)
            tree.reach[node] = -negative
            where[node] = [place.after(token) for place in where[parent]]
            push(node, depth + 1, -negative)
        return tree

    def _estimates(self, places: list[_Place]) -> dict[int, float]:
        """Probability of each token that followed one of the contexts, all texts together.

        A context gives each of its continuations a share, and the rest, the escape, to the next
        shorter one.
        """
        contexts = [
            (length, -i, state)
            for i, place in enumerate(places)
            for length, state in place.text.suffixes(place.match)
            if length >= self.min_match
        ]
        estimates: dict[int, float] = {}
        escape = 1.0
        for length, negative, state in sorted(contexts, reverse=True):
            place = places[-negative]
            found = place.text.continuations(state, _MOST_CONTINUATIONS)
            if not found:
                continue
            found = [(token, max(1, count)) for token, count in found]  # counts are not all exact
            times = sum(count for _, count in found)
            trusted = place.trust.of(length, times, len(found))
            for token, count in found:
                estimates[token] = estimates.get(token, 0.0) + escape * trusted * count / times
            escape *= 1.0 - trusted
        return estimates
