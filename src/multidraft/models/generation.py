"""What transformers' own ``generate`` is told, where it is the engine to be audited or measured."""

from __future__ import annotations

from typing import Any

from multidraft.sampling import SamplingParams


def sampling_options(params: SamplingParams) -> dict[str, Any]:
    """Every option of the law is said, as transformers' own default is top_k 50."""
    sampling: dict[str, Any] = {"do_sample": False}
    if params.temperature > 0.0:
        sampling = {
            "do_sample": True,
            "temperature": params.temperature,
            "top_k": params.top_k,
            "top_p": params.top_p,
            "min_p": params.min_p or None,
            "typical_p": 1.0,
            "epsilon_cutoff": 0.0,
            "eta_cutoff": 0.0,
        }
    return {
        **sampling,
        "num_beams": 1,
        "repetition_penalty": 1.0,
        "no_repeat_ngram_size": 0,
        "max_new_tokens": params.max_tokens,
    }


def assistant_options(draft_length: int) -> dict[str, Any]:
    """For the assistant's own configuration, where ``generate`` reads the draft length."""
    return {
        "num_assistant_tokens": draft_length,
        "num_assistant_tokens_schedule": "constant",
        "assistant_confidence_threshold": 0.0,  # else a draft ends where the assistant is unsure
    }
