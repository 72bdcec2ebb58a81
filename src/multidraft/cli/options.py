"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

#: What no machine gains from; more would only exhaust its memory.
MOST_DRAFTS, LONGEST_DRAFT = 64, 256

TargetName = Annotated[
    str, typer.Option("--target", "-t", help="The target model: an id, hub id or folder.")
]
DraftName = Annotated[
    str, typer.Option("--draft", "-d", help="The draft model, or self:LAYERS of the target.")
]
DraftHead = Annotated[
    str | None,
    typer.Option(help="The draft's frequent tokens: how many, or a list file.  [all tokens]"),
]
Temperature = Annotated[float, typer.Option("--temperature", "-T", help="0 is greedy.")]
TopP = Annotated[float, typer.Option(help="1 is off.")]
TopK = Annotated[int, typer.Option(help="0 is off.")]
MinP = Annotated[float, typer.Option(help="0 is off.")]
NumDrafts = Annotated[
    int, typer.Option("--num-drafts", "-K", min=1, max=MOST_DRAFTS, help="Drafts a round.")
]
DraftLength = Annotated[
    int, typer.Option("--draft-length", "-L", min=1, max=LONGEST_DRAFT, help="Tokens a draft.")
]
DataChat = Annotated[
    bool | None,
    typer.Option(
        "--chat/--raw",
        help="Through the chat template, or as it is.  [--chat where there is a template, "
        "except for text to be continued]",
    ),
]
DataDir = Annotated[Path | None, typer.Option(help="Folder with the data sets' files.  [the hub]")]
Dtype = Annotated[str, typer.Option(help="float32, bfloat16, float16 or auto.")]
DraftDtype = Annotated[
    str,
    typer.Option(
        help="float32, bfloat16, float16; int4: four bits a weight, on CPUs; auto: int4 where that "
        "is faster, else the target's."
    ),
]
RunDraftDtype = Annotated[
    str | None,
    typer.Option(
        help="float32, bfloat16, float16; int4: four bits a weight, on CPUs; auto: int4 where that "
        "is faster.  [the target's]"
    ),
]
Device = Annotated[
    str | None, typer.Option(help="A torch device.  [a CUDA GPU where there is one]")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
