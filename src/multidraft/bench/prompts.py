"""How a data set's prompt is put to a model: through its chat template, or as it is."""

from __future__ import annotations

from typing import Any

from multidraft.bench.config import Config
from multidraft.bench.data import for_chat
from multidraft.errors import InvalidInput


def uses_chat(config: Config, dataset: str, tokenizer: Any) -> bool:
    """Whether a data set's prompts go through the target's chat template.

    Args:
        tokenizer: the target's; None where it has none.

    Raises:
        InvalidInput: no tokenizer, or no template where the configuration asks for it.
    """
    if tokenizer is None:
        raise InvalidInput("The target has no tokenizer, so it cannot read the data sets.")
    if config.chat and not tokenizer.chat_template:
        raise InvalidInput("The target has no chat template; use raw prompts (chat: false).")
    if config.chat is None:
        return bool(tokenizer.chat_template) and for_chat(dataset)
    return config.chat
