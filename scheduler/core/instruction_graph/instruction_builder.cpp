// SPDX-License-Identifier: MIT
#include "instruction_builder.hpp"

#include "instruction_priorities.hpp"

namespace celerity {

void instruction_builder::note(allocation_state& allocation, const region& where, const access_mode mode, buffer_state* const produced) {
	allocation.accesses.query(where, [&](const box&, const instruction_front& f) {
		if(is_consumer(mode)) f.depend_for_read(window());
		if(is_producer(mode)) f.depend_for_write(window());
	});
	m_accesses.push_back(noted_access{&allocation, &where, produced, is_producer(mode)});
}

instruction_id instruction_builder::emit(instruction_operation&& operation, const instruction_priority priority) {
	assert(!m_is_emitted);
	m_is_emitted = true;
	window().depend_on_epoch_if_alone(true);
	const instruction_id self = window().current();
	arena& nodes = m_history.nodes();
	m_now.out.instructions.push_back(nodes.create<instruction>(self, m_now.key, priority + m_now.boost, nodes.copy(window().edges()), std::move(operation)));
	if(m_history.record) m_history.record(*m_now.out.instructions.back(), window().kinds());
	// Reads first: where an instruction reads and writes the same element, it counts as its writer.
	for(const auto& [allocation, where, produced, is_write] : m_accesses) {
		if(!is_write) allocation->accesses.modify(*where, [&](instruction_front& f) { return f.add_reader(self); });
	}
	for(const auto& [allocation, where, produced, is_write] : m_accesses) {
		if(!is_write) continue;
		allocation->accesses.update(*where, instruction_front{self, {}});
		const memory_id memory = allocation->id.memory;
		if(produced != nullptr) produced->contents.update(*where, content_state{bit_of(memory), self, memory});
	}
	for(auto* const staging : m_staging) staging->uses.push_back(self);
	return self;
}

instruction_id emit_copy(instruction_builder& copy, const buffer_state& buffer, const copy_place& source, const copy_place& destination,
    const std::span<const box> boxes, const copy_reason reason) {
	return copy.emit(copy_instruction{source.allocation, source.offset_bytes, destination.allocation, destination.offset_bytes, boxes,
	                     buffer.info.element_size_bytes, reason, buffer.info.id},
	    priorities::copy);
}

void copy_between(instruction_history& history, const command_phase& now, buffer_state& buffer, const region& where, allocation_state& source,
    allocation_state& destination, const copy_reason reason) {
	instruction_builder copy(history, now);
	copy.read(source, where);
	copy.write(destination, where);
	emit_copy(copy, buffer, {source.id}, {destination.id}, history.nodes().copy(where.boxes()), reason);
}
} // namespace celerity
