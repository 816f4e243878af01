// SPDX-License-Identifier: MIT
// The types of plain arguments whose values never change: numbers and texts, of Python and of NumPy.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "scheduler/core/geometry/digest.hpp"

namespace celerity::native {

/// A set of such types. They live as long as the interpreter.
class plain_types {
  public:
	/// How an object holds its value. `integers` to `doubles` lie right behind the PyObject.
	enum class form : std::uint8_t { int_of_python, text, integers, halves, floats, doubles, other };

	struct entry {
		PyTypeObject* type = nullptr; ///< null: a free place of the table
		form values = form::other;
		std::uint8_t num_bytes = 0; ///< of the value
		std::uint64_t name_digest = 0;
	};

	/// `types`: an iterable of types that make an object of the number 1.
	explicit plain_types(nanobind::handle types);

	/// Null if this is none of them. Each plain argument of each submit passes here.
	const entry* find(const PyTypeObject* const type) const {
		for(std::size_t place = place_of(type);; place = next(place)) {
			const entry& each = m_entries[place];
			if(each.type == type) return &each;
			if(each.type == nullptr) return nullptr;
		}
	}
	/// The one from which the type derives; null if there is none.
	const entry* find_base(const PyTypeObject* type) const;

  private:
	std::vector<entry> m_entries; ///< a power of two of places, most of them free; a type lies at its place, or at the next free one
	std::size_t place_of(const PyTypeObject* const type) const { return (reinterpret_cast<std::uintptr_t>(type) >> 5U) & (m_entries.size() - 1); }
	std::size_t next(const std::size_t place) const { return (place + 1) & (m_entries.size() - 1); }
};

/// The same in all processes.
std::uint64_t digest_of_name(const PyTypeObject* type);

/// Adds the value of an object whose type is `known`, or derives from it. Runs no code of Python.
/// Equal values add the same on all ranks, as do all NaNs. Returns false if only Python can tell values apart.
bool add_plain_value(digest& out, PyObject* value, const plain_types::entry& known);

} // namespace celerity::native
