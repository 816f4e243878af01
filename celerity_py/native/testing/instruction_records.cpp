// SPDX-License-Identifier: MIT
#include "instruction_records.hpp"

#include <nanobind/stl/string.h>

#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "flat_values.hpp"

namespace nb = nanobind;

namespace celerity::native {
namespace {

/// Reads records, which to_python() makes. Spans lie in the arena. Throws the exceptions of Python if a field is missing, or of another type.
class record_reader {
  public:
	explicit record_reader(arena& storage) : m_arena(&storage) {}

	template <described Struct>
	void read_fields(const nb::dict& record, Struct& out) const {
		for_each_field(out, [&]<typename T>(const char* const name, T& field) {
			if constexpr(variant_of_kinds<T>) {
				read_kind(record, field);
			} else {
				read(record[name], name, field);
			}
		});
	}

  private:
	arena* m_arena;

	template <typename T>
	void read(const nb::handle value, const char* const name, T& out) const {
		if constexpr(std::is_same_v<T, box>) {
			out = unflatten(nb::cast<flat_box>(value));
		} else if constexpr(std::is_same_v<T, allocation_id>) {
			out = unflatten(nb::cast<flat_allocation>(value));
		} else if constexpr(std::is_same_v<T, transfer_id>) {
			out = unflatten(nb::cast<flat_transfer>(value));
		} else if constexpr(std::is_same_v<T, instruction_key>) {
			out = unflatten(nb::cast<flat_key>(value));
		} else if constexpr(is_strong_id<T>) {
			out = T(nb::cast<typename T::rep>(value));
		} else if constexpr(std::is_enum_v<T>) {
			out = look_up<T>(nb::cast<std::string>(value), name);
		} else if constexpr(described<T>) {
			read_fields(nb::cast<nb::dict>(value), out);
		} else if constexpr(requires { out.subspan(0); }) {
			std::vector<typename T::value_type> items;
			for(const nb::handle item : nb::cast<nb::list>(value)) read(item, name, items.emplace_back());
			out = m_arena->copy(items);
		} else {
			out = nb::cast<T>(value);
		}
	}

	template <typename... Kinds>
	void read_kind(const nb::dict& record, std::variant<Kinds...>& out) const {
		const auto kind = nb::cast<std::string>(record["kind"]);
		const auto read_as = [&]<typename Kind>(std::type_identity<Kind>) {
			if(kind != Kind::kind_name) return false;
			read_fields(record, out.template emplace<Kind>());
			return true;
		};
		if(!(read_as(std::type_identity<Kinds>()) || ...)) throw nb::value_error(("unknown kind '" + kind + "'").c_str());
	}
};

} // namespace

instruction_records::instruction_records(const nb::iterable& instructions) {
	const record_reader reader(m_arena);
	for(const nb::handle item : instructions) {
		auto* const node = m_arena.create<instruction>();
		reader.read_fields(nb::cast<nb::dict>(item), *node);
		m_batch.instructions.push_back(node);
	}
}

} // namespace celerity::native
