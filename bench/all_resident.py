#!/usr/bin/env python3
"""Makes a planned schedule keep all weights and optimizer states on the device.

Usage: bench/all_resident.py SCHEDULE.json RESULT.json [SENT RECOMPUTED]

SCHEDULE.json is what `lazytrain plan --out` wrote. To make room, SENT layers whose gate_up stays on
the device send it to the host instead, and the RECOMPUTED next ones compute it again.
"""
import json
import sys


def main():
    if len(sys.argv) not in (3, 5):
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as file:
        schedule = json.load(file)
    sent, recomputed = (int(count) for count in sys.argv[3:] or (0, 0))
    for unit in schedule["units"].values():
        unit.update(weights="resident", states="device", update="device")
    kept = [layer for layer in schedule["layers"].values() if layer.get("gate_up") == "device"]
    for index, layer in enumerate(kept[:sent + recomputed]):
        layer["gate_up"] = "host" if index < sent else "recompute"
    schedule["name"] = "all resident"
    schedule.pop("predicted", None)
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        json.dump(schedule, file, indent=1)


if __name__ == "__main__":
    main()
