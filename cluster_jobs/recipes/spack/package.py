# SPDX-License-Identifier: MIT
"""For Spack: `packages/py_celerity_py` of a repository. `spack install` starts beside the source distribution."""

from pathlib import Path

from spack.package import *
from spack_repo.builtin.build_systems.python import PythonPackage


class PyCelerityPy(PythonPackage):
    """One program for one big device, run on all devices of all nodes: buffers, and a runtime that does the rest."""

    manual_download = True
    url = f"file://{Path.cwd()}/celerity_py-0.1.0.tar.gz"

    license("MIT")

    version("0.1.0")

    variant("cuda", default=False, description="GPUs, by CuPy")

    depends_on("cxx", type="build")
    depends_on("python@3.11:", type=("build", "run"))
    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("py-scikit-build-core@1:", type="build")
    depends_on("py-nanobind@2.9:", type="build")
    depends_on("py-numpy", type="run")
    depends_on("py-mpi4py@4.1:", type="run")  # built with the MPI of the cluster
    depends_on("py-shtab", type="run")
    depends_on("py-cupy", type="run", when="+cuda")

    conflicts("platform=darwin")
    conflicts("platform=windows")

    import_modules = ["celerity_py", "celerity_py.scheduler", "celerity_py.executor"]
