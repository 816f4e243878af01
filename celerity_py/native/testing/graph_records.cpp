// SPDX-License-Identifier: MIT
#include "graph_records.hpp"

#include <array>
#include <type_traits>

namespace nb = nanobind;

namespace celerity::native {

namespace {

	nb::tuple flat(const box& b) { return nb::make_tuple(b.min(0), b.min(1), b.min(2), b.max(0), b.max(1), b.max(2)); }
	template <typename Boxes>
	nb::list flat_list(const Boxes& boxes) {
		nb::list result;
		for(const box& b : boxes) result.append(flat(b));
		return result;
	}
	nb::tuple flat(const allocation_id& id) { return nb::make_tuple(id.memory.value, id.raw); }
	nb::tuple flat(const transfer_id& id) { return nb::make_tuple(id.consumer.value, id.buffer.value, id.reduction.value); }
	nb::dict flat(const copy_layout& layout) {
		nb::dict result;
		result["is_linear"] = layout.is_linear;
		result["allocated_box"] = flat(layout.allocated_box);
		result["offset_bytes"] = layout.offset_bytes;
		return result;
	}

	template <typename Record>
	void add_graph_fields(nb::dict& result, const Record& record) {
		nb::list dependencies;
		for(const auto& [on, kind] : record.dependencies) dependencies.append(nb::make_tuple(on.value, name_of(kind)));
		result["dependencies"] = dependencies;
		const auto accesses = [](const auto& list) {
			nb::list converted;
			for(const auto& [buffer, where] : list) converted.append(nb::make_tuple(buffer.value, flat_list(where)));
			return converted;
		};
		result["reads"] = accesses(record.reads);
		result["writes"] = accesses(record.writes);
	}

	nb::list bindings(const std::span<const access_binding> accesses) {
		nb::list result;
		for(const auto& access : accesses) {
			nb::dict entry;
			entry["buffer"] = access.buffer.value;
			entry["mode"] = name_of(access.mode);
			entry["allocation"] = flat(access.allocation);
			entry["allocated_box"] = flat(access.allocated_box);
			entry["bounding_box"] = flat(access.bounding_box);
			entry["accessed"] = flat_list(access.accessed);
			result.append(entry);
		}
		return result;
	}
	nb::list bindings(const std::span<const reduction_binding> reductions) {
		nb::list result;
		for(const auto& reduction : reductions) {
			nb::dict entry;
			entry["reduction"] = reduction.reduction.value;
			entry["buffer"] = reduction.buffer.value;
			entry["allocation"] = flat(reduction.allocation);
			entry["offset_bytes"] = reduction.offset_bytes;
			entry["op"] = name_of(reduction.op);
			entry["type"] = name_of(reduction.type);
			result.append(entry);
		}
		return result;
	}

	/// One overload per instruction.
	struct operation_writer {
		nb::dict& out;

		void operator()(const alloc_instruction& op) const {
			out["allocation"] = flat(op.allocation);
			out["size_bytes"] = op.size_bytes;
			out["alignment_bytes"] = op.alignment_bytes;
			out["buffer"] = op.buffer.value;
			out["allocated_box"] = flat(op.allocated_box);
		}
		void operator()(const free_instruction& op) const {
			out["allocation"] = flat(op.allocation);
			out["size_bytes"] = op.size_bytes;
		}
		void operator()(const copy_instruction& op) const {
			out["source"] = flat(op.source);
			out["source_layout"] = flat(op.source_layout);
			out["destination"] = flat(op.destination);
			out["destination_layout"] = flat(op.destination_layout);
			out["boxes"] = flat_list(op.boxes);
			out["element_size_bytes"] = op.element_size_bytes;
			out["reason"] = name_of(op.reason);
			out["buffer"] = op.buffer.value;
		}
		void operator()(const gather_copy_instruction& op) const {
			nb::list sources;
			for(const auto& source : op.sources) {
				nb::dict entry;
				entry["allocation"] = flat(source.allocation);
				entry["layout"] = flat(source.layout);
				entry["boxes"] = flat_list(source.boxes);
				sources.append(entry);
			}
			out["sources"] = sources;
			out["destination"] = flat(op.destination);
			out["destination_layout"] = flat(op.destination_layout);
			out["element_size_bytes"] = op.element_size_bytes;
			out["reason"] = name_of(copy_reason::coherence);
			out["buffer"] = op.buffer.value;
		}
		void operator()(const device_kernel_instruction& op) const {
			out["device"] = op.device.value;
			out["submission"] = op.submission.value;
			out["chunk"] = flat(op.chunk);
			out["accesses"] = bindings(op.accesses);
			out["reductions"] = bindings(op.reductions);
		}
		void operator()(const host_task_instruction& op) const {
			out["submission"] = op.submission.value;
			out["chunk"] = flat(op.chunk);
			out["accesses"] = bindings(op.accesses);
		}
		void operator()(const initialize_instruction& op) const {
			out["buffer"] = op.buffer.value;
			out["destination"] = flat(op.destination);
			out["allocated_box"] = flat(op.allocated_box);
			out["boxes"] = flat_list(op.boxes);
			out["element_size_bytes"] = op.element_size_bytes;
		}
		void operator()(const send_instruction& op) const {
			out["destination_rank"] = op.destination_rank.value;
			out["message"] = op.message.value;
			out["transfer"] = flat(op.transfer);
			out["source"] = flat(op.source);
			out["allocated_box"] = flat(op.allocated_box);
			out["sent_box"] = flat(op.sent_box);
			out["element_size_bytes"] = op.element_size_bytes;
		}
		void operator()(const receive_instruction& op) const { write_receive(op); }
		void operator()(const split_receive_instruction& op) const { write_receive(op); }
		template <typename Receive>
		void write_receive(const Receive& op) const {
			out["transfer"] = flat(op.transfer);
			out["boxes"] = flat_list(op.boxes);
			out["destination"] = flat(op.destination);
			out["allocated_box"] = flat(op.allocated_box);
			out["element_size_bytes"] = op.element_size_bytes;
		}
		void operator()(const await_receive_instruction& op) const {
			out["transfer"] = flat(op.transfer);
			out["destination"] = flat(op.destination);
			out["boxes"] = flat_list(op.boxes);
		}
		void operator()(const gather_receive_instruction& op) const {
			out["transfer"] = flat(op.transfer);
			out["destination"] = flat(op.destination);
			out["bytes_per_slot"] = op.bytes_per_slot;
			nb::list sources;
			for(const rank_id rank : op.sources) sources.append(rank.value);
			nb::list slots;
			for(const std::uint32_t slot : op.slots) slots.append(slot);
			out["sources"] = sources;
			out["slots"] = slots;
		}
		void operator()(const reduce_instruction& op) const {
			out["reduction"] = op.reduction.value;
			out["op"] = name_of(op.op);
			out["type"] = name_of(op.type);
			out["source"] = flat(op.source);
			out["count"] = op.count;
			out["destination"] = flat(op.destination);
			out["destination_offset_bytes"] = op.destination_offset_bytes;
			out["is_all_of_it"] = op.is_all_of_it;
		}
		void operator()(const fence_instruction& op) const {
			out["submission"] = op.submission.value;
		}
		void operator()(const horizon_instruction& op) const {
			out["task"] = op.task.value;
			out["last_submission"] = op.last_submission.value;
		}
		void operator()(const epoch_instruction& op) const {
			out["task"] = op.task.value;
			out["submission"] = op.submission.value;
			out["last_submission"] = op.last_submission.value;
			out["action"] = name_of(op.action);
		}
	};

	struct command_writer {
		nb::dict& out;

		const char* operator()(const epoch_command&) const { return "epoch"; }
		const char* operator()(const horizon_command&) const { return "horizon"; }
		const char* operator()(const execution_command& op) const {
			out["chunk"] = flat(op.chunk);
			return "execution";
		}
		const char* operator()(const push_command& op) const {
			out["transfer"] = flat(op.transfer);
			out["buffer"] = op.transfer.buffer.value;
			nb::list targets;
			for(const auto& [rank, where] : op.targets) targets.append(nb::make_tuple(rank.value, flat_list(where)));
			out["targets"] = targets;
			return "push";
		}
		const char* operator()(const await_push_command& op) const {
			out["transfer"] = flat(op.transfer);
			out["buffer"] = op.transfer.buffer.value;
			out["boxes"] = flat_list(op.awaited);
			return "await_push";
		}
		const char* operator()(const reduction_command& op) const {
			out["transfer"] = flat(op.transfer);
			out["buffer"] = op.transfer.buffer.value;
			out["num_contributors"] = op.num_contributors;
			return "reduction";
		}
		const char* operator()(const fence_command&) const { return "fence"; }
	};

} // namespace

nb::dict to_dict(const task_record& record) {
	nb::dict result;
	result["id"] = record.node->id.value;
	result["submission"] = record.node->submission.value;
	result["kind"] = name_of(record.node->kind);
	result["name"] = nb::str(record.node->name.c_str(), record.node->name.size());
	add_graph_fields(result, record);
	return result;
}

nb::dict to_dict(const command_record& record) {
	nb::dict result;
	result["id"] = record.node.id.value;
	result["task"] = record.node.node->id.value;
	result["name"] = nb::str(record.node.node->name.c_str(), record.node.node->name.size());
	result["kind"] = std::visit(command_writer{result}, record.node.operation);
	add_graph_fields(result, record);
	return result;
}

nb::dict to_dict(const instruction* const node) {
	nb::dict result;
	result["id"] = node->id.value;
	result["priority"] = node->priority;
	result["key"] = nb::make_tuple(node->key.task.value, name_of(node->key.phase));
	nb::list dependencies;
	for(const instruction_id on : node->dependencies) dependencies.append(on.value);
	result["dependencies"] = dependencies;
	result["kind"] = instruction_kind_names[node->operation.index()];
	std::visit(operation_writer{result}, node->operation);
	return result;
}

nb::dict to_dict(const outbound_pilot& pilot) {
	nb::dict result;
	result["to"] = pilot.to.value;
	result["message"] = pilot.message.value;
	result["transfer"] = flat(pilot.transfer);
	result["sent_box"] = flat(pilot.sent_box);
	result["send"] = pilot.send.value;
	return result;
}

} // namespace celerity::native
