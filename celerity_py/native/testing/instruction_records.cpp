// SPDX-License-Identifier: MIT
#include "instruction_records.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "executor/core/events/executor_statistics.hpp"
#include "executor/core/memory/reduce_kernels.hpp"
#include "instruction_conversion.hpp"
#include "look_up.hpp"

namespace nb = nanobind;

namespace celerity::native {
namespace {

/// Reads the fields of one record.
class record {
  public:
	record(nb::dict fields, arena& storage) : m_fields(std::move(fields)), m_arena(&storage) {}

	template <typename T>
	T get(const char* const name) const {
		return nb::cast<T>(m_fields[name]);
	}
	template <typename Id>
	Id id(const char* const name) const {
		return Id(get<typename Id::rep>(name));
	}
	box get_box(const char* const name) const { return unflatten(get<flat_box>(name)); }
	std::span<const box> boxes(const char* const name) const { return m_arena->copy(unflatten(get<std::vector<flat_box>>(name))); }
	allocation_id allocation(const char* const name) const { return unflatten(get<flat_allocation>(name)); }
	transfer_id transfer() const { return unflatten(get<flat_transfer>("transfer")); }
	copy_layout layout(const char* const name) const {
		const record fields(get<nb::dict>(name), *m_arena);
		return {fields.get<bool>("is_linear"), fields.get_box("allocated_box"), fields.get<std::size_t>("offset_bytes")};
	}
	template <typename Enum>
	Enum name(const char* const field) const {
		return look_up<Enum>(get<std::string>(field), field);
	}
	std::vector<record> records(const char* const name) const {
		std::vector<record> result;
		for(const nb::handle item : get<nb::list>(name)) result.emplace_back(nb::cast<nb::dict>(item), *m_arena);
		return result;
	}

	std::span<const access_binding> accesses() const {
		std::vector<access_binding> bindings;
		for(const auto& r : records("accesses")) {
			bindings.push_back({r.id<buffer_id>("buffer"), r.name<access_mode>("mode"), r.allocation("allocation"), r.get_box("allocated_box"),
			    r.get_box("bounding_box"), r.boxes("accessed")});
		}
		return m_arena->copy(bindings);
	}
	std::span<const copy_source> sources() const {
		std::vector<copy_source> result;
		for(const auto& r : records("sources")) result.push_back({r.allocation("allocation"), r.layout("layout"), r.boxes("boxes")});
		return m_arena->copy(result);
	}
	std::span<const reduction_binding> reductions() const {
		std::vector<reduction_binding> bindings;
		for(const auto& r : records("reductions")) {
			bindings.push_back({r.id<reduction_id>("reduction"), r.id<buffer_id>("buffer"), r.allocation("allocation"), r.get<std::size_t>("offset_bytes"),
			    r.name<reduction_op>("op"), r.name<scalar_type>("type")});
		}
		return m_arena->copy(bindings);
	}
	template <typename Id>
	std::span<const Id> ids(const char* const name) const {
		std::vector<Id> result;
		for(const auto value : get<std::vector<typename Id::rep>>(name)) result.push_back(Id(value));
		return m_arena->copy(result);
	}
	std::span<const std::uint32_t> numbers(const char* const name) const { return m_arena->copy(get<std::vector<std::uint32_t>>(name)); }

  private:
	nb::dict m_fields;
	arena* m_arena;
};

instruction_operation parse_communication(const std::string& kind, const record& r) {
	if(kind == "send") {
		return send_instruction{r.id<rank_id>("destination_rank"), r.id<message_id>("message"), r.transfer(), r.allocation("source"),
		    r.get_box("allocated_box"), r.get_box("sent_box"), r.get<std::size_t>("element_size_bytes")};
	}
	if(kind == "receive") {
		return receive_instruction{
		    r.transfer(), r.boxes("boxes"), r.allocation("destination"), r.get_box("allocated_box"), r.get<std::size_t>("element_size_bytes")};
	}
	if(kind == "split_receive") {
		return split_receive_instruction{
		    r.transfer(), r.boxes("boxes"), r.allocation("destination"), r.get_box("allocated_box"), r.get<std::size_t>("element_size_bytes")};
	}
	if(kind == "await_receive") return await_receive_instruction{r.transfer(), r.allocation("destination"), r.boxes("boxes")};
	if(kind == "gather_receive") {
		return gather_receive_instruction{
		    r.transfer(), r.allocation("destination"), r.get<std::size_t>("bytes_per_slot"), r.ids<rank_id>("sources"), r.numbers("slots")};
	}
	throw nb::value_error(("unknown instruction kind '" + kind + "'").c_str());
}

instruction_operation parse_operation(const std::string& kind, const record& r) {
	if(kind == "alloc") {
		return alloc_instruction{r.allocation("allocation"), r.get<std::size_t>("size_bytes"), r.get<std::size_t>("alignment_bytes"), r.id<buffer_id>("buffer"),
		    r.get_box("allocated_box"), {}};
	}
	if(kind == "free") return free_instruction{r.allocation("allocation"), r.get<std::size_t>("size_bytes")};
	if(kind == "copy") {
		return copy_instruction{r.allocation("source"), r.layout("source_layout"), r.allocation("destination"), r.layout("destination_layout"),
		    r.boxes("boxes"), r.get<std::size_t>("element_size_bytes"), r.name<copy_reason>("reason"), r.id<buffer_id>("buffer")};
	}
	if(kind == "gather_copy") {
		return gather_copy_instruction{r.sources(), r.allocation("destination"), r.layout("destination_layout"), r.get<std::size_t>("element_size_bytes"),
		    r.id<buffer_id>("buffer")};
	}
	if(kind == "device_kernel") {
		return device_kernel_instruction{r.id<device_id>("device"), r.id<submission_id>("submission"), r.get_box("chunk"), r.accesses(), r.reductions()};
	}
	if(kind == "host_task") return host_task_instruction{r.id<submission_id>("submission"), r.get_box("chunk"), r.accesses()};
	if(kind == "initialize") {
		return initialize_instruction{r.id<buffer_id>("buffer"), r.allocation("destination"), r.get_box("allocated_box"), r.boxes("boxes"),
		    r.get<std::size_t>("element_size_bytes")};
	}
	if(kind == "reduce") {
		return reduce_instruction{r.id<reduction_id>("reduction"), r.name<reduction_op>("op"), r.name<scalar_type>("type"),
		    r.allocation("source"), r.get<std::size_t>("count"), r.allocation("destination"), r.get<std::size_t>("destination_offset_bytes"),
		    r.get<bool>("is_all_of_it")};
	}
	if(kind == "fence") return fence_instruction{r.id<submission_id>("submission")};
	if(kind == "horizon") return horizon_instruction{r.id<task_id>("task"), r.id<submission_id>("last_submission")};
	if(kind == "epoch") {
		return epoch_instruction{r.id<task_id>("task"), r.id<submission_id>("submission"), r.id<submission_id>("last_submission"),
		    r.name<epoch_action>("action")};
	}
	return parse_communication(kind, r);
}

} // namespace

instruction_records::instruction_records(const nb::iterable& instructions, const nb::iterable& pilots) {
	for(const nb::handle item : instructions) {
		const record r(nb::cast<nb::dict>(item), m_arena);
		m_batch.instructions.push_back(m_arena.create<instruction>(r.id<instruction_id>("id"), unflatten(r.get<flat_key>("key")),
		    r.get<instruction_priority>("priority"), r.ids<instruction_id>("dependencies"), parse_operation(r.get<std::string>("kind"), r)));
	}
	for(const nb::handle item : pilots) {
		const record r(nb::cast<nb::dict>(item), m_arena);
		m_batch.pilots.push_back(
		    {r.id<rank_id>("to"), r.id<message_id>("message"), r.transfer(), r.get_box("sent_box"), r.id<instruction_id>("send")});
	}
}

} // namespace celerity::native
