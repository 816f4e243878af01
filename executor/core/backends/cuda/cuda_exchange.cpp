// SPDX-License-Identifier: MIT
#include "cuda_exchange.hpp"

#include <algorithm>
#include <stdexcept>

namespace celerity {

namespace {

constexpr std::uint32_t threads_per_block = 256;
/// All of them look at flags or words in memory of their device. With so many, each thread takes one word of the largest inbox.
constexpr std::uint32_t max_blocks_per_copy = 16;

std::uint32_t num_words(const small_copy& copy, const std::uint32_t word_bytes) {
	return copy.count[0] * copy.count[1] * copy.count[2] * copy.word_bytes / word_bytes;
}

} // namespace

inbox_words cuda_exchange::words_of(const graph_inbox& inbox, const std::size_t offset_bytes, const std::size_t row_stride_bytes,
    const std::size_t plane_stride_bytes) {
	const auto in_inbox = [](const std::size_t bytes) { return static_cast<std::int64_t>(2 * bytes); }; // the number of the message is behind each word
	return {inbox.address + 2 * offset_bytes, {in_inbox(row_stride_bytes), in_inbox(plane_stride_bytes)}, inbox.num_turns, graph_inbox::size_bytes};
}

void cuda_exchange::check_words(const exchanged_copy& exchanged) {
	if(exchanged.copy.word_bytes % graph_inbox::word_bytes != 0) throw std::logic_error("only whole words are put into inboxes");
}

void cuda_exchange::put(const copy_operation& copy, const graph_inbox& inbox, const cuda::device_pointer flag) {
	const auto rows = make_row_copy(copy.boxes.front(), *copy.source.array, inbox.array, copy.element_size_bytes);
	auto& stored = next(m_arguments.puts, m_arguments.num_puts);
	stored = {cuda_small_copies::of(copy.source.address, nullptr, rows), flag_at(flag),
	    words_of(inbox, rows.destination_offset_bytes, rows.loops[0].destination_stride_bytes, rows.loops[1].destination_stride_bytes)};
	check_words(stored);
}

void cuda_exchange::fetch(const std::span<const small_copy> copies) {
	for(const auto& copy : copies) next(m_arguments.copies, m_arguments.num_copies) = {copy, nullptr, {}};
}

void cuda_exchange::fetch(const copy_operation& copy, const std::optional<graph_inbox>& inbox, const cuda::device_pointer flag) {
	if(copy.boxes.size() != 1) throw std::logic_error("a copy with its own flag has one box");
	const box& where = copy.boxes.front();
	const auto rows = make_row_copy(where, *copy.source.array, *copy.destination.array, copy.element_size_bytes);
	auto& fetched = next(m_arguments.copies, m_arguments.num_copies);
	fetched = {cuda_small_copies::of(copy.source.address, copy.destination.address, rows), flag_at(flag), {}};
	if(!inbox.has_value()) return;
	const auto from_inbox = make_row_copy(where, inbox->array, *copy.destination.array, copy.element_size_bytes);
	fetched.inbox = words_of(*inbox, from_inbox.source_offset_bytes, from_inbox.loops[0].source_stride_bytes, from_inbox.loops[1].source_stride_bytes);
	check_words(fetched);
}

void cuda_exchange::launch(const cuda::driver& driver, const cuda::function kernel, const cuda::stream stream, const cuda::device_pointer stop) {
	m_arguments.stop = reinterpret_cast<const unsigned*>(stop);
	std::uint32_t most_words = 1;
	for(const auto& fetched : std::span(m_arguments.copies).first(m_arguments.num_copies)) {
		const auto word_bytes = fetched.inbox.address != 0 ? std::uint32_t{graph_inbox::word_bytes} : fetched.copy.word_bytes;
		most_words = std::max(most_words, num_words(fetched.copy, word_bytes));
	}
	for(const auto& stored : std::span(m_arguments.puts).first(m_arguments.num_puts)) {
		most_words = std::max(most_words, num_words(stored.copy, graph_inbox::word_bytes));
	}
	const auto blocks = std::clamp<std::uint32_t>((most_words + threads_per_block - 1) / threads_per_block, 1, max_blocks_per_copy);
	// The first row of blocks raises flags, and waits for those that no copy needs. In the other rows, a fence would wait for data on its way.
	const auto rows = std::max(m_arguments.num_copies, m_arguments.num_puts) + 1;
	void* parameters[] = {&m_arguments};
	driver.check(driver.launch(kernel, blocks, rows, 1, threads_per_block, 1, 1, 0, stream, parameters, nullptr), "cuLaunchKernel");
}

} // namespace celerity
