// SPDX-License-Identifier: MIT
#include "cuda_function.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>

namespace celerity {

namespace {

constexpr std::array<std::uint64_t, 3> max_grid{0x7fffffff, 65535, 65535};

/// Enough for every scalar and for the fields before it.
constexpr std::size_t max_alignment_bytes = 16;

/// Of the largest parameter besides scalars, a periodic accessor that checks bounds, with padding: 8 times address and strides, coordinates that divide
/// them, extents, boxes, report and number.
constexpr std::size_t max_parameter_bytes = (8 * 3 + 3 + 3 + 1 + max_checked_boxes * 2 * 3 + 2) * sizeof(std::int64_t) + max_alignment_bytes;

std::array<std::uint32_t, 3> reversed(const std::vector<std::uint32_t>& extents, const std::uint32_t fill) {
	std::array<std::uint32_t, 3> result{fill, fill, fill};
	std::copy(extents.rbegin(), extents.rend(), result.begin());
	return result;
}

} // namespace

cuda_function::cuda_function(std::vector<cuda::function> functions, std::vector<std::uint32_t> block, std::vector<std::uint32_t> grid,
    const std::uint32_t shared_bytes, std::vector<parameter> parameters, const bool checks_bounds, const std::vector<std::uint32_t>& items)
    : m_functions(std::move(functions)), m_shared_bytes(shared_bytes), m_parameters(std::move(parameters)), m_checks_bounds(checks_bounds) {
	if(block.size() > 3 || grid.size() > 3 || items.size() > 3) throw std::invalid_argument("blocks, grids and items have at most 3 dimensions");
	if(std::find(block.begin(), block.end(), 0U) != block.end()) throw std::invalid_argument("a block needs at least one thread");
	if(std::find(items.begin(), items.end(), 0U) != items.end()) throw std::invalid_argument("a thread needs at least one item");
	m_block = reversed(block, 1);
	m_items = reversed(items, 1);
	if(!grid.empty()) m_grid = reversed(grid, 1);
	const auto chunk = std::find_if(m_parameters.begin(), m_parameters.end(), [](const auto& p) { return p.kind == parameter::kind_type::chunk; });
	if(chunk == m_parameters.end()) throw std::invalid_argument("a kernel needs a chunk among its parameters");
	m_dims = chunk->dims;
}

std::array<std::uint32_t, 3> cuda_function::grid(const box& chunk) const {
	if(m_grid[0] != 0) return m_grid;
	std::array<std::uint32_t, 3> result{1, 1, 1};
	for(std::uint32_t axis = 0; axis < m_dims; ++axis) { // x is the last dimension
		const auto extent = static_cast<std::uint64_t>(chunk.max(m_dims - 1 - axis) - chunk.min(m_dims - 1 - axis));
		const std::uint64_t items_of_block = std::uint64_t{m_block[axis]} * m_items[axis];
		const std::uint64_t blocks = (extent + items_of_block - 1) / items_of_block;
		if(blocks > max_grid[axis]) {
			throw std::invalid_argument("a chunk of " + std::to_string(extent) + " items in dimension " + std::to_string(m_dims - 1 - axis) + " needs "
			                            + std::to_string(blocks) + " blocks, but CUDA allows " + std::to_string(max_grid[axis])
			                            + " there. Use larger blocks, more devices, or oversubscribe");
		}
		result[axis] = static_cast<std::uint32_t>(blocks);
	}
	return result;
}

void packed_parameters::begin(const std::size_t alignment_bytes) {
	const auto used_bytes = static_cast<std::size_t>(m_next - m_bytes.data());
	m_next = m_bytes.data() + (used_bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
	m_pointers.push_back(m_next);
}

template <typename T>
void packed_parameters::put(const T& value) {
	std::memcpy(m_next, &value, sizeof value);
	m_next += sizeof value;
}

void packed_parameters::put_corner(const point& corner, const std::uint32_t dims, const std::int64_t fill) {
	for(std::uint32_t d = 0; d < std::max(dims, 1U); ++d) put<std::int64_t>(d < dims ? corner[d] : fill);
}

void packed_parameters::put_box(const box& b, const std::uint32_t dims) {
	put_corner(b.min(), dims, 0);
	put_corner(b.max(), dims, 1);
}

void packed_parameters::put_place(const array_place& place, const std::uint32_t dims, const std::size_t element_size_bytes) {
	const box array = place.array != nullptr ? *place.array : box();
	std::array<std::int64_t, 3> stride{1, 1, 1};
	for(std::uint32_t d = dims; d-- > 1;) stride[d - 1] = stride[d] * array.extent(d);
	std::int64_t origin = 0;
	for(std::uint32_t d = 0; d < dims; ++d) origin += array.min(d) * stride[d];
	auto address = reinterpret_cast<std::uintptr_t>(place.address);
	if(address != 0) address -= static_cast<std::uintptr_t>(origin) * element_size_bytes; // modulo 2^64: the result need not lie in the allocation
	put(address);
	for(std::uint32_t d = 0; d + 1 < std::max(dims, 2U); ++d) put(stride[d]);
}

void packed_parameters::put_accessor(const cuda_function::parameter& parameter, const access_binding& access, const std::span<const array_place> places) {
	if(parameter.kind == cuda_function::parameter::kind_type::periodic_accessor) {
		put_parts(parameter, access, places);
	} else {
		if(places.size() != 1) throw std::invalid_argument("an access lies in several allocations, and its accessor is not periodic");
		put_place(places.front(), parameter.dims, parameter.size_bytes);
	}
	put_corner(access.whole.max(), parameter.dims, 1);
}

// In each dimension, a periodic access has elements at one end of the buffer, or at both. A coordinate between the two tells them apart.
void packed_parameters::put_parts(const cuda_function::parameter& parameter, const access_binding& access, const std::span<const array_place> places) {
	point split = access.whole.max();
	for(std::uint32_t d = 0; d < parameter.dims; ++d) {
		coordinate end_of_first = std::numeric_limits<coordinate>::max();
		for(const auto& part : access.parts) end_of_first = std::min(end_of_first, part.bounding_box.max(d));
		for(bool has_grown = true; has_grown;) {
			has_grown = false;
			for(const auto& part : access.parts) {
				if(part.bounding_box.min(d) > end_of_first || part.bounding_box.max(d) <= end_of_first) continue;
				end_of_first = part.bounding_box.max(d);
				has_grown = true;
			}
		}
		for(const auto& part : access.parts) {
			if(part.bounding_box.min(d) > end_of_first) split[d] = std::min(split[d], part.bounding_box.min(d));
		}
	}
	for(std::uint32_t number = 0; number < 1U << parameter.dims; ++number) {
		array_place found = access.parts.empty() ? places.front() : array_place{};
		for(std::size_t i = 0; i < access.parts.size(); ++i) {
			std::uint32_t bits = 0;
			for(std::uint32_t d = 0; d < parameter.dims; ++d) bits = bits * 2 + (access.parts[i].bounding_box.min(d) >= split[d] ? 1 : 0);
			if(bits == number) found = places[i];
		}
		put_place(found, parameter.dims, parameter.size_bytes);
	}
	for(std::uint32_t d = 0; d < parameter.dims; ++d) put(split[d]);
}

void packed_parameters::put_bounds(const access_binding& access, const std::uint32_t dims) {
	std::array<box, max_checked_boxes> boxes;
	std::size_t num_boxes = access.accessed.size();
	if(num_boxes > boxes.size()) {
		num_boxes = 1;
		boxes[0] = access.bounding_box;
	} else {
		std::copy(access.accessed.begin(), access.accessed.end(), boxes.begin());
	}
	put<std::int64_t>(static_cast<std::int64_t>(num_boxes));
	for(const box& b : boxes) put_corner(b.min(), dims, 0);
	for(const box& b : boxes) put_corner(b.max(), dims, 1);
}

void packed_parameters::put_reducer(const array_place& place, const std::uint32_t dims) {
	put(reinterpret_cast<std::uintptr_t>(place.address));
	for(std::uint32_t d = 0; d < dims; ++d) put<std::int64_t>(place.array->extent(d));
}

void packed_parameters::put_report(const launch_operation& launch, const std::size_t number) {
	put(reinterpret_cast<std::uintptr_t>(launch.violation));
	put<std::int64_t>(static_cast<std::int64_t>(number));
}

void packed_parameters::pack(const cuda_function& function, const launch_operation& launch) {
	using kind = cuda_function::parameter::kind_type;
	const auto& instruction = *launch.instruction;
	m_bytes.resize(std::max(m_bytes.size(), function.parameters().size() * max_parameter_bytes + launch.launch->scalars.size()));
	m_next = m_bytes.data();
	m_pointers.clear();
	std::size_t next_access = 0;
	std::size_t next_place = 0;
	std::size_t num_places = 0;
	std::size_t next_reduction = 0;
	std::size_t next_scalar_byte = 0;
	for(const auto& parameter : function.parameters()) {
		begin(parameter.kind == kind::scalar ? std::min(parameter.size_bytes, max_alignment_bytes) : alignof(std::int64_t));
		switch(parameter.kind) {
		case kind::chunk:
			put_box(instruction.chunk, parameter.dims);
			put_box(launch.launch->space, parameter.dims);
			break;
		case kind::accessor:
		case kind::periodic_accessor:
			if(next_access >= instruction.accesses.size()) throw std::invalid_argument("the kernel has more accessors than the task has accesses");
			num_places = std::max<std::size_t>(instruction.accesses[next_access].parts.size(), 1);
			put_accessor(parameter, instruction.accesses[next_access], std::span(launch.access_places).subspan(next_place, num_places));
			next_place += num_places;
			if(function.checks_bounds()) {
				put_bounds(instruction.accesses[next_access], parameter.dims);
				put_report(launch, next_access);
			}
			++next_access;
			break;
		case kind::reducer:
			if(next_reduction >= launch.reduction_places.size()) throw std::invalid_argument("the kernel has more reducers than the task has reductions");
			put_reducer(launch.reduction_places[next_reduction], parameter.dims);
			if(function.checks_bounds() && parameter.dims > 0) put_report(launch, instruction.accesses.size() + next_reduction);
			++next_reduction;
			break;
		case kind::scalar:
			if(next_scalar_byte + parameter.size_bytes > launch.launch->scalars.size())
				throw std::invalid_argument("the kernel has more scalars than were given");
			std::memcpy(m_next, launch.launch->scalars.data() + next_scalar_byte, parameter.size_bytes);
			m_next += parameter.size_bytes;
			next_scalar_byte += parameter.size_bytes;
			break;
		}
	}
}

} // namespace celerity
