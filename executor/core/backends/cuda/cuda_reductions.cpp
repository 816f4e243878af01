// SPDX-License-Identifier: MIT
#include "cuda_reductions.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace celerity {

namespace {

constexpr unsigned reduce_threads_per_block = 256;
/// A thread loops over its elements, so that few blocks reduce any number of them.
constexpr std::size_t most_blocks = 1024;

} // namespace

void cuda_reductions::add(const reduction_op op, const scalar_type type, std::vector<cuda::function> functions) {
	const std::lock_guard lock(m_mutex);
	m_functions.insert_or_assign({op, type}, std::move(functions));
}

cuda::function cuda_reductions::find(const reduction_op op, const scalar_type type, const std::uint32_t device) const {
	const std::lock_guard lock(m_mutex);
	const auto found = m_functions.find({op, type});
	if(found == m_functions.end()) throw std::logic_error(std::string("no kernel combines '") + name_of(op) + "' of " + name_of(type));
	return found->second.at(device);
}

void cuda_reductions::launch(const cuda::driver& driver, const std::uint32_t device, const cuda::stream stream, const reduce_operation& reduce) const {
	const auto function = find(reduce.op, reduce.type, device);
	const auto num_blocks = std::clamp<std::size_t>((reduce.num_elements + reduce_threads_per_block - 1) / reduce_threads_per_block, 1, most_blocks);
	auto source = cuda::to_device_pointer(reduce.source);
	auto destination = cuda::to_device_pointer(reduce.destination);
	auto has_values = cuda::to_device_pointer(reduce.has_values);
	unsigned long long count = reduce.count;
	unsigned long long num_elements = reduce.num_elements;
	void* parameters[] = {&source, &count, &num_elements, &destination, &has_values}; // the driver copies them
	driver.check(driver.launch(function, static_cast<unsigned>(num_blocks), 1, 1, reduce_threads_per_block, 1, 1, 0, stream, parameters, nullptr),
	    "cuLaunchKernel");
}

} // namespace celerity
