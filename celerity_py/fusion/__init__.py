# SPDX-License-Identifier: MIT
"""The maker of fused kernels: from a function on arrays to one text, without a device.

A call with symbolic arguments records what the function does (`calls`). The record is a list of statements, which
assign expressions to memory (`trace`, `nodes`). They are grouped into passes (`planning`). Each pass becomes
instructions for one item (`lowering`), and these become text: C++ (`emission`, on the tiles of
`fused_tiles.cuh`), or Python for numba (`cpu_emission`, on that of `celerity_py.cpu.operations`).

    structures   equal texts, and how many a function may give
    kernels      function + chunk -> FusedKernel
    cpu_kernels  function + chunk -> FusedCpuKernel
      emission     passes -> C++: the interior and the other items, and the tiles of all threads
        row_emission passes whose folds combine the elements of rows
        item_emission what the items of a tile do
      cpu_emission passes -> Python for numba
        interiors    where conditions on coordinates have one truth
        cpu_folds    the folds of a pass as Python
        ordering     in which order an item carries out instructions, loads and stores
        launches     what a launch gives, and how it is made
        stores       which elements statements store, and how well they agree with NumPy's
        tiling       the items of a thread, and what they load together
        lowering     expressions of a pass -> instructions, equal ones once
      planning     statements -> passes and scratch memory, by hazards in memory
        walks        what an item loads, shared by planning and lowering
      calls        the real chunk, symbolic views and scalars
        functions    NumPy's functions, and chunk.xp
        type_questions whether a function asks for more than the values of numbers
        random_arrays celerity.random
        reducers     the partial results of reductions
        tables       arrays of NumPy among the arguments
        arrays       operators, references, assignments
          array_folds  sums and extrema, of few elements or by a fold
          folds        statements that combine all elements of a value
          storages     what arrays refer to
          operations   NumPy's dtypes
          scalars      plain numbers as parameters
        trace        statements and reads in their order
          nodes, memories, coordinates, mistakes
"""
