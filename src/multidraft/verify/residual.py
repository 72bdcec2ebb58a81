"""norm([w·q − r]+), the step every method shares."""

from __future__ import annotations

import torch


def residual(
    law: torch.Tensor, proposal: torch.Tensor, weight: float = 1.0
) -> tuple[torch.Tensor | None, float]:
    """The normalised positive part of ``weight·law − proposal``, and its mass before that.

    Returns (None, 0.0) where nothing is left. ``law`` and ``proposal`` have shape [V].
    """
    left = torch.sub(law * weight if weight != 1.0 else law, proposal).clamp_(min=0)
    mass = float(left.sum())
    if mass == 0.0:
        return None, 0.0
    return left.div_(mass), mass


def without(
    law: torch.Tensor, token: int, weight: float = 1.0
) -> tuple[torch.Tensor | None, float]:
    """`residual` against the point mass on ``token`` (a chosen, not a drawn, proposal).

    As weight·law(token) <= 1, exactly that token's share goes.
    """
    left = law.clone()
    left[token] = 0
    mass = float(left.sum())
    if mass == 0.0:
        return None, 0.0
    return left.div_(mass), mass * weight


def probability(law: torch.Tensor | None, token: int) -> float:
    """law(token); None stands for a point mass on ``token`` itself."""
    return 1.0 if law is None else float(law[token])
