"""The probability that one of K draft tokens is accepted, for known laws of one token.

With q the target's law and p the draft's, all follow from g(c) = Σ [q − c p]+ and from the order of
the vocabulary by q/p, so one sort serves every method and every K. For K = 1 all are the overlap
Σ min(p, q) = 1 − g(1) (Leviathan et al. 2023).
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import brentq

from multidraft.draft.growth import likeliest_tokens

Array = npt.NDArray[np.float64]

#: Keys of `acceptance`: K drafts drawn independently with the best verifier there can be, with
#: K-SEQ, with recursive rejection; and K − 1 chosen and one drawn with the best verifier.
OPTIMUM, SPECTR, SPECINFER, HYBRID = KINDS = ("optimum", "spectr", "specinfer", "hybrid")

_DUST = 1e-16


def acceptance(target: torch.Tensor, draft: torch.Tensor, most: int) -> dict[str, list[float]]:
    """What each way of drafting and verifying accepts with K = 1, …, ``most`` draft tokens.

    Args:
        target, draft: laws of one token. [V], float64, each summing to 1

    Returns:
        Probabilities by `KINDS`, ``most`` of them each.
    """
    ordered = _Ordered(*_without_dust(target, draft))
    drafts = range(1, most + 1)
    found = {
        OPTIMUM: _optimum(ordered, most),
        SPECTR: [_k_seq(ordered, k) for k in drafts],
        SPECINFER: _recursive_rejection(ordered, most),
        HYBRID: list(_hybrid(ordered, target, draft, most)),
    }
    return {kind: [min(max(value, 0.0), 1.0) for value in found[kind]] for kind in KINDS}


def _without_dust(target: torch.Tensor, draft: torch.Tensor) -> list[Array]:
    """Both laws, with all tokens that neither holds likelier than 1e-16 made one.

    At low temperatures these are nearly all, and what they weigh together, less than 1e-10 for a
    million tokens, is the most that any figure can change by.
    """
    kept = torch.maximum(target, draft) > _DUST
    laws = (torch.cat((law[kept], law[~kept].sum(0, keepdim=True))) for law in (target, draft))
    return [law.cpu().numpy() for law in laws]


class _Ordered:
    """Two laws q and p, smallest q/p first; tokens of p = 0 last.

    Attributes:
        q_before, p_before: mass of the first i tokens, i = 0, …, V. [V + 1]
    """

    def __init__(self, q: Array, p: Array):
        ratio = np.divide(q, p, out=np.full_like(q, np.inf), where=p > 0)
        order = np.argsort(ratio)
        self._ratio, q, p = ratio[order], q[order], p[order]
        self.q_before, self.p_before = (np.concatenate(([0.0], law.cumsum())) for law in (q, p))
        # Summed from the other end: one minus the sums above would lose what small masses are.
        self._q_after, self._p_after = (
            np.concatenate((law[::-1].cumsum()[::-1], [0.0])) for law in (q, p)
        )

    def left(self, c: float) -> float:
        """g(c) = Σ [q − c p]+."""
        first = int(np.searchsorted(self._ratio, c, side="right"))
        return float(self._q_after[first] - c * self._p_after[first])


def _optimum(ordered: _Ordered, most: int) -> list[float]:
    """min over sets S of Q(S) + 1 − P(S)^K, by max-flow min-cut (Sun et al. 2023; Hu et al. 2025).

    Tokens of S may be output without being drafted, or a draft lies outside S. For a given P(S) the
    least Q(S) is had by taking tokens in the order of q/p, and as −P(S)^K is concave no set that
    splits a token does better than one that does not.
    """
    found, power = [], np.ones_like(ordered.p_before)
    for _ in range(most):
        power = power * ordered.p_before
        found.append(1.0 + float((ordered.q_before - power).min()))
    return found


def _recursive_rejection(ordered: _Ordered, most: int) -> list[float]:
    """1 − m_K. Once k drafts were rejected, with probability m_k, the target's law is
    [q − c_k p]+ / m_k, where c_k = m_0 + … + m_(k−1); so m_k = g(c_k). (Miao et al. 2023.)"""
    found, c, rejected = [], 0.0, 1.0
    for _ in range(most):
        c += rejected
        rejected = ordered.left(c)
        found.append(1.0 - rejected)
    return found


def _k_seq(ordered: _Ordered, k: int) -> float:
    """1 − (1 − b)^K at the ρ in [1, K] where it equals ρ b, b = Σ min(p, q/ρ) (Sun et al. 2023).

    As ρ b = 1 − g(ρ), that is the root of g(ρ) − (1 − (1 − g(ρ))/ρ)^K, which falls from ρ = 1 on.
    """

    def excess(rho: float) -> float:
        left = ordered.left(rho)
        return left - (1.0 - (1.0 - left) / rho) ** k

    if k == 1 or excess(1.0) <= 0.0:  # nothing to divide by: all is accepted, or nothing
        return 1.0 - ordered.left(1.0)
    rho = brentq(excess, 1.0, float(k), xtol=1e-14, rtol=1e-14) if excess(k) < 0.0 else float(k)
    return 1.0 - ordered.left(rho)


def _hybrid(
    ordered: _Ordered, target: torch.Tensor, draft: torch.Tensor, most: int
) -> Iterator[float]:
    """Q(D) + Σ min(q, r): D the K − 1 likeliest tokens, r the draft's law outside them.

    No verifier accepts more, as one token drawn from r covers at most Σ min(q, r) of what lies
    outside D; recursive rejection and traversal reach it, the drawn token first (Hu et al. 2025).
    """
    chosen = likeliest_tokens(draft, most - 1)
    q, p = target[chosen].tolist(), draft[chosen].tolist()
    rest = draft.clone()
    rest[chosen] = 0.0
    outside = float(rest.sum())
    for count in range(min(most, len(chosen) + 1)):
        tail = outside + sum(p[count:][::-1])
        drawn = 0.0
        if tail > 0.0:
            # Σ min(q, p/tail), D still in it; the limit is that of 1/tail.
            drawn = 1.0 - ordered.left(1.0 / max(tail, sys.float_info.min))
            drawn -= sum(min(a, b / tail) for a, b in zip(q[:count], p[:count], strict=True))
        yield sum(q[:count]) + drawn
    for _ in range(most - len(chosen) - 1):  # fewer tokens than drafts: all are there
        yield 1.0
