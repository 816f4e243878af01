// SPDX-License-Identifier: MIT
#include "fused_kernel.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace celerity {

namespace {

constexpr std::array<std::int64_t, 3> max_grid{0x7fffffff, 65535, 65535};
/// That a thread loads or stores at once.
constexpr std::int64_t vector_bytes = 16;
constexpr std::int64_t cache_line_bytes = 128;
/// That a launch sets: the columns of vectors, and where threads begin.
constexpr std::size_t num_wide_bounds = 3;

/// The strides of the dimensions of an array in C order, in bytes; without an allocation 0.
std::array<std::int64_t, 3> strides_of(const array_place& place, const std::uint32_t dims, const std::size_t element_size_bytes) {
	std::array<std::int64_t, 3> strides{};
	if(place.array == nullptr) return strides;
	auto stride = static_cast<std::int64_t>(element_size_bytes);
	for(std::uint32_t d = dims; d-- > 0;) {
		strides[d] = stride;
		stride *= place.array->extent(d);
	}
	return strides;
}

/// Accesses before it may have several places each. Where an allocation covers all of a periodic access, it has one place.
const array_place& place_of_part(const launch_operation& launch, const std::size_t access, const box& part) {
	if(launch.instruction == nullptr) return launch.access_places[access];
	const auto& accesses = launch.instruction->accesses;
	std::size_t place = 0;
	for(std::size_t i = 0; i < access; ++i) place += std::max<std::size_t>(accesses[i].parts.size(), 1);
	const auto& parts = accesses[access].parts;
	const auto found = std::find_if(parts.begin(), parts.end(), [&](const access_part& one) { return one.bounding_box.covers(part); });
	if(found == parts.end() && !parts.empty()) throw std::logic_error("a part of a periodic access lies in no allocation");
	return launch.access_places[place + static_cast<std::size_t>(found - parts.begin())];
}

std::int64_t piece_of(const std::int64_t columns, const std::int64_t size_bytes) { return std::min(vector_bytes, columns * size_bytes); }

/// Whether vectors of the memory that begin at column `first` are aligned in all rows.
bool is_aligned(const fused_threads::wide_memory& memory, const std::int64_t columns, const std::int64_t first, const fused_kernel::layout& at,
    fused_block& block) {
	const auto piece = piece_of(columns, memory.size_bytes);
	const std::span<const std::int64_t> strides(block.words() + at.strides + memory.first_stride, memory.dims);
	if(strides.back() != memory.size_bytes || (block.words()[memory.memory] + first * memory.size_bytes) % piece != 0) return false;
	return std::all_of(strides.begin(), strides.end() - 1, [=](const std::int64_t stride) { return stride % piece == 0; });
}

/// Vectors cover the columns from `first` to `last`. The first thread begins at `start`, where memory is aligned to cache lines. If there are no vectors, `first`
/// equals `last`.
struct wide_columns {
	std::int64_t first = 0;
	std::int64_t last = 0;
	std::int64_t start = 0;
};

wide_columns find_wide_columns(const std::int64_t lowest, const fused_threads& threads, const fused_kernel::layout& at, fused_block& block) {
	const std::int64_t* const limits = block.words() + at.numbers + *threads.wide_bounds + num_wide_bounds;
	const std::int64_t low = limits[0];
	const std::int64_t high = limits[1];
	const std::int64_t columns = threads.tiles.items[0];
	const auto& smallest =
	    *std::min_element(threads.wide.begin(), threads.wide.end(), [](const auto& a, const auto& b) { return a.size_bytes < b.size_bytes; });
	const auto piece = piece_of(columns, smallest.size_bytes);
	const auto beyond = [&](const std::int64_t column, const std::int64_t bytes) { // that an address lies behind an aligned one
		return ((block.words()[smallest.memory] + column * smallest.size_bytes) % bytes + bytes) % bytes;
	};
	std::int64_t first = low + threads.margins[0];
	if(beyond(first, piece) != 0) first += (piece - beyond(first, piece)) / smallest.size_bytes;
	const std::int64_t last = first + (high - threads.margins[1] - first) / columns * columns;
	const bool is_possible =
	    last > first && std::all_of(threads.wide.begin(), threads.wide.end(), [&](const auto& one) { return is_aligned(one, columns, first, at, block); });
	if(!is_possible) return {low, low, low};
	const std::int64_t tile_bytes = columns * smallest.size_bytes;
	std::int64_t start = first - beyond(first, cache_line_bytes) / tile_bytes * columns;
	const std::int64_t line = std::max<std::int64_t>(cache_line_bytes / tile_bytes, 1) * columns;
	if(start > lowest) start -= (start - lowest + line - 1) / line * line;
	return {first, last, start};
}

} // namespace

void fused_block::put_bytes(const std::span<const std::byte> bytes) {
	const std::size_t first = m_words.size();
	m_words.resize(first + (bytes.size() + sizeof(std::int64_t) - 1) / sizeof(std::int64_t));
	if(!bytes.empty()) std::memcpy(&m_words[first], bytes.data(), bytes.size());
}

std::int64_t fused_items::area() const {
	std::int64_t result = 1;
	for(std::size_t d = 0; d < dims(); ++d) result *= std::max<std::int64_t>(extent(d), 0);
	return result;
}

std::vector<std::int64_t> fused_items::part(const std::int64_t number, const std::int64_t count) const {
	auto result = bounds;
	std::size_t cut = 0;
	while(cut + 1 < dims() && extent(cut) < count) ++cut;
	if(dims() > 0) {
		result[2 * cut] = bounds[2 * cut] + extent(cut) * number / count;
		result[2 * cut + 1] = bounds[2 * cut] + extent(cut) * (number + 1) / count;
	}
	if(parts > 0) result.push_back(number);
	return result;
}

fused_kernel::fused_kernel(std::vector<fused_memory> memories, std::vector<fused_structure> structures, std::vector<fused_chunk> chunks)
    : m_memories(std::move(memories)), m_structures(std::move(structures)), m_chunks(std::move(chunks)) {
	for(const auto& chunk : m_chunks) {
		if(chunk.structure >= m_structures.size()) throw std::invalid_argument("a chunk has a structure that there is not");
		if(chunk.items.size() != m_structures[chunk.structure].passes.size()) throw std::invalid_argument("a chunk needs items for each pass");
	}
}

const fused_chunk& fused_kernel::find(const box& chunk) const {
	const auto found = std::find_if(m_chunks.begin(), m_chunks.end(), [&](const fused_chunk& known) { return known.chunk == chunk; });
	if(found == m_chunks.end()) throw std::logic_error("a fused kernel was made for other chunks than the one that is launched");
	return *found;
}

fused_kernel::layout fused_kernel::fill(const fused_chunk& chunk, const launch_operation& launch, const void* const scratch, fused_block& out) const {
	out.begin();
	small_vector<std::array<std::int64_t, 3>, 8> strides;
	for(std::size_t i = 0; i < m_memories.size(); ++i) {
		const auto& memory = m_memories[i];
		const array_place& place = memory.is_reduction   ? launch.reduction_places[memory.access]
		                           : chunk.parts.empty() ? launch.access_places[memory.access]
		                                                 : place_of_part(launch, memory.access, chunk.parts[i]);
		strides.push_back(strides_of(place, memory.dims, memory.element_size_bytes));
		auto address = reinterpret_cast<std::int64_t>(place.address);
		for(std::uint32_t d = 0; place.array != nullptr && d < memory.dims; ++d) address -= place.array->min(d) * strides.back()[d];
		out.put(address);
	}
	for(const auto& memory : chunk.scratch) out.put(reinterpret_cast<std::int64_t>(scratch) + memory.offset_bytes);
	const auto end_table = [&](const std::size_t begin) { // a table has at least one entry
		if(out.size() == begin) out.put(0);
		return out.size();
	};
	layout result;
	result.strides = end_table(0);
	for(std::size_t i = 0; i < m_memories.size(); ++i) {
		for(std::uint32_t d = 0; d < m_memories[i].dims; ++d) out.put(strides[i][d]);
		for(const auto stride : m_memories[i].inner_strides) out.put(stride);
	}
	for(const auto& memory : chunk.scratch) {
		for(const auto stride : memory.strides) out.put(stride);
	}
	result.numbers = end_table(result.strides);
	for(const auto number : chunk.numbers) out.put(number);
	result.scalars = end_table(result.numbers);
	const auto& structure = structure_of(chunk);
	out.put_bytes(std::span(launch.launch->scalars).subspan(structure.first_scalar_byte, structure.scalar_bytes));
	if(structure.scalar_bytes == 0) {
		for(int word = 0; word < 2; ++word) out.put(0);
	}
	return result;
}

// Along all dimensions but x, kernels go on behind a grid that has no more blocks.
std::optional<fused_grid> fused_kernel::begin_pass(const fused_items& items, const fused_threads& threads, const layout& at, fused_block& block) {
	if(items.area() == 0) return std::nullopt;
	std::array<std::int64_t, 3> extents{1, 1, 1};
	for(std::size_t axis = 0; axis < items.dims(); ++axis) extents[axis] = items.extent(items.dims() - 1 - axis);
	fused_grid grid;
	if(threads.wide_bounds) {
		const auto [first, last, start] = find_wide_columns(items.bounds[items.bounds.size() - 2], threads, at, block);
		std::copy_n(std::array{first, last, start}.begin(), num_wide_bounds, block.words() + at.numbers + *threads.wide_bounds);
		grid.is_single = first == last;
		if(!grid.is_single) extents[0] = items.bounds.back() - start;
	}
	const auto& shape = grid.is_single ? threads.single.value() : threads.tiles;
	grid.threads = shape.block;
	std::int64_t left = std::max<std::int64_t>(threads.most_blocks, 1);
	for(std::size_t axis = 0; axis < 3; ++axis) {
		const std::int64_t items_of_block = std::int64_t{shape.block[axis]} * shape.items[axis];
		const std::int64_t blocks = (extents[axis] + items_of_block - 1) / items_of_block;
		const std::int64_t most = threads.most_blocks == 0 ? max_grid[axis] : std::min(max_grid[axis], left);
		grid.blocks[axis] = static_cast<std::uint32_t>(std::clamp<std::int64_t>(blocks, 1, most));
		left /= grid.blocks[axis];
	}
	return grid;
}

} // namespace celerity
