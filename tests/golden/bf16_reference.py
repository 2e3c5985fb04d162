#!/usr/bin/env python3
"""What bfloat16 costs by itself: trains reference cases with Hugging Face transformers in float32 and
bfloat16 and measures them against the stored float32 values as `lazytrain verify` does.

Modes:
  float32    checks this script: it must give the stored values again
  bfloat16   what `lazytrain verify --dtype bfloat16` is compared with: weights and values in
             bfloat16, AdamW on an exact float32 copy that is rounded into the weights after every
             step, as Megatron's and DeepSpeed's bfloat16 training does it and as this engine does.
             Gradients of a document come out of autograd in bfloat16; documents are summed in float32
  eager      for information: bfloat16 with transformers' other attention, which rounds the scores,
             too: how far two right computations in bfloat16 lie apart
  autocast   for information: float32 weights under torch.autocast, whose residual stream, norms and
             gradients stay in float32; the engine stores all of them in bfloat16

Every document runs alone, so attention never crosses documents. The weights of a case are float32 and
rounded once, to nearest.
"""
import argparse
import json
import math
import os
import pathlib
import sys
import time

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from safetensors.torch import load_file

from make_cases import forget_longer_documents

MODES = ("float32", "bfloat16", "eager", "autocast")
SMALL_GRADIENT = 1e-3  # of the whole gradient's norm, as in src/train/verify.cc


class Measure:
    """The worst error and where it was; NaN is worse than anything."""

    def __init__(self):
        self.error, self.where = 0.0, ""

    def add(self, error, where):
        if math.isnan(self.error) or error <= self.error:
            return
        self.error, self.where = error, where


def relative(value, reference):
    return abs(value - reference) / max(abs(reference), 1e-30)


class Case:
    def __init__(self, folder, device):
        self.folder = folder
        io = load_file(folder / "io.safetensors")
        self.logits = io["logits"].double()
        self.gradients = {k: v.double() for k, v in load_file(folder / "grads.safetensors").items()}
        expected = json.loads((folder / "expected.json").read_text())
        self.loss, self.adamw = expected["loss"], expected["adamw"]
        borders = io["cu_seqlens"].tolist()
        self.documents = [(io["input_ids"][a:b].to(device), io["labels"][a:b].to(device))
                          for a, b in zip(borders, borders[1:])]
        self.count = sum(int((labels[1:] >= 0).sum()) for _, labels in self.documents)


def load(folder, dtype, attention, device):
    """With the rotary frequencies' float32 kept: only weights have the given dtype."""
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, attn_implementation=attention)
    wrong = [n for n, p in model.named_parameters() if p.dtype != dtype]
    wrong += [n for n, b in model.named_buffers() if "inv_freq" in n and b.dtype != torch.float32]
    if wrong:
        raise RuntimeError(f"{folder}: not of the expected dtype: {', '.join(wrong)}")
    return model.to(device).eval()


class Trained:
    """A model, the float32 parameters that AdamW changes, and one step's gradients."""

    def __init__(self, case, mode, device):
        self.case, self.autocast, self.device = case, mode == "autocast", device
        attention = "eager" if mode == "eager" else "sdpa"  # sdpa is transformers' default
        exact = load(case.folder, torch.float32, attention, device)
        self.model = exact
        if mode in ("bfloat16", "eager"):
            self.model = load(case.folder, torch.bfloat16, attention, device)
        self.masters = {n: torch.nn.Parameter(p.detach().clone())
                        for n, p in exact.named_parameters()}
        self.working = dict(self.model.named_parameters())
        if set(self.working) != set(self.masters) or set(self.masters) != set(case.gradients):
            raise RuntimeError(f"{case.folder}: grads.safetensors has other names than the model")
        rule = case.adamw
        matrices = [p for p in self.masters.values() if p.dim() > 1]
        vectors = [p for p in self.masters.values() if p.dim() == 1]
        self.optimizer = torch.optim.AdamW(
            [{"params": matrices, "weight_decay": rule["weight_decay_on_matrices"]},
             {"params": vectors, "weight_decay": 0.0}],
            lr=rule["lr"], betas=tuple(rule["betas"]), eps=rule["eps"])
        self.round()

    def round(self):
        with torch.no_grad():
            for name, parameter in self.working.items():
                parameter.copy_(self.masters[name])

    def forward(self, ids):
        forget_longer_documents(self.model)
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.autocast):
            return self.model(ids[None], use_cache=False).logits[0].float()

    def gradients(self):
        """Leaves them in the masters; returns logits and loss of the weights before the step."""
        self.optimizer.zero_grad(set_to_none=True)
        for master in self.masters.values():
            master.grad = torch.zeros_like(master)
        logits, total = [], 0.0
        for ids, labels in self.case.documents:
            out = self.forward(ids)
            loss = torch.nn.functional.cross_entropy(
                out[:-1], labels[1:], ignore_index=-100, reduction="sum") / self.case.count
            loss.backward()
            for name, parameter in self.working.items():
                if parameter.grad is not None:
                    self.masters[name].grad += parameter.grad.float()
                    parameter.grad = None
            logits.append(out.detach().double().cpu())
            total += loss.item()
        return torch.cat(logits), total

    def update(self):
        """Returns the gradient's norm before clipping."""
        norm = torch.nn.utils.clip_grad_norm_(self.masters.values(),
                                              self.case.adamw["max_grad_norm"])
        self.optimizer.step()
        self.round()
        return norm.item()


def measure(case, mode, device):
    trained = Trained(case, mode, device)
    names = ("logits", "loss", "gradients", "adamw_losses", "grad_norms")
    measures = {name: Measure() for name in names}
    for s, stored_loss in enumerate(case.adamw["losses"]):
        where = f"step {s + 1}"
        logits, loss = trained.gradients()
        if s == 0:
            difference = (logits - case.logits).abs().max(dim=1).values / case.logits.abs().max()
            for token, error in enumerate(difference.tolist()):
                measures["logits"].add(error, f"token {token}")
            measures["loss"].add(relative(loss, case.loss), where)
            least = SMALL_GRADIENT * case.adamw["grad_norms"][0]
            for name, master in trained.masters.items():
                reference = case.gradients[name]
                error = (master.grad.double().cpu() - reference).norm().item()
                measures["gradients"].add(error / max(reference.norm().item(), least), name)
        measures["adamw_losses"].add(relative(loss, stored_loss), where)
        norm = trained.update()
        measures["grad_norms"].add(relative(norm, case.adamw["grad_norms"][s]), where)
    return {name: {"error": m.error, "where": m.where} for name, m in measures.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+", type=pathlib.Path, help="folders of reference cases")
    parser.add_argument("--device", default="auto", help="cpu, cuda, or auto: the GPU if any")
    parser.add_argument("--modes", default=",".join(MODES), help="some of " + ", ".join(MODES))
    parser.add_argument("--json", type=pathlib.Path, help="write the report to this file, too")
    options = parser.parse_args()
    name = options.device
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(name)
    torch.backends.cuda.matmul.allow_tf32 = False
    transformers.utils.logging.disable_progress_bar()
    modes = options.modes.split(",")
    if set(modes) - set(MODES):
        parser.error("--modes: only " + ", ".join(MODES))

    report = {"device": torch.cuda.get_device_name() if device.type == "cuda" else name,
              "torch": torch.__version__, "transformers": transformers.__version__,
              "cases": {}}
    failed = False
    for folder in options.cases:
        begin = time.time()
        result = report["cases"][folder.name] = {}
        try:
            case = Case(folder, device)
            for mode in modes:
                result[mode] = measure(case, mode, device)
                errors = "  ".join(f"{k} {v['error']:.2e}" for k, v in result[mode].items())
                print(f"{folder.name:12} {mode:9} {errors}", flush=True)
        except Exception as error:  # one case must not take the others with it
            failed = True
            result["failed"] = f"{type(error).__name__}: {error}".splitlines()[0]
            print(f"error: {folder}: {result['failed']}", file=sys.stderr)
        result["seconds"] = time.time() - begin
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
