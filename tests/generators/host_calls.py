"""Runs in a process of its own: call the host function of a generated file wrongly and print what
it says.
"""

import importlib.util
import json
import sys

import torch


def load(path):
    spec = importlib.util.spec_from_file_location("generated", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main():
    module = load(sys.argv[1])
    x, w = torch.ones(2, 8), torch.ones(8)
    f = module.layer_norm
    calls = {
        "list": lambda: f([1.0], w, w),
        "dtype": lambda: f(x.int(), w, w),
        "scalar": lambda: f(torch.tensor(1.0), w, w),
        "empty axis": lambda: f(torch.ones(2, 0), w, w),
        "weight": lambda: f(x, torch.ones(7), w),
        "weight rank": lambda: f(x, torch.ones(1, 8), w),
        "eps": lambda: f(x, w, w, eps=0.0),
        "nan": lambda: f(x, w, w, eps=float("nan")),
        "device": lambda: f(x, w.to("meta"), w),
        "long": lambda: f(
            torch.empty(1, 1).expand(1, 70_000), torch.ones(70_000), torch.ones(70_000)
        ),
        "no rows": lambda: f(torch.ones(0, 8), w, w),
    }
    found = {}
    for name, call in calls.items():
        try:
            found[name] = list(call().shape)
        except (TypeError, ValueError) as problem:
            found[name] = f"{type(problem).__name__}: {problem}"
    print(json.dumps(found))


main()
