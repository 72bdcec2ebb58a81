"""What cannot work is refused before any decoding, each time in one clear sentence."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from multidraft import Decoder, FunctionModel, InvalidInput, InvalidLogits, SamplingParams
from multidraft.draft import LookupDrafter, ModelDrafter
from multidraft.engine.control.base import Replay
from multidraft.verify import VERIFIERS
from tests.engine.markov import markov
from tests.engine.speaking import WORDS, all_free, make_decoder, make_pair, make_tokenizer, speaking

VOCAB = 4
UNIFORM = [1 / VOCAB] * VOCAB


def model(vocab_size: int = VOCAB, **changes) -> FunctionModel:
    return FunctionModel(vocab_size, lambda context: [1 / vocab_size] * vocab_size, **changes)


def refused(call, *words: str, error=InvalidInput) -> None:
    """``call`` raises one sentence that names what the reader needs."""
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert message.endswith(".") and "\n" not in message, message
    assert message.rstrip(".").count(". ") == 0, message
    for word in words:
        assert word in message, message


# ------------------------------------------------------------ parts that do not fit


def test_other_vocabulary_sizes():
    refused(lambda: Decoder(model(4), ModelDrafter(model(5))), "vocabulary", "4", "5")


def test_other_tokenizers():
    pair = make_pair()
    other = make_tokenizer([*WORDS[:-1], "dd"])
    for draft_tokenizer in (other, make_tokenizer([*WORDS, "dd"])):
        target = speaking(markov(pair.target))
        draft = speaking(markov(pair.draft), draft_tokenizer)
        refused(lambda t=target, d=draft: Decoder(t, ModelDrafter(d)), "tokenizers")


def test_other_devices():
    draft = model()
    draft.device = torch.device("meta")
    refused(lambda: Decoder(model(), ModelDrafter(draft)), "cpu", "meta", "one device")


def test_a_corpus_of_another_vocabulary():
    refused(lambda: Decoder(model(4), LookupDrafter(corpus=[3, 4])), "corpus", "0..3")


def test_controllers():
    refused(lambda: Decoder(model(), controller="auto"), "needs a drafter")
    refused(lambda: Decoder(model(), controller=Replay([])), "needs a drafter")
    drafter = ModelDrafter(model(slots=1), 1)
    refused(lambda: Decoder(model(), drafter, controller="Auto"), "'Auto'", '"auto"')
    drafter.model.open()
    refused(lambda: Decoder(model(), drafter, controller="auto"), "slots", "in use")


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "3", None])
@pytest.mark.parametrize("name", ["num_drafts", "draft_length"])
def test_number_and_length_of_drafts(name, value):
    refused(lambda: ModelDrafter(model(), **{name: value}), name, repr(value))


@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf, "warm", True])
def test_draft_temperature(value):
    refused(lambda: ModelDrafter(model(), temperature=value), "temperature", repr(value))


def test_an_unknown_verifier():
    refused(lambda: Decoder(model(), None, "tokn"), "'tokn'", *VERIFIERS)
    refused(lambda: Decoder(model(), ModelDrafter(model()), ""), "''", "traversal")


@pytest.mark.parametrize("name", [v.name for v in VERIFIERS.values() if v.drafts == "one"])
def test_a_verifier_of_one_draft_refuses_several(name):
    refused(lambda: Decoder(model(), ModelDrafter(model(), 2), name), repr(name), "one draft")
    Decoder(model(), ModelDrafter(model(), 1), name)


@pytest.mark.parametrize("name", [v.name for v in VERIFIERS.values() if v.drafts == "iid"])
def test_a_verifier_of_independent_drafts_refuses_other_trees(name):
    drafter = ModelDrafter(model(), 2)
    drafter.drafts = "any"
    refused(lambda: Decoder(model(), drafter, name), repr(name), "independent drafts")
    for other in VERIFIERS.values():
        if other.drafts == "any":
            Decoder(model(), drafter, other.name)


# ------------------------------------------------------------ prompts and parameters


@pytest.fixture
def counting():
    """A decoder whose target counts how often it was asked for a law."""
    calls: list[int] = []
    decoder = make_decoder()
    law = decoder.target._law
    decoder.target._law = lambda context: calls.append(len(context)) or law(context)
    decoder.target.max_length = 300
    yield decoder
    assert calls == [], "work was done before the error"
    assert all_free(decoder)


@pytest.mark.parametrize("prompt", ["", [], [{"role": "user", "content": ""}][:0]])
def test_an_empty_prompt(counting, prompt):
    refused(lambda: counting.generate([[1], prompt]), "empty")
    refused(lambda: counting.stream(prompt), "empty")
    refused(lambda: counting.submit(prompt), "empty")


def test_a_prompt_and_max_tokens_beyond_the_context(counting):
    for prompt, max_tokens in ([1] * 251, 50), ([1], 300), ([1] * 300, 1):
        params = SamplingParams(max_tokens=max_tokens)
        words = (str(len(prompt)), str(max_tokens), "300")
        refused(lambda p=prompt, q=params: counting.generate([[1], p], q), *words)
        refused(lambda p=prompt, q=params: counting.stream(p, q), *words)
    counting.target.max_length = 1 << 20
    counting.engine.drafter.model.max_length = 60
    refused(lambda: counting.generate([1] * 20, SamplingParams(max_tokens=41)), "60")


def test_a_context_filled_to_the_last_token():
    for name in (None, *VERIFIERS):
        decoder = make_decoder(name)
        decoder.target.max_length = 30
        result = decoder.generate([1] * 10, SamplingParams(max_tokens=20, ignore_eos=True))[0]
        assert len(result.token_ids) == 20


@pytest.mark.parametrize("tokens", [[12], [-1], [1, 2, 1 << 40]])
def test_token_ids_outside_the_vocabulary(counting, tokens):
    refused(lambda: counting.generate([[1], tokens]), "outside 0..11")


def test_a_bias_outside_the_vocabulary(counting):
    params = SamplingParams(logit_bias={12: 1.0})
    refused(lambda: counting.generate([[1]], [params]), "logit_bias", "12")
    refused(lambda: counting.stream([1], params), "logit_bias", "12")


@pytest.mark.parametrize(
    "prompts",
    [
        *(5, None, b"\x01\x02", [b"\x01"], np.array([1, 2]), torch.tensor([1, 2]), iter([[1]])),
        *([None], [1.5, 2.5], [[1, "a"]], [[[1]]], [torch.tensor([1])], [{"content": "a"}, 3]),
        {"role": "user", "content": "a"},
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_prompt(counting, prompts):
    refused(lambda: counting.generate(prompts))


@pytest.mark.parametrize("messages", [[{"role": "user"}], [{}]])
def test_messages_the_template_cannot_render(messages):
    decoder = make_decoder()
    decoder.target.tokenizer = make_tokenizer()
    decoder.target.tokenizer.chat_template = "{{ raise_exception('roles must alternate') }}"
    refused(lambda: decoder.generate(messages), "template")


def test_text_and_messages_need_a_tokenizer():
    decoder = Decoder(model())
    refused(lambda: decoder.generate("a"), "token ids")
    refused(lambda: decoder.generate([{"role": "user", "content": "a"}]), "token ids")
    refused(lambda: decoder.generate([1], SamplingParams(stop="a")), "stop_token_ids")
    speaking(decoder.target, make_tokenizer()).tokenizer.chat_template = None
    refused(lambda: decoder.generate([{"role": "user", "content": "a"}]), "plain text")


def test_parameters_and_prompts_of_different_number(counting):
    refused(lambda: counting.generate([[1], [2]], [SamplingParams()]), "1", "2 prompts")
    refused(lambda: counting.generate([1, 2], [SamplingParams()] * 2), "2", "1 prompts")


@pytest.mark.parametrize("params", ["greedy", {"temperature": 0}, [{"temperature": 0}], 0, [None]])
def test_what_is_no_parameters(counting, params):
    refused(lambda: counting.generate([1], params), "SamplingParams")
    refused(lambda: counting.stream([1], params), "SamplingParams")


def test_a_stream_has_one_sample(counting):
    refused(lambda: counting.stream([1], SamplingParams(n=2)), "one sample")


# ------------------------------------------------------------ changing the drafter


def test_the_drafter_may_not_change_while_a_carry_lives():
    decoder = make_decoder("spectr-gbv")
    engine, other = decoder.engine, make_decoder("spectr-gbv").engine.drafter
    sequence = decoder.submit([1], SamplingParams(max_tokens=200, ignore_eos=True, seed=3))
    alive, changed = 0, 0
    while sequence.finish_reason is None:
        engine.step()
        if sequence.carry:
            alive += 1
            for drafter in (other, None):
                refused(lambda d=drafter: setattr(engine, "drafter", d), "carry", "'spectr-gbv'")
        elif sequence.finish_reason is None:
            changed += 1
            engine.drafter, other = other, engine.drafter
    assert alive > 5 and changed > 5
    assert all_free(decoder)


def test_a_new_drafter_must_fit_what_runs():
    decoder = make_decoder()
    engine, old = decoder.engine, decoder.engine.drafter
    pair = make_pair()
    params = SamplingParams(max_tokens=30, seed=1, ignore_eos=True)
    expected = decoder.generate([[1], [2], [3]], params)
    sequences = [engine.submit([1 + i], params, (1, i, 0)) for i in range(3)]
    engine.step()
    small = ModelDrafter(speaking(markov(pair.draft, 2)), 3, 4)
    short = ModelDrafter(speaking(markov(pair.draft)), 3, 4)
    short.model.max_length = 20
    refused(lambda: setattr(engine, "drafter", small), "slots", "3")
    refused(lambda: setattr(engine, "drafter", short), "context", "20")
    refused(lambda: setattr(engine, "drafter", ModelDrafter(model(5))), "vocabulary")
    assert engine.drafter is old
    assert all_free(Decoder(small.model)) and all_free(Decoder(short.model))
    while engine.busy:
        engine.step()
    assert [s.output for s in sequences] == [r.token_ids for r in expected]
    assert all_free(decoder)


# ------------------------------------------------------------ logits that are no law


class Broken(FunctionModel):
    """Gives bad logits from a certain length of the context on."""

    def __init__(self, bad: list[float], length: int):
        super().__init__(VOCAB, lambda context: UNIFORM)
        self.bad, self.at = torch.tensor(bad, dtype=torch.float64), length

    def _logits(self, contexts):
        rows = super()._logits(contexts)
        rows[[len(context) >= self.at for context in contexts]] = self.bad
        return rows


BAD = {
    "NaN": [0.0, math.nan, 0.0, 0.0],
    "+inf": [0.0, math.inf, 0.0, 0.0],
    "nothing but -inf": [-math.inf] * VOCAB,
}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("name", [None, *VERIFIERS], ids=lambda name: name or "plain")
@pytest.mark.parametrize("what", BAD)
def test_bad_logits(what, name, temperature):
    drafts = 1 if name and VERIFIERS[name].drafts == "one" else 2
    params = SamplingParams(max_tokens=20, seed=0, temperature=temperature)
    drafter = ModelDrafter(model(), drafts, 3)
    in_target = Decoder(Broken(BAD[what], 6), name and drafter, name or "token")
    refused(lambda: in_target.generate([[1]] * 3, params), what, "logits", error=InvalidLogits)
    refused(lambda: list(in_target.stream([1], params)), what, error=InvalidLogits)
    assert all_free(in_target)
    if name:
        in_draft = Decoder(model(), ModelDrafter(Broken(BAD[what], 6), drafts, 3), name)
        refused(lambda: in_draft.generate([[1]] * 3, params), what, error=InvalidLogits)
        assert all_free(in_draft)


def test_a_bias_that_leaves_no_token():
    decoder = Decoder(model(), ModelDrafter(model()))
    params = SamplingParams(logit_bias=dict.fromkeys(range(VOCAB), -math.inf))
    refused(lambda: decoder.generate([1], params), "logit_bias", error=InvalidLogits)
    assert all_free(decoder)
