// SPDX-License-Identifier: MIT
// Boxes and regions as programs see them: with the number of dimensions that planning leaves out.
#pragma once

#include "grid.hpp"

namespace celerity {

/// `celerity_py.Box`
struct user_box {
	box b;
	int dims = 0;
	friend bool operator==(const user_box&, const user_box&) = default;
};

/// `celerity_py.Region`
struct user_region {
	static constexpr int any_dims = -1; ///< of `Region()`, which fits everywhere

	region r;
	int dims = any_dims;
	friend bool operator==(const user_region& a, const user_region& b) { return a.r == b.r && (a.r.empty() || a.dims == b.dims); }
};

} // namespace celerity
