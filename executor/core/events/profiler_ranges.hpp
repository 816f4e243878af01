// SPDX-License-Identifier: MIT
// Ranges that a profiler shows, by functions of NVTX.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>

#include "scheduler/core/base/ids.hpp"

namespace celerity {

/// Tells a profiler what threads do, and knows the names of recent submissions for that. Any thread.
class profiler_ranges {
  public:
	using push_function = int (*)(const char*);
	using pop_function = int (*)();

	/// nvtxRangePushA and nvtxRangePop, which must stay loaded.
	profiler_ranges(const push_function push, const pop_function pop) : m_push(push), m_pop(pop) {}
	profiler_ranges(const profiler_ranges&) = delete;
	profiler_ranges& operator=(const profiler_ranges&) = delete;

	/// The calling thread begins a range, or ends its innermost one.
	void push(const std::string& text) const { m_push(text.c_str()); }
	void pop() const { m_pop(); }

	/// The latest 65536 names are kept.
	void note(const submission_id id, std::string name) {
		const std::lock_guard lock(m_mutex);
		m_names[id.value % num_names] = {id, std::move(name)};
	}
	/// Empty if it is not known, or no longer.
	std::string name_of(const submission_id id) const {
		const std::lock_guard lock(m_mutex);
		const auto& found = m_names[id.value % num_names];
		return found.id == id ? found.name : std::string();
	}

  private:
	static constexpr std::size_t num_names = 1 << 16;
	struct named {
		submission_id id;
		std::string name;
	};

	const push_function m_push;
	const pop_function m_pop;
	mutable std::mutex m_mutex;
	const std::unique_ptr<named[]> m_names = std::make_unique<named[]>(num_names);
};

/// A range of the calling thread, as long as it lives. Nothing without a profiler.
class profiler_range {
  public:
	template <typename F>
	profiler_range(const profiler_ranges* const ranges, F&& text) : m_ranges(ranges) {
		if(m_ranges != nullptr) m_ranges->push(text(*m_ranges));
	}
	~profiler_range() {
		if(m_ranges != nullptr) m_ranges->pop();
	}
	profiler_range(const profiler_range&) = delete;
	profiler_range& operator=(const profiler_range&) = delete;

  private:
	const profiler_ranges* m_ranges;
};

} // namespace celerity
