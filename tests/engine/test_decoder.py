"""What users call: prompts, random streams, samples, ends, texts, figures."""

from __future__ import annotations

import time

import pytest
import torch

from multidraft import SamplingParams
from multidraft.verify import VERIFIERS
from tests.engine.speaking import EOS, TOKENIZER, WORDS, all_free, make_decoder, make_pair

METHODS = [None, *VERIFIERS]
every_method = pytest.mark.parametrize("method", METHODS, ids=lambda m: m or "plain")


def long(**changes) -> SamplingParams:
    """40 tokens, whatever end tokens come."""
    return SamplingParams(**{"max_tokens": 40, "seed": 5, "ignore_eos": True, **changes})


def ids(results) -> list[list[int]]:
    return [r.token_ids for r in results]


# ------------------------------------------------------------ prompts


def test_text_ids_and_messages_are_the_same_prompt():
    decoder = make_decoder()
    tokens = TOKENIZER("abca ")["input_ids"]
    assert [WORDS[t] for t in tokens] == ["ab", "c", "a", " "]
    messages = [{"role": "system", "content": "ab"}, {"role": "user", "content": "ca"}]
    alone = [
        decoder.generate(prompt, long()) for prompt in ("abca ", tokens, tuple(tokens), messages)
    ]
    together = [decoder.generate([prompt], long()) for prompt in ("abca ", tokens, messages)]
    for results in alone + together:
        assert len(results) == 1
        assert results[0].prompt_token_ids == tokens
        assert results[0].token_ids == alone[0][0].token_ids


def test_prompts_of_all_kinds_in_one_batch():
    prompts = ["abc", [1, 2], [{"role": "user", "content": "d"}]]
    results = make_decoder().generate(prompts, long())
    assert [r.prompt_token_ids for r in results] == [[6, 3], [1, 2], [4, 5]]
    assert [r.prompt_index for r in results] == [0, 1, 2]


def test_no_prompts_give_no_results():
    assert make_decoder().generate([]) == []


def test_the_default_parameters_are_used(monkeypatch):
    expected = make_decoder().generate("a", SamplingParams(seed=4))[0]
    monkeypatch.setattr("secrets.randbits", lambda bits: 4)
    assert make_decoder().generate("a")[0].token_ids == expected.token_ids
    assert "".join(str(piece) for piece in make_decoder().stream("a")) == expected.text


# ------------------------------------------------------------ random streams


@every_method
def test_same_seed_same_output_and_another_seed_another(method):
    first, second = make_decoder(method), make_decoder(method)
    prompts = [[1], [1], [2, 3]]
    a = ids(first.generate(prompts, long()))
    assert a == ids(second.generate(prompts, long()))
    assert a == ids(first.generate(prompts, long())), "a decoder remembers nothing"
    assert a != ids(first.generate(prompts, long(seed=6)))
    assert a[0] != a[1], "equal prompts of one call have streams of their own"


def test_without_a_seed_every_call_differs():
    decoder = make_decoder()
    outputs = {tuple(decoder.generate([[1]], long(seed=None))[0].token_ids) for _ in range(4)}
    assert len(outputs) == 4
    a, b = decoder.generate([[1], [1]], [long(seed=None)] * 2)
    assert a.token_ids != b.token_ids


@every_method
def test_a_list_of_parameters_decodes_each_prompt_as_alone(method):
    """Its own seed, its own everything: batch and neighbours change nothing."""
    decoder = make_decoder(method, slots=4)
    prompts = [[1], [2, 3, 4], [5] * 30, [1], [6], [7, 8]]
    params = [
        long(seed=7),
        long(seed=8, temperature=0.6, max_tokens=9),
        long(seed=7, top_k=3),
        long(seed=7),
        long(seed=9, temperature=0.0, ignore_eos=False),
        long(seed=10, repetition_penalty=1.3, presence_penalty=0.4, max_tokens=1),
    ]
    together = decoder.generate(prompts, params)
    alone = [decoder.generate(p, q)[0] for p, q in zip(prompts, params, strict=True)]
    assert ids(together) == ids(alone)
    assert together[0].token_ids == together[3].token_ids
    assert [r.finish_reason for r in together] == [r.finish_reason for r in alone]


def test_one_for_all_gives_prompt_i_its_own_stream():
    """Prompt 0 of a shared seed is what it is alone, whatever comes after it."""
    decoder = make_decoder()
    first = decoder.generate([[1], [2], [3]], long())
    second = decoder.generate([[1], [2]], long())
    assert ids(first)[:2] == ids(second)
    assert ids(first)[0] == decoder.generate([1], long())[0].token_ids
    assert ids(decoder.generate([[1], [1]], long()))[1] != ids(first)[0]


def test_samples_come_prompt_by_prompt_with_streams_of_their_own():
    decoder = make_decoder(slots=4)
    results = decoder.generate([[1], [2]], long(n=3))
    assert [(r.prompt_index, r.sample_index) for r in results] == [
        (i, j) for i in range(2) for j in range(3)
    ]
    assert [r.prompt_token_ids for r in results] == [[1]] * 3 + [[2]] * 3
    assert len({tuple(r.token_ids) for r in results}) == 6
    assert results[0].token_ids == decoder.generate([1], long())[0].token_ids
    mixed = decoder.generate([[1], [2]], [long(n=2), long(n=1)])
    assert [(r.prompt_index, r.sample_index) for r in mixed] == [(0, 0), (0, 1), (1, 0)]


@every_method
def test_more_prompts_than_slots_queue(method):
    pair = make_pair()
    few, many = make_decoder(method, slots=2, pair=pair), make_decoder(method, pair=pair)
    prompts = [[1 + i % 11] * (1 + i) for i in range(11)]
    lengths = [long(seed=i, max_tokens=3 + 5 * (i % 4)) for i in range(11)]
    assert ids(few.generate(prompts, lengths)) == ids(many.generate(prompts, lengths))
    assert all_free(few)


# ------------------------------------------------------------ streaming


@every_method
def test_a_stream_gives_what_generate_gives(method):
    decoder = make_decoder(method)
    params = long(max_tokens=60, stop="cab", logprobs=2)
    for prompt in ("a", "bcd", [9, 9]):
        expected = decoder.generate(prompt, params)[0]
        pieces = list(decoder.stream(prompt, params))
        assert [t for piece in pieces for t in piece.token_ids] == expected.token_ids
        assert [o for piece in pieces for o in piece.origins] == expected.origins
        assert "".join(str(piece) for piece in pieces) == expected.text
        assert [piece.result for piece in pieces[:-1]] == [None] * (len(pieces) - 1)
        last = pieces[-1].result
        assert last.token_ids == expected.token_ids
        assert (last.text, last.finish_reason) == (expected.text, expected.finish_reason)
        assert last.logprobs == expected.logprobs
        assert len(pieces) == last.stats.rounds


def test_streams_side_by_side_give_what_each_gives_alone():
    """Every stream's step moves them all; nobody may lose what another's step brought."""
    decoder = make_decoder(slots=4)
    prompts = [[1 + i] for i in range(6)]  # two wait
    params = [long(seed=i, max_tokens=5 + 9 * i) for i in range(6)]
    expected = [decoder.generate(p, q)[0] for p, q in zip(prompts, params, strict=True)]
    streams = [decoder.stream(p, q) for p, q in zip(prompts, params, strict=True)]
    pieces: list[list] = [[] for _ in streams]
    live = set(range(6))
    while live:
        for i in sorted(live):
            piece = next(streams[i], None)
            if piece is None:
                live.remove(i)
            else:
                pieces[i].append(piece)
    for got, want in zip(pieces, expected, strict=True):
        assert "".join(map(str, got)) == want.text
        assert [t for piece in got for t in piece.token_ids] == want.token_ids
        assert got[-1].result.token_ids == want.token_ids


def test_generate_inside_a_stream():
    decoder = make_decoder()
    expected = decoder.generate([1], long(max_tokens=30))[0]
    stream, pieces = decoder.stream([1], long(max_tokens=30)), []
    for piece in stream:
        pieces.append(piece)
        if len(pieces) == 1:  # runs the stream's own sequence to its end, too
            decoder.generate([[2]] * 3, long(max_tokens=80))
    assert [t for piece in pieces for t in piece.token_ids] == expected.token_ids
    assert "".join(map(str, pieces)) == expected.text
    assert pieces[-1].result.token_ids == expected.token_ids


def test_submit_then_step():
    decoder = make_decoder()
    expected = decoder.generate([[1]], long())[0]
    sequence = decoder.submit([1], long())
    while decoder.engine.busy:
        decoder.engine.step()
    assert sequence.result().token_ids == expected.token_ids


# ------------------------------------------------------------ ends


@every_method
@pytest.mark.parametrize("max_tokens", [1, 2, 3, 17])
def test_max_tokens_is_exact(method, max_tokens):
    for result in make_decoder(method).generate([[1], [2], [3]], long(max_tokens=max_tokens)):
        assert len(result.token_ids) == len(result.origins) == max_tokens
        assert result.finish_reason == "length"


@every_method
def test_an_end_token_ends_the_output_where_it_comes(method):
    """Also inside an accepted path: what follows is dropped."""
    decoder = make_decoder(method)
    prompts = [[1 + i % 11] for i in range(40)]
    free = decoder.generate(prompts, long())
    ended = decoder.generate(prompts, long(ignore_eos=False))
    assert any(EOS in r.token_ids[:-1] for r in free)
    for with_eos, result in zip(free, ended, strict=True):
        tokens = with_eos.token_ids
        at = tokens.index(EOS) + 1 if EOS in tokens else len(tokens)
        assert result.token_ids == tokens[:at]
        assert result.finish_reason == ("stop" if EOS in tokens else "length")
        assert result.text == TOKENIZER.decode(result.token_ids, skip_special_tokens=True)
        assert result.stats.tokens == len(result.origins) == at
    if method:
        cut = [r for r in ended if r.finish_reason == "stop" and r.origins[-1] == "draft"]
        assert cut, "no end token was inside an accepted path"


@every_method
def test_stop_token_ids_end_the_output_and_stay_out_of_the_text(method):
    decoder = make_decoder(method)
    prompts = [[1 + i % 11] for i in range(10)]
    for free, result in zip(
        decoder.generate(prompts, long()),
        decoder.generate(prompts, long(stop_token_ids=[3, 10])),
        strict=True,
    ):
        at = next((i for i, t in enumerate(free.token_ids) if t in (3, 10)), None)
        assert at is not None
        assert result.token_ids == free.token_ids[: at + 1]
        assert result.finish_reason == "stop"
        assert result.text == TOKENIZER.decode(free.token_ids[:at], skip_special_tokens=True)


@every_method
def test_a_stop_string_across_tokens_ends_text_and_tokens_exactly(method):
    decoder = make_decoder(method)
    prompts = [[1 + i % 11] for i in range(12)]
    free = decoder.generate(prompts, long(max_tokens=80))
    for stop in (["bcab"], ["da", "cc a"], [" "], ["zz"]):
        stopped = decoder.generate(prompts, long(max_tokens=80, stop=stop))
        found = [check_stopped(*pair, stop) for pair in zip(free, stopped, strict=True)]
        assert any(found) or stop == ["zz"]


def check_stopped(free, result, stop) -> bool:
    """Whether one of the strings came."""
    tokens, count = free.token_ids, 0
    while count < len(tokens) and not any(s in decode(tokens[:count]) for s in stop):
        count += 1
    text = decode(tokens[:count])
    found = [text.index(s) for s in stop if s in text]
    assert result.token_ids == tokens[:count]
    assert result.text == text[: min(found, default=len(text))]
    assert result.finish_reason == ("stop" if found else "length")
    return bool(found)


def decode(tokens: list[int]) -> str:
    return TOKENIZER.decode(tokens, skip_special_tokens=True)


def test_a_stop_string_completed_by_the_last_token_allowed():
    decoder = make_decoder()
    free = decoder.generate([1], long())[0]
    text = decode(free.token_ids)
    length = next(n for n in range(3, len(text)) if text.index(text[-n:]) + n == len(text))
    stop = text[-length:]  # found nowhere earlier
    result = decoder.generate([1], long(stop=stop))[0]
    assert result.token_ids == free.token_ids
    assert result.finish_reason == "stop"
    assert result.text == text[:-length]


# ------------------------------------------------------------ log-probabilities


@every_method
def test_logprobs_are_the_plain_models(method):
    """Whatever the temperature, truncation and penalties: of the raw law, at every token."""
    pair = make_pair()
    decoder = make_decoder(method, pair=pair)
    logs = torch.tensor(pair.target, dtype=torch.float64).log()
    params = long(logprobs=3, temperature=0.7, top_k=6, repetition_penalty=1.1)
    for result in decoder.generate([[1], [2, 3]], params):
        assert len(result.logprobs) == len(result.token_ids)
        context = result.prompt_token_ids[-1]
        for token, entry in zip(result.token_ids, result.logprobs, strict=True):
            row = torch.log_softmax(logs[context], -1)
            assert entry.token_id == token
            assert entry.logprob == pytest.approx(float(row[token]), abs=1e-5)
            values, top = row.topk(3)
            assert [t for t, _ in entry.top] == top.tolist()
            assert [v for _, v in entry.top] == pytest.approx(values.tolist(), abs=1e-5)
            context = token


def test_logprobs_of_a_cut_round_and_of_none():
    decoder = make_decoder()
    for changes in ({"ignore_eos": False}, {"stop": "bc"}, {"stop_token_ids": [2]}):
        for result in decoder.generate([[1 + i] for i in range(11)], long(logprobs=0, **changes)):
            assert [e.token_id for e in result.logprobs] == result.token_ids
            assert all(e.top == [] for e in result.logprobs)
    assert decoder.generate([1], long())[0].logprobs is None
    wide = decoder.generate([1], long(logprobs=20))[0]
    assert all(len(e.top) == len(WORDS) for e in wide.logprobs)


# ------------------------------------------------------------ figures


@every_method
def test_figures_add_up(method):
    decoder = make_decoder(method, slots=8)
    start = time.perf_counter()
    results = decoder.generate([[1 + i] * 5 for i in range(11)], long(max_tokens=100))
    wall = time.perf_counter() - start
    for r in results:
        s = r.stats
        assert s.tokens == len(r.token_ids) == len(r.origins) == 100
        assert s.rounds == s.target_calls
        assert s.accepted == r.origins.count("draft")
        assert s.tokens == s.accepted + r.origins.count("bonus") + r.origins.count("residual")
        assert 0 < s.full_rounds <= s.rounds
        assert s.block_efficiency == s.full_tokens / s.full_rounds
        assert s.tokens_per_second == pytest.approx(s.tokens / s.total_seconds)
        assert min(s.seconds.values()) >= 0
        if method is None:
            assert (s.block_efficiency, s.acceptance_rate) == (1.0, None)
            assert (s.drafted, s.accepted, s.rounds) == (0, 0, 100)
        else:
            drafts = decoder.engine.drafter.num_drafts
            length = decoder.engine.drafter.draft_length
            assert drafts * length * s.full_rounds <= s.drafted <= drafts * length * s.rounds
            # Only the last rounds are shorter, so at most `length` tokens lie outside full ones.
            assert s.tokens - length <= s.full_tokens <= s.tokens
            assert s.block_efficiency == pytest.approx(1 + length * s.acceptance_rate)
            assert 1 <= s.block_efficiency <= length + 1
    # A machine under load may pause between two laps.
    assert 0.7 * wall <= sum(r.stats.total_seconds for r in results) <= wall


def test_short_rounds_are_no_full_rounds():
    decoder = make_decoder(draft_length=4)
    for max_tokens in range(1, 5):
        stats = decoder.generate([1], long(max_tokens=max_tokens))[0].stats
        assert stats.full_rounds == 0
        assert stats.block_efficiency is None and stats.acceptance_rate is None
        assert stats.to_dict()["tokens"] == max_tokens


def test_the_plain_bonus_and_the_residual_are_told_apart():
    pair = make_pair()
    pair.draft = pair.target.copy()
    for name in ("token", "spectr", "traversal", "block"):
        result = make_decoder(name, pair=pair).generate([1], long())[0]
        assert set(result.origins) == {"draft", "bonus"}
    assert set(make_decoder(None).generate([1], long())[0].origins) == {"bonus"}
    assert "residual" in make_decoder("token").generate([1], long(max_tokens=100))[0].origins
