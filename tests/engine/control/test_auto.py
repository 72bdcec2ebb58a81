"""The automatic controller: never slower, faster where a draft is good, and always lossless."""

from __future__ import annotations

import numpy as np
import pytest

from multidraft import Decoder, SamplingParams
from multidraft.draft import HybridTreeDrafter, LookupDrafter, ModelDrafter, UnionDrafter
from multidraft.engine.control.auto import AutoController
from multidraft.engine.control.base import Replay
from multidraft.engine.control.curve import Curve
from multidraft.errors import InvalidInput
from tests.engine.control.machine import DRAFT, TARGET, Machine
from tests.engine.markov import Pair, markov, p_value, random_pair, sample

#: Of CPUs that have a way of their own with a single row.
JUMP = Curve.of({1: 1.0, 2: 1.9, 4: 2.2, 8: 2.8, 16: 3.4})
DRAFTERS = {
    "hybrid": ("traversal", lambda draft: HybridTreeDrafter(draft, 8, 16)),
    "union": (
        "traversal",
        lambda draft: UnionDrafter(LookupDrafter(8, 8), HybridTreeDrafter(draft, 8, 16)),
    ),
    "chain": ("token", lambda draft: ModelDrafter(draft, 1, 8)),
    "gbv": ("spectr-gbv", lambda draft: ModelDrafter(draft, 3, 8)),
}


def run(name: str, pair: Pair, tokens=600, seed=1, draft: Curve = DRAFT, target: Curve = TARGET):
    verifier, make = DRAFTERS[name]
    drafter = make(markov(pair.draft))
    machine = Machine(drafter, target, draft)
    decoder = Decoder(markov(pair.target), drafter, verifier, controller=machine)
    params = SamplingParams(max_tokens=tokens, seed=seed)
    return decoder.generate([[0]], params)[0], machine


def seconds_after(machine: Machine, tokens: int) -> tuple[int, float]:
    """Tokens and seconds from the first round that had ``tokens`` tokens on."""
    first = next(i for i, (count, _) in enumerate(machine.log) if count >= tokens)
    return (
        machine.log[-1][0] - machine.log[first][0],
        machine.log[-1][1] - machine.log[first][1],
    )


def peaked_pair(agreement: float, vocab_size: int = 16) -> Pair:
    """Laws that are nearly certain of one token; the draft's is the target's in a share of them."""
    rng = np.random.default_rng(5)
    target = np.full((vocab_size, vocab_size), 0.1 / (vocab_size - 1))
    target[np.arange(vocab_size), rng.permutation(vocab_size)] = 0.9
    target /= target.sum(1, keepdims=True)
    draft = target[rng.permutation(vocab_size)]
    agreeing = np.arange(vocab_size) < agreement * vocab_size
    return Pair(target, np.where(agreeing[:, None], target, draft))


@pytest.mark.parametrize("name", DRAFTERS)
def test_faster_with_a_good_draft(name):
    _, machine = run(name, peaked_pair(1.0))
    assert 600 * TARGET(1) / machine.seconds > 1.5


@pytest.mark.parametrize("name", DRAFTERS)
@pytest.mark.parametrize("agreement", [0.0, 0.3, 0.6, 0.9])
def test_not_slower_after_a_hundred_tokens(name, agreement):
    """Also for a draft that is sure of the wrong tokens."""
    _, machine = run(name, peaked_pair(agreement), tokens=1500)
    tokens, seconds = seconds_after(machine, 100)
    assert tokens * TARGET(1) / seconds > 0.98


@pytest.mark.parametrize("name", DRAFTERS)
@pytest.mark.parametrize("agreement", [0.3, 0.6])
def test_where_two_positions_take_twice_as_long_as_one(name, agreement):
    draft = Curve.of({1: 0.2, 8: 0.7})
    _, machine = run(name, peaked_pair(agreement), tokens=1500, draft=draft, target=JUMP)
    tokens, seconds = seconds_after(machine, 100)
    assert tokens * JUMP(1) / seconds > 0.97


def test_lookup_is_still_relied_on_after_rounds_without_a_match():
    """Text that never repeats, with a draft that is never right."""
    size = 400
    target, draft = (np.roll(np.eye(size), shift, axis=1) for shift in (1, 2))
    result, _ = run("union", Pair(target, draft), tokens=300)
    assert all(choice.prices.lookup == 1.0 for choice in result.choices)


@pytest.mark.parametrize("name", DRAFTERS)
@pytest.mark.parametrize("mix", [0.0, 1.0])
def test_a_draft_as_slow_as_the_target(name, mix):
    _, machine = run(name, random_pair(3, 12, mix), tokens=1500, draft=TARGET)
    tokens, seconds = seconds_after(machine, 100)
    assert tokens * TARGET(1) / seconds > 0.98


@pytest.mark.parametrize("name", ["hybrid", "chain"])
def test_plain_steps_that_take_less_than_was_measured(name):
    """A draft that is always right, for little less than a plain step was thought to take, but for
    more than it takes: nothing but a plain step can tell."""
    pair = random_pair(3, 12, 0.0)
    pair = Pair(pair.target, pair.target)
    target = Curve.of({1: 0.8, 2: 1.1, 32: 1.1})
    verifier, make = DRAFTERS[name]
    drafter = make(markov(pair.draft))
    believed = Curve.of({1: 1.1, 32: 1.1})
    machine = Machine(drafter, target, Curve.of({1: 0.8}), believed)
    decoder = Decoder(markov(pair.target), drafter, verifier, controller=machine)
    decoder.generate([[0]], SamplingParams(max_tokens=3000, seed=1))
    tokens, seconds = seconds_after(machine, 400)
    assert tokens * target(1) / seconds > 0.98


@pytest.mark.parametrize("name", DRAFTERS)
def test_positions_that_cost(name):
    """As in a large batch: what is scored in vain is paid for."""
    steep = Curve.of({1: 1.0, 2: 1.8, 32: 26.0})
    tokens, seconds = 0, 0.0
    for seed in range(1, 5):  # one answer's ratio is uncertain by 0.006
        _, machine = run(name, peaked_pair(0.6), 1500, seed, Curve.of({1: 0.01}), steep)
        after = seconds_after(machine, 100)
        tokens, seconds = tokens + after[0], seconds + after[1]
    assert tokens * steep(1) / seconds > 0.98


def test_a_draft_that_is_surer_than_right_is_asked_for_less():
    """Deep drafts are not worth their price, though the draft says they are."""
    size = 16
    laws, flat = peaked_pair(1.0, size).target, np.full((size, size), 1 / size)
    noisy = np.random.default_rng(0).random(size) < 0.5
    target = np.where(noisy[:, None], flat, laws)
    _, machine = run("hybrid", Pair(target, laws), tokens=2000)
    tokens, seconds = seconds_after(machine, 100)
    assert tokens * TARGET(1) / seconds > 1.55  # 1.4 if the draft were believed


@pytest.mark.parametrize(
    ("name", "costs", "least"),
    [
        pytest.param("hybrid", TARGET, 1.3, id="hybrid"),
        pytest.param("chain", TARGET, 1.3, id="chain"),
        pytest.param("gbv", TARGET, 1.3, id="gbv"),
        pytest.param("hybrid", JUMP, 1.3, id="hybrid-jump"),
        pytest.param("chain", JUMP, 1.1, id="chain-jump"),  # three drafts are tried too seldom
    ],
)
def test_it_notices_that_the_text_has_changed(name, costs, least):
    """The first half of the states is predicted badly, the second well; the text moves over once
    and for all."""
    size = 8
    laws = peaked_pair(1.0, size).target
    target, draft = np.zeros((2 * size, 2 * size)), np.zeros((2 * size, 2 * size))
    target[:size, :size], target[size:, size:] = laws, laws
    draft[:size, :size], draft[size:, size:] = laws[::-1], laws
    target[:size, size] += 1 / 400
    target /= target.sum(1, keepdims=True)
    result, machine = run(name, Pair(target, draft), tokens=4000, seed=4, target=costs)
    change = next(i for i, token in enumerate(result.token_ids) if token >= size)
    assert change < 2000
    tokens, seconds = seconds_after(machine, change + 600)
    assert tokens * costs(1) / seconds > least


@pytest.mark.parametrize("name", ["hybrid", "chain", "gbv"])
def test_good_times_are_no_licence_for_bad_ones(name):
    """The first half of the states is predicted well, for long; the second badly."""
    size = 8
    laws = peaked_pair(1.0, size).target
    target, draft = np.zeros((2 * size, 2 * size)), np.zeros((2 * size, 2 * size))
    target[:size, :size], target[size:, size:] = laws, laws
    draft[:size, :size], draft[size:, size:] = laws, laws[::-1]
    target[:size, size] += 1 / 3000
    target /= target.sum(1, keepdims=True)
    result, machine = run(name, Pair(target, draft), tokens=6000, seed=2)
    change = next(i for i, token in enumerate(result.token_ids) if token >= size)
    assert 1500 < change < 5500
    tokens, seconds = seconds_after(machine, change + 100)
    assert tokens * TARGET(1) / seconds > 0.96


@pytest.mark.parametrize("name", ["hybrid", "chain", "gbv"])
@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_machine_that_changes_its_pace(name, factor):
    """A bad draft does not look good because calls take another time than they did."""
    verifier, make = DRAFTERS[name]
    pair = peaked_pair(0.0)
    drafter = make(markov(pair.draft))
    machine = Machine(drafter, pace=lambda tokens: factor if tokens > 1000 else 1.0)
    decoder = Decoder(markov(pair.target), drafter, verifier, controller=machine)
    decoder.generate([[0]], SamplingParams(max_tokens=1500, seed=1))
    tokens, seconds = seconds_after(machine, 1000)
    assert tokens * factor * TARGET(1) / seconds > 0.96


@pytest.mark.parametrize("name", ["hybrid", "chain", "gbv"])
def test_trials_end_for_good(name):
    """Of a bad draft to which catching up is dear: it is not tried again every hundred tokens."""
    verifier, make = DRAFTERS[name]
    pair = peaked_pair(0.0)
    drafter = make(markov(pair.draft))
    machine = Machine(drafter, draft=Curve.of({1: 1.0, 101: 8.0}))
    decoder = Decoder(markov(pair.target), drafter, verifier, controller=machine)
    decoder.generate([[0]], SamplingParams(max_tokens=300, seed=1))
    tokens, seconds = seconds_after(machine, 50)
    assert tokens * TARGET(1) / seconds > 0.97


@pytest.mark.parametrize("number", [3, 30])
def test_a_pause_in_verification(number):
    """Is no reason to stop drafting."""
    verifier, make = DRAFTERS["hybrid"]
    pair = peaked_pair(1.0)
    drafter = make(markov(pair.draft))
    machine = Machine(drafter, verifying=lambda n: 100.0 if n == number else 0.01)
    decoder = Decoder(markov(pair.target), drafter, verifier, controller=machine)
    decoder.generate([[0]], SamplingParams(max_tokens=600, seed=1))
    tokens, seconds = seconds_after(machine, 150)
    assert tokens * TARGET(1) / seconds > 1.5


def test_a_batch_times_no_more_plain_steps_than_one():
    verifier, make = DRAFTERS["chain"]
    pair = peaked_pair(0.75)
    drafter = make(markov(pair.draft, 16))
    machine = Machine(drafter, Curve.of({1: 1.0, 64: 1.02}), Curve.of({1: 0.3, 64: 0.31}))
    decoder = Decoder(markov(pair.target, 16), drafter, verifier, controller=machine)
    results = decoder.generate([[0]] * 16, SamplingParams(max_tokens=200, seed=1))
    reasons = [choice.reason for result in results for choice in result.choices]
    assert reasons.count("timing a plain step") < 0.1 * len(reasons)


@pytest.mark.parametrize("name", ["hybrid", "chain", "gbv"])
@pytest.mark.parametrize("batch", [pytest.param(8, marks=pytest.mark.slow), 16])
def test_a_batch_whose_sequences_differ(name, batch):
    """One is predicted well, the others badly; a draft call of one takes as long as that of all."""
    size, (verifier, make) = 8, DRAFTERS[name]
    laws = peaked_pair(1.0, size).target
    target, draft = np.zeros((2 * size, 2 * size)), np.zeros((2 * size, 2 * size))
    target[:size, :size], target[size:, size:] = laws, laws
    draft[:size, :size], draft[size:, size:] = laws, laws[::-1]
    drafter, flat = make(markov(draft, batch)), Curve.of({1: 1.0, 64: 1.02})
    machine = Machine(drafter, flat, Curve.of({1: 0.3, 64: 0.31}))
    decoder = Decoder(markov(target, batch), drafter, verifier, controller=machine)
    prompts = [[0], *[[size + i % size] for i in range(batch - 1)]]
    decoder.generate(prompts, SamplingParams(max_tokens=1000, seed=1))
    assert 1000 * flat(batch) / machine.seconds > 0.97


@pytest.mark.parametrize("name", ["hybrid", "chain", "gbv"])
def test_a_batch_that_is_predicted_well(name):
    verifier, make = DRAFTERS[name]
    pair, flat = peaked_pair(1.0), Curve.of({1: 1.0, 64: 1.02})
    drafter = make(markov(pair.draft, 16))
    machine = Machine(drafter, flat, Curve.of({1: 0.3, 64: 0.31}))
    decoder = Decoder(markov(pair.target, 16), drafter, verifier, controller=machine)
    decoder.generate([[0]] * 16, SamplingParams(max_tokens=300, seed=1))
    assert 300 * flat(16) / machine.seconds > 1.5


def test_tokens_that_the_draft_has_read_are_not_read_again():
    verifier, make = DRAFTERS["chain"]
    pair = peaked_pair(1.0)
    drafter, curve = make(markov(pair.draft)), Curve.of({1: 0.1, 2: 0.12, 4: 0.3, 16: 1.0})
    machine = Machine(drafter, draft=curve)
    decoder = Decoder(markov(pair.target), drafter, verifier, controller=machine)
    decoder.generate([[0]], SamplingParams(max_tokens=600, seed=1))
    assert machine._costs.draft(1) == pytest.approx(0.1, rel=0.02)


@pytest.mark.parametrize("name", ["hybrid", "chain", "gbv"])
def test_reading_the_prompt_must_pay_within_an_answer(name):
    """A draft that is always right, but takes as long to read the prompt as ten plain steps."""
    law, (verifier, make) = np.roll(np.eye(400), 1, axis=1), DRAFTERS[name]
    drafter = make(markov(law))
    machine = Machine(drafter, draft=Curve.of({1: 0.3, 101: 10.3}))
    decoder = Decoder(markov(law), drafter, verifier, controller=machine)

    def speed_up(answers: int, stop: int) -> float:
        before, tokens = machine.seconds, 0
        for _ in range(answers):
            params = SamplingParams(max_tokens=200, stop_token_ids=[stop])
            tokens += len(decoder.generate([[0] * 101], params)[0].token_ids)
        return tokens * TARGET(1) / (machine.seconds - before)

    speed_up(20, stop=8)  # it learns how short answers are
    assert speed_up(10, stop=8) > 0.98
    assert speed_up(1, stop=399) > 1.2  # and that one is longer


@pytest.mark.parametrize("name", DRAFTERS)
def test_law(name):
    """Choices of all kinds occur, and the output has the target's law."""
    pair = random_pair(seed=3, vocab_size=5, mix=0.55)
    verifier, make = DRAFTERS[name]
    drafter = make(markov(pair.draft))
    machine = Machine(drafter, Curve.of({1: 1.0, 512: 2.0}), Curve.of({1: 0.2, 64: 0.25}))
    decoder = Decoder(markov(pair.target), drafter, verifier, controller=machine)
    results = sample(decoder, 1_500, seed=100, tokens=60)
    assert p_value(results, pair.target) > 1e-4
    lengths = {choice.draft_length for r in results for choice in r.choices}
    assert len(lengths) > 2


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAFTERS)
@pytest.mark.parametrize("mix", [0.3, 0.6])
def test_law_over_many_rounds(name, mix):
    pair = random_pair(seed=7, vocab_size=6, mix=mix)
    verifier, make = DRAFTERS[name]
    drafter = make(markov(pair.draft))
    machine = Machine(drafter, Curve.of({1: 1.0, 512: 2.0}), Curve.of({1: 0.15, 64: 0.2}))
    decoder = Decoder(markov(pair.target), drafter, verifier, controller=machine)
    assert p_value(sample(decoder, 30_000, seed=500), pair.target) > 1e-4


@pytest.mark.parametrize("name", DRAFTERS)
def test_greedy_output_is_the_plain_one(name):
    pair = random_pair(seed=3, vocab_size=9, mix=0.5)
    verifier, make = DRAFTERS[name]
    drafter = make(markov(pair.draft))
    params = SamplingParams(temperature=0.0, max_tokens=80)
    prompts = [[0], [1, 2], [3, 4, 5]]
    decoder = Decoder(markov(pair.target), drafter, verifier, controller=Machine(drafter))
    plain = Decoder(markov(pair.target)).generate(prompts, params)
    results = decoder.generate(prompts, params)
    assert [r.token_ids for r in results] == [r.token_ids for r in plain]


@pytest.mark.parametrize("name", ["union", "gbv"])
def test_replay(name):
    pair = random_pair(seed=3, vocab_size=9, mix=0.6)
    verifier, make = DRAFTERS[name]
    params = SamplingParams(max_tokens=80, seed=3)
    prompts = [[0], [1, 2]]

    def decode(controller):
        drafter = make(markov(pair.draft))
        made = controller(drafter)
        return Decoder(markov(pair.target), drafter, verifier, controller=made).generate(
            prompts, params
        )

    first = decode(Machine)
    choices = [r.choices for r in first]
    assert len(set(choices[0])) > 3
    again = decode(lambda _: Replay(choices))
    assert [r.token_ids for r in again] == [r.token_ids for r in first]
    assert [r.choices for r in again] == choices
    with pytest.raises(InvalidInput, match="more sequences"):
        decode(lambda _: Replay(choices[:1]))
    with pytest.raises(InvalidInput, match="more rounds"):
        decode(lambda _: Replay([each[:3] for each in choices]))


def test_auto_measures_the_models():
    pair = random_pair(seed=3, vocab_size=9, mix=0.9)
    drafter = ModelDrafter(markov(pair.draft, slots=1), 1, 4)
    decoder = Decoder(markov(pair.target, slots=1), drafter, "token", controller="auto")
    results = decoder.generate([[0]] * 3, SamplingParams(max_tokens=30, seed=0))
    assert [len(r.token_ids) for r in results] == [30] * 3
    assert isinstance(decoder.engine.controller, AutoController)
    costs = decoder.engine.controller._costs
    assert 0 < costs.target(1) < 1 and 0 < costs.draft(1) < 1  # seconds, not what is made up
    assert results[0].choices[0].reason == "trying the draft"


def test_refusals():
    pair = random_pair(seed=3, vocab_size=9, mix=0.9)
    with pytest.raises(InvalidInput, match="needs a drafter"):
        Decoder(markov(pair.target), controller="auto")
    drafter = ModelDrafter(markov(pair.draft), 1, 4)
    decoder = Decoder(markov(pair.target), drafter, "token", controller=Machine(drafter))
    with pytest.raises(InvalidInput, match="under a controller"):
        decoder.engine.drafter = None
