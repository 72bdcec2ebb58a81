"""Which models can run exactly: by what their configuration says, then by scoring a tree."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from multidraft.errors import UnsupportedModel, refuse_out_of_memory
from multidraft.models.base import PREFIX, Extension
from multidraft.models.unpacked import fast_unpacked

if TYPE_CHECKING:
    from multidraft.models.transformers_model import TransformersModel

_LAYER_TYPES = {"full_attention", "sliding_attention"}

# Largest accepted distance of a row of logits, as a share of its spread. Rounding alone gave 1e-5
# in float32 and 0.1 in bfloat16 on real models; one token too many in one node's view, or
# positions off by one, gave 0.6 and more.
_TOLERANCE = {torch.float32: 1e-3, torch.float16: 0.1, torch.bfloat16: 0.3}

# The trees of the check: prefixes of different length, each with one tree below it, which grows
# twice, as a draft's does. A model of one slot has the first alone: its prefix is long enough for
# the kernels of many rows.
_PREFIX_LENGTHS = (11, 3)
_PARENTS = (PREFIX, 0, 0, PREFIX, 1, 3, 4, 1)
_SPLIT = 4

# Sets of trees. At a few tokens in a thousand rounding alone moves bfloat16 logits by more than
# the tolerance: by 0.7 at one of the first set, where outlier features hang on the last bit of an
# early layer. A model is refused if it differs on every set: what is wrong is so on all.
_SETS = 2

#: The shortest max_length that leaves room for the check.
MIN_LENGTH = 16


def refuse_unsupported(config: PreTrainedConfig, model_class: type[PreTrainedModel]) -> None:
    """Raise UnsupportedModel for models that are known not to work, before any weight is read."""
    text = config.get_text_config()
    layer_types = set(getattr(text, "layer_types", None) or ())
    if config.is_encoder_decoder:
        reason = "it is an encoder-decoder"
    elif getattr(model_class, "_is_stateful", False):
        reason = "it carries a recurrent state, which cannot be rolled back"
    elif layer_types - _LAYER_TYPES:
        reason = f"it has layers of type {', '.join(sorted(layer_types - _LAYER_TYPES))}"
    elif getattr(text, "alibi", False):
        reason = "it encodes positions by ALiBi"
    elif not model_class._can_set_attn_implementation():
        reason = (
            "its attention (ALiBi, recurrent or of an older form) does not go through "
            "transformers' attention interface"
        )
    else:
        return
    raise UnsupportedModel(f"Models of type {config.model_type} are not supported: {reason}.")


def position_limit(config: PreTrainedConfig) -> tuple[int | None, str]:
    """The most positions a sequence may take, with the reason in words; None if unbounded.

    Dynamic rope scaling changes the rotation of every sequence of a call once one of them is
    long, so that a sequence's output would depend on its neighbours: stay below the length where
    scaling starts.
    """
    text = config.get_text_config()
    context = getattr(text, "max_position_embeddings", None)
    rope = getattr(text, "rope_parameters", None) or {}
    for parameters in [rope, *(p for p in rope.values() if isinstance(p, dict))]:
        kind = parameters.get("rope_type")
        if kind in ("dynamic", "longrope"):
            original = parameters.get("original_max_position_embeddings") or context
            return original, (
                f"the length up to which {kind} rope scaling leaves sequences independent "
                "of each other"
            )
    return context, "the context of the model"


class Reference:
    """Logits of a few random trees, from transformers' own forward, a row for each path.

    Made while the model still has its own attention and linear layers; ``compare`` then has the
    finished TransformersModel score the same trees in one call.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        self._config = model.config
        vocab_size = model.config.get_text_config().vocab_size
        draw = torch.Generator().manual_seed(0)
        self._sets = [
            [
                torch.randint(vocab_size, (length + len(_PARENTS),), generator=draw).tolist()
                for length in _PREFIX_LENGTHS
            ]
            for _ in range(_SETS)
        ]
        with _explained(f"transformers cannot run this model of type {model.config.model_type}"):
            self._logits = self._plain_logits(model)
        self.vocab_size = self._logits[0][0].shape[-1]

    def _plain_logits(self, model: PreTrainedModel) -> list[list[torch.Tensor]]:
        # In bfloat16 the eager form rounds more than any other, so it is only the second choice;
        # the first refuses models whose options it does not honour.
        trees = [pair for trees in self._sets for pair in zip(trees, _PREFIX_LENGTHS, strict=True)]
        try:
            model.set_attn_implementation("sdpa")
            scored = _score_by_path(model, trees)
        except ValueError:
            model.set_attn_implementation("eager")
            scored = _score_by_path(model, trees)
        of_one = len(_PREFIX_LENGTHS)
        return [scored[i : i + of_one] for i in range(0, len(scored), of_one)]

    def compare(self, model: TransformersModel, tokens: torch.Tensor | None = None) -> None:
        """Raise UnsupportedModel if ``model`` scores the trees differently. ``tokens``: the ids
        whose logits count; None: all."""
        refused = f"Models of type {self._config.model_type} are not supported"
        differences: list[float] = []
        windows: set[int | None] = set()
        for trees, expected in zip(self._sets, self._logits, strict=True):
            with _explained(f"{refused}: scoring a tree failed"):
                scored, asked = _score_in_one_call(model, trees)
            windows |= asked
            pairs = zip(scored, expected, strict=False)
            # Of a NaN, which Python's max may pass over, too.
            found = torch.tensor([_distance(s, r, tokens) for s, r in pairs])
            differences.append(float(found.max()))
            if differences[-1] < _TOLERANCE.get(model.dtype, 1e-3):
                break
        else:
            raise UnsupportedModel(
                f"{refused}: scoring a tree in one call differs from one call per path, "
                f"by {differences[0]:.2g} of the spread of the logits."
            )
        declared = _declared_windows(self._config, model.max_length)
        if declared - windows:
            raise UnsupportedModel(
                f"{refused} beyond their sliding window, because their layers do not ask for it: "
                f"choose a max_length of at most {min(declared - windows)}."
            )


def _score_in_one_call(
    model: TransformersModel, random_trees: list[list[int]]
) -> tuple[list[torch.Tensor], set[int | None]]:
    """Per tree ``[nodes, vocab_size]``, and the windows that the layers asked for."""
    trees = list(zip(random_trees, _PREFIX_LENGTHS, strict=True))[: model.num_slots]
    slots = [model.open() for _ in trees]
    windows: set[int | None] = set()
    parts: dict[int, list[torch.Tensor]] = {slot: [] for slot in slots}
    whole, last = list(zip(slots, trees, strict=True)), len(_PARENTS) - 1
    # The last node of each in a call of its own: a single row may be computed in another way.
    calls = [(0, _SPLIT, whole), (_SPLIT, last, whole), *((last, last + 1, [one]) for one in whole)]
    try:
        for slot, (tree, length) in whole:
            model.prefill(slot, tree[:length])
        for start, stop, members in calls:
            found = model.extend(
                [
                    Extension(slot, tree[length + start : length + stop], _PARENTS[start:stop])
                    for slot, (tree, length) in members
                ]
            )
            for (slot, _), logits in zip(members, found, strict=True):
                parts[slot].append(logits)
            windows |= model.windows
    finally:
        for slot in slots:
            model.close(slot)
    return [torch.cat(parts[slot]) for slot in slots], windows


@contextmanager
def _explained(problem: str) -> Iterator[None]:
    """Whatever a model's code raises while it is tried out means that it is not supported."""
    try:
        yield
    except UnsupportedModel:
        raise
    except Exception as error:
        refuse_out_of_memory(error)
        detail = str(error).strip().split("\n")[0].rstrip(".")
        raise UnsupportedModel(f"{problem} ({type(error).__name__}: {detail}).") from error


def try_out(model: TransformersModel) -> None:
    """Raise UnsupportedModel unless a model without some of its layers gives logits."""
    with _explained("The model does not run without these layers"):
        slot = model.open()
        (logits,) = model.extend([Extension(slot, [0, 0], [PREFIX, 0])])
        model.close(slot)
        if not logits.isfinite().any():
            raise ValueError("its logits are not finite")


@torch.inference_mode()
def _score_by_path(
    model: PreTrainedModel, trees: list[tuple[list[int], int]]
) -> list[torch.Tensor]:
    """``[nodes, vocab_size]`` for each tree below ``tree[:length]``, from one forward with a row
    per leaf. Rows that end early are filled up at the end, which no token sees."""
    paths: list[list[int]] = []
    for leaf in set(range(len(_PARENTS))) - set(_PARENTS):
        path: list[int] = []
        node = leaf
        while node != PREFIX:
            path.insert(0, node)
            node = _PARENTS[node]
        paths.append(path)
    rows = [
        tree[:length] + [tree[length + node] for node in path]
        for tree, length in trees
        for path in paths
    ]
    longest = max(map(len, rows))
    tokens = torch.tensor([row + [0] * (longest - len(row)) for row in rows], device=model.device)
    with fast_unpacked():
        logits = model(tokens, use_cache=False).logits
    scored: list[torch.Tensor] = []
    for (_, length), of_tree in zip(trees, logits.split(len(paths)), strict=True):
        nodes: dict[int, torch.Tensor] = {}
        for path, row in zip(paths, of_tree, strict=True):
            nodes |= dict(zip(path, row[length : length + len(path)], strict=True))
        scored.append(torch.stack([nodes[node] for node in range(len(_PARENTS))]))
    return scored


def _distance(scored: torch.Tensor, reference: torch.Tensor, tokens: torch.Tensor | None) -> float:
    """Largest root mean square difference of a row, as a share of the row's own spread."""
    difference = scored.float() - reference.float()
    if tokens is not None:
        difference = difference[:, tokens]
    difference = difference.pow(2).mean(-1).sqrt()
    return float((difference / reference.float().std(-1)).max())


def _declared_windows(config: PreTrainedConfig, max_length: int) -> set[int]:
    """The sliding windows of the configuration that a sequence of ``max_length`` can outgrow."""
    text = config.get_text_config()
    window: int | None = getattr(text, "sliding_window", None)
    types = getattr(text, "layer_types", None)
    if window is None or window >= max_length or (types and "sliding_attention" not in types):
        return set()
    return {window}
