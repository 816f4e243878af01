# SPDX-License-Identifier: MIT
"""Files of buffers, written behind the program's back and read where they are needed; formats by the name of the file.

`.zarr`, or no suffix, is a folder of Zarr, `.h5` and `.hdf5` a file of HDF5, and `.npy` one array of NumPy. The extra
`io` brings zarr and h5py; `.npy` needs no library.
"""

from celerity_py.io.loading import Loaded, load
from celerity_py.io.saving import save

__all__ = ["Loaded", "load", "save"]
