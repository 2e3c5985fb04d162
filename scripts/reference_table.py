#!/usr/bin/env python3
"""The table of scripts/gpu_reference.sh: errors of `lazytrain verify` beside those of transformers.

Usage: reference_table.py REFERENCE_JSON VERIFY_FOLDER
REFERENCE_JSON is from tests/golden/bf16_reference.py; VERIFY_FOLDER has CASE-DTYPE.json from
`lazytrain verify --json`. Exit status 1 if anything is judged as failed.

Errors are worst relative distances from stored float32 values. Passes:
  float32    every measure of every case within 1e-3
  bfloat16   at most 1.5 times the error of transformers in bfloat16: logits and gradients, which are
             worst of many numbers, in every case; loss, adamw_losses and grad_norms, which are one
             number or six, as root mean square over all cases. One number's error is near zero by
             luck now and then, and a ratio to it says nothing: transformers' two kinds of
             attention exceed 1.5 of one another as well (last columns)
  script     transformers in float32 gives the stored values within 1e-3, or its bfloat16 counts for
             nothing
"""
import json
import math
import pathlib
import sys

FLOAT32_LIMIT = 1e-3
RATIO_LIMIT = 1.5
PER_CASE = ("logits", "gradients")
OVER_CASES = ("loss", "adamw_losses", "grad_norms")
MEASURES = PER_CASE + OVER_CASES


def number(value):
    """JSON has no NaN; what is not a number is worse than anything."""
    return float(value) if isinstance(value, (int, float)) else math.nan


def ratio(ours, theirs):
    return ours / max(theirs, 1e-30)


def within(value, limit):
    return value <= limit  # false for NaN


def root_mean_square(values):
    return math.sqrt(sum(v * v for v in values) / len(values))


def read_case(name, reference, folder):
    """Errors by column and measure; an Exception says what is missing."""
    if "failed" in reference:
        raise ValueError("transformers: " + reference["failed"])
    errors = {mode: {m: number(reference[mode][m]["error"]) for m in MEASURES}
              for mode in ("float32", "bfloat16", "eager")}
    for dtype in ("float32", "bfloat16"):
        path = folder / f"{name}-{dtype}.json"
        if not path.exists():
            raise ValueError(f"{path} is missing; the log beside it says why")
        measures = json.loads(path.read_text())["measures"]
        errors["our " + dtype] = {m: number(measures[m]["error"]) for m in MEASURES}
    return errors


def main():
    if len(sys.argv) != 3 or sys.argv[1].startswith("-"):
        print(__doc__)
        return 0 if sys.argv[1:2] in (["--help"], ["-h"]) else 2
    report = json.loads(pathlib.Path(sys.argv[1]).read_text())
    folder = pathlib.Path(sys.argv[2])
    print(f"transformers {report['transformers']}, torch {report['torch']}, {report['device']}")
    print(f"{'case':12} {'measure':12} {'float32':>9} {'bfloat16':>9} {'transf.':>9} {'ratio':>6}"
          f"  {'':6} {'t.float32':>9} {'t.eager':>9} {'ratio':>6}")
    failures, cases = [], {}
    for name, reference in report["cases"].items():
        try:
            errors = cases[name] = read_case(name, reference, folder)
        except (ValueError, KeyError, TypeError) as error:
            failures.append(f"{name}: {error}")
            print(f"{name:12} FAILED: {error}")
            continue
        for m in MEASURES:
            ours, theirs = errors["our bfloat16"][m], errors["bfloat16"][m]
            wrong = []
            if not within(errors["our float32"][m], FLOAT32_LIMIT):
                wrong.append(f"float32 {errors['our float32'][m]:.1e}")
            if not within(errors["float32"][m], FLOAT32_LIMIT):
                wrong.append(f"transformers in float32 {errors['float32'][m]:.1e}")
            above = not within(ratio(ours, theirs), RATIO_LIMIT)
            if above and (m in PER_CASE or math.isnan(ours)):
                wrong.append(f"bfloat16 {ours:.1e} against {theirs:.1e}")
            verdict = "FAILED" if wrong else "above" if above else "ok"
            failures += [f"{name}: {m}: {text}" for text in wrong]
            print(f"{name:12} {m:12} {errors['our float32'][m]:9.1e} {ours:9.2e} {theirs:9.2e} "
                  f"{ratio(ours, theirs):6.2f}  {verdict:6} {errors['float32'][m]:9.1e} "
                  f"{errors['eager'][m]:9.2e} {ratio(errors['eager'][m], theirs):6.2f}")
    if not cases:
        failures.append("no case was measured")
    else:
        print("root mean square over the cases; how many cases have a ratio above "
              f"{RATIO_LIMIT}, and with eager attention")
    for m in MEASURES if cases else ():
        ours, theirs, eager = (root_mean_square([c[column][m] for c in cases.values()])
                               for column in ("our bfloat16", "bfloat16", "eager"))
        above, other = (sum(not within(ratio(c[column][m], c["bfloat16"][m]), RATIO_LIMIT)
                            for c in cases.values()) for column in ("our bfloat16", "eager"))
        good = within(ratio(ours, theirs), RATIO_LIMIT)
        if not good:
            failures.append(f"{m} over all cases: bfloat16 {ours:.1e} against {theirs:.1e}")
        print(f"{'all':12} {m:12} {'':9} {ours:9.2e} {theirs:9.2e} {ratio(ours, theirs):6.2f}  "
              f"{'ok' if good else 'FAILED':6} {'':9} {eager:9.2e} {ratio(eager, theirs):6.2f}"
              f"  {above} and {other} of {len(cases)}")
    for failure in failures:
        print("FAILED " + failure)
    print(f"bfloat16 against transformers: {'FAILED' if failures else 'ok'}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
