"""Writes the .bin files of this folder with torch.save, and their twins with safetensors."""
import collections
import os
import pathlib

import torch
from safetensors.torch import save_file
from torch.serialization import set_crc32_options

HERE = pathlib.Path(__file__).parent


def save(name, state, **options):
    (HERE / name).mkdir(exist_ok=True)
    torch.save(state, HERE / name / "pytorch_model.bin", **options)


def save_with_twin(name, state, **options):
    save(name, state, **options)
    (HERE / f"{name}-expected").mkdir(exist_ok=True)
    save_file({key: value.detach().clone().contiguous() for key, value in state.items()},
              HERE / f"{name}-expected" / "model.safetensors")


class Command:
    def __reduce__(self):
        return os.system, ("echo this must never run",)


def main():
    torch.manual_seed(0)
    base = {
        "f32": torch.randn(3, 5), "f16": torch.randn(4, 2).half(), "bf16": torch.randn(7).bfloat16(),
        "f64": torch.randn(2).double(), "i64": torch.arange(5), "i32": torch.arange(5).int(),
        "i16": torch.arange(3).short(), "i8": torch.arange(3).to(torch.int8), "u8": torch.arange(3).byte(),
        "bool": torch.tensor([True, False]), "scalar": torch.tensor(3.5), "empty": torch.zeros(0, 4),
    }
    for protocol in (2, 4, 5):
        save_with_twin(f"proto{protocol}", base, pickle_protocol=protocol)
    save_with_twin("fp8", {"e4m3": torch.randn(4, 4).to(torch.float8_e4m3fn),
                           "e5m2": torch.randn(4, 4).to(torch.float8_e5m2),
                           "e8m0": torch.tensor([1.0, 2.0, 4.0]).to(torch.float8_e8m0fnu)})
    save_with_twin("params", {key: torch.nn.Parameter(value) for key, value in base.items()
                              if value.is_floating_point()})
    save_with_twin("module", torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4)).state_dict())
    shared = torch.randn(6, 4)
    save_with_twin("tied", collections.OrderedDict(a=shared, b=shared, row=shared[2:4], last=shared[5]))
    set_crc32_options(False)
    save_with_twin("nocrc", base)
    set_crc32_options(True)

    save("bad-legacy", base, _use_new_zipfile_serialization=False)
    save("bad-wrapped", {"state_dict": base, "epoch": 3})
    save("bad-transposed", {"good": shared, "transposed": shared.t(), "column": shared[:, 1]})
    save("bad-sparse", {"s": torch.eye(3).to_sparse()})
    save("bad-system", {"x": Command()})
    parameter = torch.nn.Parameter(shared.clone())
    parameter.note = 3
    save("bad-pattr", {"x": parameter})


if __name__ == "__main__":
    main()
