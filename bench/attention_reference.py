#!/usr/bin/env python3
"""Times of PyTorch's attention kernels at the shapes of cuda_kernels_bench, and whether their
backward gives the same bits every time. Needs torch and a GPU.

Usage: bench/attention_reference.py [LENGTH ...]
"""
import statistics
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

Q_HEADS, KV_HEADS, HEAD_DIM, TOKENS = 28, 4, 128, 8192  # one layer of Qwen2.5-7B


def median_ms(work, runs=7):
    times = []
    for run in range(runs + 2):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        if run >= 2:
            times.append(start.elapsed_time(end))
    return statistics.median(times)


def measure(backend, length):
    documents = max(1, TOKENS // length)

    def operand(heads):
        return torch.randn(documents, heads, length, HEAD_DIM, device="cuda", dtype=torch.bfloat16,
                           requires_grad=True)

    q, k, v = operand(Q_HEADS), operand(KV_HEADS), operand(KV_HEADS)
    with sdpa_kernel(backend):
        def forward():
            return scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)

        output = forward()
        d_output = torch.randn_like(output)

        def backward():
            return torch.autograd.grad(output, (q, k, v), d_output, retain_graph=True)

        forward_ms = median_ms(forward)
        backward_ms = median_ms(backward)
        first = backward()
        same = all(
            torch.equal(a, b) for _ in range(5) for a, b in zip(first, backward()))
    return documents, forward_ms, backward_ms, same


def main():
    lengths = [int(length) for length in sys.argv[1:]] or [1024, 8192, 16384, 131072]
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, "
          f"cuDNN {torch.backends.cudnn.version()}")
    for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
        for length in lengths:
            try:
                documents, forward, backward, same = measure(backend, length)
            except RuntimeError as error:
                print(f"{backend.name:<16} {length:>7}: {error}")
                continue
            print(f"{backend.name:<16} {documents} x {length}: forward {forward:.3f} ms, "
                  f"backward {backward:.3f} ms, "
                  f"{'same bits' if same else 'bits differ'} in 6 runs", flush=True)


if __name__ == "__main__":
    main()
