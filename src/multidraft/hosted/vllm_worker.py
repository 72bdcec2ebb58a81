"""A process that hosts vLLM, run by the Python of vLLM's own environment: imports nothing else.

``vllm_worker.py OPTIONS``, a JSON object: ``target`` and ``draft`` (folders), ``mode``,
``draft_length``, ``dtype``, ``context`` (the most positions of a sequence; the model's where it has
fewer), ``cache_bytes`` (for keys and values), ``batch`` (the most sequences at once), ``seed`` and
``timed``.

Reads and writes the lines that ``multidraft.audit.samplers.protocol`` describes. Where ``timed``,
requests come one at a time and say their ``stop_token_ids``; the answer says besides what came
when:

    {"id": 7, "token_ids": [3, 1, 4], "finish_reason": "length", "seconds": 0.21,
     "times": [0.11, 0.16, 0.2], "peak_memory": 5368709120}

``times``, in seconds since the request, are those of the engine's steps that brought tokens; the
memory is the process's resident size, in bytes. {"id": 7, "failed": "..."} is an answer too: the
engine goes on. The line that says the ``name`` says the ``device`` too.
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any, TextIO

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
    ready = {"name": _name(vllm.__version__, options)}
    if options["timed"]:
        from vllm.platforms import current_platform

        ready["device"] = current_platform.device_type
    _tell(answers, ready)
    answer = _time if options["timed"] else _answer
    batch: list[dict[str, Any]] = []
    for line in sys.stdin:
        batch.append(json.loads(line))
        if batch[-1]["more"] == 0:
            answer(vllm, engine, batch, answers)
            batch = []
    return 0


def engine_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """Arguments of ``vllm.LLM``."""
    context = options["context"]
    config = json.loads((Path(options["target"]) / "config.json").read_text(encoding="utf-8"))
    return {
        "model": options["target"],
        "dtype": options["dtype"],
        "generation_config": "vllm",  # not the sampling defaults of the model's folder
        "skip_tokenizer_init": True,
        # Compiled, it takes minutes to start, and on the CPU no less time per token.
        "enforce_eager": True,
        "enable_prefix_caching": False,  # else a prompt that comes again is free
        "max_model_len": min(context, config.get("max_position_embeddings", context)),
        "max_num_seqs": options["batch"],
        "kv_cache_memory_bytes": options["cache_bytes"],
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
    prompts = [{"prompt_token_ids": message["prompt_token_ids"]} for message in batch]
    params = [_sampling(vllm, message) for message in batch]
    try:
        results = engine.generate(prompts, params, use_tqdm=False)
    except Exception as error:  # vLLM raises many kinds
        _tell(answers, {"id": batch[0]["id"], "error": _one_line(error)})
        return
    for message, result in zip(batch, results, strict=True):
        _tell(answers, {"id": message["id"], "token_ids": list(result.outputs[0].token_ids)})


def _time(vllm: Any, engine: Any, batch: list[dict[str, Any]], answers: TextIO) -> None:
    """One request, step by step; an error is an answer, and the engine goes on."""
    (message,) = batch
    prompt = {"prompt_token_ids": message["prompt_token_ids"]}
    params = _sampling(vllm, message)
    core, running = engine.llm_engine, None
    output, tokens, times = None, 0, list[float]()
    started = time.perf_counter()
    try:
        running = core.add_request(str(message["id"]), prompt, params)
        while core.has_unfinished_requests():
            for result in core.step():
                output = result.outputs[0]
                if len(output.token_ids) > tokens:
                    tokens = len(output.token_ids)
                    times.append(time.perf_counter() - started)
    except Exception as error:  # vLLM raises many kinds
        if running is not None:
            core.abort_request([running], internal=True)
        _tell(answers, {"id": message["id"], "failed": _one_line(error)})
        return
    seconds = time.perf_counter() - started
    if output is None:
        _tell(answers, {"id": message["id"], "failed": "vLLM ended the request with no answer."})
        return
    answer = {"token_ids": list(output.token_ids), "finish_reason": output.finish_reason}
    answer |= {"seconds": seconds, "times": times, "peak_memory": _peak_memory()}
    _tell(answers, {"id": message["id"], **answer})


def _peak_memory() -> int:
    """Largest resident size up to now, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # Linux's getrusage counts what the parent had when it forked
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return 1024 * int(line.split()[1])
    import resource  # Windows has none, nor has it vLLM

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # macOS's, in bytes


def _sampling(vllm: Any, message: dict[str, Any]) -> Any:
    return vllm.SamplingParams(
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
        stop_token_ids=message.get("stop_token_ids", []),
        seed=message["seed"],
        detokenize=False,
    )


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
