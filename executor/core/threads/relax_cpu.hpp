// SPDX-License-Identifier: MIT
#pragma once

#include <thread>

namespace celerity {

/// A short pause between two looks at a value that another thread is about to change.
inline void relax_cpu() {
#if defined(__x86_64__)
	__builtin_ia32_pause();
#else
	std::this_thread::yield();
#endif
}

/// Between many such looks. Now and then other threads get the core, in case there are fewer cores than threads.
class spin_pause {
  public:
	void operator()() {
		if(++m_looks % looks_between_yields == 0) {
			std::this_thread::yield();
		} else {
			relax_cpu();
		}
	}

  private:
	static constexpr unsigned looks_between_yields = 64;
	unsigned m_looks = 0;
};

} // namespace celerity
