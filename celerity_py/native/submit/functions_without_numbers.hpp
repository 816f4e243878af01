// SPDX-License-Identifier: MIT
// The functions that use no numbers from outside, which most do not.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace celerity::native {

/// Remembers some of the functions that use no numbers from outside, by their code and globals. Each submit of a function looks here. With the GIL.
class functions_without_numbers {
  public:
	/// `code` and `globals` of a function.
	bool has(PyObject* const code, PyObject* const globals) const {
		const known& found = m_known[place_of(code)];
		return found.code.ptr() == code && found.globals == globals;
	}
	/// Forgets the one at its place. Its destructor may run code of others.
	void add(PyObject* const code, PyObject* const globals) {
		known& place = m_known[place_of(code)];
		const nanobind::object forgotten = std::move(place.code);
		place = {nanobind::borrow(code), globals};
	}

  private:
	struct known {
		nanobind::object code; ///< so that its address stays its own
		PyObject* globals = nullptr; ///< only compared: a module that the program drops must not live on here
	};
	std::array<known, 64> m_known;

	std::size_t place_of(PyObject* const code) const { return (reinterpret_cast<std::uintptr_t>(code) >> 5U) % m_known.size(); }
};

} // namespace celerity::native
