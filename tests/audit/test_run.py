"""The sequential audit, on engines made up for it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from multidraft.audit.report import Plan
from multidraft.audit.run import samples_for
from multidraft.audit.tables import Cells
from multidraft.errors import AuditError, InvalidInput
from tests.audit.synthetic import Exact, law_of, run, setting, shifted

DETECT = 0.06


def test_a_lossless_engine():
    where = setting()
    law = law_of(where)
    sampler = Exact([law], seed=1)
    report = run(sampler, where, [law], detect=DETECT)
    assert report.verdict == "LOSSLESS"
    assert report.samples == report.planned
    assert report.p_value > report.alpha
    assert report.detectable <= DETECT
    assert report.variation.low == 0 <= report.variation.estimate < 0.02
    assert len(set(sampler.seeds)) == len(sampler.seeds) == report.samples
    assert report.worst[0].expected > 0


def test_a_biased_engine_is_found():
    where = setting()
    law = law_of(where)
    report = run(Exact([law], 2, shifted(law, DETECT)), where, [law], detect=DETECT)
    assert report.verdict == "BIASED"
    assert report.p_value <= report.alpha
    assert report.variation.high > 0.9 * DETECT


def test_a_clear_failure_stops_early():
    where = setting()
    law = law_of(where)
    report = run(Exact([law], 3, shifted(law, 0.3)), where, [law], detect=DETECT)
    assert report.verdict == "BIASED"
    assert report.samples <= report.planned / 8


def test_an_excluded_token_is_an_immediate_failure():
    """One wrong answer in a thousand: far below what the G-test sees."""
    where = setting(top_k=3)
    law = law_of(where)
    wrong = next(t for t in range(6) if law.next_law[()][t] == 0)

    class Leaking(Exact):
        def answer(self, request):
            if request.seed % 1000 == 999:
                return (wrong, 0, 0, 0)
            return super().answer(request)

    report = run(Leaking([law], 4), where, [law], chunk=100, detect=DETECT)
    assert report.verdict == "BIASED"
    assert report.excluded == (((wrong, 0, 0, 0), 1),)
    assert 1000 <= report.samples < 1100 < report.planned  # the end of that chunk


def test_temperature_0():
    where = setting(temperature=0.0)
    laws = [law_of(where, prompt=p) for p in ((0, 1, 2), (1, 2, 3), (3, 4, 5), (5, 1, 0))]
    report = run(Exact(laws, 5), where, laws)
    assert report.verdict == "LOSSLESS"
    assert report.p_value == 1
    assert report.detectable < 0.01


@pytest.mark.parametrize(("temperature", "seed"), [(0.05, 2), (0.05, 1), (0.1, 3), (0.3, 2)])
def test_a_bias_towards_rare_sequences_is_found(temperature, seed):
    """A law of little choice, where all but the likeliest is too rare to be counted by itself."""
    where = setting(temperature=temperature)
    law = law_of(where, seed)
    by_p = np.argsort(law.p)
    p = law.p.copy()
    p[by_p[-1]] -= DETECT
    p[by_p[-5:-1]] += DETECT / 4
    assert run(Exact([law], 5, p), where, [law], detect=DETECT).verdict == "BIASED"
    lossless = run(Exact([law], 6), where, [law], detect=DETECT)
    assert lossless.verdict == "LOSSLESS"
    assert lossless.detectable <= DETECT


def test_too_few_samples_for_any_category_find_nothing():
    where = setting()
    law = law_of(where)
    report = run(Exact([law], 7), where, [law], chunk=5, detect=DETECT, max_seconds=1e-9)
    assert (report.verdict, report.samples, report.detectable) == ("UNDECIDED", 5, 1.0)
    assert report.variation.high == 1.0


def test_wrong_from_the_first_of_many_prompts():
    """Stopped after fewer samples than prompts, there is still an estimate."""
    where = setting(temperature=0.0)
    laws = [law_of(where, prompt=(0, 1, t)) for t in range(6)]
    wrong = [law_of(where, seed=3, prompt=(0, 1, t)) for t in range(6)]
    report = run(Exact(wrong, 5), where, laws, chunk=2)
    assert (report.verdict, report.samples) == ("BIASED", 2)
    assert report.variation.low <= report.variation.estimate == 1.0 == report.variation.high


def test_sampling_in_turn_over_prompts():
    where = setting()
    laws = [law_of(where), law_of(where, prompt=(3, 2, 1, 0))]
    assert run(Exact(laws, 6), where, laws, detect=0.1).verdict == "LOSSLESS"
    wrong = [laws[0], law_of(where, seed=2, prompt=(3, 2, 1, 0))]
    assert run(Exact(wrong, 6), where, laws, detect=0.1).verdict == "BIASED"


def test_out_of_time_is_undecided():
    where = setting()
    law = law_of(where)
    report = run(Exact([law], 7), where, [law], chunk=100, detect=DETECT, max_seconds=1e-9)
    assert report.verdict == "UNDECIDED"
    assert report.samples == 100
    assert report.detectable > DETECT


def test_an_interrupted_audit_tests_what_it_has():
    where = setting()
    law = law_of(where)

    class Interrupted(Exact):
        def sample(self, requests):
            if len(self.seeds) >= 1000:
                raise KeyboardInterrupt
            return super().sample(requests)

    report = run(Interrupted([law], 8), where, [law], chunk=250, detect=DETECT)
    assert report.verdict == "UNDECIDED"
    assert 1000 <= report.samples < 1250
    assert report.outcomes
    assert report.interrupted
    broken = Interrupted([law], 8, shifted(law, 0.4))
    assert run(broken, where, [law], chunk=250, detect=DETECT).verdict == "BIASED"


def test_an_answer_of_the_wrong_length():
    where = setting()
    law = law_of(where)

    class Short(Exact):
        def answer(self, request):
            return (0, 1)

    with pytest.raises(AuditError, match="2 tokens where 4"):
        run(Short([law], 9), where, [law])


@pytest.mark.parametrize("answer", [(0, 1, 2, 6), (-1, 0, 0, 0), "abcz", "abc?"])
def test_tokens_out_of_the_vocabulary_are_a_failing_engine(answer):
    where = setting()
    law = law_of(where)

    class Outside(Exact):
        def answer(self, request):
            return answer

    with pytest.raises(AuditError, match=r"^synthetic: .* token"):
        run(Outside([law], 9), where, [law])


def test_text_answers_are_read():
    where = setting()
    law = law_of(where)

    class Speaking(Exact):
        def answer(self, request):
            assert request.text == "abcd"
            return "".join("abcdef"[t] for t in super().answer(request))

    assert run(Speaking([law], 10), where, [law], detect=0.1).verdict == "LOSSLESS"


def test_the_false_alarm_rate_is_kept():
    """400 audits of lossless engines at alpha 0.05, all looks and tests included."""
    where = setting(num_tokens=3)
    law = law_of(where)
    reports = [
        run(Multinomial(law, seed), where, [law], 4000, detect=0.15, alpha=0.05)
        for seed in range(400)
    ]
    alarms = sum(report.verdict != "LOSSLESS" for report in reports)
    assert alarms <= stats.binom.ppf(1 - 1e-4, 400, 0.05)


class Multinomial(Exact):
    """The same, faster."""

    def __init__(self, law, seed):
        super().__init__([law], seed)
        self.law = law

    def sample(self, requests):
        drawn = self.rng.choice(len(self.law.p), size=len(requests), p=self.law.p)
        n = self.law.num_tokens
        return [(self.law.cells[i] + (0,) * n)[:n] for i in drawn]


def test_more_power_takes_more_samples():
    cells = Cells([law_of(setting())])
    coarse, fine = (samples_for(cells, Plan(detect=d)) for d in (0.1, 0.05))
    assert 2 * coarse < fine
    with pytest.raises(InvalidInput, match="more than"):
        samples_for(cells, Plan(detect=1e-4))


@pytest.mark.parametrize("wrong", [{"detect": 0}, {"alpha": 1.0}, {"max_seconds": -1.0}])
def test_impossible_plans(wrong):
    with pytest.raises(InvalidInput):
        Plan(**wrong)


def test_seeds_differ_between_audits():
    where = setting()
    law = law_of(where)
    seeds = []
    for seed in (0, 1):
        sampler = Exact([law], 0)
        run(sampler, where, [law], detect=0.1, seed=seed)
        seeds.append(set(sampler.seeds))
    assert not seeds[0] & seeds[1]
    assert np.min([*seeds[0]]) >= 0
