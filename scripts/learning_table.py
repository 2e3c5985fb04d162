#!/usr/bin/env python3
"""The table of scripts/gpu_learning.sh: losses of training runs, compared in pairs.

Usage: learning_table.py RUNS_FILE STEPS
RUNS_FILE has a line a run: name, device, dtype, schedule, judged by, reference, folder (with tabs
between); the folder has metrics.jsonl. Judged by:
  loss       the mean of the last ten losses is within 1% of the reference's
  bits       every loss and gradient norm equals the reference's
  -          nothing: it is a reference
Where one of two runs is shorter, the steps that both have are compared; under half of STEPS fails.
Every run of 100 steps or more must also have learned: its last losses are at least 10% below the
first. Exit status 1 if anything failed.
"""
import json
import math
import pathlib
import sys

LAST = 10
LIMIT = 0.01
LEARNED = 0.9


def read_steps(folder):
    path = pathlib.Path(folder) / "metrics.jsonl"
    if not path.exists():
        return []
    steps = []
    for line in path.read_text().splitlines():
        try:
            steps.append(json.loads(line))
        except json.JSONDecodeError:  # the last line of a run that was ended
            break
    return steps


def number(value):
    return float(value) if isinstance(value, (int, float)) else math.nan


def last_loss(steps):
    losses = [number(step["loss"]) for step in steps[-LAST:]]
    return sum(losses) / len(losses)


class Run:
    def __init__(self, line):
        (self.name, self.device, self.dtype, self.schedule, self.rule, self.reference,
         folder) = line.split("\t")
        self.steps = read_steps(folder)

    def judge(self, reference, wanted):
        """The difference as text and what is wrong, if anything."""
        if len(self.steps) < max(1, wanted // 2):
            return "", f"{len(self.steps)} of {wanted} steps; the log says why"
        if not self.steps[0]["tokens"] > 0:
            return "", "no tokens"
        if any(step["skipped"] for step in self.steps):
            return "", "steps were skipped"
        final, first = last_loss(self.steps), number(self.steps[0]["loss"])
        if math.isnan(final) or len(self.steps) >= 100 and not final <= LEARNED * first:
            return "", f"learned nothing: {first:.4f} to {final:.4f}"
        if self.rule == "-":
            return "", ""
        common = min(len(self.steps), len(reference.steps))
        if common < max(1, wanted // 2):
            return "", f"its reference has {len(reference.steps)} of {wanted} steps"
        pairs = list(zip(self.steps, reference.steps))
        if any(a["tokens"] != b["tokens"] for a, b in pairs):
            return "", "other data than its reference"
        if self.rule == "bits":
            same = all(a[key] == b[key] for a, b in pairs for key in ("loss", "grad_norm"))
            return ("same bits", "") if same else ("", f"other bits than {reference.name}")
        ours, theirs = last_loss(self.steps[:common]), last_loss(reference.steps[:common])
        difference = ours / theirs - 1
        text = f"{100 * difference:+.3f}%" + ("" if common == wanted else f" at {common}")
        wrong = "" if abs(difference) <= LIMIT else f"{ours:.4f} against {theirs:.4f}"
        return text, wrong


def main():
    if len(sys.argv) != 3 or sys.argv[1].startswith("-"):
        print(__doc__)
        return 0 if sys.argv[1:2] in (["--help"], ["-h"]) else 2
    runs = [Run(line) for line in pathlib.Path(sys.argv[1]).read_text().splitlines()]
    wanted = int(sys.argv[2])
    by_name = {run.name: run for run in runs}
    print(f"{'run':16} {'device':8} {'dtype':9} {'schedule':13} {'memory':>9} {'steps':>5} "
          f"{'first':>7} {'final':>7} {'difference':>15} {'seconds':>8}")
    failures = []
    for run in runs:
        difference, wrong = run.judge(by_name.get(run.reference), wanted)
        if wrong:
            failures.append(f"{run.name}: {wrong}")
        numbers = f"{'':9} {0:5}"
        if run.steps:
            memory = f"{run.steps[-1]['device_bytes'] / 1e6:.1f} MB"
            numbers = (f"{memory:>9} {len(run.steps):5} {number(run.steps[0]['loss']):7.4f} "
                       f"{last_loss(run.steps):7.4f} {difference:>15} "
                       f"{sum(step['seconds'] for step in run.steps):8.1f}")
        print(f"{run.name:16} {run.device:8} {run.dtype:9} {run.schedule:13} {numbers}"
              f"{'  FAILED' if wrong else ''}")
    print(f"final: mean of the last {LAST} losses; difference: of it from the reference's, at most "
          f"{100 * LIMIT:g}%")
    for failure in failures:
        print("FAILED " + failure)
    print(f"learning: {'FAILED' if failures or not runs else 'ok'}")
    return 1 if failures or not runs else 0


if __name__ == "__main__":
    sys.exit(main())
