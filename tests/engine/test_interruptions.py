"""Sequences that end early, rounds that break halfway: slots come back, and the rest go on."""

from __future__ import annotations

import gc
from functools import partial

import pytest

from multidraft import Decoder, FunctionModel, InvalidInput, InvalidLogits, SamplingParams
from multidraft.draft import LookupDrafter, ModelDrafter
from multidraft.verify import VERIFIERS
from tests.engine.markov import markov, p_value, random_pair
from tests.engine.speaking import all_free, free_slots, make_decoder, make_pair

every_method = pytest.mark.parametrize("method", [None, *VERIFIERS], ids=lambda m: m or "plain")


def params(seed: int = 1, **changes) -> SamplingParams:
    return SamplingParams(**{"max_tokens": 30, "ignore_eos": True, "seed": seed, **changes})


def finish(decoder: Decoder) -> None:
    while decoder.engine.busy:
        decoder.engine.step()


# ------------------------------------------------------------ cancelling


@every_method
def test_cancelled_sequences_free_their_slots_and_change_no_neighbour(method):
    decoder = make_decoder(method, slots=3)
    expected = [decoder.generate([1 + i], params(i))[0].token_ids for i in range(6)]
    sequences = [decoder.submit([1 + i], params(i)) for i in range(6)]
    decoder.engine.step()
    assert len(decoder.engine.running) == 3 and len(decoder.engine.waiting) == 3
    running, waiting = sequences[1], sequences[4]
    decoder.engine.cancel(running)
    decoder.engine.cancel(waiting)
    assert free_slots(decoder.target) == 1
    finish(decoder)
    for i in (0, 2, 3, 5):
        assert sequences[i].output == expected[i]
    result = running.result()
    assert result.finish_reason == "cancelled"
    assert result.token_ids == expected[1][: len(result.token_ids)]
    assert 0 < len(result.token_ids) < 30 and result.text is not None
    assert (waiting.result().finish_reason, waiting.result().token_ids) == ("cancelled", [])
    decoder.engine.cancel(running)  # once more is once too many, and harmless
    decoder.engine.cancel(sequences[0])
    assert sequences[0].finish_reason == "length"
    assert all_free(decoder)


def test_a_stream_closed_early_frees_its_slot():
    decoder = make_decoder()
    stream = decoder.stream([1], params())
    next(stream)
    assert decoder.engine.busy
    stream.close()
    assert all_free(decoder)
    for _ in decoder.stream([1], params()):
        break
    gc.collect()
    assert all_free(decoder)


def test_a_stream_that_was_never_begun_holds_nothing():
    decoder = make_decoder()
    unused = decoder.stream([1], params())
    unused.close()
    del unused
    decoder.stream([2], params())
    gc.collect()
    assert all_free(decoder)


def test_cancelling_inside_a_streams_loop():
    decoder = make_decoder()
    expected = decoder.generate([1], params())[0].token_ids
    other = decoder.submit([2], params(2, max_tokens=500))
    stream, tokens = decoder.stream([1], params()), []
    for piece in stream:
        tokens += piece.token_ids
        decoder.engine.cancel(other)
    assert tokens == expected and other.finish_reason == "cancelled"

    stream = decoder.stream([1], params())
    pieces = [next(stream)]
    decoder.engine.cancel(decoder.engine.running[0])  # the stream's own
    pieces += stream
    assert pieces[-1].result.finish_reason == "cancelled"
    assert "".join(map(str, pieces)) == pieces[-1].result.text
    assert all_free(decoder)


def test_sequences_submitted_while_others_run():
    decoder = make_decoder(slots=3)
    expected = [decoder.generate([1 + i], params(i))[0].token_ids for i in range(8)]
    sequences = []
    for i in range(8):
        sequences.append(decoder.submit([1 + i], params(i)))
        decoder.engine.step()
    finish(decoder)
    assert [s.output for s in sequences] == expected


# ------------------------------------------------------------ slots


def test_slots_taken_by_someone_else():
    decoder = make_decoder(slots=2)
    expected = decoder.generate([[1], [2]], params())
    for model in (decoder.target, decoder.engine.drafter.model):
        taken = [model.open(), model.open()]
        with pytest.raises(InvalidInput, match="slots are all in use elsewhere"):
            decoder.generate([[1], [2]], params())
        assert not decoder.engine.busy
        model.close(taken.pop())
        results = decoder.generate([[1], [2]], params())  # one slot is left: they queue
        assert [r.token_ids for r in results] == [r.token_ids for r in expected]
        model.close(taken.pop())
    assert all_free(decoder)


def test_two_decoders_on_the_same_models():
    first = make_decoder("traversal", slots=2)
    second = Decoder(first.target, first.engine.drafter, "spectr")
    expected = second.generate([3], params())[0].token_ids
    stream = first.stream([1], params())
    next(stream)
    assert second.generate([3], params())[0].token_ids == expected
    other = first.stream([2], params())
    next(other)
    with pytest.raises(InvalidInput, match="in use elsewhere"):
        second.generate([3], params())
    assert len(list(stream)) + len(list(other)) > 2
    assert all_free(first) and all_free(second)


@pytest.mark.parametrize("slots", [2, 3, 5])
def test_one_model_as_target_and_draft(slots):
    model = markov(make_pair().target, slots)
    for name, method in VERIFIERS.items():
        drafts = 1 if method.drafts == "one" else 3
        decoder = Decoder(model, ModelDrafter(model, drafts, 4), name)
        results = decoder.generate([[1 + i] for i in range(4)], params())
        if name != "multipath":  # which verifies the law of its pick, not the draft's
            assert all("residual" not in r.origins for r in results)
        assert all_free(decoder)


def test_one_model_as_target_and_draft_with_a_single_slot():
    model = markov(make_pair().target, 1)
    decoder = Decoder(model, ModelDrafter(model, 2, 2))
    with pytest.raises(InvalidInput, match="load more slots"):
        decoder.generate([1], params())
    assert all_free(decoder)


# ------------------------------------------------------------ exceptions inside a model


class Trip:
    """Raises ``error`` at the n-th call of any of a model's methods that compute."""

    def __init__(self, model, methods=("prefill", "extend", "commit")):
        self.countdown, self.error = 0, RuntimeError("the device fell over")
        for name in methods:
            setattr(model, name, self.tripping(getattr(model, name)))

    def arm(self, calls: int, error: BaseException | None = None) -> None:
        self.countdown, self.error = calls, error or self.error

    def tripping(self, method):
        def call(*args):
            self.countdown -= 1
            if self.countdown == 0:
                raise self.error
            return method(*args)

        return call


def models_of(decoder: Decoder) -> list:
    drafter = decoder.engine.drafter
    return [decoder.target, *([drafter.model] if drafter else [])]


@every_method
@pytest.mark.parametrize("error", [RuntimeError("out of memory"), KeyboardInterrupt()], ids=type)
def test_an_exception_ends_the_call_and_frees_all(method, error):
    decoder = make_decoder(method, slots=3)
    prompts = [[1 + i] * (1 + 9 * i) for i in range(5)]
    expected = [r.token_ids for r in decoder.generate(prompts, params())]
    for trip in [Trip(model) for model in models_of(decoder)]:
        for calls in (1, 2, 3, 4, 5, 8, 13, 21):
            trip.arm(calls, error)
            with pytest.raises(type(error)):
                decoder.generate(prompts, params())
            assert all_free(decoder)
            trip.arm(calls, error)
            with pytest.raises(type(error)):
                list(decoder.stream([1] * 20, params(max_tokens=60)))
            assert all_free(decoder)
        assert [r.token_ids for r in decoder.generate(prompts, params())] == expected


@every_method
def test_a_round_that_broke_leaves_the_others_right(method):
    """At temperature 0 whatever goes on after it must be the plain greedy output."""
    decoder = make_decoder(method, slots=3)
    prompts = [[1 + i] * (1 + 20 * i) for i in range(5)]
    greedy = params(temperature=0.0, repetition_penalty=1.2, max_tokens=25)
    expected = [make_decoder(None).generate(p, greedy)[0].token_ids for p in prompts]
    for trip in [Trip(model) for model in models_of(decoder)]:
        sequences = [decoder.submit(p, greedy) for p in prompts]
        broken = 0
        while decoder.engine.busy:
            trip.arm(1 + broken % 11)
            try:
                decoder.engine.step()
            except RuntimeError:
                broken += 1
                trip.arm(0)
                decoder.engine.step()
        assert [s.output for s in sequences] == expected
        trip.arm(0)
        assert broken >= 3
        assert all_free(decoder)


def test_an_error_beside_the_models_leaves_the_round_undone(monkeypatch):
    decoder = make_decoder("spectr-gbv")
    greedy = params(temperature=0.0, logprobs=2)
    expected = decoder.generate([1], greedy)[0]
    sequence = decoder.submit([1], greedy)
    decoder.engine.step()
    before = (list(sequence.output), sequence.carry, len(sequence.logprobs))
    with monkeypatch.context() as patch:
        patch.setattr("multidraft.engine.engine._logprob", None)
        with pytest.raises(TypeError):
            decoder.engine.step()
    assert (sequence.output, sequence.carry, len(sequence.logprobs)) == before
    finish(decoder)
    assert sequence.output == expected.token_ids
    assert sequence.result().logprobs == expected.logprobs


def test_another_drafter_in_the_middle():
    """Taken or refused, the sequences go on."""
    decoder = make_decoder(slots=3)
    greedy = params(temperature=0.0)
    expected = [make_decoder(None).generate([1 + i], greedy)[0].token_ids for i in range(3)]
    sequences = [decoder.submit([1 + i], greedy) for i in range(3)]
    first = decoder.engine.drafter
    few, broken = ModelDrafter(markov(make_pair().draft, 1), 1, 2), LookupDrafter()
    handles = iter([1, 2, 3])  # it is asked once whether it fits
    broken.open, broken.close = lambda *_: 6 // (3 - next(handles)), lambda handle: None
    for wrong, error in ((few, InvalidInput), (broken, ZeroDivisionError)):
        decoder.engine.step()
        with pytest.raises(error):
            decoder.engine.drafter = wrong
        assert decoder.engine.drafter is first and free_slots(few.model) == 1
    decoder.engine.step()
    decoder.engine.drafter = LookupDrafter()
    assert free_slots(first.model) == 3
    finish(decoder)
    assert [s.output for s in sequences] == expected
    assert all(s.finish_reason == "length" for s in sequences)


@pytest.mark.parametrize("method", ["spectr-gbv", "greedy-block", "traversal"])
def test_rounds_that_broke_leave_the_law_alone(method):
    """A carry goes on over them."""
    pair = random_pair(seed=26, vocab_size=3, mix=0.3)
    decoder = pair.decoder(method, 2, 3)
    trips = [Trip(model, ["extend"]) for model in models_of(decoder)]
    sequences = [decoder.submit([0], params(i, max_tokens=100)) for i in range(64)]
    steps = 0
    while decoder.engine.busy:
        steps += 1
        if steps % 2:
            trips[steps // 2 % 2].arm(1 + steps % 3)
        try:
            decoder.engine.step()
        except RuntimeError:
            trips[0].arm(0)
            trips[1].arm(0)
    assert p_value([s.result() for s in sequences], pair.target) > 1e-4


def test_a_sequence_without_a_law_leaves_the_others_right():
    """Its error ends the step, not the neighbours: nobody lost a token or got one twice."""
    decoder = make_decoder(slots=4)
    expected = decoder.generate([1], params(temperature=0.0))[0].token_ids
    good = decoder.submit([1], params(temperature=0.0))
    law = decoder.target._law
    decoder.target._law = lambda context: law(context) if context[0] == 1 else [2.0] * 12
    decoder.target._logits = partial(FunctionModel._logits, decoder.target)  # which checks laws
    bad = decoder.submit([2], params())
    with pytest.raises(InvalidLogits, match="no law"):
        decoder.engine.step()
    decoder.engine.cancel(bad)
    finish(decoder)
    assert good.output == expected
