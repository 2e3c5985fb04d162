"""A Baichuan-13B-like model in plain torch, written from the architecture's description: Llama's
layers with a fused W_pack, linear biases (Press et al. 2022) instead of rotary embeddings, an output
projection whose rows have length 1. transformers has no such model."""
import math

import torch
from torch import nn


def slopes(heads):
    """The published rule for any number of heads: powers of two have a geometric series; other
    numbers take that of the power below and every second slope of the power above."""
    below = 2 ** int(math.floor(math.log2(heads)))
    series = [2.0 ** (-8.0 * (k + 1) / below) for k in range(below)]
    above = [2.0 ** (-8.0 * (k + 1) / (2 * below)) for k in range(2 * below)]
    return torch.tensor(series + above[::2][: heads - below])


class Norm(nn.Module):
    def __init__(self, size, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x):
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)


class Attention(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.W_pack = nn.Linear(hidden, 3 * hidden, bias=False)
        self.o_proj = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x):
        tokens, hidden = x.shape
        q, k, v = (part.view(tokens, self.heads, -1).transpose(0, 1)
                   for part in self.W_pack(x).split(hidden, dim=-1))
        scores = q @ k.transpose(1, 2) / math.sqrt(hidden // self.heads)
        # The bias counts key positions from the start of the document.
        scores = scores + slopes(self.heads)[:, None, None] * torch.arange(tokens)
        future = torch.full((tokens, tokens), float("-inf")).triu(1)
        y = torch.softmax(scores + future, dim=-1) @ v
        return self.o_proj(y.transpose(0, 1).reshape(tokens, hidden))


class Mlp(nn.Module):
    def __init__(self, hidden, intermediate):
        super().__init__()
        self.gate_proj = nn.Linear(hidden, intermediate, bias=False)
        self.up_proj = nn.Linear(hidden, intermediate, bias=False)
        self.down_proj = nn.Linear(intermediate, hidden, bias=False)

    def forward(self, x):
        return self.down_proj(nn.functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden, eps = config["hidden_size"], config["rms_norm_eps"]
        self.self_attn = Attention(hidden, config["num_attention_heads"])
        self.mlp = Mlp(hidden, config["intermediate_size"])
        self.input_layernorm = Norm(hidden, eps)
        self.post_attention_layernorm = Norm(hidden, eps)

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden = config["hidden_size"]
        self.embed_tokens = nn.Embedding(config["vocab_size"], hidden)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config["num_hidden_layers"]))
        self.norm = Norm(hidden, config["rms_norm_eps"])


class LinearBiasModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.model = Decoder(config)
        self.lm_head = nn.Linear(config["hidden_size"], config["vocab_size"], bias=False)

    def forward(self, ids):
        """Token ids of one document to logits."""
        x = self.model.embed_tokens(ids)
        for layer in self.model.layers:
            x = layer(x)
        return self.model.norm(x) @ nn.functional.normalize(self.lm_head.weight).T
