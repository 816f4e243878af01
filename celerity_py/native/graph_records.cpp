// SPDX-License-Identifier: MIT
#include "graph_records.hpp"

#include "instruction_conversion.hpp"

namespace nb = nanobind;

namespace celerity::native {

namespace {

nb::str to_str(const std::string& text) { return nb::str(text.c_str(), text.size()); }

template <typename Record>
void add_edges(nb::dict& result, const Record& record) {
	result["dependencies"] = to_python(record.dependencies);
	result["reads"] = to_python(record.reads);
	result["writes"] = to_python(record.writes);
}

} // namespace

nb::dict to_dict(const task_record& record) {
	nb::dict result;
	result["id"] = record.node->id.value;
	result["submission"] = record.node->submission.value;
	result["kind"] = name_of(record.node->kind);
	result["name"] = to_str(record.node->name);
	add_edges(result, record);
	return result;
}

nb::dict to_dict(const command_record& record) {
	const auto& operation = record.node.operation;
	nb::dict result;
	result["id"] = record.node.id.value;
	result["task"] = record.node.node->id.value;
	result["name"] = to_str(record.node.node->name);
	result["kind"] = kind_names<command_operation>[operation.index()];
	std::visit([&](const auto& kind) { add_fields(result, kind); }, operation);
	add_edges(result, record);
	return result;
}

nb::dict to_dict(const instruction* const node) { return to_python(*node); }

} // namespace celerity::native
