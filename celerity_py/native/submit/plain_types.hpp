// SPDX-License-Identifier: MIT
// The types of plain arguments whose values never change: numbers and texts, of Python and of NumPy.
#pragma once

#include <nanobind/nanobind.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
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
	std::size_t m_last_place = 0; ///< of the table
	std::size_t place_of(const PyTypeObject* const type) const { return (reinterpret_cast<std::uintptr_t>(type) >> 5U) & m_last_place; }
	std::size_t next(const std::size_t place) const { return (place + 1) & m_last_place; }
};

/// The same in all processes.
std::uint64_t digest_of_name(const PyTypeObject* type);

/// The bits of a number; those of one NaN for all of them, since a NaN has many forms.
template <typename T>
std::uint64_t bits_of_real(const char* const first) {
	T number;
	std::memcpy(&number, first, sizeof number);
	return std::bit_cast<std::uint64_t>(number == number ? static_cast<double>(number) : std::numeric_limits<double>::quiet_NaN());
}

/// Adds the value of an object whose type is `known`, or derives from it. Runs no code of Python.
/// Equal values add the same on all ranks, as do all NaNs. Returns false if only Python can tell values apart.
bool add_plain_value(digest& out, PyObject* value, const plain_types::entry& known);

/// Adds a number of Python in one step, since each of them passes here at each submit. `place` is its position among the arguments.
/// Returns false for all but a float, a truth value, and an integer of at most 64 bits.
inline bool add_short_number(digest& out, const std::uint64_t place, PyObject* const value) {
	constexpr std::uint64_t float_tag = 0x9e3779b97f4a7c15U; // any three numbers that values hardly have
	constexpr std::uint64_t int_tag = 0xd1b54a32d192ed03U;
	constexpr std::uint64_t bool_tag = 0xabc98388fb8fac03U;
	if(PyFloat_CheckExact(value)) {
		out.add((float_tag + place) ^ bits_of_real<double>(reinterpret_cast<const char*>(value + 1)));
		return true;
	}
	if(PyBool_Check(value)) {
		out.add((bool_tag + place) ^ static_cast<std::uint64_t>(value == Py_True));
		return true;
	}
	if(!PyLong_CheckExact(value)) return false;
	int overflow = 0;
	const long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
	if(overflow != 0) return false;
	out.add((int_tag + place) ^ static_cast<std::uint64_t>(number));
	return true;
}

} // namespace celerity::native
