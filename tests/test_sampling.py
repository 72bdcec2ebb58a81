"""Laws against a plain float64 reference, and against transformers' own processors."""

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from transformers.generation import logits_process as hf

from multidraft import sampling
from multidraft.errors import InvalidInput, InvalidLogits
from multidraft.sampling import SamplingParams, Warper

INF = math.inf


def reference(params, prompt, output, row):
    """The law in float64, every step written out; and how close it came to a different one."""
    x = [float(v) for v in row]
    for token, bias in (params.logit_bias or {}).items():
        x[token] += bias
    for token in {*prompt, *output}:
        r = params.repetition_penalty
        x[token] = x[token] / r if x[token] > 0 else x[token] * r
    for token in set(output):
        x[token] -= params.presence_penalty
        x[token] -= params.frequency_penalty * output.count(token)
    top = max(x)
    if not math.isfinite(top):
        return None, INF
    if params.temperature == 0:
        rivals = [top - v for v in x if v < top]
        return np.eye(len(x))[x.index(top)], min(rivals, default=INF)
    margin = INF
    kept = list(range(len(x)))
    if params.top_k:
        kth = sorted(x, reverse=True)[min(params.top_k, len(x)) - 1]
        kept = [i for i in kept if x[i] >= kth]
        margin = min([margin, *(kth - v for v in x if v < kth)])
    p = {i: math.exp((x[i] - top) / params.temperature) for i in kept}
    total = math.fsum(p.values())
    p = {i: v / total for i, v in p.items()}
    if params.top_p < 1:
        kept, mass = [], 0.0
        for i in sorted(p, key=lambda i: (-p[i], i)):
            if mass >= params.top_p:
                break
            kept.append(i)
            mass += p[i]
            margin = min(margin, abs(mass - params.top_p))
        p = {i: p[i] for i in kept}
    if params.min_p > 0:
        floor = params.min_p * max(p.values())
        margin = min([margin, *(abs(v / floor - 1) for v in p.values() if v != floor)])
        p = {i: v for i, v in p.items() if v >= floor}
    total = math.fsum(p.values())
    law = np.zeros(len(x))
    for i, v in p.items():
        law[i] = v / total
    return law, margin


def check(law, params, prompt, output, row, tolerance):
    expected, margin = reference(params, prompt, output, row.tolist())
    if margin <= (1e-4 if tolerance > 1e-9 else 1e-12):
        return  # rounding decides which tokens are kept: either answer is right
    assert not law.isnan().any()
    assert float(law.sum()) == pytest.approx(1, abs=1e-5)
    np.testing.assert_allclose(law.double().numpy(), expected, atol=tolerance, rtol=tolerance)


# A coarse grid makes ties common and keeps distinct values well apart.
values = st.one_of(
    st.integers(-12, 12).map(lambda n: n / 2), st.just(-INF), st.floats(-15, 15, width=32)
)
rows = st.lists(values, min_size=1, max_size=24)
temperatures = st.sampled_from([0, 0.25, 0.7, 1.0, 1.0, 1.6])


@st.composite
def requests(draw):
    row = draw(rows)
    token = st.integers(0, len(row) - 1)
    bias = st.one_of(st.integers(-6, 6).map(float), st.just(-INF))
    params = SamplingParams(
        temperature=draw(temperatures),
        top_p=draw(st.sampled_from([1.0, 0.95, 0.6, 0.25, 1e-6])),
        top_k=draw(st.sampled_from([0, 0, 1, 2, 5, 40])),
        min_p=draw(st.sampled_from([0.0, 0.0, 0.03, 0.4, 1.0])),
        repetition_penalty=draw(st.sampled_from([1.0, 1.0, 1.25, 0.5])),
        presence_penalty=draw(st.sampled_from([0.0, 0.0, 0.5, -1.5])),
        frequency_penalty=draw(st.sampled_from([0.0, 0.0, 0.25, -0.5])),
        logit_bias=draw(st.one_of(st.none(), st.dictionaries(token, bias, max_size=3))),
    )
    tokens = st.lists(token, max_size=6)
    return params, row, draw(tokens), draw(tokens), draw(tokens)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@settings(max_examples=300, deadline=None)
@given(request=requests())
@example(request=(SamplingParams(top_p=0.5), [1.0, 2.0, 2.0, 2.0, -INF], [], [], []))
def test_law_is_the_reference(dtype, request):
    params, values, prompt, output, path = request
    row = torch.tensor(values, dtype=dtype)
    warper = Warper(params, prompt, len(row))
    for token in output:
        warper.append(token)
    if reference(params, prompt, output + path, values)[0] is None:
        with pytest.raises(InvalidLogits):
            warper.law(row, path)
        return
    before = row.clone()
    law = warper.law(row, path)
    assert law.dtype == dtype
    assert torch.equal(row, before)
    tolerance = 1e-12 if dtype == torch.float64 else 3e-5
    check(law, params, prompt, output + path, row, tolerance)
    for token in path:
        warper.append(token)
    assert torch.equal(warper.law(row), law) or params.repetition_penalty != 1
    torch.testing.assert_close(warper.law(row), law)


LONG = st.sampled_from(["peaked", "heavy", "flat", "equal", "few values", "mostly -inf"])


def long_row(kind, size, seed, dtype=torch.float32):
    g = torch.Generator().manual_seed(seed)
    noise = torch.randn(size, generator=g, dtype=dtype)
    order = torch.randperm(size, generator=g)
    ranks = torch.arange(1, size + 1, dtype=dtype).log()[order]
    return {
        "peaked": 12 - 2.2 * ranks + noise / 2,
        "heavy": 12 - 1.1 * ranks + noise / 2,
        "flat": noise,
        "equal": torch.zeros(size, dtype=dtype),
        "few values": (noise * 2).round() / 2,
        "mostly -inf": torch.where(order < 40, noise, -INF),
    }[kind]


@settings(max_examples=40, deadline=None)
@given(
    kind=LONG,
    size=st.sampled_from([5001, 6400, 12_345]),
    seed=st.integers(0, 99),
    temperature=st.sampled_from([0, 0.6, 1.0, 1.5]),
    top_k=st.sampled_from([0, 0, 1, 50, 4500]),
    top_p=st.sampled_from([1.0, 0.999, 0.9, 0.5, 0.01]),
    min_p=st.sampled_from([0.0, 0.0, 0.05]),
)
def test_long_rows_keep_exactly_what_a_full_sort_keeps(
    kind, size, seed, temperature, top_k, top_p, min_p
):
    params = SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    row = long_row(kind, size, seed, torch.float64)
    law = Warper(params, [], size).law(row)
    expected, margin = reference(params, [], [], row.tolist())
    assume(margin > 1e-12)
    np.testing.assert_allclose(law.numpy(), expected, atol=1e-13, rtol=1e-10)


@settings(max_examples=100, deadline=None)
@given(kind=LONG, seed=st.integers(0, 99), top_p=st.floats(1e-6, 1, exclude_max=True))
def test_float32_top_p_is_that_of_a_full_sort(kind, seed, top_p):
    p = long_row(kind, 20_001, seed).softmax(0)
    values, order = p.sort(stable=True, descending=True)
    sums = values.double().cumsum(0)
    count = int((sums < top_p).sum()) + 1
    # Sums taken in another order may differ in the last place.
    assume(abs(sums - top_p).min() > 1e-13)
    kept = sampling._top_p(p, top_p)
    assert sorted(kept.tolist()) == sorted(order[:count].tolist())


HF = [
    ({"temperature": 0.7}, hf.TemperatureLogitsWarper(0.7)),
    ({"top_k": 7}, hf.TopKLogitsWarper(7)),
    ({"top_k": 400}, hf.TopKLogitsWarper(400)),
    ({"top_p": 0.8}, hf.TopPLogitsWarper(0.8)),
    ({"min_p": 0.1}, hf.MinPLogitsWarper(0.1)),
    ({"repetition_penalty": 1.3}, hf.RepetitionPenaltyLogitsProcessor(1.3)),
]


@pytest.mark.parametrize("size", [50, 30_001])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("steps", [*([one] for one in HF), [HF[5], HF[0], HF[1], HF[3], HF[4]]])
def test_law_is_that_of_transformers(steps, seed, size):
    g = torch.Generator().manual_seed(seed)
    row = 3 * torch.randn(size, generator=g, dtype=torch.float64)
    prompt, output = torch.randint(size, (2, 12), generator=g)
    warper = Warper(
        SamplingParams(**{k: v for kw, _ in steps for k, v in kw.items()}), prompt.tolist(), size
    )
    for token in output.tolist():
        warper.append(token)
    scores = row[None].clone()
    for _, process in steps:
        scores = process(torch.cat([prompt, output])[None], scores)
    torch.testing.assert_close(warper.law(row), scores[0].softmax(0), rtol=1e-10, atol=1e-14)


def test_float64_softmax_is_exact():
    row = long_row("heavy", 5000, 0, torch.float64)
    exact = [math.exp(v - float(row.max())) for v in row.tolist()]
    total = math.fsum(exact)
    law = Warper(SamplingParams(), [], 5000).law(row)
    np.testing.assert_allclose(law.numpy(), [v / total for v in exact], atol=1e-15, rtol=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kw", [{}, {"temperature": 0.7}, {"temperature": 0}, {"top_k": 3}])
def test_half_precision_gives_the_float32_law(dtype, kw):
    row = long_row("flat", 300, 1).to(dtype)
    warper = Warper(SamplingParams(**kw), [], 300)
    law = warper.law(row)
    assert law.dtype == torch.float32
    assert torch.equal(law, warper.law(row.float()))


@pytest.mark.parametrize("size", [1, 5, 64, 1000])
def test_temperature_0_is_the_lowest_of_the_largest(size):
    row = torch.zeros(size)
    row[size // 2 :] = 3.0
    law = Warper(SamplingParams(temperature=0, top_k=1, top_p=0.1, min_p=1), [], size).law(row)
    assert law.nonzero().flatten().tolist() == [size // 2]
    assert law.sum() == 1


def test_temperature_0_comes_after_bias_and_penalties():
    row = torch.tensor([5.0, 4.0, 3.9])
    assert Warper(SamplingParams(temperature=0, logit_bias={0: -INF}), [], 3).law(row)[1] == 1
    warper = Warper(SamplingParams(temperature=0, presence_penalty=2), [], 3)
    warper.append(0)
    assert warper.law(row)[1] == 1
    assert warper.law(row, [1])[2] == 1


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("temperature", [5e-324, 1e-300, 1e-40, 1e-20, 1e30, 1e300])
@pytest.mark.parametrize("kw", [{}, {"top_p": 0.9}, {"top_k": 3}, {"min_p": 0.1}])
def test_extreme_temperatures(temperature, kw, dtype):
    row = torch.tensor([-50.0, -40.0, -INF, -40.0], dtype=dtype)
    for shift in (0.0, 40.0, 80.0):
        law = Warper(SamplingParams(temperature=temperature, **kw), [], 4).law(row + shift)
        assert law[2] == 0
        assert float(law[3]) == pytest.approx(float(law[1]))
        assert float(law[0]) == pytest.approx(0 if temperature < 1 else 1 / 3)


@pytest.mark.parametrize("size", [3, 700])
@pytest.mark.parametrize("kw", [{}, {"temperature": 0}, {"top_k": 2}, {"top_p": 0.5}, {"min_p": 1}])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_logits_without_a_law_are_refused(kw, size, dtype):
    warper = Warper(SamplingParams(**kw), [], size)
    good = torch.arange(size, dtype=dtype)
    for bad, what in ((math.nan, "NaN"), (INF, r"\+inf")):
        for place in (0, size // 2, size - 1):
            row = good.clone()
            row[place] = bad
            with pytest.raises(InvalidLogits, match=what):
                warper.law(row)
            with pytest.raises(InvalidLogits, match=what):
                warper.laws(torch.stack([good, row]))
            row[:place] = -INF
            with pytest.raises(InvalidLogits, match=what):
                warper.law(row)
    with pytest.raises(InvalidLogits, match="nothing but -inf"):
        warper.law(torch.full_like(good, -INF))


def test_bias_that_bans_every_token_is_refused():
    for kw in ({}, {"temperature": 0}, {"top_k": 1}):
        warper = Warper(SamplingParams(logit_bias={0: -INF, 1: -INF}, **kw), [], 3)
        assert warper.law(torch.tensor([1.0, 2.0, 0.0]))[2] == 1
        with pytest.raises(InvalidLogits, match="logit_bias"):
            warper.law(torch.tensor([1.0, 2.0, -INF]))


@pytest.mark.parametrize("kw", [{}, {"temperature": 0.5}, {"top_p": 0.8}, {"presence_penalty": 1}])
def test_laws_are_the_laws_of_the_rows(kw):
    warper = Warper(SamplingParams(**kw), [], 500)
    logits = torch.stack([long_row("heavy", 500, seed) for seed in range(3)])
    paths = [(), (1, 2), (1, 1)]
    together = warper.laws(logits, paths)
    for row, path, law in zip(logits, paths, together, strict=True):
        torch.testing.assert_close(law, warper.law(row, path), rtol=1e-6, atol=0)


def test_a_draft_at_another_temperature_shares_the_output():
    params = SamplingParams(temperature=0.5, frequency_penalty=1, repetition_penalty=1.2)
    target = Warper(params, [3], 9)
    draft = target.with_temperature(1.5)
    target.append(4)
    draft.append(5)
    row = long_row("flat", 9, 0, torch.float64)
    for warper, temperature in ((target, 0.5), (draft, 1.5)):
        assumed = SamplingParams(
            temperature=temperature, frequency_penalty=1, repetition_penalty=1.2
        )
        check(warper.law(row, [4, 6]), assumed, [3], [4, 5, 4, 6], row, 1e-12)
    with pytest.raises(InvalidInput, match="temperature"):
        target.with_temperature(-1)


def test_counts_outgrow_their_room_and_pass_over_unknown_ids():
    warper = Warper(SamplingParams(frequency_penalty=0.5, repetition_penalty=1.5), [400, 7], 300)
    output = [*range(200), *range(0, 200, 3), 100]
    for token in [*output, 400]:
        warper.append(token)
    row = long_row("flat", 300, 2, torch.float64)
    params = SamplingParams(frequency_penalty=0.5, repetition_penalty=1.5)
    check(warper.law(row, [301, 5]), params, [7], [*output, 5], row, 1e-12)


def test_shapes_are_checked():
    warper = Warper(SamplingParams(), [], 4)
    for shape in ((3,), (1, 4), (5,)):
        with pytest.raises(InvalidInput, match="shape"):
            warper.law(torch.zeros(shape))
    with pytest.raises(InvalidInput, match="shape"):
        warper.laws(torch.zeros(2, 5))


def test_bias_outside_the_vocabulary_is_refused():
    Warper(SamplingParams(logit_bias={3: 1}), [], 4)
    with pytest.raises(InvalidInput, match=r"token 4.*4 tokens"):
        Warper(SamplingParams(logit_bias={4: 1}), [], 4)


BAD = {
    "temperature": [-0.1, INF, math.nan, "1", True, None],
    "top_p": [0, -1, 1.01, math.nan, "0.9", False],
    "top_k": [-1, 1.0, True, "5", None],
    "min_p": [-0.1, 1.1, math.nan, None],
    "repetition_penalty": [0, -1, INF, math.nan, True],
    "presence_penalty": [-2.1, 2.1, math.nan, "0"],
    "frequency_penalty": [-2.1, 2.1, math.nan, "0"],
    "logit_bias": [
        [1],
        {"1": 1},
        {-1: 1},
        {1: INF},
        {1: math.nan},
        {1: "x"},
        {True: 1},
        {1: 1e300},
    ],
    "max_tokens": [0, -5, 1.5, True, None],
    "stop": ["", ["a", ""], [1], 5, None, {"a"}],
    "stop_token_ids": [[-1], ["a"], 5, "12", [1.0], [True]],
    "ignore_eos": [1, None, "yes"],
    "n": [0, 1.0, True, None],
    "logprobs": [-1, 21, 1.0, True],
    "seed": [-1, 1.0, "a", True],
}


@pytest.mark.parametrize(("name", "value"), [(k, v) for k, values in BAD.items() for v in values])
def test_bad_parameters_are_refused(name, value):
    with pytest.raises(InvalidInput, match=rf"{name}|stop string|token id"):
        SamplingParams(**{name: value})


def test_good_parameters_are_put_in_one_form():
    params = SamplingParams(
        temperature=np.float32(0.5),
        top_k=np.int64(5),
        stop="end",
        stop_token_ids=[1, 2],
        logit_bias={np.int32(3): -INF, 4: 2},
        logprobs=0,
        seed=0,
    )
    assert params.stop == ("end",)
    assert params.stop_token_ids == (1, 2)
    assert params.logit_bias == {3: -INF, 4: 2.0}
    assert type(params.temperature) is float
    assert type(params.top_k) is int
    assert SamplingParams(stop=["a", "b"]).stop == ("a", "b")
