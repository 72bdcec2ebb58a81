"""The round loop: choose how much to draft, draft, score, verify, commit, record."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence as Seq
from contextlib import suppress
from dataclasses import dataclass, replace

import torch

from multidraft.chance import RandomChance
from multidraft.draft.base import Drafter, DraftRequest
from multidraft.engine.clock import Clock
from multidraft.engine.control.base import Choice, Controller, Round
from multidraft.engine.laws import TargetLaws, extension_of
from multidraft.engine.sequence import Origin, Sequence, TokenLogprob
from multidraft.errors import InvalidInput
from multidraft.models.base import PREFIX, Extension, LanguageModel, NoFreeSlot
from multidraft.models.token_map import same_vocabulary
from multidraft.models.transformers_model import TransformersModel
from multidraft.sampling import SamplingParams, Warper
from multidraft.text import TextStream, special_ids
from multidraft.tree import DraftTree
from multidraft.verify import Verdict, Verifier, get_verifier

#: Prompts up to this long are prefilled together; a longer one fills a call by itself.
_SHORT_PROMPT = 64


@dataclass(frozen=True)
class Progress:
    """What one step gave one sequence.

    Attributes:
        sequence: the sequence; its ``finish_reason`` is set once it has ended.
        token_ids: new tokens.
        origins: where each came from.
        text: new text that is safe to show; "" for models without a tokenizer.
        choice: what the round was allowed to draft.
        tree: the drafts.
        path: nodes of the tree that were accepted.
    """

    sequence: Sequence
    token_ids: list[int]
    origins: list[Origin]
    text: str
    choice: Choice
    tree: DraftTree
    path: list[int]

    @property
    def depth(self) -> int:
        """Length of the longest draft; 0 for a plain step."""
        return self.tree.depth

    @property
    def positions(self) -> int:
        """Nodes that the target scored, the root included; 1 for a plain step."""
        return len(self.tree)

    @property
    def draft_rows(self) -> list[int]:
        """Nodes that the draft model scored in each of its calls."""
        return self.tree.draft_rows


class Engine:
    """Decodes any number of sequences, as many at once as the models have slots.

    ``submit`` queues a sequence, ``step`` runs one round for all that are running, ``cancel``
    ends one. Sequences join and leave between rounds; each has its own random stream, so its
    neighbours do not change its output.

    Args:
        target: the model whose law the output has.
        drafter: who proposes; None for plain autoregressive decoding.
        verifier: a method's name or a `Verifier`.
        controller: chooses how much each round drafts; None: always as much as fits.

    Raises:
        InvalidInput: an unknown verifier, one that does not fit the drafter's trees, models with
            different vocabularies or on different devices, or a target with a reduced head.
    """

    def __init__(
        self,
        target: LanguageModel,
        drafter: Drafter | None,
        verifier: str | Verifier,
        controller: Controller | None = None,
    ):
        _check_target(target)
        self.target = target
        self.controller: Controller | None = None
        self.verifier = get_verifier(verifier)
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self._interrupted = False
        self._drafter: Drafter | None = None
        self.drafter = drafter
        self.controller = controller

    @property
    def drafter(self) -> Drafter | None:
        return self._drafter

    @drafter.setter
    def drafter(self, drafter: Drafter | None) -> None:
        if self.controller is not None:
            raise InvalidInput(
                "The drafter cannot be changed under a controller, which has learnt what this one "
                "is worth; make another Decoder."
            )
        if any(sequence.carry for sequence in self.running):
            raise InvalidInput(
                f"The drafter cannot be changed while a carry of {self.verifier.name!r} lives and "
                "needs its law; finish or cancel the running sequences first."
            )
        if drafter is not None:
            _check_shape(self.verifier, drafter)
            if drafter.model is not None:
                _check_vocabulary(self.target, drafter.model)
                _check_device(self.target, drafter.model)
            with suppress(NoFreeSlot):  # what it refuses, it refuses now
                drafter.close(drafter.open([0], SamplingParams(), self.target.vocab_size))
            for sequence in (*self.running, *self.waiting):
                _check_context(sequence.prompt, sequence.params, _context(self.target, drafter))
        self._swap_handles(self._drafter, drafter)
        self._drafter = drafter

    def _swap_handles(self, old: Drafter | None, new: Drafter | None) -> None:
        """Move the running sequences from one drafter to another. Where that fails, the next step
        goes on with the drafter there was."""
        for sequence in self.running:  # all first: both may take their slots from one model
            _close_draft(old, sequence)
        try:
            for sequence in self.running:
                self._open_draft(new, sequence)
        except BaseException as error:
            for sequence in self.running:
                _close_draft(new, sequence)
            self._interrupted = True
            if isinstance(error, NoFreeSlot):
                raise InvalidInput(
                    f"The drafter has too few free slots for {len(self.running)} running "
                    "sequences; load its model with more slots."
                ) from None
            raise

    def _open_draft(self, drafter: Drafter | None, sequence: Sequence) -> None:
        if drafter is not None:
            vocab_size = self.target.vocab_size
            sequence.handle = drafter.open(sequence.prompt, sequence.params, vocab_size)

    @property
    def max_length(self) -> int:
        """The most tokens a sequence may have, prompt and output together."""
        return _context(self.target, self.drafter)

    def submit(
        self, prompt: Seq[int], params: SamplingParams, key: tuple[int, ...] | None = None
    ) -> Sequence:
        """Queue a sequence.

        Args:
            prompt: token ids, at least one.
            params: how to sample.
            key: names the random stream; None takes one from the system's entropy.

        Raises:
            InvalidInput: see `check`.
        """
        self.check(prompt, params)
        target = self.target
        text = None
        if target.tokenizer is not None:
            text = TextStream(target.tokenizer, params.stop, special_ids(target.tokenizer))
        eos: frozenset[int] = frozenset() if params.ignore_eos else target.eos_token_ids
        sequence = Sequence(
            prompt=list(prompt),
            params=params,
            chance=RandomChance(key),
            warper=Warper(params, prompt, target.vocab_size, target.device),
            text=text,
            stop_ids=eos | frozenset(params.stop_token_ids),
        )
        self.waiting.append(sequence)
        return sequence

    def check(self, prompt: Seq[int], params: SamplingParams) -> None:
        """Refuse what cannot be decoded.

        Raises:
            InvalidInput: an empty prompt, ids outside the vocabulary (``logit_bias`` included),
                prompt + max_tokens beyond the context, or stop strings for a model without a
                tokenizer.
        """
        target = self.target
        if not prompt:
            raise InvalidInput("The prompt is empty; give at least one token.")
        if not all(0 <= token < target.vocab_size for token in prompt):
            raise InvalidInput(f"The prompt has token ids outside 0..{target.vocab_size - 1}.")
        _check_context(prompt, params, self.max_length)
        if params.stop and target.tokenizer is None:
            raise InvalidInput("Stop strings need a model with a tokenizer; use stop_token_ids.")
        Warper(params, (), target.vocab_size)  # raises where logit_bias does not fit

    def cancel(self, sequence: Sequence) -> None:
        """End a sequence where it is. Does nothing if it has ended already."""
        if sequence.finish_reason is not None:
            return
        sequence.finish_reason = "cancelled"
        if sequence.text is not None:
            sequence.text.finish()
        if sequence in self.running:
            self._release(sequence)
        else:
            self.waiting.remove(sequence)

    @property
    def busy(self) -> bool:
        """True while a sequence waits or runs."""
        return bool(self.waiting or self.running)

    @torch.inference_mode()
    def step(self) -> list[Progress]:
        """One round for every running sequence, waiting ones admitted first.

        Raises:
            InvalidLogits: a model produced logits that define no law.
        """
        if self._interrupted:
            self._resume()
        self._interrupted = True
        self._admit()
        progress = self._round(list(self.running)) if self.running else []
        self._interrupted = False
        return progress

    def _round(self, running: Seq[Sequence]) -> list[Progress]:
        clock = Clock(self.target.device)
        choices = self._choose(running)
        trees = self._draft(running, choices)
        drafting = clock.lap()
        logits = self.target.extend(
            [extension_of(s.slot, tree) for s, tree in zip(running, trees, strict=True)]
        )
        scoring = clock.lap()

        # All verdicts first: an error then leaves every sequence as it was before the round.
        verdicts, verifying = [], []
        for sequence, tree, rows in zip(running, trees, logits, strict=True):
            laws = TargetLaws(rows, sequence.warper, tree)
            verdicts.append(self.verifier(tree, laws, sequence.chance, sequence.carry))
            verifying.append(clock.lap())
        progress = [
            self._emit(*parts)
            for parts in zip(running, choices, trees, logits, verdicts, strict=True)
        ]
        if self.controller is not None:
            rounds = [_told(*parts) for parts in zip(progress, verifying, strict=True)]
            self.controller.learn(rounds, drafting, scoring)
        others = clock.lap()
        for sequence, verify in zip(running, verifying, strict=True):
            spent = sequence.stats.seconds
            spent["draft"] += drafting / len(running)
            spent["target"] += scoring / len(running)
            spent["verify"] += verify
            spent["other"] += others / len(running)
        return progress

    def _resume(self) -> None:
        """After a step that an exception left halfway: release what it ended, drop what it scored,
        catch up with what it emitted, and begin the drafts anew."""
        for sequence in [s for s in self.running if s.finish_reason is not None]:
            self._release(sequence)
        for sequence in self.running:
            slot, committed = sequence.slot, sequence.tokens[:-1]
            self.target.truncate(slot, min(self.target.length(slot), len(committed)))
            self.target.prefill(slot, committed[self.target.length(slot) :])
        self._swap_handles(self._drafter, self._drafter)

    def _admit(self) -> None:
        admitted = []
        while self.waiting:
            sequence = self.waiting[0]
            try:
                self._open(sequence)
            except NoFreeSlot:
                break
            self.waiting.popleft()
            self.running.append(sequence)
            admitted.append(sequence)
        short = [s for s in admitted if 1 < len(s.prompt) <= _SHORT_PROMPT]
        self._prefill_together(short)
        for sequence in admitted:
            if sequence not in short:
                clock = Clock(self.target.device)
                self.target.prefill(sequence.slot, sequence.prompt[:-1])
                sequence.stats.seconds["target"] += clock.lap()
        if self.waiting and not self.running:
            raise InvalidInput("The models' slots are all in use elsewhere; load more slots.")

    def _prefill_together(self, sequences: Seq[Sequence]) -> None:
        """Many short prompts in one call, as chains that are committed whole."""
        clock = Clock(self.target.device)
        chains = [s.prompt[:-1] for s in sequences]
        parents = [[PREFIX, *range(len(chain) - 1)] for chain in chains]
        extensions = [
            Extension(s.slot, chain, above, [])
            for s, chain, above in zip(sequences, chains, parents, strict=True)
        ]
        if extensions:
            self.target.extend(extensions)
        for sequence, chain in zip(sequences, chains, strict=True):
            self.target.commit(sequence.slot, range(len(chain)))
        spent = clock.lap()
        for sequence in sequences:
            sequence.stats.seconds["target"] += spent / len(sequences)

    def _open(self, sequence: Sequence) -> None:
        """A slot of the target and a handle of the drafter, or neither."""
        slot = self.target.open()
        try:
            self._open_draft(self.drafter, sequence)
        except BaseException:
            self.target.close(slot)
            raise
        sequence.slot = slot

    def _release(self, sequence: Sequence) -> None:
        self.running.remove(sequence)
        self.target.close(sequence.slot)
        _close_draft(self.drafter, sequence)

    def _choose(self, running: Seq[Sequence]) -> list[Choice]:
        if self.drafter is None:
            return [Choice(0)] * len(running)
        # Never longer than what may still be emitted: a round always adds one more token.
        most = [min(self.drafter.draft_length, s.remaining - 1) for s in running]
        if self.controller is None:
            return [Choice(length) for length in most]
        return [
            replace(choice, draft_length=max(0, min(choice.draft_length, length)))
            for choice, length in zip(self.controller.choose(running), most, strict=True)
        ]

    def _draft(self, running: Seq[Sequence], choices: Seq[Choice]) -> list[DraftTree]:
        if self.drafter is None:
            return [DraftTree.rooted_at(s.last_token) for s in running]
        return self.drafter.propose(
            [
                DraftRequest(
                    s.handle, s.tokens, choice.draft_length, s.carry_left, s.chance, choice.prices
                )
                for s, choice in zip(running, choices, strict=True)
            ]
        )

    def _emit(
        self,
        sequence: Sequence,
        choice: Choice,
        tree: DraftTree,
        logits: torch.Tensor,
        verdict: Verdict,
    ) -> Progress:
        """Take over the verdict: tokens, cache, carry, figures; release what has ended."""
        tokens = [*(tree.tokens[node] for node in verdict.path), verdict.token]
        last = verdict.path[-1] if verdict.path else 0
        final: Origin = "residual" if tree.entries[last] else "bonus"
        origins: list[Origin] = ["draft"] * len(verdict.path)
        origins.append(final)
        logprobs = []
        if (count := sequence.params.logprobs) is not None:
            nodes = [0, *verdict.path]
            logprobs = [_logprob(logits[n], t, count) for n, t in zip(nodes, tokens, strict=True)]
        kept, shown = sequence.accept(tokens)
        sequence.carry = verdict.carry  # at once: an old carry would bias what comes next
        sequence.origins += origins[:kept]
        sequence.logprobs += logprobs[:kept]
        sequence.choices.append(choice)
        self._record(sequence, tree, len(verdict.path), kept)
        if sequence.finish_reason is not None:
            self._release(sequence)
        else:
            self.target.commit(sequence.slot, [0, *verdict.path])
        return Progress(sequence, tokens[:kept], origins[:kept], shown, choice, tree, verdict.path)

    def _record(self, sequence: Sequence, tree: DraftTree, accepted: int, kept: int) -> None:
        stats = sequence.stats
        stats.rounds += 1
        stats.target_calls += 1
        stats.tokens += kept
        stats.drafted += sum(len(entries) for entries in tree.entries)
        stats.accepted += min(accepted, kept)
        full_length = self.drafter.draft_length if self.drafter else 0
        # Room for a full draft, not a tree of full depth: an adaptive tree stays short where it
        # would have failed, and leaving those rounds out would flatter it.
        had_room = sequence.remaining + kept > full_length
        if kept == accepted + 1 and had_room:
            stats.full_rounds += 1
            stats.full_tokens += kept
            if self.controller is not None:
                stats.accepted_fractions = None
            elif full_length and stats.accepted_fractions is not None:
                stats.accepted_fractions += accepted / full_length


def _close_draft(drafter: Drafter | None, sequence: Sequence) -> None:
    if drafter is not None and sequence.handle >= 0:
        drafter.close(sequence.handle)
    sequence.handle = -1


def _told(progress: Progress, seconds: float) -> Round:
    """A round as a controller hears of it."""
    kept = len(progress.token_ids)
    accepted = min(len(progress.path), kept)
    return Round(progress.sequence, progress.choice, progress.tree, accepted, kept, seconds)


def _logprob(logits: torch.Tensor, token: int, count: int) -> TokenLogprob:
    logprobs = torch.log_softmax(logits.float(), dim=-1)
    values, ids = logprobs.topk(min(count, logprobs.numel()))
    top = list(zip(ids.tolist(), values.tolist(), strict=True))
    return TokenLogprob(token, float(logprobs[token]), top)


def _context(target: LanguageModel, drafter: Drafter | None) -> int:
    models = [target, drafter.model if drafter else None]
    return min(model.max_length for model in models if model is not None)


def _check_context(prompt: Seq[int], params: SamplingParams, context: int) -> None:
    if len(prompt) + params.max_tokens > context:
        raise InvalidInput(
            f"Prompt ({len(prompt)} tokens) and max_tokens ({params.max_tokens}) exceed the "
            f"context of {context} tokens; shorten one of them or load the models with a larger "
            "max_length (--max-length)."
        )


def _check_target(target: LanguageModel) -> None:
    if isinstance(target, TransformersModel) and target.head is not None:
        raise InvalidInput(
            f"The target has a head of {len(target.head.tokens)} tokens, so that others could "
            "never come; load it without head_tokens, which are for drafts."
        )


def _check_shape(verifier: Verifier, drafter: Drafter) -> None:
    if verifier.drafts == "one" and drafter.drafts != "one":
        raise InvalidInput(
            f"The verifier {verifier.name!r} takes one draft; use num_drafts=1, or another method."
        )
    if verifier.drafts == "iid" and drafter.drafts == "any":
        raise InvalidInput(
            f"The verifier {verifier.name!r} takes independent drafts from a model; verify this "
            "drafter's trees with 'traversal' or 'specinfer'."
        )


def _check_device(target: LanguageModel, draft: LanguageModel) -> None:
    if draft.device != target.device:
        raise InvalidInput(
            f"The target is on {target.device}, the draft on {draft.device}; load both on one "
            "device."
        )


def _check_vocabulary(target: LanguageModel, draft: LanguageModel) -> None:
    if same_vocabulary(target, draft):
        return
    if target.tokenizer is None or draft.tokenizer is None:
        raise InvalidInput(
            f"Target and draft differ in vocabulary size ({target.vocab_size} and "
            f"{draft.vocab_size}); a draft must share the target's vocabulary."
        )
    raise InvalidInput(
        "Target and draft have different tokenizers; take a draft of the target's own family, or "
        "wrap this one: multidraft.models.share_vocabulary(draft, target)."
    )
