// SPDX-License-Identifier: MIT
#pragma once

#include <cstdio>
#include <cstdlib>

/// Ends the test unless `condition` holds.
inline void check(const bool condition, const char* const what) {
	if(condition) return;
	std::fprintf(stderr, "FAILED: %s\n", what);
	std::abort();
}
