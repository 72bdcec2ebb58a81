"""A cost table from the sizes of two models: the roofline (Williams, Waterman and Patterson 2009).

A call reads every weight once, 2 bytes each, and computes 2 operations a weight and position; it
takes as long as the slower of the two. Attention, the cache, verification and the time in which the
machine waits for the program are left out: what comes out is what hardware allows, and programs
stay below it.
"""

from __future__ import annotations

from multidraft.bench.simulate.costs import CostTable
from multidraft.engine.control.curve import Curve
from multidraft.errors import InvalidInput

#: NVIDIA A100 80 GB SXM, from its data sheet: bytes/s of memory, bfloat16 operations/s, dense.
BANDWIDTH, PEAK = 2.039e12, 312e12
MACHINE = "NVIDIA A100 80 GB, bfloat16"
_BYTES = 2  # a weight
_OPERATIONS = 2  # a weight and position: one multiplication, one addition

#: Positions up to which a call costs what one position costs.
FREE_POSITIONS = PEAK * _BYTES / (_OPERATIONS * BANDWIDTH)


def costs_of_sizes(text: str) -> CostTable:
    """A table from sizes such as "33:1.3": billions of parameters of target and draft.

    Raises:
        InvalidInput: not two sizes.
    """
    try:
        target, draft = (float(part.strip().lower().removesuffix("b")) for part in text.split(":"))
        if not (0 < draft < float("inf") and 0 < target < float("inf")):
            raise ValueError
    except ValueError:
        raise InvalidInput(
            f"Sizes are billions of parameters of target and draft, such as 33:1.3, not {text!r}."
        ) from None
    a_call, a_step = _roofline(1e9 * target), _roofline(1e9 * draft)
    # A prompt is a call of as many positions.
    return CostTable(
        a_call, a_step, prefill_target=a_call, prefill_draft=a_step, source=f"sizes {text}"
    )


def _roofline(parameters: float) -> Curve:
    least = parameters * _BYTES / BANDWIDTH
    return Curve.of({1: least, FREE_POSITIONS: least, 2 * FREE_POSITIONS: 2 * least})
