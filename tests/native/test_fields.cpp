// SPDX-License-Identifier: MIT
// Lists of fields: their names, their order, and that a list which lacks a field is noticed.
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "scheduler/core/base/fields.hpp"
#include "scheduler/core/graphs/command_graph.hpp"
#include "scheduler/core/vocabulary/instruction.hpp"
#include "scheduler/core/vocabulary/trace_recorder.hpp"

using namespace celerity;

namespace {

struct complete {
	int first;
	std::vector<box> second;
	std::optional<rank_id> third;
	CELERITY_KIND(complete, first, second, third)
};
struct lacking {
	int first;
	transfer_id second;
	bool third = false;
	CELERITY_KIND(lacking, first, second)
};
struct empty {
	CELERITY_KIND(empty)
};
static_assert(has_complete_list<complete> && !has_complete_list<lacking> && has_complete_list<empty>);
static_assert(num_fields<complete> == 3 && num_fields<empty> == 0);
static_assert(!described<int> && !described<box>);
static_assert(std::string_view(kind_names<std::variant<complete, empty>>[1]) == "empty");

template <typename... Kinds>
constexpr bool are_complete(const std::variant<Kinds...>* /* type */) {
	return (has_complete_list<Kinds> && ...);
}
static_assert(are_complete(static_cast<const instruction_operation*>(nullptr)));
static_assert(are_complete(static_cast<const command_operation*>(nullptr)));
static_assert(are_complete(static_cast<const traced_action*>(nullptr)));

void require(const bool holds, const char* const what) {
	if(holds) return;
	std::fprintf(stderr, "FAILED: %s\n", what);
	std::abort();
}

} // namespace

int main() {
	complete value{7, {}, rank_id(3)};
	std::string names;
	for_each_field(value, [&](const std::string_view name, auto& field) {
		names += std::string(name) + ";";
		if constexpr(std::is_same_v<std::remove_reference_t<decltype(field)>, int>) field = 8;
	});
	require(names == "first;second;third;", "names in order");
	require(value.first == 8, "fields can be written");
}
