// SPDX-License-Identifier: MIT
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <unordered_map>
#include <utility>
#include <vector>

namespace celerity::native {

/// Numbers the lines of the program that submit something, by thread, from 1: tasks outlive the Python objects that know their line. With the GIL.
class site_table {
  public:
	/// A program that compiles new code again and again gets no numbers beyond this: 0 stands for a line that is not known.
	static constexpr std::size_t max_sites = 1U << 16U;

	/// `thread`: the number of the thread that submits. `times`: the repetitions of a replay; 0 if the line is none.
	std::uint64_t number(PyObject* const code, const int lasti, const std::uint32_t thread, const std::uint64_t times) {
		const key wanted{code, lasti, thread, times};
		const auto found = m_numbers.find(wanted);
		if(found != m_numbers.end()) return found->second;
		if(m_sites.size() >= max_sites) return 0;
		m_sites.push_back({nanobind::borrow(code), lasti, thread, times});
		return m_numbers.emplace(wanted, m_sites.size()).first->second;
	}

	/// (code, byte offset of the instruction, number of the thread, repetitions of a replay or 0); None for 0.
	nanobind::object find(const std::uint64_t number) const {
		if(number == 0 || number > m_sites.size()) return nanobind::none();
		const site& found = m_sites[number - 1];
		return nanobind::make_tuple(found.code, found.lasti, found.thread, found.times);
	}

  private:
	struct site {
		nanobind::object code; ///< so that its address stays its own
		int lasti = 0;
		std::uint32_t thread = 0;
		std::uint64_t times = 0;
	};
	struct key {
		PyObject* code;
		int lasti;
		std::uint32_t thread;
		std::uint64_t times;
		friend bool operator==(const key&, const key&) = default;
	};
	struct hash {
		std::size_t operator()(const key& k) const {
			const std::size_t place = static_cast<std::size_t>(k.lasti) + (std::size_t{k.thread} << 32U);
			return std::hash<PyObject*>{}(k.code) ^ (place + k.times * 0xff51afd7ed558ccdULL) * 0x9e3779b97f4a7c15ULL;
		}
	};

	std::unordered_map<key, std::uint64_t, hash> m_numbers;
	std::vector<site> m_sites;
};

} // namespace celerity::native
