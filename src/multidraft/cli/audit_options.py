"""Options that the commands of `multidraft audit` share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Engine = Annotated[
    str,
    typer.Argument(
        metavar="ENGINE[:MODE]",
        help="multidraft[:VERIFIER|DRAFTER+VERIFIER|auto|ar], "
        "transformers[:plain|assisted|lookup], "
        "vllm[:plain|draft_model-probabilistic|draft_model-greedy|ngram], openai or command.",
    ),
]
Batch = Annotated[int, typer.Option(min=1, help="Requests the engine gets at once.")]
Detect = Annotated[float, typer.Option(help="Bias (total variation) to find with 99% probability.")]
Alpha = Annotated[float, typer.Option(help="Probability of calling a lossless engine BIASED.")]
Distance = Annotated[
    float, typer.Option(help="Total variation between the draft's and the target's laws.")
]
VocabSize = Annotated[int, typer.Option(help="Tokens of the test models, 8 to 32.")]
ModelSeed = Annotated[int, typer.Option(min=0, help="Of the test models' weights.")]
Models = Annotated[
    Path | None,
    typer.Option(
        help="Folder of `multidraft audit models`, where the engine serves those.",
        exists=True,
        file_okay=False,
    ),
]
Seed = Annotated[int, typer.Option(min=0, help="Of the requests' seeds.")]
MaxTime = Annotated[float | None, typer.Option(help="Seconds of sampling at most; then UNDECIDED.")]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Processes that sample.  [one per core; for vllm and command, and in compare, 1]",
    ),
]
Python = Annotated[
    str | None, typer.Option(help="For vllm: the Python of the environment it is installed in.")
]
BaseUrl = Annotated[str | None, typer.Option(help="For openai: such as http://localhost:8000/v1.")]
ModelName = Annotated[
    str | None, typer.Option("--model", help="For openai: the target's name on the server.")
]
Command = Annotated[
    str | None, typer.Option(help="For command: a program that answers JSON lines.")
]
