// SPDX-License-Identifier: MIT
// Structs that list their fields, as named tuples of Python: one type per struct.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "executor/core/events/executor_events.hpp"
#include "instruction_conversion.hpp"
#include "scheduler/core/base/fields.hpp"

namespace celerity::native {

template <typename T>
nanobind::object to_named(const T& value);

/// A struct with a `kind_name` has it as its first field, "kind".
template <described Struct>
class named_tuple {
  public:
	/// The fields of a default-constructed struct are the default arguments of the type.
	static void bind(nanobind::module_& m, const char* const name, const char* const doc) {
		nanobind::list names;
		if constexpr(has_kind) names.append("kind");
		for(const char* const field : field_names<Struct>) names.append(field);
		const auto defaults = to_tuple({});
		const auto make_type = nanobind::module_::import_("collections").attr("namedtuple");
		using namespace nanobind::literals;
		s_type = make_type(name, names, "defaults"_a = defaults, "module"_a = "celerity_py._native").release().ptr();
		nanobind::handle(s_type).attr("__doc__") = doc;
		m.attr(name) = nanobind::handle(s_type);
	}

	static nanobind::object make(const Struct& value) {
		const auto arguments = nanobind::make_tuple(to_tuple(value));
		PyObject* const made = PyTuple_Type.tp_new(reinterpret_cast<PyTypeObject*>(s_type), arguments.ptr(), nullptr);
		if(made == nullptr) throw nanobind::python_error();
		return nanobind::steal(made);
	}

  private:
	static constexpr bool has_kind = requires { Struct::kind_name; };
	static inline PyObject* s_type = nullptr; // lives as long as the process

	static nanobind::tuple to_tuple(const Struct& value) {
		return [&]<std::size_t... I>(std::index_sequence<I...>) {
			const auto fields = value.fields();
			if constexpr(has_kind) {
				return nanobind::make_tuple(Struct::kind_name, to_named(std::get<I>(fields))...);
			} else {
				return nanobind::make_tuple(to_named(std::get<I>(fields))...);
			}
		}(std::make_index_sequence<num_fields<Struct>>());
	}
};

/// Addresses are integers, an access of nothing is None, and whatever is no struct is as in instruction_conversion.hpp.
template <typename T>
nanobind::object to_named(const T& value) {
	if constexpr(std::is_same_v<T, bound_access>) {
		if(value.allocation.is_null()) return nanobind::none();
	}
	if constexpr(std::is_same_v<T, void*>) {
		return nanobind::int_(reinterpret_cast<std::uintptr_t>(value));
	} else if constexpr(std::is_same_v<T, extents3>) {
		return nanobind::make_tuple(value[0], value[1], value[2]);
	} else if constexpr(std::is_same_v<T, pilot_message>) {
		return nanobind::bytes(reinterpret_cast<const char*>(&value), sizeof value);
	} else if constexpr(std::is_same_v<T, executor_failure> || std::is_same_v<T, std::string>) {
		return nanobind::cast(value);
	} else if constexpr(described<T>) {
		return named_tuple<T>::make(value);
	} else if constexpr(requires { requires described<typename T::value_type>; }) {
		nanobind::list list;
		for(const auto& item : value) list.append(to_named(item));
		return list;
	} else {
		return to_python(value);
	}
}

} // namespace celerity::native
