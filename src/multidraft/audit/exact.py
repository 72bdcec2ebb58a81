"""Exact enumeration: every draft and every random outcome of the product's own code.

Drafters and verifiers take all their chance from `accept` and `draw`. Here that source is replaced
by one that walks every branch with its probability, so the law of the output is known to rounding.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import torch

from multidraft.audit.branches import outcomes
from multidraft.chance import Chance
from multidraft.draft.base import Drafter, DraftRequest
from multidraft.draft.model import ModelDrafter
from multidraft.engine.laws import TargetLaws, extension_of
from multidraft.errors import InvalidInput
from multidraft.models.base import LanguageModel
from multidraft.models.function import FunctionModel
from multidraft.sampling import SamplingParams, Warper
from multidraft.tree import ROOT, DraftTree
from multidraft.verify import Carry, Verifier, get_verifier

Tokens = tuple[int, ...]
Laws = Mapping[Tokens, Sequence[float]]

_PARAMS = SamplingParams(temperature=1.0)
_PROMPT = (0,)  # the engine decodes after at least one token; the laws' prefixes begin after it


@dataclass(frozen=True)
class ExactReport:
    """What enumeration found.

    Attributes:
        expected_accepted: expected number of accepted draft tokens in the first round.
        max_error: largest difference between a probability of the emitted tokens' law and the
            target's.
        total_variation: half the sum of those differences.
        law: probability of each emitted token sequence.
    """

    expected_accepted: float
    max_error: float
    total_variation: float
    law: dict[Tokens, float]


def analyse(
    verifier: str | Verifier,
    target: Laws,
    draft: Laws,
    num_drafts: int,
    draft_length: int,
) -> ExactReport:
    """Enumerate one round of a verifier with i.i.d. drafts, its carry followed to the end.

    Args:
        verifier: a name or a `Verifier`. Those made for one draft use one, whatever
            ``num_drafts`` says.
        target: ``{prefix: next-token law}``, for every prefix of up to ``draft_length`` tokens.
        draft: the same, for every prefix of up to ``draft_length - 1`` tokens.
        num_drafts: K.
        draft_length: L.

    Returns:
        The report over the law of the first L + 1 emitted tokens: the block and what follows it.

    Raises:
        InvalidInput: an unknown verifier, K or L below 1, or a law that is missing or no law.
    """
    verifier = get_verifier(verifier)
    target_model, draft_model = model_of(target), model_of(draft)
    drafter = ModelDrafter(draft_model, 1 if verifier.drafts == "one" else num_drafts, draft_length)
    return analyse_rounds(verifier, target_model, drafter, [draft_length], draft_length + 1)


def model_of(laws: Laws) -> FunctionModel:
    """The `FunctionModel` of conditional laws given as ``{prefix: law}``."""
    tensors = {tuple(k): torch.as_tensor(v, dtype=torch.float64) for k, v in laws.items()}
    if () not in tensors:
        raise InvalidInput("The laws lack one for the empty prefix ().")

    def law(context: Tokens) -> torch.Tensor:
        prefix = context[len(_PROMPT) :]
        if prefix not in tensors:
            raise InvalidInput(f"The laws lack one for the prefix {prefix}.")
        return tensors[prefix]

    return FunctionModel(tensors[()].numel(), law)


def analyse_rounds(
    verifier: str | Verifier,
    target: LanguageModel,
    drafter: Drafter,
    draft_lengths: Sequence[int],
    positions: int,
) -> ExactReport:
    """Enumerate several drafted rounds in a row, then plain steps up to ``positions`` tokens.

    Args:
        verifier: a name or a `Verifier`.
        target: the target; its contexts begin with one prompt token, 0.
        drafter: any drafter; its own code is what runs.
        draft_lengths: the draft length of each round.
        positions: number of emitted tokens whose law is compared.
    """
    lengths = dict(enumerate(draft_lengths))
    enumerator = _Enumerator(get_verifier(verifier), target, drafter, _PARAMS, _PROMPT)
    return enumerator.report(positions, lambda index, _: lengths.get(index, 0))


def analyse_answer(
    verifier: str | Verifier,
    target: LanguageModel,
    drafter: Drafter,
    prompt: Sequence[int],
    params: SamplingParams,
) -> ExactReport:
    """Enumerate a whole answer, in the rounds in which the engine decodes it.

    Args:
        verifier: a name or a `Verifier`.
        target: the target.
        drafter: any drafter; its own code is what runs.
        prompt: token ids, at least one.
        params: of the request; its ``max_tokens`` is the number of tokens whose law is compared.
    """
    enumerator = _Enumerator(get_verifier(verifier), target, drafter, params, prompt)
    longest, positions = drafter.draft_length, params.max_tokens
    return enumerator.report(positions, lambda _, emitted: min(longest, positions - emitted - 1))


Outcome = tuple[float, Tokens, int, Carry]


class _Laws:
    """As `TargetLaws`; those of paths that other trees below the same context have had are known:
    what comes next is taken to depend on the path alone.

    Args:
        tree: the tree.
        known: the laws by path, the root's token included.
        score: gives the tree's logits.
        warper: the request's.
    """

    def __init__(
        self,
        tree: DraftTree,
        known: dict[Tokens, torch.Tensor],
        score: Callable[[DraftTree], torch.Tensor],
        warper: Warper,
    ):
        self._tree, self._known, self._score, self._warper = tree, known, score, warper

    @cached_property
    def logits(self) -> torch.Tensor:
        return self._score(self._tree)

    @cached_property
    def _scored(self) -> TargetLaws:
        return TargetLaws(self.logits, self._warper, self._tree)

    def __call__(self, node: int) -> torch.Tensor:
        path = (self._tree.tokens[ROOT], *self._tree.path_tokens(node))
        if path not in self._known:
            self._known[path] = self._scored(node)
        return self._known[path]


class _Enumerator:
    """All outcomes of one round from a given state; memoryless states are worked out once."""

    def __init__(
        self,
        verifier: Verifier,
        target: LanguageModel,
        drafter: Drafter,
        params: SamplingParams,
        prompt: Sequence[int],
    ):
        self._verifier = verifier
        self._target = target
        self._drafter = drafter
        self._params = params
        self._prompt = prompt
        self._known: dict[tuple[Tokens, Carry, int], list[Outcome]] = {}

    def report(self, positions: int, draft_length: Callable[[int, int], int]) -> ExactReport:
        """Round after round until ``positions`` tokens are out.

        ``draft_length(index of the round, tokens emitted before it)`` is the round's.
        """
        expected_accepted = 0.0
        law: dict[Tokens, float] = defaultdict(float)
        states: dict[tuple[Tokens, Carry], float] = {((), ()): 1.0}
        for index in itertools.count():
            following: dict[tuple[Tokens, Carry], float] = defaultdict(float)
            for (emitted, carry), probability in states.items():
                length = draft_length(index, len(emitted))
                for p, path, token, left in self.round(emitted, carry, length):
                    if index == 0:
                        expected_accepted += p * len(path)
                    longer = (*emitted, *path, token)
                    if len(longer) < positions:
                        following[longer, left] += probability * p
                    else:
                        law[longer[:positions]] += probability * p
            states = following
            if not states:
                break
        expected = self.target_law_of(positions)
        errors = [abs(law.get(t, 0.0) - expected.get(t, 0.0)) for t in law.keys() | expected.keys()]
        return ExactReport(expected_accepted, max(errors), sum(errors) / 2, dict(law))

    def round(self, emitted: Tokens, carry: Carry, draft_length: int) -> list[Outcome]:
        """(probability, accepted tokens, extra token, carry) of every outcome of one round."""
        key = (emitted, carry, draft_length)
        if key not in self._known:
            self._known[key] = self._round(*key)
        return self._known[key]

    def _round(self, emitted: Tokens, carry: Carry, draft_length: int) -> list[Outcome]:
        context = [*self._prompt, *emitted]
        warper = self._warper_after(emitted)
        carry_left = max((entry.left for entry in carry), default=0)

        def propose(chance: Chance) -> DraftTree:
            handle = self._drafter.open(self._prompt, self._params, self._target.vocab_size)
            try:
                request = DraftRequest(handle, context, draft_length, carry_left, chance)
                return self._drafter.propose([request])[0]
            finally:
                self._drafter.close(handle)

        merged: dict[tuple[Tokens, int, Carry], float] = defaultdict(float)
        known: dict[Tokens, torch.Tensor] = {}  # most trees share most of their paths with others
        for p_draft, tree in outcomes(propose):
            laws = _Laws(tree, known, partial(self._score, context), warper)
            verify = partial(self._verifier, tree, laws, carry=carry)
            for p, verdict in outcomes(verify):
                path = tuple(tree.tokens[node] for node in verdict.path)
                merged[path, verdict.token, verdict.carry] += p_draft * p
        return [(p, path, token, left) for (path, token, left), p in merged.items()]

    def _warper_after(self, emitted: Tokens) -> Warper:
        warper = Warper(self._params, self._prompt, self._target.vocab_size, self._target.device)
        for token in emitted:
            warper.append(token)
        return warper

    def _score(self, context: list[int], tree: DraftTree) -> torch.Tensor:
        slot = self._target.open()
        try:
            self._target.prefill(slot, context[:-1])
            return self._target.extend([extension_of(slot, tree)])[0]
        finally:
            self._target.close(slot)

    def target_law_of(self, positions: int) -> dict[Tokens, float]:
        """The target's own law of the first ``positions`` tokens."""
        law: dict[Tokens, float] = {(): 1.0}
        for _ in range(positions):
            longer: dict[Tokens, float] = {}
            for prefix, probability in law.items():
                context = [*self._prompt, *prefix]
                logits = self._score(context, DraftTree.rooted_at(context[-1]))
                next_law = self._warper_after(prefix).law(logits[0])
                for token, p in enumerate(next_law.tolist()):
                    if p > 0.0:
                        longer[(*prefix, token)] = probability * p
            law = longer
        return law
