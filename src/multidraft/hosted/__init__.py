"""Other engines in processes of their own, which speak JSON, one object a line."""

from pathlib import Path

#: The program that hosts vLLM, for the Python of vLLM's own environment.
VLLM_WORKER = Path(__file__).with_name("vllm_worker.py")
