"""Models that cannot run exactly, and folders that cannot be loaded, are refused in a sentence."""

from __future__ import annotations

import json

import pytest
import torch
from transformers import (
    BloomConfig,
    FalconConfig,
    GptOssConfig,
    LlamaConfig,
    MambaConfig,
    MptConfig,
    Qwen2MoeConfig,
    Qwen3NextConfig,
    RwkvConfig,
    T5Config,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

from multidraft.errors import InvalidInput, ModelUnavailable, UnsupportedModel
from multidraft.models import attention, selfcheck
from multidraft.models.load import load_model, resolve_dtype
from multidraft.models.transformers_model import TransformersModel
from tests.models.tiny import CONFIGS, SHAPE, build


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (MambaConfig(), "recurrent state"),
        (RwkvConfig(), "recurrent state"),
        (BloomConfig(), "attention interface"),
        (MptConfig(), "attention interface"),
        (FalconConfig(alibi=True), "ALiBi"),
        (Qwen3NextConfig(), "recurrent state|linear_attention"),
    ],
    ids=lambda value: getattr(value, "model_type", None),
)
def test_kinds_refused_before_any_weight_is_read(config, reason):
    model_class = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]
    with pytest.raises(UnsupportedModel, match=reason):
        selfcheck.refuse_unsupported(config, model_class)


def test_encoder_decoders_are_refused(tmp_path):
    T5Config().save_pretrained(tmp_path)
    with pytest.raises(UnsupportedModel, match="no causal language model"):
        load_model(tmp_path)


def test_attention_sinks_are_refused():
    config = GptOssConfig(**SHAPE, num_local_experts=2, num_experts_per_tok=1, sliding_window=8)
    with pytest.raises(UnsupportedModel, match="s_aux"):
        TransformersModel(build(config))


def test_layers_that_slide_without_saying_so_are_refused_beyond_their_window():
    """Qwen2-MoE masks its sliding layers but does not tell the attention function."""
    config = Qwen2MoeConfig(
        **SHAPE,
        use_sliding_window=True,
        sliding_window=32,
        max_window_layers=1,
        num_experts=2,
        num_experts_per_tok=1,
        moe_intermediate_size=16,
        shared_expert_intermediate_size=16,
    )
    with pytest.raises(UnsupportedModel, match="max_length of at most 32"):
        TransformersModel(build(config))
    assert TransformersModel(build(config), max_length=32).max_length == 32


@pytest.mark.parametrize("kind", ["dynamic", "longrope"])
def test_dynamic_rope_stays_below_the_length_where_it_starts(kind):
    rope = {"rope_type": kind, "rope_theta": 10000.0, "factor": 2.0}
    if kind == "longrope":
        rope |= {
            "short_factor": [1.0] * 4,
            "long_factor": [2.0] * 4,
            "original_max_position_embeddings": 64,
        }
    config = LlamaConfig(**SHAPE, rope_parameters=rope)
    limit = {"dynamic": 128, "longrope": 64}[kind]
    assert TransformersModel(build(config)).max_length == limit
    with pytest.raises(InvalidInput, match=f"exceeds {limit}.*{kind} rope"):
        TransformersModel(build(config), max_length=limit + 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("family", ["gpt2", "llama", "gemma2"])
def test_the_check_at_load_notices_a_wrong_mask(monkeypatch, family, dtype):
    """One node that sees its sibling is enough."""
    correct = attention.Segment.view

    def wrong(segment, window):
        first, visible = correct(segment, window)
        if visible is not None:
            visible[-1] = True
        return first, visible

    monkeypatch.setattr(attention.Segment, "view", wrong)
    with pytest.raises(UnsupportedModel, match="differs from one call per path"):
        TransformersModel(build(CONFIGS[family]).to(dtype))


def test_lengths_and_slots_out_of_range():
    for kwargs in ({"max_length": 129}, {"max_length": 3}, {"slots": 0}):
        with pytest.raises(InvalidInput):
            TransformersModel(build(CONFIGS["llama"]), **kwargs)


def test_unknown_dtypes_and_devices():
    cpu = torch.device("cpu")
    assert resolve_dtype("float16", cpu) == resolve_dtype(torch.float16, cpu) == torch.float16
    assert resolve_dtype("auto", cpu) in (torch.float32, torch.bfloat16)
    for dtype in ("int8", torch.int8):
        with pytest.raises(InvalidInput, match="Unknown dtype"):
            resolve_dtype(dtype, cpu)
    with pytest.raises(InvalidInput, match="Device nowhere"):
        load_model("any", device="nowhere")


def test_a_saved_folder_loads_without_a_tokenizer(tmp_path):
    plain = build(CONFIGS["llama"])
    plain.generation_config.eos_token_id = [7, 9]
    plain.save_pretrained(tmp_path)
    model = load_model(tmp_path, dtype="float32", device="cpu", max_length=40, slots=2)
    assert model.tokenizer is None
    assert model.eos_token_ids == {2, 7, 9}  # 2 is in the model's configuration
    assert (model.max_length, model.num_slots, model.dtype) == (40, 2, torch.float32)


def test_broken_folders_are_named_in_one_sentence(tmp_path):
    plain = build(CONFIGS["llama"])
    plain.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"num_hidden_layers": 4}))
    with pytest.raises(ModelUnavailable, match=r"incomplete: model\.layers\.3"):
        load_model(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config | {"hidden_act": 3}))
    with pytest.raises(ModelUnavailable, match="not usable"):
        load_model(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(ModelUnavailable, match="weights cannot be loaded"):
        load_model(tmp_path)


def test_the_check_at_load_looks_twice(monkeypatch):
    """Rounding alone can move one set of trees by more than the tolerance; what is wrong, all."""
    distances = iter([0.7, 0.0, 0.01, 0.01])
    monkeypatch.setattr(selfcheck, "_distance", lambda *_: next(distances))
    TransformersModel(build(CONFIGS["llama"]).to(torch.bfloat16))
    monkeypatch.setattr(selfcheck, "_distance", lambda *_: 0.7)
    with pytest.raises(UnsupportedModel, match=r"by 0\.7 of the spread"):
        TransformersModel(build(CONFIGS["llama"]).to(torch.bfloat16))


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory."),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
        MemoryError(),
    ],
)
@pytest.mark.parametrize("where", ["extend", "prefill"])
def test_memory_that_runs_out_is_no_fault_of_the_model(monkeypatch, error, where):
    def full(*_, **__):
        raise error

    monkeypatch.setattr(TransformersModel, where, full)
    with pytest.raises(ModelUnavailable, match=r"not enough memory.*fewer slots"):
        TransformersModel(build(CONFIGS["llama"]))
