"""A rank with ringzero and PyTorch in one process: torch_program.py LIBRARY ORDER, where ORDER is
ringzero-first, torch-first, or between: ringzero is loaded, then PyTorch, then ringzero used."""
import ctypes
import os
import sys

library_path, order = sys.argv[1:]


def load_ringzero():
    library = ctypes.CDLL(library_path)
    library.rz_last_error.restype = ctypes.c_char_p
    return library


def use_ringzero(library):
    def check(result):
        if result != 0:
            print(library.rz_last_error().decode(), file=sys.stderr)
            os._exit(1)

    job, comm = ctypes.c_void_p(), ctypes.c_void_p()
    check(library.rz_init(None, ctypes.byref(job)))
    check(library.rz_comm_create(job, None, ctypes.byref(comm)))
    values = (ctypes.c_float * 4)(1, 2, 3, 4)
    check(library.rz_all_reduce(values, values, ctypes.c_size_t(4), 0, 0, comm, None))
    check(library.rz_comm_destroy(comm))
    check(library.rz_finalize(job))
    return sum(values)


def use_torch():
    import torch

    layer = torch.nn.Linear(4, 2)
    layer(torch.ones(3, 4)).sum().backward()
    traced = torch.jit.trace(layer, torch.ones(3, 4))
    return float(torch.ones(4).sum()) + 0 * float(traced(torch.ones(1, 4)).sum())


if order == "ringzero-first":
    ringzero_sum = use_ringzero(load_ringzero())
    torch_sum = use_torch()
elif order == "torch-first":
    torch_sum = use_torch()
    ringzero_sum = use_ringzero(load_ringzero())
else:
    loaded = load_ringzero()
    torch_sum = use_torch()
    ringzero_sum = use_ringzero(loaded)
print("ringzero", ringzero_sum, "torch", torch_sum)
