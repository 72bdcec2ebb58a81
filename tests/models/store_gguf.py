"""A tiny random Llama, and the GGUF file and wheels that carry it."""

import base64
import hashlib
import zipfile
from pathlib import Path

import gguf
import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.convert_slow_tokenizer import bytes_to_unicode

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
BYTES = [bytes_to_unicode()[byte] for byte in range(256)]
MERGED = ["he", "ll", "Ġ5", "12", "\n\n"]
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m['content'] }}<|im_end|>{% endfor %}"


def tiny_llama() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(vocabulary()),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        tie_word_embeddings=False,
    )
    return LlamaForCausalLM(config).to(torch.bfloat16).eval()


def vocabulary() -> list[str]:
    merged = ["".join(bytes_to_unicode()[b] for b in m.replace("Ġ", " ").encode()) for m in MERGED]
    return SPECIAL + BYTES + merged + ["[PAD]"]


def write_gguf(
    path: Path, cut: str | None = "smollm", without: str = "", more: str = "", **extra
) -> Path:
    """Write the tiny Llama, ``without`` one tensor or with one ``more``; ``extra`` adds integer or
    text metadata, ``__`` standing for dots."""
    model = tiny_llama()
    config = model.config
    writer = gguf.GGUFWriter(path, extra.pop("architecture", "llama"))
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_vocab_size(config.vocab_size)
    _write_tokenizer(writer, cut)
    for key, value in extra.items():
        add = writer.add_string if isinstance(value, str) else writer.add_uint32
        add(key.replace("__", "."), value)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, weight in model.state_dict().items():
        gguf_name = names.get_name(name, try_suffixes=(".weight",))
        if gguf_name != without:
            writer.add_tensor(gguf_name, _as_llama_cpp(name, weight, config))
    if more:
        writer.add_tensor(more, np.ones(config.hidden_size, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _write_tokenizer(writer: gguf.GGUFWriter, cut: str | None) -> None:
    tokens = vocabulary()
    writer.add_tokenizer_model("gpt2")
    if cut:
        writer.add_tokenizer_pre(cut)
    writer.add_token_list(tokens)
    normal = len(tokens) - len(SPECIAL) - 1
    writer.add_token_types([3] * len(SPECIAL) + [1] * normal + [5])
    pairs = [tokens[len(SPECIAL) + 256 + i] for i in range(len(MERGED))]
    writer.add_token_merges([f"{pair[0]} {pair[1]}" for pair in pairs])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(0)
    writer.add_chat_template(TEMPLATE)


def _as_llama_cpp(name: str, weight: torch.Tensor, config: LlamaConfig) -> np.ndarray:
    array = weight.float().numpy()
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for projection, count in heads.items():
        if projection in name:  # llama.cpp interleaves the two halves of each head
            halves = array.reshape(count, 2, -1, array.shape[1])
            array = np.ascontiguousarray(halves.swapaxes(1, 2).reshape(array.shape))
    return array


def write_wheel(folder: Path, package: str, version: str, member: str, content: bytes) -> Path:
    module = package.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    tag = "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    metadata = f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
    files = {
        member: content,
        f"{info}/METADATA": metadata.encode(),
        f"{info}/WHEEL": tag.encode(),
    }
    digests = {
        name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        for name, data in files.items()
    }
    record = [f"{name},sha256={digests[name]},{len(data)}" for name, data in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*record, f"{info}/RECORD,,", ""]).encode()
    path = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files.items():
            wheel.writestr(name, data)
    return path
