// SPDX-License-Identifier: MIT
#include "cpu_kernels.hpp"

#include <algorithm>
#include <vector>

namespace celerity {

namespace {

/// To wake the threads of a team costs about as much as these take.
constexpr std::int64_t least_items_per_part = 16 * 1024;
/// A thread that begins late, or is interrupted, then has fewer parts than the others.
constexpr std::int64_t parts_per_thread = 4;

const fused_kernel& kernel_of(const launch_operation& launch) { return static_cast<const fused_kernel&>(*launch.launch->kernel); }

void run_pass(const cpu_pass_function function, const fused_items& items, worker_team& team, const std::int64_t* const words, const fused_kernel::layout& at) {
	const auto call = [&](const std::vector<std::int64_t>& bounds) {
		function(reinterpret_cast<char* const*>(words), words + at.strides, words + at.numbers, reinterpret_cast<const char*>(words + at.scalars),
		    bounds.data());
	};
	const std::int64_t most = std::min(static_cast<std::int64_t>(team.size()) * parts_per_thread, items.area() / least_items_per_part);
	const std::int64_t count = items.parts > 0 ? items.parts : most;
	if(items.parts == 0 && (team.size() == 1 || items.dims() == 0 || count < 2)) return call(items.bounds);
	if(team.size() == 1 || count == 1) {
		for(std::int64_t number = 0; number < count; ++number) call(items.part(number, count));
		return;
	}
	team.run(static_cast<std::size_t>(count), [&](const std::size_t part) { call(items.part(static_cast<std::int64_t>(part), count)); });
}

} // namespace

std::int64_t count_items(const launch_operation& launch) {
	std::int64_t sum = 0;
	for(const auto& items : kernel_of(launch).find(launch.instruction->chunk).items) sum += items.area();
	return sum;
}

std::shared_ptr<kernel_workshop::memory> kernel_workshop::scratch_for(const launch_operation& launch) {
	constexpr std::size_t unit_bytes = sizeof(std::max_align_t);
	const std::size_t needed = (kernel_of(launch).find(launch.instruction->chunk).scratch_bytes + unit_bytes - 1) / unit_bytes;
	if(m_scratch->size() < needed) m_scratch = std::make_shared<memory>(needed); // an earlier launch may still use the other one
	return m_scratch;
}

void kernel_workshop::carry_out(const launch_operation& launch, memory& scratch) {
	const auto& kernel = kernel_of(launch);
	const auto& chunk = kernel.find(launch.instruction->chunk);
	const auto at = kernel.fill(chunk, launch, scratch.data(), m_block);
	const auto& passes = kernel.structure_of(chunk).passes;
	for(std::size_t i = 0; i < passes.size(); ++i) {
		if(chunk.items[i].area() == 0) continue;
		run_pass(reinterpret_cast<cpu_pass_function>(passes[i].functions.front()), chunk.items[i], m_team, m_block.words(), at);
	}
}

} // namespace celerity
