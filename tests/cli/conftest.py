"""A tiny pair of models that speak, as ordinary folders."""

from __future__ import annotations

import sys

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast

from multidraft.cli import main


@pytest.fixture(scope="session")
def pair(tmp_path_factory):
    """Folders of a target and of a draft that is the target with noise on its weights."""
    root = tmp_path_factory.mktemp("pair")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {character: i for i, character in enumerate(["<eos>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<eos>",
        chat_template="{% for m in messages %}User: {{ m['content'] }}\n{% endfor %}Bot:",
    )
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(
        LlamaConfig(
            vocab_size=len(vocab),
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=256,
            initializer_range=0.3,
            eos_token_id=0,
            bos_token_id=None,
        ),
        dtype=torch.float32,
    )
    for name, noise in (("target", 0.0), ("draft", 0.02)):
        with torch.no_grad():
            for weight in model.parameters():
                weight += noise * torch.randn_like(weight)
        model.save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
    return str(root / "target"), str(root / "draft")


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command line: (exit code, standard output, standard error)."""

    def command(*arguments: str):
        monkeypatch.setattr(sys, "argv", ["multidraft", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return ended.value.code or 0, captured.out, captured.err

    return command
