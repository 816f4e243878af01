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
	/// The fields of a default-constructed struct are the default arguments of the type. `kinds` of the type has the values of its field `kind`, for stubs.
	static void bind(nanobind::module_& m, const char* const name, const char* const doc) {
		nanobind::list names;
		if constexpr(has_kind) names.append("kind");
		for(const char* const field : field_names<Struct>) names.append(field);
		const auto defaults = fill(&PyTuple_Type, {});
		const auto make_type = nanobind::module_::import_("collections").attr("namedtuple");
		using namespace nanobind::literals;
		s_type = make_type(name, names, "defaults"_a = defaults, "module"_a = "celerity_py._native").release().ptr();
		nanobind::handle(s_type).attr("__doc__") = doc;
		if constexpr(has_kind) nanobind::handle(s_type).attr("kinds") = nanobind::make_tuple(Struct::kind_name);
		if constexpr(requires { typename Struct::kind_type; }) nanobind::handle(s_type).attr("kinds") = all_names<typename Struct::kind_type>();
		m.attr(name) = nanobind::handle(s_type);
	}

	/// For another module than the one that has bound the type.
	static void share(const char* const name) { s_type = nanobind::object(nanobind::module_::import_("celerity_py._native").attr(name)).release().ptr(); }

	static nanobind::object make(const Struct& value) { return fill(reinterpret_cast<PyTypeObject*>(s_type), value); }

  private:
	static_assert(has_complete_list<Struct>);
	static constexpr bool has_kind = requires { Struct::kind_name; };
	static inline PyObject* s_type = nullptr; // lives as long as the process

	/// Calling the type would make a tuple of the fields first, and copy it: a third of a call of a kernel.
	static nanobind::object fill(PyTypeObject* const type, const Struct& value) {
		PyObject* const made = type->tp_alloc(type, num_fields<Struct> + has_kind);
		if(made == nullptr) throw nanobind::python_error();
		nanobind::object tuple = nanobind::steal(made);
#if PY_VERSION_HEX >= 0x030E0000
		reinterpret_cast<PyTupleObject*>(made)->ob_hash = -1; // not computed yet
#endif
		Py_ssize_t place = 0;
		const auto append = [&](nanobind::object item) { PyTuple_SET_ITEM(made, place++, item.release().ptr()); };
		if constexpr(has_kind) append(nanobind::str(Struct::kind_name));
		std::apply([&](const auto&... field) { (append(to_named(field)), ...); }, value.fields());
		return tuple;
	}
};

/// Addresses are integers, and an access of nothing is None. instruction_conversion.hpp converts all values that are no structs.
template <typename T>
nanobind::object to_named(const T& value) {
	if constexpr(std::is_same_v<T, bound_access>) {
		if(value.allocation.is_null() && value.parts.empty()) return nanobind::none();
	}
	if constexpr(std::is_same_v<T, void*>) {
		return nanobind::int_(reinterpret_cast<std::uintptr_t>(value));
	} else if constexpr(std::is_same_v<T, extents3>) {
		return nanobind::make_tuple(value[0], value[1], value[2]);
	} else if constexpr(std::is_same_v<T, pilot_message>) {
		return nanobind::bytes(reinterpret_cast<const char*>(&value), sizeof value);
	} else if constexpr(described<T>) {
		return named_tuple<T>::make(value);
	} else if constexpr(variant_of_kinds<T>) {
		return std::visit([](const auto& kind) { return to_named(kind); }, value);
	} else if constexpr(is_optional<T>) {
		return value.has_value() ? to_named(*value) : nanobind::none();
	} else if constexpr(requires { requires described<typename T::value_type> || variant_of_kinds<typename T::value_type>; }) {
		nanobind::list list;
		for(const auto& item : value) list.append(to_named(item));
		return list;
	} else {
		return to_python(value);
	}
}

} // namespace celerity::native
