"""A process that hosts vLLM, run by the Python of vLLM's own environment: imports nothing else.

``vllm_worker.py OPTIONS``, a JSON object with ``target``, ``draft``, ``mode``, ``draft_length``,
``batch`` and ``seed``. Speaks the lines of ``protocol.py``.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any, TextIO

#: The most positions of one sequence: an audit needs few, prompts of one's own a little more.
_CONTEXT = 2048
_KV_CACHE_BYTES = 2**30
# As transformers' prompt lookup does. vLLM's own default, 5, rarely finds a match in short prompts.
_LOOKUP = {"prompt_lookup_min": 1, "prompt_lookup_max": 2}


def main(options: dict[str, Any]) -> int:
    """Answer requests from stdin until its end; 1 where vLLM cannot be had."""
    # vLLM logs to stdout, which is for answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    os.environ["VLLM_NO_USAGE_STATS"] = "1"
    # One process, which ends with its parent and takes its number of threads from it.
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    # n-gram lookup runs on numba, whose OpenMP layer would set vLLM's own number of threads: up to
    # 20 times slower where that is more than there are free cores.
    os.environ["NUMBA_THREADING_LAYER"] = "workqueue"
    try:
        import vllm

        engine = vllm.LLM(**engine_arguments(options))
    except Exception as error:  # vLLM raises many kinds
        _tell(answers, {"error": _one_line(error)})
        return 1
    _tell(answers, {"name": _name(vllm.__version__, options)})
    batch: list[dict[str, Any]] = []
    for line in sys.stdin:
        batch.append(json.loads(line))
        if batch[-1]["more"] == 0:
            _answer(vllm, engine, batch, answers)
            batch = []
    return 0


def engine_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """Arguments of ``vllm.LLM``."""
    config = json.loads((Path(options["target"]) / "config.json").read_text(encoding="utf-8"))
    return {
        "model": options["target"],
        "dtype": "float32",
        "generation_config": "vllm",  # not the sampling defaults of the model's folder
        "skip_tokenizer_init": True,
        "enforce_eager": True,
        "max_model_len": min(_CONTEXT, config.get("max_position_embeddings", _CONTEXT)),
        "max_num_seqs": options["batch"],
        "kv_cache_memory_bytes": _KV_CACHE_BYTES,
        # vLLM draws drafts from its global generator, whatever a request's seed: two engines with
        # one seed would draft the same.
        "seed": options["seed"],
        "speculative_config": _speculative_config(options),
    }


def _speculative_config(options: dict[str, Any]) -> dict[str, Any] | None:
    mode, length = options["mode"], options["draft_length"]
    if mode == "plain":
        return None
    if mode == "ngram":
        return {"method": "ngram", "num_speculative_tokens": length, **_LOOKUP}
    method, sampling = mode.split("-")
    return {
        "method": method,
        "model": options["draft"],
        "num_speculative_tokens": length,
        "draft_sample_method": sampling,
    }


def _answer(vllm: Any, engine: Any, batch: list[dict[str, Any]], answers: TextIO) -> None:
    params = [
        vllm.SamplingParams(
            n=1,
            temperature=message["temperature"],
            top_p=message["top_p"],
            top_k=message["top_k"],
            min_p=message["min_p"],
            presence_penalty=0.0,
            frequency_penalty=0.0,
            repetition_penalty=1.0,
            max_tokens=message["max_tokens"],
            ignore_eos=message["ignore_eos"],
            seed=message["seed"],
            detokenize=False,
        )
        for message in batch
    ]
    prompts = [{"prompt_token_ids": message["prompt_token_ids"]} for message in batch]
    try:
        results = engine.generate(prompts, params, use_tqdm=False)
    except Exception as error:  # vLLM raises many kinds
        _tell(answers, {"id": batch[0]["id"], "error": _one_line(error)})
        return
    for message, result in zip(batch, results, strict=True):
        _tell(answers, {"id": message["id"], "token_ids": list(result.outputs[0].token_ids)})


def _name(version: str, options: dict[str, Any]) -> str:
    # vLLM's builds for other hardware are packages of other names.
    package = packages_distributions().get("vllm", ["vllm"])[0]
    drafting = "" if options["mode"] == "plain" else f", L {options['draft_length']}"
    return f"{package} {version}, {options['mode']}{drafting}"


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _tell(answers: TextIO, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


if __name__ == "__main__":
    # Python puts a script's folder first, where our modules would hide vLLM's dependencies.
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != here]
    sys.exit(main(json.loads(sys.argv[1])))
