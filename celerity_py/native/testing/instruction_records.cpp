// SPDX-License-Identifier: MIT
#include "instruction_records.hpp"

#include "instruction_conversion.hpp"

namespace nb = nanobind;

namespace celerity::native {

instruction_records::instruction_records(const nb::iterable& instructions, const nb::iterable& pilots) {
	const record_reader reader(m_arena);
	for(const nb::handle item : instructions) {
		auto* const node = m_arena.create<instruction>();
		reader.read_fields(nb::cast<nb::dict>(item), *node);
		m_batch.instructions.push_back(node);
	}
	for(const nb::handle item : pilots) reader.read_fields(nb::cast<nb::dict>(item), m_batch.pilots.emplace_back());
}

} // namespace celerity::native
