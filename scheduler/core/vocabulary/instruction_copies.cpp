// SPDX-License-Identifier: MIT
#include "instruction_copies.hpp"

#include <vector>

#include "base/overloaded.hpp"

namespace celerity {

instruction copy_into(arena& memory, const instruction& made) {
	const auto keep = [&](auto& span) { span = memory.copy(span); };
	const auto keep_accesses = [&](std::span<const access_binding>& accesses) {
		std::vector<access_binding> bindings(accesses.begin(), accesses.end());
		for(auto& binding : bindings) {
			keep(binding.accessed);
			keep(binding.parts);
		}
		accesses = memory.copy(bindings);
	};
	instruction kept = made;
	keep(kept.dependencies);
	std::visit(overloaded{
	               [](alloc_instruction&) {},
	               [](free_instruction&) {},
	               [&](copy_instruction& copy) { keep(copy.boxes); },
	               [&](gather_copy_instruction& gather) {
		               std::vector<copy_source> sources(gather.sources.begin(), gather.sources.end());
		               for(auto& source : sources) keep(source.boxes);
		               gather.sources = memory.copy(sources);
	               },
	               [&](device_kernel_instruction& kernel) {
		               keep_accesses(kernel.accesses);
		               keep(kernel.reductions);
	               },
	               [&](host_task_instruction& host_task) { keep_accesses(host_task.accesses); },
	               [&](initialize_instruction& initialize) { keep(initialize.boxes); },
	               [](send_instruction&) {},
	               [&](receive_instruction& receive) { keep(receive.boxes); },
	               [&](split_receive_instruction& receive) { keep(receive.boxes); },
	               [&](await_receive_instruction& await) { keep(await.boxes); },
	               [&](receive_partials_instruction& receive) {
		               keep(receive.sources);
		               keep(receive.slots);
	               },
	               [](reduce_instruction&) {},
	               [](fence_instruction&) {},
	               [](horizon_instruction&) {},
	               [](epoch_instruction&) {},
	           },
	    kept.operation);
	return kept;
}

} // namespace celerity
