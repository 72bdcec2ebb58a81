"""Markov pairs that speak: a tiny tokenizer, an end token, and any verifier over them."""

from __future__ import annotations

from tokenizers import Tokenizer, decoders, models
from transformers import PreTrainedTokenizerFast

from multidraft import Decoder
from multidraft.draft import ModelDrafter
from multidraft.models import FunctionModel
from multidraft.verify import get_verifier
from tests.engine.markov import Pair, markov, random_pair

EOS = 0
WORDS = ["<eos>", "a", "b", "c", "d", " ", "ab", "bc", "cd", "da", "abc", "bcd"]
CHAT = "{% for m in messages %}{{ m['content'] }}{% endfor %}{{ ' ' if add_generation_prompt }}"


def make_tokenizer(words: list[str] = WORDS) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, [("a", "b")]))
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<eos>", chat_template=CHAT
    )


TOKENIZER = make_tokenizer()


def speaking(model: FunctionModel, tokenizer=TOKENIZER) -> FunctionModel:
    model.tokenizer = tokenizer
    model.eos_token_ids = frozenset({EOS})
    return model


def make_pair(seed: int = 11) -> Pair:
    return random_pair(seed=seed, vocab_size=len(WORDS), mix=0.6)


def make_decoder(
    verifier: str | None = "traversal",
    num_drafts: int = 3,
    draft_length: int = 4,
    slots: int = 16,
    pair: Pair | None = None,
) -> Decoder:
    """``verifier=None`` is plain decoding."""
    pair = pair or make_pair()
    target = speaking(markov(pair.target, slots))
    if verifier is None:
        return Decoder(target)
    if get_verifier(verifier).drafts == "one":
        num_drafts = 1
    drafter = ModelDrafter(speaking(markov(pair.draft, slots)), num_drafts, draft_length)
    return Decoder(target, drafter, verifier)


def free_slots(model: FunctionModel) -> int:
    """How many slots can still be opened."""
    opened = []
    try:
        while len(opened) < model.num_slots:
            opened.append(model.open())
    except RuntimeError:
        pass
    for slot in opened:
        model.close(slot)
    return len(opened)


def all_free(decoder: Decoder) -> bool:
    models = [decoder.target, *([decoder.engine.drafter.model] if decoder.engine.drafter else [])]
    return not decoder.engine.busy and all(free_slots(m) == m.num_slots for m in models)
