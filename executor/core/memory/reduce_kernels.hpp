// SPDX-License-Identifier: MIT
#pragma once

#include <cstddef>

#include "scheduler/core/vocabulary/task.hpp"

namespace celerity {

std::size_t size_of(scalar_type type);

/// Whether native code knows the operation on the type. Bitwise operations are not defined on floating-point and complex numbers.
bool is_defined(reduction_op op, scalar_type type);

/// Whether all values are the result of `min` or `max` of no elements; false for other operations.
bool is_extremum_of_nothing(reduction_op op, scalar_type type, const void* values, std::size_t num_elements);

/// Of `count` arrays of `num_elements`, one behind the other: destination[i] := (((first[i] op second[i]) op third[i]) ...), strictly in this order, in the
/// type itself; `count` >= 1. As in NumPy, integers wrap, NaN wins in min and max, complex numbers compare lexicographically, logical operations give 0 or 1,
/// and on booleans sum is "or" and prod is "and". Minima and maxima of real numbers take -0 for smaller than 0. GPUs give the same bits, apart from those of
/// NaN in sums and products. `destination` may be any of the sources; neither needs to be aligned. Throws std::invalid_argument if the operation is not defined.
void reduce_partials(reduction_op op, scalar_type type, const void* source, std::size_t count, std::size_t num_elements, void* destination);

} // namespace celerity
