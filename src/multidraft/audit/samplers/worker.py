"""A process that hosts a sampler of this package: ``worker ENGINE MODE SETTING``."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable
from typing import TextIO

from multidraft.audit.samplers.decoder_sampler import MultidraftSampler
from multidraft.audit.samplers.protocol import answer_line, batches, setting_from_json
from multidraft.audit.samplers.transformers_sampler import TransformersSampler
from multidraft.audit.setting import Request, Sampler, Setting
from multidraft.errors import MultidraftError


def main(engine: str, mode: str, setting: str) -> int:
    """Answer requests from stdin until its end; 1 where the engine cannot be had."""
    # Whatever prints must not end up among the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        sampler = _open(engine, mode, setting_from_json(setting))
    except MultidraftError as error:
        answers.write(json.dumps({"error": str(error)}) + "\n")
        answers.flush()
        return 1
    answers.write(json.dumps({"name": sampler.name}) + "\n")
    answers.flush()
    serve(sampler, sys.stdin, answers)
    return 0


def _open(engine: str, mode: str, setting: Setting) -> Sampler:
    if engine == "transformers":
        return TransformersSampler(setting, mode)
    return MultidraftSampler(setting, mode)


def serve(sampler: Sampler, lines: Iterable[str], answers: TextIO) -> None:
    """Answer every batch of request lines."""
    for batch in batches(lines):
        requests = [Request(tuple(m["prompt_token_ids"]), m["prompt"], m["seed"]) for m in batch]
        try:
            found = sampler.sample(requests)
        except MultidraftError as error:
            answers.write(json.dumps({"id": batch[0]["id"], "error": str(error)}) + "\n")
        else:
            for message, answer in zip(batch, found, strict=True):
                answers.write(answer_line(message["id"], answer))
        answers.flush()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
