#!/usr/bin/env python3
"""Makes the reference cases beside this file with Hugging Face transformers and torch (CPU, float32).

Usage: make_cases.py OUT_DIR. Each case is a tiny random model: config.json, model.safetensors,
io.safetensors (flat input_ids, labels, cu_seqlens, logits), grads.safetensors, expected.json (loss,
gradient norm, six AdamW steps). Every document is run alone, so attention never crosses documents.
"""
import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

SMALL = dict(vocab_size=96, hidden_size=32, intermediate_size=40, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=128)

CASES = {
    "llama_tied_linear_rope": LlamaForCausalLM(LlamaConfig(
        **SMALL, num_hidden_layers=3, tie_word_embeddings=True,
        rope_scaling={"rope_type": "linear", "factor": 4.0})),
    "llama_biases": LlamaForCausalLM(LlamaConfig(
        **SMALL, num_hidden_layers=2, attention_bias=True, mlp_bias=True, rms_norm_eps=1e-5)),
    "qwen2_tied_window": Qwen2ForCausalLM(Qwen2Config(
        **SMALL, num_hidden_layers=4, tie_word_embeddings=True, use_sliding_window=True,
        sliding_window=5, max_window_layers=2)),
}


def documents(generator):
    """Four documents with some untrained labels; the last one is short."""
    docs = []
    for length in (37, 5, 20, 2):
        ids = torch.randint(3, 96, (length,), generator=generator)
        labels = ids.clone()
        labels[: length // 4] = -100
        docs.append((ids, labels))
    return docs


def forward(model, docs):
    """Logits of all documents and the mean loss over the predicted tokens of all."""
    logits, total, count = [], 0.0, 0
    for ids, labels in docs:
        out = model(ids[None]).logits[0]
        logits.append(out)
        target = labels[1:]
        total = total + torch.nn.functional.cross_entropy(
            out[:-1], target, ignore_index=-100, reduction="sum")
        count += int((target != -100).sum())
    return torch.cat(logits), total / count, count


def make(name, model, root):
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    model = model.float().eval()
    model.config._attn_implementation = "eager"
    torch.manual_seed(len(name))
    with torch.no_grad():
        for parameter in model.parameters():
            # Larger than the usual initialisation, so that every op matters; biases, too.
            scale = 0.15 if parameter.dim() > 1 else 0.3
            parameter.copy_(torch.randn_like(parameter) * scale + (1.0 if parameter.dim() == 1 else 0.0))
    docs = documents(torch.Generator().manual_seed(7))
    model.config.save_pretrained(folder)
    tensors = {k: v.detach().clone() for k, v in model.named_parameters()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    logits, loss, count = forward(model, docs)
    loss.backward()
    grads = {k: v.grad.detach().clone() for k, v in model.named_parameters()}
    save_file(grads, folder / "grads.safetensors")
    lengths = [len(ids) for ids, _ in docs]
    save_file({
        "input_ids": torch.cat([d[0] for d in docs]),
        "labels": torch.cat([d[1] for d in docs]),
        "cu_seqlens": torch.tensor([0] + lengths).cumsum(0),
        "logits": logits.detach().contiguous(),
    }, folder / "io.safetensors")
    grad_norm = float(torch.sqrt(sum((g.double() ** 2).sum() for g in grads.values())))
    adamw = dict(lr=1e-3, betas=[0.9, 0.999], eps=1e-8, weight_decay_on_matrices=0.01,
                 max_grad_norm=1.0, losses=[], grad_norms=[])
    groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.01},
              {"params": [p for p in model.parameters() if p.dim() == 1], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.999), eps=1e-8)
    for _ in range(6):
        optimizer.zero_grad()
        _, step_loss, _ = forward(model, docs)
        step_loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        adamw["losses"].append(float(step_loss.detach()))
        adamw["grad_norms"].append(float(norm))
    (folder / "expected.json").write_text(json.dumps({
        "loss": float(loss.detach()), "grad_norm": grad_norm, "loss_tokens": count, "adamw": adamw,
        "transformers": transformers.__version__, "torch": torch.__version__}, indent=1))
    print(name, float(loss.detach()), grad_norm)


if __name__ == "__main__":
    for case, built in CASES.items():
        make(case, built, pathlib.Path(sys.argv[1]))
