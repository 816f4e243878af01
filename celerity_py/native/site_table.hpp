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

/// Numbers the lines of the program that submit something, from 1: tasks outlive the Python objects that know their line. With the GIL.
class site_table {
  public:
	/// A program that compiles new code again and again gets no numbers beyond this: 0 stands for a line that is not known.
	static constexpr std::size_t max_sites = 1U << 16U;

	std::uint64_t number(PyObject* const code, const int lasti) {
		const auto found = m_numbers.find({code, lasti});
		if(found != m_numbers.end()) return found->second;
		if(m_sites.size() >= max_sites) return 0;
		m_sites.emplace_back(nanobind::borrow(code), lasti);
		return m_numbers.emplace(key{code, lasti}, m_sites.size()).first->second;
	}

	/// (code, byte offset of the instruction); None for 0.
	nanobind::object find(const std::uint64_t number) const {
		if(number == 0 || number > m_sites.size()) return nanobind::none();
		const auto& [code, lasti] = m_sites[number - 1];
		return nanobind::make_tuple(code, lasti);
	}

  private:
	using key = std::pair<PyObject*, int>;
	struct hash {
		std::size_t operator()(const key& k) const { return std::hash<PyObject*>{}(k.first) ^ static_cast<std::size_t>(k.second) * 0x9e3779b97f4a7c15ULL; }
	};

	std::unordered_map<key, std::uint64_t, hash> m_numbers;
	std::vector<std::pair<nanobind::object, int>> m_sites; ///< holds the code, so that its address stays its own
};

} // namespace celerity::native
