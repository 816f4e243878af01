// SPDX-License-Identifier: MIT
#pragma once

#include <thread>

namespace celerity {

/// Between two looks at what another thread is about to do.
inline void relax_cpu() {
#if defined(__x86_64__)
	__builtin_ia32_pause();
#else
	std::this_thread::yield();
#endif
}

} // namespace celerity
