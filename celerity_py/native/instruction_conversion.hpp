// SPDX-License-Identifier: MIT
// The structs of the cores, as Python sees them. Ids are integers, enumerations their names, boxes (min0, min1, min2, max0, max1, max2), and structs that
// list their fields are dictionaries.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "look_up.hpp"
#include "scheduler/core/base/ids.hpp"
#include "scheduler/core/geometry/grid.hpp"
#include "scheduler/core/base/fields.hpp"
#include "scheduler/core/vocabulary/instruction.hpp"

namespace celerity::native {

/// (min0, min1, min2, max0, max1, max2)
using flat_box = std::tuple<coordinate, coordinate, coordinate, coordinate, coordinate, coordinate>;
/// (memory, raw)
using flat_allocation = std::tuple<std::uint8_t, std::uint64_t>;
/// (consumer task, buffer, reduction)
using flat_transfer = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;

inline flat_box flatten(const box& b) { return {b.min(0), b.min(1), b.min(2), b.max(0), b.max(1), b.max(2)}; }
inline box unflatten(const flat_box& f) {
	return {point{{std::get<0>(f), std::get<1>(f), std::get<2>(f)}}, point{{std::get<3>(f), std::get<4>(f), std::get<5>(f)}}};
}

inline flat_allocation flatten(const allocation_id& id) { return {id.memory.value, id.raw}; }

inline flat_transfer flatten(const transfer_id& id) { return {id.consumer.value, id.buffer.value, id.reduction.value}; }
template <typename T>
inline constexpr bool is_strong_id = false;
template <typename Tag, typename Rep>
inline constexpr bool is_strong_id<strong_id<Tag, Rep>> = true;
template <typename T>
concept is_optional = requires(const T& value) { value.has_value(); };
template <typename T>
concept is_pair = requires(const T& value) { value.second; };
/// Whose alternatives have names.
template <typename T>
concept variant_of_kinds = !std::is_null_pointer_v<std::remove_const_t<decltype(kind_names<T>)>>;

template <described Struct>
nanobind::dict to_python(const Struct& value);

/// A number or a name, as a type that nanobind knows.
template <typename T>
auto to_plain(const T& value) {
	if constexpr(is_strong_id<T>) {
		return value.value;
	} else if constexpr(std::is_enum_v<T>) {
		return name_of(value);
	} else if constexpr(is_optional<T>) {
		return value.has_value() ? std::optional(to_plain(*value)) : std::nullopt;
	} else {
		return value;
	}
}

template <typename T>
nanobind::object to_python(const T& value) {
	if constexpr(std::is_same_v<T, instruction_key>) {
		return nanobind::make_tuple(value.task.value, name_of(value.phase));
	} else if constexpr(std::is_same_v<T, point>) {
		return nanobind::make_tuple(value[0], value[1], value[2]);
	} else if constexpr(std::is_same_v<T, std::string>) {
		return nanobind::cast(value);
	} else if constexpr(requires { flatten(value); }) {
		return nanobind::cast(flatten(value));
	} else if constexpr(is_optional<T>) {
		return value.has_value() ? nanobind::object(to_python(*value)) : nanobind::none();
	} else if constexpr(is_pair<T>) {
		return nanobind::make_tuple(to_python(value.first), to_python(value.second));
	} else if constexpr(requires { value.boxes(); }) {
		return to_python(value.boxes());
	} else if constexpr(requires { typename T::counted; }) {
		nanobind::dict counts;
		for(std::size_t i = 0; i < value.size(); ++i) counts[names_of<typename T::counted>[i]] = value.data()[i];
		return counts;
	} else if constexpr(requires { typename T::mapped_type; }) {
		nanobind::dict entries;
		for(const auto& [key, entry] : value) entries[to_python(key)] = to_python(entry);
		return entries;
	} else if constexpr(requires { value.begin(); }) {
		nanobind::list list;
		for(const auto& item : value) list.append(to_python(item));
		return list;
	} else {
		return nanobind::cast(to_plain(value));
	}
}

/// One of several kinds adds its name as "kind", and its fields.
template <described Struct>
void add_fields(nanobind::dict& out, const Struct& value) {
	for_each_field(value, [&]<typename T>(const char* const name, const T& field) {
		if constexpr(variant_of_kinds<T>) {
			out["kind"] = kind_names<T>[field.index()];
			std::visit([&](const auto& kind) { add_fields(out, kind); }, field);
		} else {
			out[name] = to_python(field);
		}
	});
}

template <described Struct>
nanobind::dict to_python(const Struct& value) {
	nanobind::dict result;
	add_fields(result, value);
	return result;
}

} // namespace celerity::native
