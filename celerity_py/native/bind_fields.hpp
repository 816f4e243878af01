// SPDX-License-Identifier: MIT
// Structs that Python sets field by field.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "look_up.hpp"
#include "scheduler/core/base/fields.hpp"
#include "scheduler/core/base/names.hpp"
#include "seconds.hpp"

namespace celerity::native {

/// Fields are keywords of the constructor, too; one that is unknown is an AttributeError.
template <typename Settings>
void bind_keywords(nanobind::class_<Settings>& settings) {
	settings.def(
	    "__init__",
	    [](Settings* const self, const nanobind::kwargs& fields) {
		    nanobind::object made = nanobind::cast(Settings());
		    for(const auto& [name, value] : fields) nanobind::setattr(made, name, value);
		    new(self) Settings(nanobind::cast<Settings&>(made));
	    },
	    nanobind::sig("def __init__(self, **fields: typing.Any) -> None"));
}

/// Binds a field by its name: an id as a number, an enumerator by its name, and a duration in seconds, with "_s" behind the name. A pointer may be None.
template <std::size_t I, described Settings>
void bind_field(nanobind::class_<Settings>& settings) {
	using field = std::remove_cvref_t<std::tuple_element_t<I, decltype(std::declval<Settings&>().fields())>>;
	static constexpr auto of = [](auto& self) -> auto& { return std::get<I>(self.fields()); };
	const std::string name = field_names<Settings>[I];
	if constexpr(std::is_same_v<field, std::chrono::nanoseconds>) {
		settings.def_prop_rw((name + "_s").c_str(), [](const Settings& self) { return std::chrono::duration<double>(of(self)).count(); },
		    [](Settings& self, const double seconds) { of(self) = to_nanoseconds(seconds); });
	} else if constexpr(std::is_enum_v<field>) {
		settings.def_prop_rw(
		    name.c_str(), [](const Settings& self) { return name_of(of(self)); },
		    [](Settings& self, const std::string& given) { of(self) = look_up<field>(given, field_names<Settings>[I]); });
	} else if constexpr(requires(field id) { id.value; }) {
		using number = decltype(field::value);
		settings.def_prop_rw(
		    name.c_str(), [](const Settings& self) { return of(self).value; }, [](Settings& self, const number given) { of(self) = field(given); });
	} else if constexpr(requires(field pointer) { pointer == nullptr; }) {
		settings.def_prop_rw(
		    name.c_str(), [](const Settings& self) { return of(self); }, [](Settings& self, field given) { of(self) = std::move(given); },
		    nanobind::for_setter(nanobind::arg("given").none()));
	} else {
		settings.def_prop_rw(name.c_str(), [](const Settings& self) { return of(self); }, [](Settings& self, const field given) { of(self) = given; });
	}
}

template <described Settings>
void bind_fields(nanobind::class_<Settings>& settings) {
	static_assert(has_complete_list<Settings>);
	[&]<std::size_t... I>(std::index_sequence<I...>) { (bind_field<I>(settings), ...); }(std::make_index_sequence<num_fields<Settings>>());
}

} // namespace celerity::native
