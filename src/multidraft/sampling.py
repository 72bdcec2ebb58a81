"""Sampling parameters, and the law (probabilities over the vocabulary) a token is drawn from.

Steps, in this order, with transformers' meaning of each unless said otherwise:

1. ``logit_bias`` is added to the logits.
2. ``repetition_penalty`` r, for every token in the prompt or the output: l / r where l > 0,
   l * r elsewhere.
3. ``presence_penalty`` and ``frequency_penalty``, over the output only (as OpenAI and vLLM do):
   l - presence - frequency * count.
4. ``temperature`` divides the logits. At 0 the law is a point mass on the largest logit, the
   lowest id among equals, and the steps below are skipped.
5. ``top_k`` keeps the k largest logits and every tie of the k-th.
6. ``top_p`` keeps the smallest set of likeliest tokens whose probabilities, renormalised after
   ``top_k``, reach top_p; among equal tokens the lower ids come first. One token at least is kept.
7. ``min_p`` keeps the tokens at least min_p times as likely as the likeliest.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor

from .errors import InvalidInput, InvalidLogits

__all__ = ["SamplingParams", "Warper"]

# A row is looked over through the maxima of blocks of this many tokens: far cheaper than sorting
# it, or listing what passes a floor, when few tokens do.
_BLOCK = 64
# Up to this many values, sorting outright is as quick as anything else.
_FEW = 4096


@dataclass(frozen=True)
class SamplingParams:
    """How to draw a request's tokens. See the module's text for what each step does.

    temperature: finite, >= 0; 0 is greedy.
    top_p: in (0, 1]; 1 is off.  top_k: >= 0; 0 is off.  min_p: in [0, 1]; 0 is off.
    repetition_penalty: > 0; 1 is off.
    presence_penalty, frequency_penalty: in [-2, 2]; 0 is off.
    logit_bias: token id -> what to add to its logit; -inf bans the token.
    max_tokens: most tokens to generate for each of the ``n`` answers, >= 1.
    stop: a string or several, none empty; text ends just before the first to appear.
    stop_token_ids: tokens that end an answer, besides the model's own end-of-text tokens.
    ignore_eos: go on past the model's end-of-text tokens.
    logprobs: how many of the likeliest tokens to report at each place, 0 to 20, or None.
    seed: non-negative integer, or None for a fresh one.

    Raises InvalidInput for a value of the wrong type or out of range.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] | None = None
    max_tokens: int = 256
    stop: str | Sequence[str] = ()
    stop_token_ids: Sequence[int] = ()
    ignore_eos: bool = False
    n: int = 1
    logprobs: int | None = None
    seed: int | None = None

    def __post_init__(self) -> None:
        clean = {
            "temperature": _temperature(self.temperature),
            "top_p": _number("top_p", self.top_p, 0.0, 1.0, above=True),
            "top_k": _integer("top_k", self.top_k, 0),
            "min_p": _number("min_p", self.min_p, 0.0, 1.0),
            "repetition_penalty": _number(
                "repetition_penalty", self.repetition_penalty, 0.0, above=True
            ),
            "presence_penalty": _number("presence_penalty", self.presence_penalty, -2.0, 2.0),
            "frequency_penalty": _number("frequency_penalty", self.frequency_penalty, -2.0, 2.0),
            "logit_bias": _bias(self.logit_bias),
            "max_tokens": _integer("max_tokens", self.max_tokens, 1),
            "stop": _stop(self.stop),
            "stop_token_ids": _token_ids("stop_token_ids", self.stop_token_ids),
            "n": _integer("n", self.n, 1),
            "logprobs": _optional("logprobs", self.logprobs, 20),
            "seed": _optional("seed", self.seed, None),
        }
        if not isinstance(self.ignore_eos, bool):
            raise InvalidInput(f"ignore_eos must be True or False, not {self.ignore_eos!r}.")
        for name, value in clean.items():
            object.__setattr__(self, name, value)


class Warper:
    """Turns rows of logits into the laws tokens are drawn from, for one answer of a request.

    prompt: the request's token ids. vocab_size: V, the length of a row of logits.
    device: where the logits will be.

    The tokens of the output are counted as they are kept: call ``append`` once for each. Ids
    outside [0, V) have no logit, so penalties pass over them.

    Raises InvalidInput when ``logit_bias`` names a token the vocabulary does not have.
    """

    def __init__(
        self,
        params: SamplingParams,
        prompt: Sequence[int],
        vocab_size: int,
        device: torch.device | str = "cpu",
    ) -> None:
        self._params = params
        self._temperature = params.temperature
        self._vocab_size = vocab_size
        bias = params.logit_bias or {}
        if max(bias, default=-1) >= vocab_size:
            raise InvalidInput(
                f"logit_bias names token {max(bias)}, but the vocabulary has {vocab_size} tokens; "
                f"use ids from 0 to {vocab_size - 1}."
            )
        self._bias_ids = torch.tensor(list(bias), dtype=torch.long, device=device)
        self._bias = torch.tensor(list(bias.values()), dtype=torch.float64)
        self._seen: _Counts | None = None
        self._made: _Counts | None = None
        if params.repetition_penalty != 1:
            self._seen = _Counts(prompt, vocab_size, device)
        if params.presence_penalty or params.frequency_penalty:
            self._made = _Counts((), vocab_size, device)

    def append(self, token: int) -> None:
        """Counts one more token of the output."""
        if self._seen is not None:
            self._seen.add(token)
        if self._made is not None:
            self._made.add(token)

    def with_temperature(self, temperature: float) -> Warper:
        """The same law at another temperature, for a draft. Both share one output: append to
        either, once."""
        other = object.__new__(Warper)
        other.__dict__.update(self.__dict__)
        other._temperature = _temperature(temperature)
        return other

    def law(self, logits: Tensor, path: Sequence[int] = ()) -> Tensor:
        """The law of the next token.

        logits: [V], of any floating type, left as it is. path: the tokens that follow the output
        on this branch of the draft tree, from the root's child to the node; penalties count them.
        Returns [V], float64 for float64 logits and float32 otherwise, summing to 1.

        Raises InvalidLogits when the logits define no law, InvalidInput when they are not [V].
        """
        if logits.shape != (self._vocab_size,):
            raise InvalidInput(
                f"Logits have shape {tuple(logits.shape)}; "
                f"give one row of {self._vocab_size} of them."
            )
        changed = self._changed(logits, path)
        if self._temperature == 0:
            law = _greedy(changed)
        else:
            law = _drawn(changed, self._temperature, self._params)
        if law is None:
            raise _no_law(logits)
        return law

    def laws(self, logits: Tensor, paths: Sequence[Sequence[int]] | None = None) -> Tensor:
        """``law`` of each row: logits [n, V] and n paths (None: all empty) give [n, V]."""
        if paths is None:
            paths = [()] * len(logits)
        if self._is_softmax() and logits.dim() == 2 and logits.shape[1] == self._vocab_size:
            laws = _softmax(_as_float(logits), self._temperature)
            if laws is not None:
                return laws
        # One row at a time: also how a bad row of a batch is found and reported.
        rows = [self.law(row, path) for row, path in zip(logits, paths, strict=True)]
        return torch.stack(rows)

    def _keeps_logits(self) -> bool:
        return self._seen is None and self._made is None and len(self._bias) == 0

    def _is_softmax(self) -> bool:
        p = self._params
        whole = p.top_k == 0 and p.top_p == 1 and p.min_p == 0
        return whole and self._temperature > 0 and self._keeps_logits()

    def _changed(self, logits: Tensor, path: Sequence[int]) -> Tensor:
        """Logits after bias and penalties; a copy if any apply."""
        x = _as_float(logits)
        if self._keeps_logits():
            return x
        if x is logits:
            x = x.clone()
        if len(self._bias):
            x[self._bias_ids] += self._bias.to(x.dtype).to(x.device)  # some devices lack float64
        if self._seen is not None:
            ids, _ = self._seen.along(path)
            old = x[ids]
            penalty = self._params.repetition_penalty
            x[ids] = torch.where(old > 0, old / penalty, old * penalty)
        if self._made is not None:
            ids, times = self._made.along(path)
            p = self._params
            x[ids] -= p.presence_penalty + p.frequency_penalty * times.to(x.dtype)
        return x


class _Counts:
    """Distinct tokens and how often each came, on the device, in room that grows by doubling."""

    def __init__(self, tokens: Sequence[int], vocab_size: int, device: torch.device | str) -> None:
        self._vocab_size = vocab_size
        self._slot: dict[int, int] = {}
        count: list[int] = []
        for token in self._known(tokens):
            slot = self._slot.setdefault(token, len(count))
            if slot == len(count):
                count.append(0)
            count[slot] += 1
        room = [0] * (len(count) + 64)
        self._ids = torch.tensor([*self._slot, *room], dtype=torch.long, device=device)
        self._times = torch.tensor([*count, *room], dtype=torch.float32, device=device)

    def add(self, token: int) -> None:
        for known in self._known((token,)):
            slot = self._slot.setdefault(known, len(self._slot))
            if slot == len(self._ids):
                self._ids = torch.cat([self._ids, torch.zeros_like(self._ids)])
                self._times = torch.cat([self._times, torch.zeros_like(self._times)])
            self._ids[slot] = known
            self._times[slot] += 1

    def along(self, path: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Distinct ids [m] and times [m], the path's tokens counted too."""
        n = len(self._slot)
        ids, times = self._ids[:n], self._times[:n]
        tokens = list(self._known(path))
        if not tokens:
            return ids, times
        new: dict[int, int] = {}
        slots = [
            self._slot[t] if t in self._slot else new.setdefault(t, n + len(new)) for t in tokens
        ]
        ids = torch.cat([ids, torch.tensor(list(new), dtype=torch.long, device=ids.device)])
        times = torch.cat([times, times.new_zeros(len(new))])
        where = torch.tensor(slots, dtype=torch.long, device=ids.device)
        return ids, times.index_add(0, where, times.new_ones(len(slots)))

    def _known(self, tokens: Iterable[int]) -> Iterable[int]:
        return (int(t) for t in tokens if 0 <= t < self._vocab_size)


# Laws. Each of these answers None where the logits define no law.


def _as_float(logits: Tensor) -> Tensor:
    return logits if logits.dtype == torch.float64 else logits.to(torch.float32)


def _greedy(x: Tensor) -> Tensor | None:
    blocks = _blocks(x)
    row = blocks.amax(1).argmax()
    best = row * _BLOCK + blocks[row].argmax()  # argmax gives the first of equals
    if not math.isfinite(x[best]):
        return None
    law = torch.zeros_like(x)
    law[best] = 1
    return law


def _drawn(x: Tensor, temperature: float, params: SamplingParams) -> Tensor | None:
    ids: Tensor | None = None  # the tokens kept so far; None: all
    size = x.shape[0]
    if 0 < params.top_k < size:
        ids = top_k_ids(x, params.top_k)
        if ids is None:
            return None
        x = x[ids]
    p = _softmax(x, temperature)
    if p is None or (params.top_p == 1 and params.min_p == 0 and ids is None):
        return p
    if params.top_p < 1:
        kept = _top_p(p, params.top_p)
        p, ids = p[kept], kept if ids is None else ids[kept]
    if params.min_p > 0:
        kept = _at_least(p, p.max() * params.min_p)
        p, ids = p[kept], kept if ids is None else ids[kept]
    assert ids is not None
    law = p.new_zeros(size)
    law[ids] = p / p.sum()
    return law


def _softmax(x: Tensor, temperature: float) -> Tensor | None:
    """Over the last dimension. NaN, +inf or nothing but -inf in a row make the whole row of
    softmax NaN, so one value of each is enough to look at."""
    p = torch.softmax(x if temperature == 1 else x / temperature, dim=-1)
    if not p[..., 0].isnan().any():
        # A CPU takes some hundred times as long for denormal numbers, and below a temperature of
        # 0.5 a large vocabulary has tens of thousands. They are 0 here, as smaller ones are anyway.
        return torch.threshold_(p, torch.finfo(p.dtype).tiny, 0.0)
    # Good logits over an extreme temperature may have overflowed: shift them first, then.
    top = x.amax(-1, keepdim=True)
    if not top.isfinite().all():
        return None
    limits = torch.finfo(x.dtype)
    return torch.softmax((x - top) / min(max(temperature, limits.tiny), limits.max), dim=-1)


def top_k_ids(x: Tensor, k: int) -> Tensor | None:
    """Ids, in order, of the k largest values of x [V] and of all that equal the k-th; None where
    the largest is not finite."""
    maxima = _blocks(x).amax(1)
    # The k-th largest block maximum is no more than the k-th largest value.
    few = k <= len(maxima) // 2
    ends = (maxima if few else x).topk(k).values[[0, -1]]  # NaN counts as largest
    if not math.isfinite(ends[0]):
        return None
    ids = _at_least(x, ends[1], maxima)
    if few:
        values = x[ids]
        ids = ids[values >= values.topk(k).values[-1]]
    return ids


def _top_p(p: Tensor, top_p: float) -> Tensor:
    """Ids of the smallest set of likeliest tokens whose sum, taken in float64, reaches top_p."""
    if len(p) > _FEW:
        maxima = _blocks(p).amax(1)
        for bits in (6, 10, 14):
            ids = _at_least(p, (1 - top_p) / 2**bits, maxima)
            values = p[ids]
            if _mass(values) >= top_p:
                return ids[_reach(values, top_p)]
    return _reach(p, top_p)


def _reach(p: Tensor, need: float) -> Tensor:
    """The likeliest until their sum is ``need``: halve a long list towards the place where that
    happens, then sort what is left."""
    ids = torch.arange(len(p), device=p.device)
    sure = []
    while len(p) > _FEW:
        high = p >= p[:: len(p) // 64].median()
        upper = high.nonzero().flatten()
        if len(upper) == len(p):  # nothing below the pivot: many equal values
            break
        mass = _mass(p[upper])
        if mass >= need:
            part = upper
        else:
            need -= mass
            sure.append(ids[upper])
            part = (~high).nonzero().flatten()
        p, ids = p[part], ids[part]
    values, order = p.sort(stable=True, descending=True)
    short = values.double().cumsum(0) < need
    return torch.cat([*sure, ids[order[: int(short.sum()) + 1]]])


def _mass(p: Tensor) -> float:
    return float(p.double().sum())


def _at_least(values: Tensor, floor: Tensor | float, maxima: Tensor | None = None) -> Tensor:
    """Ids, in order, of the values >= floor. maxima: the blocks' maxima, if known."""
    blocks = _blocks(values)
    if maxima is None:
        maxima = blocks.amax(1)
    rows = (maxima >= floor).nonzero().flatten()
    if len(rows) * 4 > len(maxima):
        return (values >= floor).nonzero().flatten()
    row, column = (blocks[rows] >= floor).nonzero(as_tuple=True)
    return rows[row] * _BLOCK + column


def _blocks(values: Tensor) -> Tensor:
    """[V] as [V / _BLOCK, _BLOCK], filled up with -inf."""
    missing = -len(values) % _BLOCK
    if missing:
        values = torch.nn.functional.pad(values, (0, missing), value=-math.inf)
    return values.view(-1, _BLOCK)


def _no_law(logits: Tensor) -> InvalidLogits:
    top = float(logits.max())
    if math.isfinite(top):
        return InvalidLogits(
            "logit_bias and the penalties leave no token that can be drawn; make them milder."
        )
    what = "NaN" if math.isnan(top) else "+inf" if top > 0 else "nothing but -inf"
    return InvalidLogits(
        f"The model gave logits with {what} in them, which define no law; "
        "check the model's weights and its number type."
    )


# Checks of parameters.


def _number(
    name: str, value: Any, low: float, high: float = math.inf, *, above: bool = False
) -> float:
    """A finite number in [low, high], or in (low, high] if ``above``."""
    if isinstance(value, Real) and not isinstance(value, bool):
        number = float(value)
        if math.isfinite(number) and low <= number <= high and not (above and number == low):
            return number
    least = f"{'above' if above else 'at least'} {low:g}"
    most = "" if high == math.inf else f" and at most {high:g}"
    raise InvalidInput(f"{name} must be a finite number {least}{most}, not {value!r}.")


def _temperature(value: Any) -> float:
    return _number("temperature", value, 0.0)


def _integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    if isinstance(value, Integral) and not isinstance(value, bool):
        number = int(value)
        if low <= number and (high is None or number <= high):
            return number
    most = "" if high is None else f" and at most {high}"
    raise InvalidInput(f"{name} must be an integer of at least {low}{most}, not {value!r}.")


def _optional(name: str, value: Any, high: int | None) -> int | None:
    return None if value is None else _integer(name, value, 0, high)


def _bias(value: Any) -> dict[int, float] | None:
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise InvalidInput(f"logit_bias must map token ids to numbers, not be {value!r}.")
    largest = torch.finfo(torch.float32).max
    clean = {}
    for token, bias in value.items():
        token = _integer("A token id in logit_bias", token, 0)
        if isinstance(bias, Real) and float(bias) == -math.inf:
            clean[token] = -math.inf
        else:
            clean[token] = _number(f"The logit_bias of token {token}", bias, -largest, largest)
    return clean


def _stop(value: Any) -> tuple[str, ...]:
    strings = (value,) if isinstance(value, str) else value
    if not isinstance(strings, Sequence) or not all(isinstance(s, str) for s in strings):
        raise InvalidInput(f"stop must be a string or a sequence of strings, not {value!r}.")
    if "" in strings:
        raise InvalidInput("A stop string is empty; leave it out, or give it text.")
    return tuple(strings)


def _token_ids(name: str, value: Any) -> tuple[int, ...]:
    if isinstance(value, (str, bytes, bytearray)) or not isinstance(value, Sequence):
        raise InvalidInput(f"{name} must be a sequence of token ids, not {value!r}.")
    return tuple(_integer(f"A token id in {name}", token, 0) for token in value)
