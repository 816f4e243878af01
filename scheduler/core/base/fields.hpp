// SPDX-License-Identifier: MIT
// Structs that list their fields once. Records, their parser, reports, timelines and Python classes are derived from the list.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

namespace celerity {

/// The last line of a struct: the names of all its fields, in their order. It is a macro because C++20 has no other way from a field to its name.
#define CELERITY_FIELDS(...) \
	static constexpr std::string_view field_list = #__VA_ARGS__; \
	constexpr auto fields() const { return std::tie(__VA_ARGS__); } \
	constexpr auto fields() { return std::tie(__VA_ARGS__); }

/// The same for a struct that is an alternative of a variant: first the name of the alternative, then its fields.
#define CELERITY_KIND(NAME, ...) \
	static constexpr const char* kind_name = #NAME; \
	CELERITY_FIELDS(__VA_ARGS__)

template <typename Struct>
concept described = requires(const Struct& s) {
	s.fields();
	Struct::field_list;
};

template <described Struct>
inline constexpr std::size_t num_fields = std::tuple_size_v<decltype(std::declval<const Struct&>().fields())>;

namespace detail {

/// The text of `field_list` with an end behind each name.
template <described Struct>
inline constexpr auto separate_names = [] {
	std::array<char, Struct::field_list.size() + 1> text{};
	for(std::size_t i = 0; i < Struct::field_list.size(); ++i) text[i] = Struct::field_list[i] == ',' ? '\0' : Struct::field_list[i];
	return text;
}();

/// Initialises a member of any type.
struct anything {
	template <typename T>
	operator T() const; // not constexpr: it has no definition
};

template <typename Struct, typename... Given>
consteval std::size_t count_members() {
	if constexpr(requires { Struct{std::declval<Given>()..., anything{}}; }) {
		return count_members<Struct, Given..., anything>();
	} else {
		return sizeof...(Given);
	}
}

} // namespace detail

template <described Struct>
inline constexpr std::array<const char*, num_fields<Struct>> field_names = [] {
	std::array<const char*, num_fields<Struct>> names{};
	const auto& text = detail::separate_names<Struct>;
	std::size_t begin = 0;
	for(auto& name : names) {
		name = &text[begin];
		while(text[begin] != '\0') ++begin;
		while(begin + 1 < text.size() && (text[begin] == '\0' || text[begin] == ' ')) ++begin;
	}
	return names;
}();

/// Whether the list names as many fields as the struct has.
template <described Struct>
inline constexpr bool has_complete_list = num_fields<Struct> == detail::count_members<Struct>();

/// Calls f(name, field) for each field.
template <typename Struct, typename F>
constexpr void for_each_field(Struct& value, F&& f) {
	using plain = std::remove_const_t<Struct>;
	static_assert(has_complete_list<plain>, "CELERITY_FIELDS lacks a field");
	const auto fields = value.fields();
	[&]<std::size_t... I>(std::index_sequence<I...>) { (f(field_names<plain>[I], std::get<I>(fields)), ...); }(std::make_index_sequence<num_fields<plain>>());
}

/// The names of the alternatives of a variant, by index. Each alternative has a `kind_name`.
template <typename Variant>
inline constexpr auto kind_names = nullptr;
template <typename... Kinds>
inline constexpr std::array<const char*, sizeof...(Kinds)> kind_names<std::variant<Kinds...>>{Kinds::kind_name...};

} // namespace celerity
