// SPDX-License-Identifier: MIT
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <string_view>

#include "scheduler/core/base/names.hpp"

namespace celerity::native {

/// The value of an enumeration that Python calls `name`. `what` begins the message of the ValueError.
template <typename Enum>
Enum look_up(const std::string_view name, const char* const what) {
	if(const auto found = find_named<Enum>(name); found.has_value()) return *found;
	std::string text = std::string(what) + " is one of ";
	for(const char* const known : names_of<Enum>) text += (known == names_of<Enum>.front() ? "" : ", ") + std::string(known);
	throw nanobind::value_error((text + ", but got '" + std::string(name) + "'").c_str());
}

/// The names in Python of the values of an enumeration, in their order.
template <typename Enum>
nanobind::tuple all_names() {
	nanobind::list list;
	for(const char* const name : names_of<Enum>) list.append(name);
	return nanobind::tuple(list);
}

} // namespace celerity::native
