#!/usr/bin/env python3
"""Makes the reference cases beside this file with Hugging Face transformers and torch (CPU, float32).

Usage: make_cases.py OUT_DIR [CASE ...]. Each case is a tiny random model: config.json,
model.safetensors, io.safetensors (flat input_ids, labels, cu_seqlens, logits), grads.safetensors,
expected.json (loss, gradient norm, six AdamW steps). Every document is run alone, so attention never
crosses documents and rotary frequencies are those of its own length.
"""
import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

from linear_bias_model import LinearBiasModel

LENGTHS = (37, 5, 20, 2)
SIZES = dict(vocab_size=96, hidden_size=32, intermediate_size=40, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=128)
# Without the families' padding tokens, which lie beyond the vocabulary.
SMALL = dict(vocab_size=47, hidden_size=24, intermediate_size=20, num_hidden_layers=2,
             num_attention_heads=4, pad_token_id=None)

# config.json of every case: what is written is what transformers reads. Spellings of 4.x and 5.x.
CONFIGS = {
    "llama_tied_linear_rope": dict(
        SIZES, model_type="llama", num_hidden_layers=3, tie_word_embeddings=True,
        rope_scaling={"rope_type": "linear", "factor": 4.0}),
    "llama_biases": dict(
        SIZES, model_type="llama", num_hidden_layers=2, attention_bias=True, mlp_bias=True,
        rms_norm_eps=1e-5),
    "qwen2_tied_window": dict(
        SIZES, model_type="qwen2", num_hidden_layers=4, tie_word_embeddings=True,
        use_sliding_window=True, sliding_window=5, max_window_layers=2),
    # One key head, heads of a size of their own, attention factor from the factor.
    "llama_yarn": dict(
        SMALL, model_type="llama", num_key_value_heads=1, head_dim=16, max_position_embeddings=128,
        rope_theta=10000.0, torch_dtype="float32",
        rope_scaling={"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}),
    "llama_yarn_tuned": dict(
        SMALL, model_type="llama", num_key_value_heads=2, head_dim=16, max_position_embeddings=128,
        rope_parameters={"rope_type": "yarn", "rope_theta": 5000.0, "factor": 8.0,
                         "original_max_position_embeddings": 16, "beta_fast": 3, "beta_slow": 0.25,
                         "mscale": 0.7, "mscale_all_dim": 1.2, "truncate": False}),
    # As Phi-4-mini has it; documents on both sides of the original context, and just at it.
    "phi3_longrope": dict(
        SMALL, model_type="phi3", hidden_size=32, num_attention_heads=2, num_key_value_heads=1,
        max_position_embeddings=96, original_max_position_embeddings=24,
        partial_rotary_factor=0.75, sliding_window=64, tie_word_embeddings=True, rope_theta=10000.0,
        rope_scaling={"type": "longrope", "short_factor": [1, 1.05, 1.2, 1.3, 1.7, 2.1],
                      "long_factor": [1, 1.2, 2.5, 6.0, 11.0, 23.5]}),
    "llama_dynamic": dict(
        SMALL, model_type="llama", num_key_value_heads=4, head_dim=12, max_position_embeddings=32,
        tie_word_embeddings=True, rope_theta=2000.0,
        rope_scaling={"type": "dynamic", "factor": 3.0}),
    "olmo3_yarn": dict(
        SMALL, model_type="olmo3", num_key_value_heads=2, head_dim=12, max_position_embeddings=128,
        attention_bias=True, sliding_window=7, layer_types=["full_attention", "sliding_attention"],
        rope_parameters={
            "full_attention": {"rope_type": "yarn", "rope_theta": 5000.0, "factor": 4.0,
                               "original_max_position_embeddings": 32, "attention_factor": 1.2,
                               "beta_fast": 8.0, "beta_slow": 0.5},
            "sliding_attention": {"rope_type": "default", "rope_theta": 300.0}}),
    # Hidden size and heads that are no multiples of anything.
    "qwen3_windows": dict(
        SMALL, model_type="qwen3", hidden_size=30, num_attention_heads=3, num_key_value_heads=1,
        head_dim=20, max_position_embeddings=128, attention_bias=True, tie_word_embeddings=True,
        use_sliding_window=True, sliding_window=6, rope_theta=1000000.0,
        layer_types=["sliding_attention", "full_attention"]),
    "smollm3_windows": dict(
        SMALL, model_type="smollm3", num_key_value_heads=1, max_position_embeddings=128,
        use_sliding_window=True, sliding_window=6, no_rope_layer_interval=2, attention_bias=True,
        mlp_bias=True, tie_word_embeddings=False),
    "glm_quarter_rope": dict(
        SMALL, model_type="glm", num_key_value_heads=1, head_dim=16, max_position_embeddings=128,
        partial_rotary_factor=0.25, attention_bias=False, tie_word_embeddings=True,
        rms_norm_eps=1e-5),
    "glm4_biases": dict(
        SMALL, model_type="glm4", num_key_value_heads=4, head_dim=8, max_position_embeddings=128,
        rope_parameters={"rope_type": "linear", "factor": 2.5, "rope_theta": 10000.0,
                         "partial_rotary_factor": 1.0}),
    # Stored in bfloat16, without a window.
    "mistral_bfloat16": dict(
        SMALL, model_type="mistral", num_key_value_heads=2, head_dim=10, torch_dtype="bfloat16",
        max_position_embeddings=128, sliding_window=None, tie_word_embeddings=True,
        rms_norm_eps=1e-5),
    "olmo2_one_key_head": dict(
        SMALL, model_type="olmo2", num_key_value_heads=1, max_position_embeddings=128,
        attention_bias=True, tie_word_embeddings=True, rope_theta=500000.0),
    # Six heads: four slopes of one series and two of another.
    "baichuan_linear_bias": dict(
        model_type="baichuan", vocab_size=47, hidden_size=24, intermediate_size=20,
        num_hidden_layers=2, num_attention_heads=6, model_max_length=128, hidden_act="silu",
        rms_norm_eps=1e-6, tie_word_embeddings=False),
}

DOCUMENTS = {
    "llama_yarn": (90, 33, 7),
    "llama_yarn_tuned": (70, 20, 3),
    "phi3_longrope": (80, 24, 25, 9),
    "llama_dynamic": (70, 33, 32, 41, 6),
    "olmo3_yarn": (60, 21),
    "baichuan_linear_bias": (60, 11, 2),
}


def documents(lengths, vocabulary):
    """Random tokens with some untrained labels."""
    generator = torch.Generator().manual_seed(7)
    docs = []
    for length in lengths:
        ids = torch.randint(3, vocabulary, (length,), generator=generator)
        labels = ids.clone()
        labels[: length // 4] = -100
        docs.append((ids, labels))
    return docs


def forget_longer_documents(model):
    """Dynamic scaling keeps the frequencies of the longest sequence so far."""
    for module in model.modules():
        if hasattr(module, "original_inv_freq"):
            module.register_buffer("inv_freq", module.original_inv_freq.clone(), persistent=False)
            module.max_seq_len_cached = module.original_max_seq_len


def logits_of(model, ids):
    if isinstance(model, LinearBiasModel):
        return model(ids)
    forget_longer_documents(model)
    return model(ids[None], use_cache=False).logits[0]


def forward(model, docs):
    """Logits of all documents and the mean loss over the predicted tokens of all."""
    logits, total, count = [], 0.0, 0
    for ids, labels in docs:
        out = logits_of(model, ids)
        logits.append(out)
        target = labels[1:]
        total = total + torch.nn.functional.cross_entropy(
            out[:-1], target, ignore_index=-100, reduction="sum")
        count += int((target != -100).sum())
    return torch.cat(logits), total / count, count


def build(folder, config):
    """The model that config.json describes."""
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    if config["model_type"] == "baichuan":
        return LinearBiasModel(config)
    read = transformers.AutoConfig.from_pretrained(folder)
    return transformers.AutoModelForCausalLM.from_config(
        read, attn_implementation="eager", dtype=torch.float32)


def randomize(model, seed, dtype):
    """Larger weights than the usual initialisation, so that every op matters; biases, too."""
    torch.manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            scale, mean = (0.15, 0.0) if parameter.dim() > 1 else (0.3, 1.0)
            parameter.copy_((torch.randn_like(parameter) * scale + mean).to(dtype))


def adamw_steps(model, docs):
    result = dict(lr=1e-3, betas=[0.9, 0.999], eps=1e-8, weight_decay_on_matrices=0.01,
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
        result["losses"].append(float(step_loss.detach()))
        result["grad_norms"].append(float(norm))
    return result


def make(name, config, lengths, root):
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    model = build(folder, config).float().eval()
    dtype = torch.bfloat16 if config.get("torch_dtype") == "bfloat16" else torch.float32
    randomize(model, len(name), dtype)
    docs = documents(lengths, config["vocab_size"])
    tensors = {k: v.detach().to(dtype) for k, v in model.named_parameters()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    logits, loss, count = forward(model, docs)
    loss.backward()
    grads = {k: v.grad.detach().clone() for k, v in model.named_parameters()}
    save_file(grads, folder / "grads.safetensors")
    save_file({
        "input_ids": torch.cat([d[0] for d in docs]),
        "labels": torch.cat([d[1] for d in docs]),
        "cu_seqlens": torch.tensor([0] + list(lengths)).cumsum(0),
        "logits": logits.detach().contiguous(),
    }, folder / "io.safetensors")
    grad_norm = float(torch.sqrt(sum((g.double() ** 2).sum() for g in grads.values())))
    (folder / "expected.json").write_text(json.dumps({
        "loss": float(loss.detach()), "grad_norm": grad_norm, "loss_tokens": count,
        "adamw": adamw_steps(model, docs), "transformers": transformers.__version__,
        "torch": torch.__version__}, indent=1))
    print(name, float(loss.detach()), grad_norm)


if __name__ == "__main__":
    for case in sys.argv[2:] or CONFIGS:
        make(case, CONFIGS[case], DOCUMENTS.get(case, LENGTHS), pathlib.Path(sys.argv[1]))
