// SPDX-License-Identifier: MIT
#include "cuda_small_copies.hpp"

#include <algorithm>

namespace celerity {

namespace {

constexpr std::uint32_t copy_threads_per_block = 256;
constexpr std::uint32_t max_blocks_per_copy = 64;
constexpr std::uint64_t largest_word_bytes = 16;

} // namespace

void cuda_small_copies::clear() {
	m_arguments.num_copies = 0;
	m_total_bytes = 0;
	m_most_words = 0;
}

small_copy cuda_small_copies::of(const void* const source, void* const destination, const strided_copy& copy) {
	small_copy p{};
	p.source = reinterpret_cast<std::uintptr_t>(source) + copy.source_offset_bytes;
	p.destination = destination == nullptr ? 0 : reinterpret_cast<std::uintptr_t>(destination) + copy.destination_offset_bytes;
	std::uint64_t common = p.source | p.destination | copy.run_bytes | largest_word_bytes;
	for(std::size_t i = 0; i < 2; ++i) {
		const auto& loop = copy.loops[i];
		p.count[i + 1] = static_cast<std::uint32_t>(loop.count); // as max_bytes is
		p.source_stride[i] = static_cast<std::int64_t>(loop.source_stride_bytes);
		p.destination_stride[i] = static_cast<std::int64_t>(loop.destination_stride_bytes);
		if(loop.count > 1) common |= loop.source_stride_bytes | loop.destination_stride_bytes;
	}
	p.word_bytes = static_cast<std::uint32_t>(common & -common); // the lowest bit that is set anywhere
	p.count[0] = static_cast<std::uint32_t>(copy.run_bytes / p.word_bytes);
	return p;
}

bool cuda_small_copies::add(const void* const source, void* const destination, const strided_copy& copy) {
	if(is_full() || m_total_bytes + copy.run_bytes * copy.num_runs() > max_bytes) return false;
	add_of_any_size(source, destination, copy);
	return true;
}

void cuda_small_copies::add_of_any_size(const void* const source, void* const destination, const strided_copy& copy) {
	m_total_bytes += copy.run_bytes * copy.num_runs();
	auto& p = m_arguments.copies[m_arguments.num_copies++];
	p = of(source, destination, copy);
	m_most_words = std::max(m_most_words, p.count[0] * p.count[1] * p.count[2]);
}

std::uint32_t cuda_small_copies::num_blocks() const {
	return std::clamp<std::uint32_t>((m_most_words + copy_threads_per_block - 1) / copy_threads_per_block, 1, max_blocks_per_copy);
}

void cuda_small_copies::launch(const cuda::driver& driver, const cuda::stream stream) const {
	if(m_arguments.num_copies == 0) return;
	const auto function = m_arguments.num_copies <= few_small_copies ? m_functions.few : m_functions.many;
	void* parameters[] = {const_cast<small_copy_arguments<max_small_copies>*>(&m_arguments)}; // the driver copies them
	driver.check(
	    driver.launch(function, num_blocks(), static_cast<unsigned>(m_arguments.num_copies), 1, copy_threads_per_block, 1, 1, 0, stream, parameters, nullptr),
	    "cuLaunchKernel");
}

void cuda_small_copies::set_flags(const cuda::driver& driver, const cuda::stream stream, const std::span<const graph_flag> flags,
    const cuda::device_pointer destination) const {
	flag_arguments given{};
	for(std::size_t first = 0; first < flags.size(); first += given.count) {
		const auto some = flags.subspan(first, std::min<std::size_t>(flags.size() - first, flags_per_launch));
		given.destination = reinterpret_cast<graph_flag*>(destination) + first;
		given.count = some.size();
		std::copy(some.begin(), some.end(), given.flags);
		void* parameters[] = {&given};
		driver.check(driver.launch(m_functions.set_flags, 1, 1, 1, 128, 1, 1, 0, stream, parameters, nullptr), "cuLaunchKernel");
	}
}

void cuda_small_copies::advance_flags(const cuda::driver& driver, const cuda::stream stream, cuda::device_pointer flags, std::uint64_t count) const {
	void* parameters[] = {&flags, &count};
	driver.check(driver.launch(m_functions.advance_flags, 1, 1, 1, 256, 1, 1, 0, stream, parameters, nullptr), "cuLaunchKernel");
}

} // namespace celerity
