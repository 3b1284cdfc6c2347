"""Adds up an array over all ranks.   rz_run -n 3 -- python3 numpy_all_reduce.py"""

import numpy as np
import ringzero as rz

rz.init()
total = rz.all_reduce(np.full(4, rz.rank() + 1, np.float32))
print(f"rank {rz.rank()} of {rz.size()}: {total}")
